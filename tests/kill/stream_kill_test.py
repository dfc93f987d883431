#!/usr/bin/env python3
"""Kills those who write and read a stream, and checks that each version that was told is there,
exact, and that no partial one ever is.

    stream_kill_test.py STREAM_PROGRAM DELTAS COMPRESSION

A writer commits versions of nine objects into a log that is so small that it wraps every few
commits, and says each number after the call has returned; two readers hold views meanwhile. The
writer, readers, or all of them are killed (SIGKILL) at a random moment, QUIRE_KILL_COUNT (20)
times. After each time that the writer was, all versions are read and compared: of what was told
nothing may be missing, one commit more may be there, whole, and a kept one must be. Then the next
writer goes on with the next number. A reader that was killed holds nothing up.
QUIRE_KILL_SHARE divides the count. The random choices follow from QUIRE_KILL_SEED (printed).
"""
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

SECONDS = 60  # for whatever is waited for
LAPS = 60     # commits in which the log wraps several times


def fail(what, *programs):
    raise SystemExit(f"stream_kill_test: {what}" + "".join(f"\n{one.errors()}" for one in programs))


class Program:
    """One process, and the lines that it has said: what, and which commit."""

    def __init__(self, test, name, *arguments):
        self.newest = {}  # what was said: the last number
        self.counts = {}
        self.error_path = test.home / f"errors-{name}"
        with open(self.error_path, "w") as errors:
            self.process = subprocess.Popen([test.program, *map(str, arguments)], text=True,
                                            stdout=subprocess.PIPE, stderr=errors)
        self.changed = threading.Condition()
        self.listener = threading.Thread(target=self._listen)
        self.listener.start()

    def _listen(self):
        for line in self.process.stdout:
            what, number = line.split()
            with self.changed:
                self.newest[what] = int(number)
                self.counts[what] = self.counts.get(what, 0) + 1
                self.changed.notify_all()
        with self.changed:
            self.changed.notify_all()

    def errors(self):
        return self.error_path.read_text(errors="replace")

    def wait_until_said(self, what, count, others=()):
        """Until it was said so often since it began."""
        end = time.monotonic() + SECONDS
        with self.changed:
            while self.counts.get(what, 0) < count:
                if not self.listener.is_alive():
                    fail(f"{self.process.args}: it ended before \"{what}\"", self, *others)
                if not self.changed.wait(end - time.monotonic()) and time.monotonic() > end:
                    fail(f"{self.process.args}: no \"{what}\" in {SECONDS} s", self, *others)

    def kill(self):
        """It must have run until now. What it said before is known then."""
        if self.process.poll() is not None:
            fail(f"{self.process.args}: it ended with {self.process.returncode}", self)
        self.stop()

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.listener.join()


class Test:
    def __init__(self, program, deltas, compression, home, choose):
        self.program, self.home, self.choose = program, home, choose
        self.place = home / "place"
        self.options = (deltas, compression)
        self.writer = None
        self.readers = {}
        self.told = self.kept = self.commits = self.reads = self.versions = 0

    def start_writer(self, *count):
        self.writer = Program(self, "writer", "write", self.place, *self.options, *count)
        self.writer.wait_until_said("open", 1)
        begun = self.writer.newest["open"]
        if not self.told <= begun <= self.told + 1:
            fail(f"the writer goes on after commit {begun}, told was {self.told}")
        self.told = begun

    def start_reader(self, name):
        self.readers[name] = Program(self, f"reader-{name}", "read", self.place,
                                     self.choose.randrange(1 << 32))

    def end_writer(self):
        """Takes up what it said."""
        self.told = max(self.told, self.writer.newest.get("commit", 0))
        self.kept = max(self.kept, self.writer.newest.get("keep", 0))
        self.commits += self.writer.counts.get("commit", 0)
        self.writer = None

    def kill_writer(self):
        self.writer.kill()
        self.end_writer()
        self.check()
        self.start_writer()

    def kill_reader(self, name):
        reader = self.readers[name]
        reader.kill()
        self.reads += reader.counts.get("read", 0)
        self.start_reader(name)

    def check(self):
        done = subprocess.run([self.program, "check", str(self.place), str(self.told),
                               str(self.kept)], capture_output=True, text=True, check=False,
                              timeout=SECONDS)
        if done.returncode != 0:
            fail(f"after commit {self.told} was told: {done.returncode} {done.stdout}{done.stderr}")
        self.versions += int(done.stdout.split("checked ")[1])

    def run(self, kills):
        self.start_writer()
        for name in ("a", "b"):
            self.start_reader(name)
        for kill in range(kills):
            if self.choose.random() < 0.3:
                # In the midst of its work, and not of its beginning.
                self.writer.wait_until_said("commit", self.choose.randrange(1, LAPS))
            time.sleep(self.choose.uniform(0, 0.2))
            victims = ("writer", "readers", "all")[kill % 3]
            if victims != "writer":
                for name in list(self.readers):
                    self.kill_reader(name)
            if victims != "readers":
                self.kill_writer()
            elif victims == "readers":
                # What they held is free: the log wraps, and wraps again.
                said = self.writer.counts.get("commit", 0)
                self.writer.wait_until_said("commit", said + LAPS, self.readers.values())
        self.finish()

    def finish(self):
        self.writer.kill()
        self.end_writer()
        self.check()
        self.start_writer(self.told + LAPS)
        if self.writer.process.wait(SECONDS) != 0:
            fail("the last writer failed", self.writer)
        self.writer.listener.join()
        self.end_writer()
        for reader in self.readers.values():
            reader.kill()
            self.reads += reader.counts.get("read", 0)
        self.check()

    def stop(self):
        for program in [*self.readers.values(), *([self.writer] if self.writer else [])]:
            program.stop()


def main():
    program, deltas, compression = sys.argv[1:4]
    count = int(os.environ.get("QUIRE_KILL_COUNT") or
                20 * float(os.environ.get("QUIRE_TEST_SCALE") or 1))
    count = max(3, count // int(os.environ.get("QUIRE_KILL_SHARE") or 1))
    seed = int(os.environ.get("QUIRE_KILL_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"stream_kill_test: QUIRE_KILL_SEED={seed} QUIRE_KILL_COUNT={count}", flush=True)
    home = Path(tempfile.mkdtemp(prefix="quire-stream-kill-"))
    test = Test(program, deltas, compression, home, random.Random(seed))
    try:
        test.run(count)
    finally:
        test.stop()
        shutil.rmtree(home, ignore_errors=True)
    print(f"stream_kill_test: {count} kills, {test.commits} commits, {test.versions} versions "
          f"checked, {test.reads} commits read beside the writers: none lost, none partial")
    if test.reads == 0 or test.versions == 0:
        raise SystemExit("stream_kill_test: nothing was checked")


if __name__ == "__main__":
    main()
