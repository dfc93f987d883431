#!/usr/bin/env python3
"""The commands of quire that look: looking_test.py QUIRE OWNER

Each is run on each kind of thing (database, checkpoint, dataset, stream), as its owner left it when
it ended or was killed, and beside the owner. It changes nothing there: no name, size, time or byte.
And it never locks the owner out: while it is stopped, at any moment, the owner comes back, or goes
on writing.
"""
import fcntl
import hashlib
import os
import random
import re
import select
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True  # the sources may be read-only
from cases import run_cases  # noqa: E402

COMMAND_WRONG = 2  # the exit code of a command line that is not understood
SCALE = float(os.environ.get("QUIRE_TEST_SCALE") or 1)
ROUNDS = max(1, round(10 * SCALE))  # stops of each command
LARGE_BYTES = 200_000  # of the object that is got: more than a pipe takes
OWNER_SECONDS = 30  # less than an owner waits for whoever tends a stream

# What looks, and on what; and what is told to change something, which is no matter here.
LOOKS = {
    "ls": ["{repository}"], "stat": ["{repository}"], "verify": ["{repository}"],
    "get": ["{repository}/numbers", "k1"], "scan": ["{repository}/numbers"],
    "repair": ["{repository}"], "clean": ["--shared-memory", "{empty}", "{directory}"],
    "checkpoint list": ["{checkpoints}"], "checkpoint verify": ["{checkpoints}"],
    "checkpoint drop": ["{checkpoints}/numbers/1"],
    "checkpoint export": ["{checkpoints}/numbers/1", "{empty}"],
    "dataset list": ["{repository}"], "dataset get": ["{repository}/atoms", "atom7"],
    "dataset scan": ["--epoch", "1", "{repository}/atoms"],
    "dataset verify": ["{repository}/atoms"],
    "stream ls": ["{place}", "heat"], "stream get": ["{place}", "heat", "0", "large"],
    "stream stat": ["{place}", "heat"], "stream verify": ["{place}", "heat"],
}
CHANGE_IF_TOLD = {"repair", "clean", "checkpoint drop"}  # 1: there is something to do
CHANGES = {"doctor"}  # it makes a small directory, and removes it


