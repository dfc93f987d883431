#!/usr/bin/env python3
"""What takes several jobs of persistence on nodes that share nothing but one directory.

    persistence_test.py PERSISTENCE_PROGRAM CASE [CHECKPOINT_PROGRAM]

Exit status 0 only if all that CASE (a function case_... below) promises held; 77 where this machine
permits no simulated nodes. CHECKPOINT_PROGRAM is tests/kill/checkpoint_program.cpp.
"""
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from glob import glob
from pathlib import Path

sys.dont_write_bytecode = True  # the sources may be read-only
import cluster  # noqa: E402
from cluster import Shape  # noqa: E402
from node import command  # noqa: E402
from nodes_test import end_job, require, run_refused, run_well  # noqa: E402

TIMEOUT = 150
REPOSITORY, CHECKPOINTS = "{storage}/repository", "{shared}/checkpoints"


def parts_on(node, repository="repository"):
    """The parts of ranks that lie on a node, as gen-<g>/rank-<r>."""
    home = node.storage / repository / "db"
    return sorted(str(path.relative_to(home)) for path in home.glob("gen-*/rank-*"))


def checkpoints_of(nodes):
    home = nodes.shared / "checkpoints/db"
    return sorted(path.name for path in home.iterdir()) if home.exists() else []


def forget(nodes):
    """The nodes lose what they have of the database."""
    for node in nodes.nodes:
        shutil.rmtree(node.storage / "repository", ignore_errors=True)


def make_checkpoint(nodes):
    run_well(nodes, "put", REPOSITORY, 0)
    run_well(nodes, "checkpoint", REPOSITORY, CHECKPOINTS)
    require(checkpoints_of(nodes) == ["1"], f"there is {checkpoints_of(nodes)}")


def case_restart(nodes):
    """A checkpoint of 2x2 ranks comes back on other nodes and numbers of ranks, each with its own
    storage, and is a database of these ranks alone from then on; so it is with the next one."""
    make_checkpoint(nodes)
    forget(nodes)
    for way, shapes in (("restart", ([2, 2], [1, 1], [2, 0], [2, 1])), ("in_place", ([1, 2],))):
        for ranks in shapes:
            run_well(nodes, way, REPOSITORY, CHECKPOINTS, ranks=ranks)
            run_well(nodes, "check", REPOSITORY, 0, ranks=ranks)
            generation = 1 if way == "restart" and ranks == [2, 2] else 2
            first = 0
            for node, count in zip(nodes.nodes, ranks):
                wanted = [f"gen-{generation}/rank-{first + i}" for i in range(count)]
                # Where all ranks see all parts, these may move later.
                seen = [part for part in parts_on(node) if 0 not in ranks or part in wanted]
                require(seen == wanted, f"{way} on {ranks}: {node.name} has {seen}")
                first += count
            run_well(nodes, "put", REPOSITORY, 1, ranks=ranks)
            run_well(nodes, "check", REPOSITORY, 1, ranks=ranks)
            forget(nodes)
    require(checkpoints_of(nodes) == ["1"], f"there is {checkpoints_of(nodes)}")


def case_redistribute(nodes):
    """A database on private storages opens on other numbers of ranks where each part is seen, and
    is moved before it opens; where one is not, all ranks hear which, and nothing has changed."""
    run_well(nodes, "put", REPOSITORY, 0)
    for number, ranks in enumerate(([1, 1], [2, 1], [2, 2]), start=2):
        run_well(nodes, "check", REPOSITORY, number - 2, ranks=ranks)
        for node, count in zip(nodes.nodes, ranks):
            seen = parts_on(node)
            require(len(seen) == count and all(part.startswith(f"gen-{number}/") for part in seen),
                    f"{ranks}: {node.name} has {seen}")
        before = [parts_on(node) for node in nodes.nodes]
        run_refused(nodes, "check", REPOSITORY, 0, ranks=[1, 0], code="corruption",
                    names=[f"{nodes.storage}/repository/db/gen-{number}/rank-",
                           "is seen by no rank"])
        require([parts_on(node) for node in nodes.nodes] == before, "a refusal has changed parts")
        run_well(nodes, "put", REPOSITORY, number - 1, ranks=ranks)


