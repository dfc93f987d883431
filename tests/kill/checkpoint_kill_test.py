#!/usr/bin/env python3
"""Kills ranks of a real job while it takes a checkpoint.

    checkpoint_kill_test.py MPIRUN CHECKPOINT_PROGRAM QUIRE

One rank or all are killed (SIGKILL) while a checkpoint is being written,
QUIRE_CHECKPOINT_KILL_COUNT (6) times. After each: the checkpoints that were complete are, and are
sound; a job of another number of ranks restarts from the newest; what was interrupted is removed by
`quire checkpoint drop`, by `quire clean`, or by the next checkpoint, and nothing else is; the
database itself opens again with all that was there at its last barrier.
The random choices follow from QUIRE_KILL_SEED (printed).
"""
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from glob import glob
from pathlib import Path

sys.dont_write_bytecode = True  # the sources may be read-only
from kill_test import kill_all, wait_gone  # noqa: E402

RANKS = 4
SECONDS = 60  # for whatever is waited for


class Job:
    """One run of the program under the launcher."""

    def __init__(self, test, ranks, *arguments):
        self.test = test
        self.output_path = test.home / "output"
        with open(self.output_path, "w") as output:
            self.process = subprocess.Popen(
                [test.mpirun, "-n", str(ranks), test.program, *map(str, arguments)], stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True)

    def require(self, condition, what):
        if condition:
            return
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        raise SystemExit(f"checkpoint_kill_test: {what}\n"
                         f"{self.output_path.read_text(errors='replace')}")

    def wait_until(self, condition, what):
        """Until it holds; the job goes on meanwhile."""
        end = time.monotonic() + SECONDS
        while not condition():
            self.require(self.process.poll() is None, f"the job ended by itself before {what}")
            self.require(time.monotonic() < end, f"no {what} in {SECONDS} s")
            time.sleep(0.002)

    def wait(self):
        try:
            self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self.require(False, "the job hangs")
        text = self.output_path.read_text(errors="replace")
        self.require("LOST" not in text, "pairs are lost")
        return text


class Test:
    def __init__(self, mpirun, program, quire, home):
        self.mpirun, self.program, self.quire, self.home = mpirun, program, quire, home
        self.checkpoints = home / "checkpoints"
        self.told = home / "told"
        self.told.mkdir()
        self.left = []  # of the last job that was killed: its unfinished checkpoint

    def rounds_told(self, what):
        path = self.told / "told"
        lines = path.read_text().splitlines() if path.exists() else []
        return [int(line.split()[1]) for line in lines if line.startswith(what)]

    def tool(self, *arguments):
        done = subprocess.run([self.quire, *map(str, arguments), "--json"], capture_output=True,
                              text=True, check=False, timeout=SECONDS)
        if done.returncode not in (0, 1):
            raise SystemExit(f"checkpoint_kill_test: {arguments}: {done.returncode} {done.stderr}")
        return json.loads(done.stdout)

    def found(self, state):
        """The directories of the checkpoints in that state, by number."""
        listed = self.tool("checkpoint", "list", self.checkpoints)["checkpoints"]
        return [Path(one["directory"]) for one in listed if one["state"] == state]

    def start(self):
        """A job that takes checkpoints, and has completed one; its ranks' process ids."""
        for path in self.told.glob("pid-*"):
            path.unlink()
        before = len(self.rounds_told("complete"))
        job = Job(self, RANKS, "run", self.home / "repository", self.checkpoints, self.told)
        job.wait_until(lambda: len(self.rounds_told("complete")) > before, "complete checkpoint")
        return job, [int(path.read_text()) for path in self.told.glob("pid-*")]

    def kill(self, victims, delay):
        """The job when a checkpoint was under way; true where that is left unfinished."""
        job, pids = self.start()
        job.require(len(pids) == RANKS, "not all ranks say their process id")
        left = [path for path in self.left if path.exists()]
        job.require(not left, f"what an earlier job left is still there: {left}")
        begun = self.checkpoints / "db"
        # The bytes are transferred in the directories of the ranks.
        # Path.glob raises where a directory is renamed while it looks; this glob looks on.
        job.wait_until(lambda: glob(f"{begun}/.partial-*/rank-*"), "checkpoint under way")
        time.sleep(delay)
        kill_all(pids if victims == "all" else [random.choice(pids)])
        job.wait()  # the launcher ends the others, or they hear of it themselves
        kill_all(pids)
        wait_gone(pids)
        self.left = self.found("failed")
        return bool(self.left)

    def check_complete(self):
        complete = self.found("complete")
        report = self.tool("checkpoint", "verify", self.checkpoints)
        if not complete or not report["sound"]:
            raise SystemExit(f"checkpoint_kill_test: {complete}: {report}")
        return complete

    def restart(self, ranks):
        """The round that the newest checkpoint brings back."""
        repository = self.home / f"restarted-{ranks}"
        job = Job(self, ranks, "restart", repository, self.checkpoints)
        text = job.wait()
        job.require(job.process.returncode == 0, "the restart failed")
        shutil.rmtree(repository)
        return int(text.split("round ")[1].split()[0])

    def clean(self, way):
        if way == "next":
            return
        if way == "drop" and self.left:
            self.tool("checkpoint", "drop", "--yes", *self.left)
        if way == "clean":
            self.tool("clean", "--yes", "--shared-memory", self.told, self.checkpoints)
        if any(path.exists() for path in self.left):
            raise SystemExit(f"checkpoint_kill_test: {way} has left {self.left}")
        self.left = []  # the next checkpoint may have the number


def main():
    count = int(os.environ.get("QUIRE_CHECKPOINT_KILL_COUNT") or
                max(2, 6 * float(os.environ.get("QUIRE_TEST_SCALE") or 1)))
    seed = int(os.environ.get("QUIRE_KILL_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"checkpoint_kill_test: QUIRE_KILL_SEED={seed} QUIRE_CHECKPOINT_KILL_COUNT={count}",
          flush=True)
    random.seed(seed)
    home = Path(tempfile.mkdtemp(prefix="quire-checkpoint-kill-"))
    test = Test(*sys.argv[1:4], home)
    try:
        interrupted = tries = 0
        while interrupted < count:
            tries += 1
            if tries > 5 * count:
                raise SystemExit("checkpoint_kill_test: checkpoints are too quick to be killed")
            hit = test.kill(["one", "all"][interrupted % 2], random.uniform(0, 0.02))
            complete = test.check_complete()
            told = test.rounds_told("complete")[-1]
            back = test.restart(1 + tries % RANKS)
            if back < told or back > test.rounds_told("barrier")[-1]:
                raise SystemExit(f"checkpoint_kill_test: round {back} is back, {told} was told")
            test.clean(["next", "drop", "clean"][interrupted % 3])
            if test.check_complete() != complete:
                raise SystemExit("checkpoint_kill_test: cleaning has changed what is complete")
            interrupted += hit
        job, pids = test.start()
        kill_all(pids)
        job.wait()
        wait_gone(pids)
        print(f"checkpoint_kill_test: {interrupted} checkpoints interrupted in {tries} tries, "
              f"{len(test.rounds_told('complete'))} complete")
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
