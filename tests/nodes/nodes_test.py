#!/usr/bin/env python3
"""What holds on nodes that share nothing but one directory, and for the simulated nodes themselves.

    nodes_test.py NODES_PROGRAM CASE

Exit status 0 only if all that CASE (a function case_... below) promises held; 77 where this machine
permits no simulated nodes.
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True  # the sources may be read-only
import cluster  # noqa: E402
from cluster import Shape  # noqa: E402

HERE = Path(__file__).resolve().parent
TIMEOUT = 80
MARK = "QUIRE_NODES_MARK"
STREAM_TRIES = 5  # each of them takes two seconds
PROGRAM = sys.argv[1]
REPOSITORY = "{storage}/repository"
TOLD = r"^rank \d+: write: (timed out|peer failed)"


def require(condition, what, output=""):
    if not condition:
        raise SystemExit(f"nodes_test: {what}\n{output}")


def lines_of(output, ranks=4):
    """What each rank said, by rank."""
    said = dict((int(rank), text) for rank, text in re.findall(r"^rank (\d+): (.*)$", output, re.M))
    require(sorted(said) == list(range(ranks)), f"{ranks} ranks should have spoken", output)
    return [said[rank] for rank in range(ranks)]


def run_well(nodes, what, *arguments, **more):
    status, output = nodes.run(PROGRAM, what, *arguments, **more)
    require(status == 0, f"{what} ended with {status}", output)
    return output


def environment_without_shared_memory():
    """MPICH, and UCX below it, do not start where they cannot write to /dev/shm, unless told to use
    none."""
    if cluster.launcher_is_open_mpi():
        return {}
    return {"MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "tcp,self"}


def run_refused(nodes, what, *arguments, code, names, **more):
    """A job whose ranks are all told the same failure, `code`, with all of `names` in its text."""
    status, output = nodes.run(PROGRAM, what, *arguments, **more)
    said = lines_of(output, sum(more.get("ranks") or nodes.shape.ranks))
    require(status != 0, f"{what} should have been refused", output)
    require(len(set(said)) == 1, "the ranks say different things", output)
    for word in (f": {code}", *names):
        require(word in said[0], f"\"{word}\" is not in what the ranks say", output)


def case_where(nodes):
    """Nodes differ in host name, storage and shared memory, and Quire takes them for nodes."""
    said = lines_of(run_well(nodes, "where"))
    for rank, text in enumerate(said):
        wanted = (f"on node{rank // 2}, {nodes.storage} 2, {nodes.shared} 4, /dev/shm 2, shm+mpi,")
        require(text.startswith(wanted), f"rank {rank} should say \"{wanted}\"", text)
    for node in nodes.nodes:
        seen = sorted(path.name for path in node.storage.glob("was-here-*"))
        wanted = [f"was-here-{2 * node.index}", f"was-here-{2 * node.index + 1}"]
        require(seen == wanted, f"the storage of {node.name} holds {seen}")


def case_read_only_memory(nodes):
    """Ranks of a node whose /dev/shm is read-only use MPI; those of another node are as ever."""
    nodes.nodes[1].make_read_only("/dev/shm")
    environment = environment_without_shared_memory()
    said = lines_of(run_well(nodes, "where", environment=environment))
    for rank, text in enumerate(said):
        files, transport = (2, "shm+mpi") if rank < 2 else (0, "mpi")
        wanted = f", /dev/shm {files}, {transport},"
        require(wanted in text, f"rank {rank} should say \"{wanted}\"", text)
    run_well(nodes, "fill", REPOSITORY, environment=environment)
    run_well(nodes, "check", REPOSITORY, environment=environment)


def stream(nodes, mebibytes):
    output = run_well(nodes, "stream", mebibytes)
    return float(re.search(r"mbit per second: ([0-9.]+)", output).group(1))


def case_bandwidth(nodes):
    """A limited link carries about what its limit says; within a node there is none."""
    # Headers take some 5 %; the bucket's burst gives some. A busy machine slows a try.
    limited = 0
    for _ in range(STREAM_TRIES):
        limited = max(limited, stream(nodes, 20))
        require(limited < 105, f"a link of 100 Mbit/s carried {limited:.0f} Mbit/s")
        if limited > 60:
            break
    require(limited > 60, f"a link of 100 Mbit/s carried {limited:.0f} Mbit/s at best")
    output = run_well(nodes, "stream", 100, ranks=[2, 0])
    inside = float(re.search(r"mbit per second: ([0-9.]+)", output).group(1))
    require(inside > 200, f"within a node only {inside:.0f} Mbit/s")
    print(f"nodes_test: {limited:.0f} Mbit/s between nodes, {inside:.0f} within")


def case_reopen(nodes):
    """A database whose parts lie on private storages is there for the next jobs."""
    run_well(nodes, "fill", REPOSITORY)
    for node in nodes.nodes:
        parts = [path for path in (node.storage / "repository").rglob("rank-*") if path.is_dir()]
        require(len(parts) == 2, f"{node.name} should hold the parts of its 2 ranks, not {parts}")
    run_well(nodes, "check", REPOSITORY)
    run_well(nodes, "check", REPOSITORY)
    require(not list(nodes.shared.iterdir()), "something was written to the shared directory")


def case_missing_part(nodes):
    """A node that has lost its directory: all ranks hear that it is damage, whose, and where."""
    for node in nodes.nodes:
        run_well(nodes, "fill", REPOSITORY)
        shutil.rmtree(node.storage / "repository")
        told = ["rank ", f"{nodes.storage}/repository/db"]
        run_refused(nodes, "open", REPOSITORY, code="corruption", names=told)
        run_refused(nodes, "check", REPOSITORY, code="corruption", names=told)
        for each in nodes.nodes:
            shutil.rmtree(each.storage / "repository")


def case_other_order(nodes):
    """Ranks on other nodes than those that hold their parts are told so; nothing new is made."""
    run_well(nodes, "fill", REPOSITORY)
    told = [f"{nodes.storage}/repository/db"]
    run_refused(nodes, "check", REPOSITORY, code="corruption", names=told, order=[1, 0])
    run_refused(nodes, "open", REPOSITORY, code="corruption", names=told, order=[1, 0])
    run_well(nodes, "check", REPOSITORY)


def case_destroy(nodes):
    """Destroying leaves nothing on any node, whatever the number of ranks, and where they are."""
    for more in ({}, {"ranks": [1, 1]}, {"ranks": [1, 2]}):
        run_well(nodes, "fill", REPOSITORY)
        run_well(nodes, "destroy", REPOSITORY, **more)
        for node in nodes.nodes:
            left = sorted(str(path) for path in (node.storage / "repository").rglob("*"))
            require(not left, f"destroying with {more or 'as many ranks'} left {left}")


def start_writing(nodes, timeout_ms, **more):
    """A job that writes, once all its ranks do."""
    job = nodes.start(PROGRAM, "write", REPOSITORY, timeout_ms, stdout=subprocess.DEVNULL,
                      stderr=subprocess.STDOUT, **more)
    wait_until_said(nodes.nodes, r"^rank \d+: writes$", 4, 60)
    return job


def wait_until_said(nodes, pattern, count, seconds):
    """Until `count` ranks of `nodes` have said that: into their storage, not by their network."""
    end = time.monotonic() + seconds
    while True:
        said = "".join(path.read_text() for node in nodes for path in node.storage.glob("said-*"))
        if len(re.findall(pattern, said, re.M)) >= count:
            return
        require(time.monotonic() < end, f"not {count} times \"{pattern}\" in {seconds} s", said)
        time.sleep(0.01)


def case_silent_node(nodes):
    """Somebody pulls a node's cable: all ranks, on both sides, are told within their deadline."""
    job = start_writing(nodes, 2000)
    nodes.nodes[1].set_link(up=False)
    began = time.monotonic()
    wait_until_said(nodes.nodes, TOLD, 4, 20)
    print(f"nodes_test: told after {time.monotonic() - began:.1f} s, deadline 2 s")
    end_job(nodes, job)