def case_group(nodes):
    """Ranks of a storage group on shared storage read each other's tables across nodes, also those
    that an earlier job with other ranks has left."""
    repository = "{shared}/repository"
    run_well(nodes, "put", repository, 0)
    before = [2, 2]
    for round_now, ranks in enumerate(([2, 2], [2, 1], [1, 1], [2, 2], [2, 2])):
        said = run_well(nodes, "group", repository, round_now, ranks=ranks)
        gets = [int(count) for count in re.findall(r"gets\.group (\d+)", said)]
        require(len(gets) == sum(ranks), f"not all ranks on {ranks} speak", said)
        # What others wrote may still be on its way to its owners' tables.
        if ranks == before:
            require(all(count > 0 for count in gets), f"{ranks}: {gets} were read from tables")
        before = ranks
        run_well(nodes, "put", repository, round_now + 1, ranks=ranks)
    for node in nodes.nodes:
        require(not list(node.storage.glob("repository*")), f"{node.name} has a repository")


def case_compaction(nodes):
    """Members of a storage group read each other's tables while the owners compact them away: over
    shared memory and without it within a node, and across nodes; nothing is wrong, old or gone."""
    for repository, group, transport in ((REPOSITORY, 2, "auto"), (REPOSITORY, 2, "mpi"),
                                         ("{shared}/repository", 4, "auto")):
        said = run_well(nodes, "compact", repository, group,
                        environment={"QUIRE_TRANSPORT": transport})
        found = re.findall(r"by memory: (\d+), by files: (\d+)", said)
        require(len(found) == 4, "not all ranks speak", said)
        for by_memory, by_files in found:
            # Who shares memory is not asked which tables to read.
            require((int(by_memory) > 0) == (transport == "auto") and
                    (int(by_files) > 0) == (group == 4 or transport == "mpi"),
                    f"group of {group}, {transport}: tables were read otherwise", said)
        print("".join(sorted(re.findall(r"^.*by memory.*\n", said, re.M))), end="")
        forget(nodes)


def on_node(node, *words):
    """Runs a tool of the system in the node's namespaces."""
    return command("nsenter", "--target", str(node.pid), "--mount", *words)


def case_unwritable(nodes):
    """A checkpoint that one node cannot write, for lack of permission or of the directory itself,
    fails on all ranks alike, by rank and file. The database and the checkpoint before go on."""
    make_checkpoint(nodes)
    shared, node = str(nodes.shared), nodes.nodes[1]
    ways = {"read-only": ("mount", "-o", "remount,bind,ro", shared),
            "gone": ("mount", "-t", "tmpfs", "none", shared)}
    mends = {"read-only": ("mount", "-o", "remount,bind,rw", shared), "gone": ("umount", shared)}
    told = {"read-only": "Read-only file system", "gone": "No such file or directory"}
    for number, way in enumerate(ways, start=1):
        on_node(node, *ways[way])
        try:
            run_refused(nodes, "beside", REPOSITORY, CHECKPOINTS, 1, code="input/output error",
                        names=["rank 2: ", f"{shared}/checkpoints/db/.partial-", told[way]])
        finally:
            on_node(node, *mends[way])
        run_well(nodes, "check", REPOSITORY, 2)
        complete = [name for name in checkpoints_of(nodes) if name.isdigit()]
        require(len(complete) == number, f"{way}: {checkpoints_of(nodes)}")
        run_well(nodes, "checkpoint", REPOSITORY, CHECKPOINTS)
        after = checkpoints_of(nodes)
        require(len(after) == number + 1 and all(name.isdigit() for name in after),
                f"{way}: {after}")
    run_well(nodes, "restart", "{storage}/again", CHECKPOINTS)
    run_well(nodes, "check", "{storage}/again", 2)


def fill(directory):
    """Takes what room there is; returns the file that holds it."""
    filler = directory / "filler"
    with open(filler, "wb", buffering=0) as file:
        try:
            while file.write(b"x" * 4096):
                pass
        except OSError:
            return filler
    raise SystemExit("nodes_test: a write ended without a failure")


