#!/usr/bin/env python3
"""What programs that died leave behind, and how it goes: clean_test.py QUIRE MAKE_REPOSITORY"""
import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # the sources may be read-only
from cases import run_cases  # noqa: E402
from tool_test import CANNOT_READ, FINE, FOUND_WRONG, OTHER_USER, fresh_tool, locked  # noqa: E402
from tool_test import state_of  # noqa: E402


def test_clean(tool):
    """Shared memory of dead processes and of live ones, checkpoints that nobody writes any more."""
    dead = subprocess.Popen(["true"])
    dead.wait()
    names = {"dead": f"quire-{os.geteuid()}-{dead.pid}-00000000000000aa",
             "live": f"quire-{os.geteuid()}-{os.getpid()}-00000000000000ab",
             "young": f"quire-{os.geteuid()}-{dead.pid}-00000000000000ac",
             "other": f"quirex-{os.geteuid()}-{dead.pid}-00000000000000ad",
             "others": f"quire-{OTHER_USER}-{dead.pid}-00000000000000ae",
             "given": f"quire-{os.geteuid()}-{dead.pid}-00000000000000af"}
    if os.geteuid() != 0:
        print("test_clean: not with a file of another user, which only root can make")
        del names["given"]
    shared = tool.directory / "shm"
    shared.mkdir()
    paths = {kind: shared / name for kind, name in names.items()}
    checkpoints = tool.directory / "checkpoints"
    written, interrupted = (checkpoints / "numbers" / name for name in (".partial-2", ".partial-3"))
    complete, dropped = checkpoints / "numbers/1", checkpoints / "numbers/.dropped-4"
    for directory in (written, interrupted, complete, dropped):
        (directory / "rank-0").mkdir(parents=True)
        (directory / "rank-0/t-1.sst").write_bytes(b"x" * 100)
    for directory in (written, interrupted):
        (directory / "LOCK").write_text("somebody")
    (checkpoints / "gone").mkdir()
    (checkpoints / "gone/LOCK").write_text("somebody")
    for kind, path in paths.items():
        path.write_bytes(b"x")
        if kind != "young":
            os.utime(path, (1, 1))
        if kind in ("others", "given") and os.geteuid() == 0:
            os.chown(path, OTHER_USER, -1)
    everything = ("clean", "--shared-memory", shared, checkpoints)
    mine = sorted(str(path) for path in [paths["dead"], interrupted, dropped, checkpoints / "gone"])
    with locked(written / "LOCK"):
        before = state_of(tool.directory)
        planned = tool.json(*everything, code=FOUND_WRONG)
        assert not planned["done"] and sorted(one["path"] for one in planned["found"]) == mine
        kinds = {one["path"]: (one["kind"], one["bytes"]) for one in planned["found"]}
        assert kinds[str(dropped)] == ("dropped checkpoint", 100)
        assert kinds[str(interrupted)] == ("interrupted checkpoint", 100 + len("somebody"))
        assert "to be removed: shared memory" in tool.run(*everything, code=FOUND_WRONG)
        assert state_of(tool.directory) == before
        done = tool.json(*everything, "--yes")
        assert done["done"] and sorted(one["path"] for one in done["found"]) == mine
        assert "nothing was left behind" in tool.run(*everything)
    assert not any(Path(path).exists() for path in mine)
    assert all(path.exists() for kind, path in paths.items() if kind != "dead")
    assert (written / "rank-0/t-1.sst").exists() and (complete / "rank-0/t-1.sst").exists()
    tool.run("clean", tool.directory / "nowhere", code=CANNOT_READ)


@contextlib.contextmanager
def cleaning_stopped(tool, *places):
    """A command that stands still amid the removal of something that takes a while."""
    slow = tool.directory / "slow"
    part = slow / "numbers/.partial-3/rank-0"
    part.mkdir(parents=True)
    (slow / "numbers/.partial-3/LOCK").write_text("somebody")
    for number in range(20_000):
        (part / str(number)).touch()
    before = part.stat().st_mtime_ns
    with subprocess.Popen([tool.quire, "clean", "--yes", "--json", "--shared-memory",
                           str(tool.directory / "none"), str(slow), *map(str, places)],
                          stdout=subprocess.PIPE, text=True) as cleaning:
        while cleaning.poll() is None and part.exists() and part.stat().st_mtime_ns == before:
            pass
        cleaning.send_signal(signal.SIGSTOP)
        try:
            yield cleaning, part
        finally:
            cleaning.send_signal(signal.SIGCONT)


def test_clean_goes_on(tool):
    """What cannot be removed stays; the rest is removed, and told."""
    taken, last = (tool.directory / name / "numbers/.partial-3" for name in ("taken", "last"))
    for directory in (taken, last):
        (directory / "rank-0").mkdir(parents=True)
        (directory / "LOCK").write_text("somebody")
    with cleaning_stopped(tool, taken.parents[1], last.parents[1]) as (cleaning, part):
        assert taken.exists(), "the command was faster: give it more to remove"
        with locked(taken / "LOCK"):
            cleaning.send_signal(signal.SIGCONT)
            told = json.load(cleaning.stdout)
    assert cleaning.returncode == CANNOT_READ
    assert not told["done"]
    assert [(one["path"], one["removed"]) for one in told["found"]] == \
        [(str(part.parent), True), (str(taken), False), (str(last), True)]
    assert taken.exists() and not part.exists() and not last.exists()


def test_clean_beside_a_job(tool):
    """What was a lock alone when it was found has become a database before its turn came."""
    begun = tool.directory / "begun/db"
    begun.mkdir(parents=True)
    (begun / "LOCK").write_text("somebody")
    with cleaning_stopped(tool, begun.parent) as (cleaning, part):
        assert begun.exists(), "the command was faster: give it more to remove"
        (begun / "DATABASE").write_text("all that somebody has")
        cleaning.send_signal(signal.SIGCONT)
        told = json.load(cleaning.stdout)
    assert cleaning.returncode == FINE
    assert (begun / "DATABASE").exists() and not part.exists()
    assert [one["kind"] for one in told["found"]] == ["interrupted checkpoint"]


if __name__ == "__main__":
    sys.exit(run_cases(dict(globals()), fresh_tool))
