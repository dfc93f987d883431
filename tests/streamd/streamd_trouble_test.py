#!/usr/bin/env python3
"""Daemons and peers that stop, die at any moment, come twice, or are beset.

    streamd_trouble_test.py CASE DAEMON PROGRAM

CASE is a function case_... below. Where choices are random they follow from QUIRE_KILL_SEED
(printed); QUIRE_KILL_COUNT (20, times QUIRE_TEST_SCALE) is how often one is killed.
"""
import os
import random
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

sys.dont_write_bytecode = True  # the sources may be read-only
from streamd_test import ANSWER_S, Failure, Nodes, check, known, until  # noqa: E402

TIMED_OUT = "error 8"
# Beyond a time limit: what a machine that does other things, too, may take for the rest.
SPARE_S = 4


@contextmanager
def stopped(process):
    process.send_signal(signal.SIGSTOP)
    until("it has stopped", lambda: state_of(process.pid) == "T")
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def fields_of(pid):
    """Of /proc/PID/stat, from the third on."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()


def state_of(pid):
    return fields_of(pid)[0]


def processor_s(pid):
    user, system = fields_of(pid)[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def two_nodes(nodes):
    """The daemons of "here", where is written, and "there"."""
    here = nodes.start_daemon("here", "--metadata-here")
    there = nodes.start_daemon("there", "--metadata", nodes.address("here"))
    return here, there


def timed_get(nodes, name, timeout_ms):
    """What a reader hears, and after how long."""
    begun = time.monotonic()
    answer = nodes.get(name, timeout_ms=timeout_ms)
    return answer, time.monotonic() - begun


def end_of(reader):
    """How a follower ended."""
    output, _ = reader.communicate(timeout=ANSWER_S)
    return output.splitlines()[-1]


def start_follower(nodes, name, timeout_ms, count=10**6):
    reader = nodes.start_program("follow", nodes.root / name, "field", 0, count, timeout_ms)
    check(reader.stdout.readline().startswith("read"), f"the reader at {name} does not read")
    return reader


def wraps(nodes):
    """The log is written from end to end, and again: what others held of it is let go."""
    before = nodes.written()
    until("the writer goes on", lambda: nodes.written() > before + 20)


def case_stopped(nodes):
    """A daemon that is stopped holds up no reader for longer than he said, nor another's writer."""
    here, there = two_nodes(nodes)
    writer = nodes.start_writer(size=16 << 20)
    known(nodes, "there")
    for victim, who in ((there, "the daemon"), (here, "the daemon at")):
        follower = start_follower(nodes, "there", 1500)
        with stopped(victim):
            begun = time.monotonic()
            answer, took = timed_get(nodes, "there", 1000)
            check(answer.startswith(TIMED_OUT) and who in answer, f"a reader heard: {answer}")
            check(0.9 <= took < 1 + SPARE_S, f"a reader heard after {took} s")
            end = end_of(follower)
            # Amid the bytes of a version it is this node's daemon that does not answer.
            check(end.startswith(TIMED_OUT) and "the daemon" in end, f"the follower heard: {end}")
            # Each of its calls has the time to wait and the time to answer.
            took = time.monotonic() - begun
            check(took < 3 + SPARE_S, f"the follower heard after {took} s")
            check(nodes.get("here").startswith("version"), "a reader of the node is held up")
            if victim is there:
                wraps(nodes)
        # What the node's own daemon was reading, it holds, as any reader does, until it goes on.
        wraps(nodes)
        known(nodes, "there")
    check(writer.poll() is None, "the writer has ended")


def index_of(nodes):
    return (nodes.root / "here" / "field" / "index-0").stat().st_ino


def versions_at(nodes, name):
    done = subprocess.run([nodes.program, "versions", str(nodes.root / name), "field", "0", "0",
                           "10000"], capture_output=True, text=True, timeout=ANSWER_S, check=False)
    return [int(line.split()[1]) for line in done.stdout.splitlines()
            if line.startswith("version")]


