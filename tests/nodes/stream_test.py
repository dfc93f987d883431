#!/usr/bin/env python3
"""Streams over two nodes: heat computes on one, heat_watch reads on the other, daemons between.

    stream_test.py HEAT HEAT_WATCH DAEMON CASE

Each node has a place of its own; TCP is all that joins them. heat_watch compares every block with
what its rank says of it, and every halo with the neighbour's cells: no snapshot is torn. Exit
status 0 only if all that CASE (a function case_... below) promises held; 77 where this machine
permits no simulated nodes.
"""
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True  # the sources may be read-only
import cluster  # noqa: E402
from cluster import Shape  # noqa: E402

HERE = Path(__file__).resolve().parent
TIMEOUT = 100
SECONDS = 60  # for whatever is waited for
HEAT, WATCH, DAEMON = sys.argv[1:4]
PORT = 4711
# A snapshot at each step: in every step ranks wait for each other, and where an MPI spins on a busy
# machine each wait is as long as the scheduler likes.
RANKS, STEPS, EVERY, PAUSE_MS = 2, 60, 1, 40
SNAPSHOTS = STEPS // EVERY + 1


def require(condition, what):
    if not condition:
        raise SystemExit(f"stream_test: {what}")


def until(what, condition):
    end = time.monotonic() + SECONDS
    while not condition():
        require(time.monotonic() < end, f"not in {SECONDS} s: {what}")
        time.sleep(0.01)


class Streams:
    """The daemons of two nodes, the first of which is the metadata service, and who reads."""

    def __init__(self, nodes):
        self.nodes = nodes
        self.place = nodes.storage / "streams"
        self.token = nodes.shared / "token"
        self.token.touch(mode=0o600)
        self.token.write_bytes(os.urandom(32))
        self.said = nodes.home / "watched"

    def start(self, node, *words, **popen):
        """A program on a node, without MPI."""
        environment = dict(os.environ, QUIRE_NODES_HOME=str(self.nodes.home))
        command = "exec " + shlex.join(map(str, words))
        return subprocess.Popen([str(HERE / "enter"), node.name, command], env=environment,
                                stdin=subprocess.DEVNULL, **popen)

    def start_daemon(self, node):
        address = f"{self.nodes.nodes[0].address}:{PORT}"
        role = (["--listen", address, "--metadata-here"] if node.index == 0 else
                ["--listen", f"{node.address}:0", "--metadata", address])
        process = self.start(node, DAEMON, "--place", self.place, "--token", self.token, *role,
                             "--detach")
        require(process.wait(SECONDS) == 0, f"the daemon of {node.name} does not start")

    def kill_daemon(self, node):
        (daemon,) = [pid for pid in node.processes()
                     if os.path.samefile(f"/proc/{pid}/exe", DAEMON)]
        os.kill(daemon, signal.SIGKILL)
        # The last of its threads is gone when its entry is.
        until("the daemon is gone", lambda: not Path(f"/proc/{daemon}").exists())

    def start_watch(self):
        with open(self.said, "w", encoding="ascii") as output:
            return self.start(self.nodes.nodes[1], WATCH, "--place", self.place, "--patience",
                              SECONDS, stdout=output)

    def start_heat(self, pause_ms=PAUSE_MS):
        """On the first node alone; all its snapshots are kept."""
        return self.nodes.start(HEAT, "--place", self.place, "--height", 61, "--width", 47,
                                "--steps", STEPS, "--every", EVERY, "--keep", SNAPSHOTS, "--pause",
                                pause_ms, ranks=[RANKS], stdout=subprocess.PIPE, text=True)

    def lines(self):
        """What the watcher has said so far."""
        whole = self.said.read_text(encoding="ascii").split("\n")[:-1]
        return [json.loads(line) for line in whole]

    def check_end(self, heat, watcher):
        """Both end well; the watcher saw all, each as the one before has it, and the end of it."""
        output = heat.communicate(timeout=SECONDS)[0]
        require(heat.returncode == 0, f"heat ended with {heat.returncode}: {output}")
        require(watcher.wait(SECONDS) == 0, f"the watcher ended with {watcher.returncode}")
        *versions, end = self.lines()
        require(end == {"ranks": RANKS, "versions": SNAPSHOTS, "skipped": 0, "last_step": STEPS},
                f"the watcher ends with {end}")
        steps = [version["step"] for version in versions]
        require(steps == list(range(0, STEPS + 1, EVERY)), f"it saw the steps {steps}")
        result = json.loads(output.splitlines()[-1])
        require(versions[-1]["hash"] == result["hash"], f"{versions[-1]}, but {result}")

    def stop(self):
        for node in self.nodes.nodes:
            stopped = self.start(node, DAEMON, "--place", self.place, "--stop")
            require(stopped.wait(SECONDS) == 0, f"the daemon of {node.name} does not stop")
        self.nodes.wait_idle()


def case_watched(nodes):
    """Every version of every rank can be read on the other node, consistent, to the end."""
    streams = Streams(nodes)
    for node in nodes.nodes:
        streams.start_daemon(node)
    watcher = streams.start_watch()
    streams.check_end(streams.start_heat(), watcher)
    mirrored = nodes.nodes[1].storage / "streams" / ".mirror" / "heat"
    require(len(list(mirrored.glob("log-?"))) == RANKS, "the watcher did not read from its mirror")
    require(not (nodes.nodes[1].storage / "streams" / "heat").exists(), "the store is there, too")
    streams.stop()


def case_killed_daemons(nodes):
    """Daemons die amid all that, one and then the other: the watcher goes on, heat never stops."""
    streams = Streams(nodes)
    for node in nodes.nodes:
        streams.start_daemon(node)
    watcher = streams.start_watch()
    heat = streams.start_heat(pause_ms=3 * PAUSE_MS)  # a daemon takes its time on a busy machine
    for node in nodes.nodes:
        seen = len(streams.lines())
        until("the watcher goes on", lambda: len(streams.lines()) >= seen + 5)
        require(heat.poll() is None, "heat ended before the daemons were killed")
        streams.kill_daemon(node)
        streams.start_daemon(node)
    streams.check_end(heat, watcher)
    streams.stop()


def main():
    function = globals()[f"case_{sys.argv[4]}"]
    return cluster.inside(Shape([RANKS, RANKS]), lambda nodes: function(nodes) or 0, TIMEOUT)


if __name__ == "__main__":
    sys.exit(main())