def case_killed_node(nodes):
    """All ranks of a node are killed: those of the other are told, and the database opens again."""
    job = start_writing(nodes, 2000, survivors=True)
    nodes.nodes[1].signal(signal.SIGKILL, PROGRAM)
    began = time.monotonic()
    wait_until_said(nodes.nodes[:1], TOLD, 2, 20)
    print(f"nodes_test: told after {time.monotonic() - began:.1f} s, deadline 2 s")
    end_job(nodes, job)
    run_well(nodes, "open", REPOSITORY)


def end_job(nodes, job):
    os.killpg(job.pid, signal.SIGKILL)
    job.wait()
    for node in nodes.nodes:
        node.signal(signal.SIGKILL)
    nodes.wait_idle()


def case_killed_harness(_):
    """Nothing is left of nodes whose harness is killed: no process, no mount, no device."""
    # Other harnesses run beside this one. All processes of this one have the mark.
    mark = str(os.getpid())
    harness = subprocess.Popen(
        [sys.executable, str(HERE / "nodes.py"), "--timeout", "100", "--", "sh", "-c",
         "echo started; exec sleep 98"], stdout=subprocess.PIPE, text=True,
        env=os.environ | {MARK: mark})
    first = harness.stdout.readline()
    if harness.poll() == cluster.SKIPPED or "skipped" in first:
        print(first, end="")
        return cluster.SKIPPED
    require(first == "started\n", "the job does not start", first)
    end = time.monotonic() + 20
    while "sleep 98" not in processes_with(mark):  # the shell says "started" before it becomes that
        require(time.monotonic() < end, "the job's processes cannot be seen")
        time.sleep(0.02)
    harness.kill()
    harness.wait()
    end = time.monotonic() + 20
    while processes_with(mark):
        require(time.monotonic() < end, "processes live on", str(processes_with(mark)))
        time.sleep(0.02)
    require("/storage" not in Path("/proc/mounts").read_text(), "a mount is left")
    require("port0" not in Path("/proc/net/dev").read_text(), "a network device is left")
    return 0