def case_tend(nodes):
    """Of a part whose writer was killed the daemon makes the index anew and collects the rest."""
    nodes.start_daemon("here", "--tend-ms", "1000")
    writer = nodes.start_writer(pause_ms=200)
    until("there is something to collect", lambda: nodes.written() >= 5)
    before = versions_at(nodes, "here")
    check(len(before) >= 5, f"collected already: {before}")
    writer.kill()
    writer.wait()
    index = index_of(nodes)
    until("the index is made anew", lambda: index_of(nodes) != index)
    newest = nodes.written()
    until("old versions are collected", lambda: len(versions_at(nodes, "here")) == 3)
    kept = versions_at(nodes, "here")
    check(kept[0] in (newest, newest + 1) and kept[2] == kept[0] - 2, f"kept is {kept}")
    nodes.start_writer()
    check(nodes.written() > kept[0], "the next writer does not go on")
    index = index_of(nodes)
    before = nodes.written()
    until("the next writer goes on", lambda: nodes.written() > before + 500)
    check(index_of(nodes) == index, "a part that is written is tended")


def daemons_at(place):
    """The processes that run for a place."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended
        if b"--place" in words and str(place).encode() in words:
            found.append(int(entry.name))
    return found


def case_race(nodes):
    """Readers that start their daemon at once: there is one in the end, and all read."""
    nodes.start_daemon("service", "--metadata-here")
    nodes.start_writer("service", size=8192, pause_ms=50)
    nodes.start_daemon("other", "--metadata", nodes.address("service"))
    known(nodes, "other")
    env = dict(os.environ, QUIRE_STREAMD=str(nodes.daemon),
               QUIRE_STREAMD_METADATA=nodes.address("service"),
               QUIRE_STREAMD_TOKEN=str(nodes.token))
    for race in range(10):
        place = nodes.place(f"demand-{race}")
        readers = [subprocess.Popen([nodes.program, "get", str(place), "field", "0", "0", "20000"],
                                    stdout=subprocess.PIPE, text=True, env=env) for _ in range(4)]
        nodes.processes += readers
        answers = [reader.communicate(timeout=ANSWER_S)[0].strip() for reader in readers]
        check(all(answer.startswith("version") for answer in answers), f"{race}: {answers}")
        until("one daemon stays", lambda at=place: len(daemons_at(at)) == 1)


def case_idle(nodes):
    """Who waits for the next snapshot sleeps, and so do the daemons that wait for him."""
    here, there = two_nodes(nodes)
    nodes.start_writer(size=8192, pause_ms=10**6)
    known(nodes, "there")
    for name in ("here", "there"):
        reader = nodes.start_program("wait", nodes.root / name, "field", 0, 2000, 10_000)
        check(reader.stdout.readline().startswith("waits"), "the reader does not wait")
        before = [processor_s(daemon.pid) for daemon in (here, there)]
        end = end_of(reader)
        check(end.startswith("timed_out"), f"the reader at {name} heard: {end}")
        check(int(end.split()[1]) < 50_000, f"waiting at {name} takes {end.split()[1]} us of 2 s")
        for daemon, was in zip((here, there), before):
            took = processor_s(daemon.pid) - was
            check(took <= 0.1, f"a daemon takes {took} s of 2 s while a reader waits")


class Kills:
    """Kills one of those who fetch at a random moment, and again."""

    def __init__(self, nodes, choose):
        self.nodes, self.choose = nodes, choose
        self.here = nodes.start_daemon("here", "--metadata-here", "--listen", "127.0.0.1:0")
        self.address = nodes.address("here")
        self.there = self.start_there()

    def start_there(self):
        # A mirror of a few versions: nearly each fetch takes the room of another.
        return self.nodes.start_daemon("there", "--metadata", self.address,
                                       "--mirror-bytes", "40MiB")

    def kill(self, victim):
        """The reader hears a failure that its caller can go on from, or comes to its end."""
        reader = start_follower(self.nodes, "there", 5000, 60)
        time.sleep(self.choose.uniform(0, 0.15))
        process = {"reader": reader, "there": self.there, "here": self.here}[victim]
        check(process.poll() is None, f"{victim} has ended by itself")
        process.kill()
        process.wait()
        if victim == "there":
            # What the mirror has now is whole, or not there: the follower after this one compares.
            self.there = self.start_there()
        elif victim == "here":
            self.here = self.nodes.start_daemon("here", "--metadata-here", "--listen", self.address)
        output, _ = reader.communicate(timeout=ANSWER_S)
        if victim != "reader":
            end = output.splitlines()[-1] if output else ""
            check("other bytes" not in output, output[-300:])
            check(end.startswith(("error 9", "error 1 ", "error 8", "read")),
                  f"{victim} was killed, the reader heard: {end}")


def case_kills(nodes):
    count = int(os.environ.get("QUIRE_KILL_COUNT") or
                20 * float(os.environ.get("QUIRE_TEST_SCALE") or 1))
    count = max(3, count)
    seed = int(os.environ.get("QUIRE_KILL_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"kills: QUIRE_KILL_SEED={seed} QUIRE_KILL_COUNT={count}", flush=True)
    kills = Kills(nodes, random.Random(seed))
    writer = nodes.start_writer(size=8 << 20, pause_ms=1)
    known(nodes, "there")
    for number in range(count):
        kills.kill(("there", "reader", "here")[number % 3])
        known(nodes, "there")
        nodes.goes_on()
    check(writer.poll() is None, "the writer has ended")


class Beset:
    """A daemon that has no descriptors left, while a reader follows a writer through it."""

    MEASURED_S = 3
    ROOM = 24  # descriptors beyond those that it has

    def __init__(self, nodes):
        self.nodes = nodes
        # What the daemon has freed is not its own: AddressSanitizer would keep 256 MB of it.
        os.environ["ASAN_OPTIONS"] = ":".join([
            os.environ.get("ASAN_OPTIONS", ""), "quarantine_size_mb=1",
            "thread_local_quarantine_size_kb=16"])
        _, self.daemon = two_nodes(nodes)
        nodes.start_writer(size=8192, pause_ms=20)
        known(nodes, "there")
        self.heard = nodes.root / "heard"
        with open(self.heard, "w", encoding="ascii") as output:
            self.follower = subprocess.Popen(
                [nodes.program, "follow", str(nodes.root / "there"), "field", "0", str(10**6),
                 "20000"], stdout=output)
        nodes.processes.append(self.follower)
        until("the reader reads", self.reads)
        self.address = nodes.address("there").rsplit(":", 1)
        # The reader asks the other daemon all the time: how many there are varies by one or two.
        self.limit = max(self.descriptors()) + 1 + self.ROOM
        resource.prlimit(self.daemon.pid, resource.RLIMIT_NOFILE, (self.limit, self.limit))

    def descriptors(self):
        return [int(name) for name in os.listdir(f"/proc/{self.daemon.pid}/fd")]

    def reads(self):
        return self.heard.read_text(encoding="ascii").count("read")

    def memory_kib(self):
        status = Path(f"/proc/{self.daemon.pid}/status").read_text(encoding="ascii")
        return int(status.split("RssAnon:")[1].split()[0])

    def come(self, sent=b""):
        stranger = socket.socket()
        stranger.setblocking(False)
        stranger.connect_ex((self.address[0], int(self.address[1])))
        select.select([], [stranger], [], 1)
        try:
            stranger.send(sent)
        except OSError:
            pass  # it was sent away, or stands in the system's queue
        return stranger

    def come_as_reader(self):
        reader = socket.socket(socket.AF_UNIX)
        reader.setblocking(False)
        reader.connect_ex(str(self.nodes.root / "there" / ".daemon.sock"))
        return reader

    def measure(self, what, meanwhile):
        """What the daemon costs for a while, in which `meanwhile` is done again and again."""
        read, memory, used = self.reads(), self.memory_kib(), processor_s(self.daemon.pid)
        end = time.monotonic() + self.MEASURED_S
        while time.monotonic() < end:
            meanwhile()
        used = processor_s(self.daemon.pid) - used
        print(f"{what}: {self.reads() - read} versions read, {used:.2f} s of {self.MEASURED_S} s, "
              f"{self.memory_kib() - memory} KiB more")
        check(self.reads() > read + 10, f"{what}: the reader does not go on")
        check(used < self.MEASURED_S / 2, f"{what}: the daemon takes {used} s")
        check(self.memory_kib() < memory + 16_384, f"{what}: the daemon takes memory")


def case_hostile(nodes):
    """Whatever comes, and however much: who reads goes on, and the daemon costs little."""
    beset = Beset(nodes)
    # Silent, amid a greeting, and with what is none.
    kinds = (b"", b"QSD1\x01\x01", os.urandom(72), b"GET / HTTP/1.1\r\n\r\n" * 100)
    crowd = [beset.come(kinds[number % 4]) for number in range(8 * beset.ROOM)]

    def replace():
        crowd.append(beset.come(kinds[len(crowd) % 4]))
        crowd.pop(0).close()
        time.sleep(0.01)

    beset.measure("crowd", replace)
    check(max(beset.descriptors()) < beset.limit, "it has more descriptors than it may")
    for stranger in crowd:
        stranger.close()
    # Those of this user are let in until nothing is left, not even a stranger to send away.
    readers = []

    def fill():
        if len(readers) < 4 * beset.ROOM:
            readers.append(beset.come_as_reader())
        time.sleep(0.01)

    until("the strangers have gone", lambda: len(beset.descriptors()) <= beset.limit - beset.ROOM)
    beset.measure("readers", fill)
    check(len(beset.descriptors()) >= beset.limit - 2, "there are descriptors left")
    crowd = [beset.come() for _ in range(beset.ROOM)]
    beset.measure("all", lambda: time.sleep(0.1))
    for one in crowd + readers:
        one.close()
    until("it lets readers in again", lambda: nodes.get("there").startswith("version"))
    check(beset.follower.poll() is None, "the reader has ended")


NOBODY = 65534


def descriptors_handed(path, user):
    """How many descriptors the daemon hands to a process of this user."""
    pid = os.fork()
    if pid == 0:
        handed = 99
        try:
            if user != 0:
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
            with socket.socket(socket.AF_UNIX) as line:
                line.settimeout(ANSWER_S)
                line.connect(path)
                handed = len(socket.recv_fds(line, 1, 4)[1])
        finally:
            os._exit(handed)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def case_user(nodes):
    """A daemon and a reader of two users have nothing to do with one another."""
    if os.geteuid() != 0:
        print("user: skipped: only root can be two users")
        return 77
    nodes.root.chmod(0o755)
    program = nodes.root / "quire-streamd"
    shutil.copy(nodes.daemon, program)
    place = nodes.place("nobody")
    os.chown(place, NOBODY, NOBODY)
    who = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    log = nodes.root / "log"
    with open(log, "w", encoding="ascii") as output:
        daemon = subprocess.Popen([program, "--place", place], stderr=output, cwd="/", **who)
    nodes.processes.append(daemon)
    path = str(place / ".daemon.sock")
    until("the daemon listens", lambda: "listens" in log.read_text(encoding="ascii"))
    # This reader may do all, and does not believe another user's daemon.
    answer = nodes.get("nobody")
    check(answer.startswith("error 2") and "another user's" in answer, f"a reader heard: {answer}")
    # Nor does the daemon hand its memory to another user, whatever that one may do.
    check(descriptors_handed(path, 0) == 0, "another user has the daemon's memory")
    check(descriptors_handed(path, NOBODY) == 1, "its own user does not have it")
    check("user 0 is not this one" in log.read_text(encoding="ascii"), "it does not say why")
    return 0


def main():
    case, daemon, program = sys.argv[1:]
    with Nodes(daemon, program) as nodes:
        try:
            status = globals()[f"case_{case}"](nodes) or 0
        except Failure as failure:
            print(f"FAILED {case}: {failure}")
            return 1
    if status == 0:
        print(f"{case}: passed")
    return status


if __name__ == "__main__":
    sys.exit(main())
