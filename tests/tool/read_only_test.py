#!/usr/bin/env python3
"""Reading where nothing can be written: read_only_test.py CASE QUIRE MAKE_REPOSITORY READ_PAIRS

CASE is mount, on a file system that is mounted read-only, or permission, as a user who may not
write to any file or directory of the repository. The library's readers and the commands that look
tell all that is there; those that would write say why they cannot. Exit status 77 where this
machine does not let the case be set up.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True  # the sources may be read-only
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "nodes"))
import kernel  # noqa: E402
from tool_test import CANNOT_READ, FINE, FOUND_WRONG, Tool, expected_pairs, locked  # noqa: E402
from tool_test import state_of  # noqa: E402

SKIPPED = 77
NOBODY = 65534


class Looking(Tool):
    """The programs, copied beside the repository: another user may not reach the build."""

    def __init__(self, quire, make, read, directory):
        super().__init__(quire, make, directory)
        self.fresh()
        programs = self.directory / "programs"
        programs.mkdir()
        self.quire = shutil.copy(quire, programs / "quire")
        self.reader = shutil.copy(read, programs / "read_pairs")
        self.numbers = self.repository / "numbers"
        self.checkpoints = self.directory / "repository-checkpoints"

    def read(self, *paths):
        done = subprocess.run([self.reader, *map(str, paths)], capture_output=True, text=True,
                              timeout=60, check=False)
        assert done.returncode == 0, (paths, done)
        return done.stdout


def check_readers(tool):
    wanted = dict(expected_pairs(), **{"\0\udcff\1": "binary\n"})
    pairs = tool.read(tool.numbers)
    assert all(f"{key}\t{value}\n" in pairs for key, value in expected_pairs().items()), pairs
    assert len(wanted) == 93 and pairs.count("\t") == 93, pairs.count("\t")
    parts = tool.read(tool.numbers, *(tool.part(rank) for rank in range(3))).splitlines()
    assert sum(int(line.split()[0]) for line in parts) == 1, "the log is read, which nobody writes"
    assert sum(int(line.split()[1]) for line in parts) == 53, parts
    assert "own" not in tool.read(tool.numbers)
    one = tool.checkpoints / "own/1"
    assert tool.read(one, one / "rank-0", one / "rank-1").splitlines() == ["0 0", "0 2"]


def check_looks(tool):
    """The commands that look: as on a repository that can be written."""
    assert [one["name"] for one in tool.json("ls", tool.repository)["databases"]] == \
        ["numbers", "own"]
    assert tool.json("stat", tool.numbers)["databases"][0]["total"]["entries"] == 162
    assert tool.run("get", tool.numbers, "logged", "k001") == "in the log\nnew1\n"
    lines = [json.loads(line) for line in tool.run("scan", "--json", tool.numbers).splitlines()]
    assert {line["key"]: line["value"] for line in lines[1:]} == expected_pairs()
    assert tool.json("verify", tool.repository)["sound"]
    assert tool.json("repair", tool.numbers)["needed"] is False
    listed = tool.json("checkpoint", "list", tool.checkpoints)["checkpoints"]
    assert [(one["number"], one["state"]) for one in listed] == [(1, "complete")]
    assert tool.json("checkpoint", "verify", tool.checkpoints)["sound"]


def check_beside_a_writer(tool):
    """Where somebody holds a part open its log is not ours to read; the tables are."""
    parts = tool.json("stat", tool.numbers)["databases"][0]["parts"]
    assert [one["open_in"] for one in parts if one.get("open_in")] == ["node7 pid 12"] * 3, parts
    assert "logged" not in tool.read(tool.numbers)
    assert tool.read(tool.numbers).count("\t") == 92


def check_refusals(tool, why):
    """What would write says that, and why, it cannot."""
    manifest = tool.part(0) / "MANIFEST"
    tool.run("repair", "--yes", tool.numbers / "gen-1", code=CANNOT_READ)
    assert why in tool.errors and "gen-1" in tool.errors, tool.errors
    tool.run("checkpoint", "drop", "--yes", tool.checkpoints / "own/1", code=CANNOT_READ)
    assert why in tool.errors and str(tool.checkpoints / "own") in tool.errors, tool.errors
    tool.run("checkpoint", "export", tool.checkpoints / "own/1", tool.repository,
             code=CANNOT_READ)
    assert why in tool.errors, tool.errors
    done = subprocess.run([tool.quire, "doctor", "--json", str(tool.repository)], timeout=60,
                          capture_output=True, text=True, check=False)
    checks = {one["check"]: one for one in json.loads(done.stdout)["checks"]}
    assert done.returncode == FOUND_WRONG and checks["writable"]["level"] != "ok", checks
    assert manifest.exists()


def check_all(tool, why):
    check_readers(tool)
    check_looks(tool)
    check_refusals(tool, why)


def as_child(prepare, check):
    """The exit status of `check`, run in a process that has been through `prepare`."""
    sys.stdout.flush()
    pid = os.fork()
    if pid != 0:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    status = 1
    try:
        prepare()
        check()
        status = FINE
    except kernel.Refused as refusal:
        print(f"read_only_test: skipped: this machine does not allow it: {refusal}")
        status = SKIPPED
    except BaseException as error:
        print(f"read_only_test: {type(error).__name__}: {error}")
        sys.excepthook(*sys.exc_info())
    sys.stdout.flush()
    os._exit(status)


def case_mount(tool):
    def prepare():
        kernel.enter_new_machine(kernel.CLONE_NEWNS)
        kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
        kernel.bind(tool.directory, tool.directory)
        kernel.set_read_only(tool.directory)
        try:
            (tool.directory / "written").write_text("")
        except OSError:
            return
        raise SystemExit("read_only_test: the file system can be written to")

    status = as_child(prepare, lambda: check_all(tool, "read-only"))
    if status != FINE:
        return status
    # The writers are not in the namespace: they can write.
    with locked(tool.part(0) / "LOCK"), locked(tool.part(1) / "LOCK"), \
            locked(tool.part(2) / "LOCK"):
        return as_child(prepare, lambda: check_beside_a_writer(tool))


def case_permission(tool):
    """As root, by being somebody else, whose the files are."""
    everything = [tool.directory, *tool.directory.rglob("*")]
    for path in everything:
        if os.geteuid() == 0:
            os.chown(path, NOBODY, NOBODY)
        runs = path.parent.name == "programs"
        path.chmod(0o500 if path.is_dir() or runs else 0o400)

    def prepare():
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        if not os.access(tool.directory, os.R_OK | os.X_OK):
            raise kernel.Refused(f"only its owner reaches {tool.directory}")
        try:
            (tool.directory / "written").write_text("")
        except OSError:
            return
        raise kernel.Refused("this user may write everywhere")

    try:
        return as_child(prepare, lambda: check_all(tool, "ermission"))
    finally:
        for path in everything:
            path.chmod(0o700)


def without_locks(tool):
    """Who holds a lock writes that into it."""
    return {name: held for name, held in state_of(tool.directory).items()
            if not name.endswith("/LOCK")}


def main():
    case, *programs = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory:
        tool = Looking(*programs, directory)
        before = without_locks(tool)
        status = globals()[f"case_{case}"](tool)
        if without_locks(tool) != before:
            print("read_only_test: looking has changed something")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