def case_refused(_):
    """Where the system refuses namespaces, as root and as any user, the harness says so and 77."""
    refuse = ("import ctypes, errno, sys, kernel\n"
              "def unshare(flags):\n"
              "    ctypes.set_errno(errno.EPERM)\n"
              "    return -1\n"
              "kernel._libc.unshare = unshare\n"
              "import nodes\n"
              "sys.exit(nodes.main())\n")
    done = subprocess.run([sys.executable, "-Bc", refuse, "--", "echo", "started"], cwd=HERE,
                          capture_output=True, text=True, timeout=TIMEOUT, check=False)
    require(done.returncode == 77, f"it ends with {done.returncode}", done.stdout + done.stderr)
    require(done.stdout == "nodes: skipped: this machine does not allow simulated nodes: "
            "unshare(as root): Operation not permitted; "
            "unshare(with a user namespace): Operation not permitted\n" and done.stderr == "",
            "it does not say why", done.stdout + done.stderr)
    return 0


def processes_with(mark):
    """Command lines of living processes that have `mark` in their environment."""
    variable = f"{MARK}={mark}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if variable in (entry / "environ").read_bytes().split(b"\0"):
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip())
        except OSError:
            continue
    return found


def main():
    case = sys.argv[2]
    function = globals()[f"case_{case}"]
    if case in ("killed_harness", "refused"):
        return function(None)
    shape = Shape([2, 2], bandwidth="100mbit" if case == "bandwidth" else "")
    return cluster.inside(shape, lambda nodes: function(nodes) or 0, TIMEOUT)


if __name__ == "__main__":
    sys.exit(main())