class Things:
    """All kinds of things below a directory, and the programs."""

    def __init__(self, quire, owner, directory):
        self.quire, self.owner = quire, owner
        self.directory = Path(directory) / "things"
        self.empty = Path(directory) / "empty"
        self.kept = Path(directory) / "kept"
        self.directory.mkdir()
        self.empty.mkdir()

    def own(self, how):
        return subprocess.Popen([self.owner, str(self.directory), how], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def stay(self, how="stay"):
        """An owner that has everything open; or, how="write", goes on writing."""
        owner = self.own(how)
        wait_until_ready(owner)
        return owner

    def come_back(self):
        """The owner comes, writes, and ends; what it says where it cannot."""
        owner = self.own("end")
        try:
            errors = owner.communicate(timeout=OWNER_SECONDS)[1]
        except subprocess.TimeoutExpired:
            owner.kill()
            owner.communicate()
            return f"it still waits after {OWNER_SECONDS} s"
        return errors.decode() if owner.returncode != 0 else ""

    def leave_killed(self):
        owner = self.stay()
        owner.kill()
        owner.communicate()

    def keep(self):
        shutil.copytree(self.directory, self.kept)

    def bring_back(self):
        """As it was kept: the logs are sparse, and of this boot."""
        shutil.rmtree(self.directory)
        shutil.copytree(self.kept, self.directory)

    def look(self, command, stdout=subprocess.DEVNULL):
        """The command's process."""
        places = {"directory": self.directory, "repository": self.directory / "repository",
                  "checkpoints": self.directory / "checkpoints",
                  "place": self.directory / "place", "empty": self.empty}
        words = [word.format(**places) for word in command.split() + LOOKS[command]]
        return subprocess.Popen([self.quire, *words], stdin=subprocess.DEVNULL,
                                stdout=stdout, stderr=subprocess.PIPE)


def drain(owner):
    """What the owner has said so far is no answer to what comes."""
    while select.select([owner.stdout], [], [], 0)[0]:
        assert os.read(owner.stdout.fileno(), 4096), f"the owner has ended: {owner.stderr.read()}"


def wait_until_ready(owner, times=1):
    """Until the owner has said so often again that it has written everything."""
    deadline = time.monotonic() + OWNER_SECONDS
    said = 0
    while said < times:
        left = max(0, deadline - time.monotonic())
        assert select.select([owner.stdout], [], [], left)[0], f"it writes no more: {owner.args}"
        text = os.read(owner.stdout.fileno(), 4096)
        assert text, f"the owner has ended: {owner.stderr.read()}"
        said += text.count(b"\n")


def listing(directory):
    """Every name below, itself included, with all that a change of it would change."""
    found = {}
    for path in [directory, *sorted(directory.rglob("*"))]:
        info = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(info.st_mode) else b""
        found[str(path)] = (info.st_ino, info.st_mode, info.st_nlink, info.st_size, info.st_blocks,
                            info.st_mtime_ns, info.st_ctime_ns, hashlib.md5(content).hexdigest())
    return found


def differences(before, after):
    return [name for name in sorted(before.keys() | after.keys())
            if before.get(name) != after.get(name)]


def expect_looks(things, state):
    for command in LOOKS:
        before = listing(things.directory)
        process = things.look(command)
        errors = process.communicate(timeout=60)[1]
        changed = differences(before, listing(things.directory))
        assert not changed, f"{state}: quire {command} has changed {changed}"
        assert process.returncode == 0 or command in CHANGE_IF_TOLD, \
            (state, command, process.returncode, errors)
        assert 0 <= process.returncode != COMMAND_WRONG, (state, command, errors)
        shutil.rmtree(things.empty)
        things.empty.mkdir()


def test_every_command_looks_or_is_known_to_change_something(things):
    """So that a new command is tried here, too."""
    def names(*group):
        text = subprocess.run([things.quire, *group, "--help"], capture_output=True, text=True,
                              timeout=60, check=True).stdout
        lines = text.split("Subcommands:\n")[1].split("\n\n")[0].splitlines()
        return {line.split()[0] for line in lines if re.match("  [a-z]", line)}

    groups = {"checkpoint", "dataset", "stream"}
    commands = names() - groups
    for group in groups:
        commands |= {f"{group} {name}" for name in names(group)}
    assert commands == set(LOOKS) | CHANGES, commands ^ (set(LOOKS) | CHANGES)


def test_looking_changes_nothing_when_the_owner_has_ended(things):
    assert not things.come_back()
    expect_looks(things, "ended")


def test_looking_changes_nothing_when_the_owner_was_killed(things):
    things.leave_killed()
    expect_looks(things, "killed")


def test_looking_changes_nothing_beside_the_owner(things):
    owner = things.stay()
    try:
        expect_looks(things, "beside its owner")
    finally:
        errors = owner.communicate()[1]
    assert owner.returncode == 0, errors


def test_looking_never_locks_the_owner_out(things):
    """Stopped at a random moment, of a command that finds what a killed owner left."""
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    things.leave_killed()
    things.keep()
    for command in LOOKS:
        begin = time.monotonic()
        things.look(command).communicate(timeout=60)
        seconds = time.monotonic() - begin
        for _ in range(ROUNDS):
            things.bring_back()
            process = things.look(command)
            time.sleep(chance.random() * seconds)
            process.send_signal(signal.SIGSTOP)
            try:
                refusal = things.come_back()
            finally:
                process.send_signal(signal.SIGCONT)
            errors = process.communicate(timeout=60)[1]
            assert not refusal, f"seed {seed}: beside a stopped quire {command}: {refusal}"
            assert process.returncode >= 0, (seed, command, process.returncode, errors)
            shutil.rmtree(things.empty)
            things.empty.mkdir()


def test_looking_never_holds_up_the_owner_that_writes(things):
    """Stopped at a random moment, while the owner writes all of its logs more than once."""
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    owner = things.stay("write")
    try:
        for command in LOOKS:
            for _ in range(max(1, ROUNDS // 2)):
                process = things.look(command)
                time.sleep(chance.random() * 0.03)
                process.send_signal(signal.SIGSTOP)
                drain(owner)
                try:
                    wait_until_ready(owner, times=2)
                finally:
                    process.send_signal(signal.SIGCONT)
                errors = process.communicate(timeout=60)[1]
                assert process.returncode == 0 or command in CHANGE_IF_TOLD, \
                    f"seed {seed}: quire {command}: {process.returncode}, {errors}"
                assert 0 <= process.returncode != COMMAND_WRONG, (seed, command, errors)
                shutil.rmtree(things.empty)
                things.empty.mkdir()
    finally:
        errors = owner.communicate()[1]
    assert owner.returncode == 0, (seed, errors)


def test_output_that_nobody_takes_holds_up_no_owner(things):
    """As where it goes to a pager."""
    owner = things.stay("write")
    try:
        process = things.look("stream get", stdout=subprocess.PIPE)
        assert select.select([process.stdout], [], [], OWNER_SECONDS)[0], "it writes nothing"
        drain(owner)
        wait_until_ready(owner, times=5)
        output, errors = process.communicate(timeout=60)
        assert process.returncode == 0 and len(output) == LARGE_BYTES, (len(output), errors)
    finally:
        errors = owner.communicate()[1]
    assert owner.returncode == 0, errors


def scan_that_waits(things, owner):
    """What a scan shows and says whose output is taken when the owner has written all anew."""
    ours, its = os.pipe()
    fcntl.fcntl(its, fcntl.F_SETPIPE_SZ, 4096)
    process = things.look("scan", stdout=its)
    os.close(its)
    assert select.select([ours], [], [], OWNER_SECONDS)[0], "it writes nothing"
    drain(owner)
    wait_until_ready(owner, times=5)
    with open(ours, "rb") as taken:
        output = taken.read()
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 0, errors
    return output, errors


def test_a_scan_that_nobody_takes_goes_on_with_what_is_there_then(things):
    """Of what it was about to read, segments are removed now and then: each key is shown once."""
    owner = things.stay("write")
    try:
        wait_until_ready(owner)  # the first time only half of the pairs were in tables
        for _ in range(12):
            output, errors = scan_that_waits(things, owner)
            keys = [line.split(b"\t")[0] for line in output.splitlines()]
            assert keys == sorted(set(keys)) and len(keys) == 300, (keys, errors)
    finally:
        errors = owner.communicate()[1]
    assert owner.returncode == 0, errors


if __name__ == "__main__":
    sys.exit(run_cases(dict(globals()), lambda directory: Things(*sys.argv[1:], directory)))