def case_full(nodes):
    """Devices that are full: the shared one under a checkpoint, a node's own under a restart."""
    make_checkpoint(nodes)
    filler = fill(nodes.shared)
    full = "No space left on device"
    run_refused(nodes, "beside", REPOSITORY, CHECKPOINTS, 1, code="no space",
                names=["rank ", f"{nodes.shared}/checkpoints/db", full])
    filler.unlink()
    run_well(nodes, "check", REPOSITORY, 2)
    run_well(nodes, "checkpoint", REPOSITORY, CHECKPOINTS)
    require(len(checkpoints_of(nodes)) == 2 and "1" in checkpoints_of(nodes) and
            not any(name.startswith(".") for name in checkpoints_of(nodes)),
            f"there is {checkpoints_of(nodes)}")
    forget(nodes)
    own = nodes.nodes[1].storage
    filler = fill(own)
    run_refused(nodes, "restart", REPOSITORY, CHECKPOINTS, code="no space",
                names=["rank 2: ", f"{nodes.storage}/repository", full])
    filler.unlink()
    run_refused(nodes, "check", REPOSITORY, 2, code="not found", names=[])
    run_well(nodes, "restart", REPOSITORY, CHECKPOINTS)
    # Without room to move into, the database stays as it is.
    filler = fill(own)
    run_refused(nodes, "check", REPOSITORY, 2, ranks=[1, 1], code="no space",
                names=["rank 1: ", full])
    filler.unlink()
    run_well(nodes, "check", REPOSITORY, 2)
    run_well(nodes, "check", REPOSITORY, 2, ranks=[1, 1])


def told_rounds(nodes, what):
    path = nodes.shared / "told/told"
    text = path.read_text() if path.exists() else ""
    return [int(number) for number in re.findall(rf"^{what} (\d+)$", text, re.M)]


def wait_for(job, condition, what):
    end = time.monotonic() + 60
    while not condition():
        require(job.poll() is None, f"the job ended by itself before {what}")
        require(time.monotonic() < end, f"no {what} in 60 s")
        time.sleep(0.002)


def case_killed_checkpoint(nodes):
    """A node is killed while a checkpoint is being written: what was complete is, and comes back on
    the nodes that are left; the next job's checkpoint removes what was interrupted."""
    program = sys.argv[3]
    (nodes.shared / "told").mkdir()
    for node in nodes.nodes:
        before = len(told_rounds(nodes, "complete"))
        left = [nodes.shared / "checkpoints/db" / name for name in checkpoints_of(nodes)
                if name.startswith(".partial-")]
        job = nodes.start(program, "run", REPOSITORY, CHECKPOINTS, "{shared}/told", survivors=True,
                          stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
        wait_for(job, lambda: len(told_rounds(nodes, "complete")) > before, "complete checkpoint")
        require(not any(path.exists() for path in left), f"{left} is left")
        home = nodes.shared / "checkpoints/db"
        # Path.glob raises where a directory is renamed while it looks; this glob looks on.
        wait_for(job, lambda: glob(f"{home}/.partial-*/rank-*"), "checkpoint under way")
        time.sleep(random.uniform(0, 0.01))
        node.signal(signal.SIGKILL, program)
        end_job(nodes, job)
        for ranks in ([1, 0], [2, 1]):
            status, output = nodes.run(program, "restart", "{storage}/restarted", CHECKPOINTS,
                                       ranks=ranks)
            found = re.search(r"^round (\d+)$", output, re.M)
            require(found and "LOST" not in output and status == 0,
                    f"the restart ended with {status}", output)
            back = int(found.group(1))
            told = told_rounds(nodes, "complete")[-1]
            require(told <= back <= told_rounds(nodes, "barrier")[-1],
                    f"round {back} is back, {told} was told")
            for each in nodes.nodes:
                shutil.rmtree(each.storage / "restarted", ignore_errors=True)


def main():
    case = sys.argv[2]
    small = {"storage_size": "24m", "shared_size": "12m"} if case == "full" else {}
    function = globals()[f"case_{case}"]
    return cluster.inside(Shape([2, 2], **small), lambda nodes: function(nodes) or 0, TIMEOUT)


if __name__ == "__main__":
    sys.exit(main())
