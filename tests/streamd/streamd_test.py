#!/usr/bin/env python3
"""Two nodes on one machine: each has a place and a daemon; one writes, the other reads.

    streamd_test.py follow|kill|metadata|start|token|addresses DAEMON PROGRAM
"""
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ANSWER_S = 60  # how long anything may take on a machine that does other things, too


class Failure(Exception):
    pass


def check(condition, what):
    if not condition:
        raise Failure(what)


def run(command, env=None, expect=0, cwd=None):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=ANSWER_S, env=env, cwd=cwd)
    check(expect is None or done.returncode == expect,
          f"{command}: {done.returncode}, not {expect}: {done.stdout}{done.stderr}")
    return done


def until(what, condition):
    """Asks until it is so, and fails where that takes too long."""
    deadline = time.monotonic() + ANSWER_S
    while time.monotonic() < deadline:
        result = condition()
        if result:
            return result
        time.sleep(0.05)
    raise Failure(f"in vain: {what}")


class Nodes:
    """Places, their daemons, and the programs that run there; nothing of them outlives the test."""

    def __init__(self, daemon, program):
        self.daemon, self.program = daemon, program
        self.folder = tempfile.TemporaryDirectory(prefix="quire-streamd-")
        self.root = Path(self.folder.name)
        self.token = self.root / "token"
        self.token.touch(mode=0o600)
        self.token.write_bytes(os.urandom(32))
        self.processes = []
        self.written_path = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()
        for place in self.root.iterdir():
            if place.is_dir():
                subprocess.run([self.daemon, "--place", str(place), "--stop"], capture_output=True,
                               timeout=ANSWER_S)
        self.folder.cleanup()

    def place(self, name):
        place = self.root / name
        place.mkdir(mode=0o700, exist_ok=True)
        return place

    def start_daemon(self, name, *options, token=None):
        """In the foreground, so that it can be killed."""
        place = self.place(name)
        process = subprocess.Popen(
            [self.daemon, "--place", str(place), "--token", str(token or self.token), *options],
            stderr=subprocess.DEVNULL)
        self.processes.append(process)
        until(f"the daemon of {name} listens", lambda: self.address(name))
        return process

    def address(self, name):
        done = run([self.daemon, "--place", self.root / name, "--status"], expect=None)
        lines = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
        return lines.get("address") if done.returncode == 0 else None

    def start_program(self, *arguments):
        process = subprocess.Popen([self.program, *[str(one) for one in arguments]],
                                   stdout=subprocess.PIPE, text=True)
        self.processes.append(process)
        return process

    def get(self, name, version=0, timeout_ms=10_000, env=None):
        return run([self.program, "get", self.root / name, "field", 0, version, timeout_ms],
                   env=env, expect=None).stdout.strip()

    def start_writer(self, name="here", count=100_000, pause_ms=5, size=1 << 20):
        """Tells what it wrote in a file, which nobody has to read. Where a reader holds its log, a
        put waits for 10 s."""
        self.written_path = self.root / f"written-{len(self.processes)}"
        with open(self.written_path, "w", encoding="ascii") as output:
            writer = subprocess.Popen(
                [self.program, "write", str(self.place(name)), "field", "0", str(size), str(count),
                 str(pause_ms)], stdout=output)
        self.processes.append(writer)
        until("the writer writes", self.written)
        return writer

    def written(self):
        """The newest version that the last writer told of; 0: none yet."""
        lines = self.written_path.read_text(encoding="ascii").split("\n")[:-1]
        return int(lines[-1].split()[1]) if lines else 0

    def goes_on(self):
        before = self.written()
        until("the writer goes on", lambda: self.written() > before)


def known(nodes, name):
    """What the other node has can be read at this one, exactly."""
    return until(f"{name} reads what is elsewhere", lambda: nodes.get(name).startswith("version"))


def follow(nodes):
    """A reader follows a writer on another node; every version that it gets is the right one."""
    nodes.start_daemon("here", "--metadata-here")
    nodes.start_daemon("there", "--metadata", nodes.address("here"))
    writer = nodes.start_writer()
    known(nodes, "there")
    reader = nodes.start_program("follow", nodes.root / "there", "field", 0, 200, 20_000)
    output, _ = reader.communicate(timeout=ANSWER_S)
    numbers = [int(line.split()[1]) for line in output.splitlines() if line.startswith("read")]
    check(reader.returncode == 0, output)
    check(len(numbers) > 20 and numbers == sorted(set(numbers)), f"what was read: {numbers}")
    writer.send_signal(signal.SIGKILL)
    check(writer.wait() == -signal.SIGKILL, "the writer ended by itself")
    check(nodes.get("there").startswith("version"), "what it has written is not there any more")
    # Who comes after it goes on where it was.
    newest = int(nodes.get("there").split()[1])
    nodes.start_writer()
    check(nodes.written() > newest, "versions are counted anew")
    check(nodes.get("there", version=10**6).startswith("error 1"), "a version that is none")
    check(nodes.get("here").startswith("version"), "the node that has it does not read it")


def kill(nodes):
    """Daemons die at any moment: readers hear of it and go on with the next, the writer goes on."""
    nodes.start_daemon("here", "--metadata-here", "--listen", "127.0.0.1:0")
    own = nodes.address("here")
    here = nodes.processes[-1]
    there = nodes.start_daemon("there", "--metadata", own)
    writer = nodes.start_writer()
    known(nodes, "there")
    for victim in ("there", "here"):
        for _ in range(3):
            reader = nodes.start_program("follow", nodes.root / "there", "field", 0, 10**6, 3000)
            check(reader.stdout.readline().startswith("read"), "the reader does not read")
            process = there if victim == "there" else here
            process.kill()
            process.wait()
            died = time.monotonic()
            output, _ = reader.communicate(timeout=ANSWER_S)
            took = time.monotonic() - died
            check("error 9" in output or "error 1" in output, f"the reader heard: {output[-200:]}")
            check(took < 10, f"the reader heard after {took} s")
            if victim == "there":
                there = nodes.start_daemon("there", "--metadata", own)
            else:
                here = nodes.start_daemon("here", "--metadata-here", "--listen", own)
            known(nodes, "there")
            nodes.goes_on()
    check(writer.poll() is None, "the writer has ended")


def metadata(nodes):
    """The metadata service is started anew, and knows all again; a stopped daemon is forgotten."""
    service = nodes.start_daemon("service", "--metadata-here")
    address = nodes.address("service")
    nodes.start_daemon("here", "--metadata", address)
    nodes.start_daemon("there", "--metadata", address)
    nodes.start_writer()
    known(nodes, "there")
    service.kill()
    service.wait()
    answer = nodes.get("there")
    check(answer.startswith("version"), f"a known address is forgotten: {answer}")
    nodes.start_daemon("service", "--metadata-here", "--listen", address)
    nodes.start_daemon("third", "--metadata", address)
    known(nodes, "third")
    run([nodes.daemon, "--place", nodes.root / "here", "--stop"])
    check(nodes.get("third").startswith("error"), "who has stopped still answers")


def start(nodes):
    """By hand, once per place, stopped cleanly; and on demand by a reader."""
    place = nodes.place("here")
    command = [nodes.daemon, "--place", place]
    run([*command, "--status"], expect=1)
    run([*command, "--stop"], expect=1)
    run([*command, "--metadata-here", "--detach"])
    check(nodes.address("here").startswith("127.0.0.1:"), "it listens to more than this machine")
    for name in (".token", ".daemon", ".daemon.sock", ".daemon.lock", ".daemon.log"):
        check((place / name).lstat().st_mode & 0o777 == 0o600, f"{name} is not private")
    check((place / ".token").stat().st_size == 32, "the token is short")
    run([*command, "--detach"], expect=1)
    check("busy" in run([*command], expect=3).stderr, "a second daemon runs at a place")
    run([*command, "--stop"])
    check(not (place / ".daemon.sock").exists(), "the socket is left")
    run([*command, "--status"], expect=1)
    (place / ".token").chmod(0o644)
    check("open to other users" in run(command, expect=3).stderr, "a public token is taken")
    run([nodes.daemon, "--nonsense"], expect=2)
    for size in ("16MB", "1kb", "1023KiB", "17TiB", "-1", "x"):
        told = run([*command, "--status", "--mirror-bytes", size], expect=2).stderr
        check(f'--mirror-bytes is "{size}"; it must be bytes in [1 MiB, 16 TiB]' in told, told)
        check("its units are KiB, MiB, GiB, TiB;" in told, told)
    run([*command, "--status", "--mirror-bytes", "16MiB"], expect=1)
    check("kb" not in run([nodes.daemon, "--help"]).stdout, "the help offers other units")
    # On demand: the reader's daemon is started by the reader.
    nodes.start_daemon("service", "--metadata-here")
    nodes.start_daemon("writers", "--metadata", nodes.address("service"))
    nodes.start_writer("writers", size=8192)
    env = dict(os.environ, QUIRE_STREAMD=str(nodes.daemon),
               QUIRE_STREAMD_METADATA=nodes.address("service"),
               QUIRE_STREAMD_TOKEN=str(nodes.token))
    nodes.place("demand")
    until("a reader starts its daemon",
          lambda: nodes.get("demand", env=env).startswith("version"))
    check(nodes.address("demand"), "no daemon runs")


def token(nodes):
    """A daemon with another token learns nothing and tells nothing."""
    other = nodes.root / "other-token"
    other.touch(mode=0o600)
    other.write_bytes(os.urandom(32))
    nodes.start_daemon("here", "--metadata-here")
    nodes.start_daemon("there", "--metadata", nodes.address("here"))
    nodes.start_daemon("stranger", "--metadata", nodes.address("here"), token=other)
    nodes.start_writer()
    known(nodes, "there")
    check(nodes.get("stranger").startswith("error"), "a stranger reads")
    check("another token" in nodes.get("stranger"), nodes.get("stranger"))
    # One that does not come to run leaves nothing behind.
    other.chmod(0o644)
    nowhere = nodes.root / "nowhere"
    for detach, failed in (([], 3), (["--detach"], 1)):
        command = [nodes.daemon, "--place", nowhere, "--token", other, *detach]
        refused = run(command, expect=failed).stderr
        check("open to other users" in refused, refused)
        check(not nowhere.exists(), "a daemon that was refused left its place behind")


def addresses(nodes):
    """What no daemon could be reached by is refused before it listens, and said."""
    command = [nodes.daemon, "--place", nodes.place("here"), "--token", nodes.token]
    for wildcard in ("0.0.0.0:0", "[::]:0", "0:0"):
        refused = run([*command, "--listen", wildcard, "--metadata-here"], expect=3).stderr
        check("--advertise" in refused or "not supported" in refused, refused)
    for nonsense in ("nonsense", ":4711", "host:"):
        refused = run([*command, "--metadata", nonsense], expect=3).stderr
        check("HOST:PORT" in refused, refused)
    # It would begin with a token of its own.
    env = dict(os.environ, QUIRE_STREAMD_TOKN=str(nodes.token))
    refused = run([nodes.daemon, "--place", nodes.place("here"), "--metadata-here", "--detach"],
                  env=env, expect=3).stderr
    check("the nearest is QUIRE_STREAMD_TOKEN;" in refused, refused)
    check(nodes.address("here") is None, "a daemon runs")
    # A token's path is that of the directory in which the daemon was started.
    env = dict(os.environ, QUIRE_STREAMD_TOKEN=nodes.token.name)
    command = [nodes.daemon, "--place", nodes.place("here")]
    run([*command, "--metadata-here", "--detach"], env=env, cwd=nodes.root)
    check(not (nodes.place("here") / ".token").exists(), "it made a token of its own")
    run([*command, "--stop"])
    # By the host that it was given, it is found.
    nodes.start_daemon("here", "--listen", "0.0.0.0:0", "--advertise", "127.0.0.1",
                       "--metadata-here")
    port = nodes.address("here").rpartition(":")[2]
    nodes.start_daemon("there", "--metadata", f"127.0.0.1:{port}")
    nodes.start_writer()
    known(nodes, "there")


def main():
    case, daemon, program = sys.argv[1:]
    with Nodes(daemon, program) as nodes:
        try:
            {"follow": follow, "kill": kill, "metadata": metadata, "start": start,
             "token": token, "addresses": addresses}[case](nodes)
        except Failure as failure:
            print(f"FAILED {case}: {failure}")
            return 1
    print(f"{case}: passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
