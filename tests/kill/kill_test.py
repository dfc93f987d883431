#!/usr/bin/env python3
"""Kills ranks of a real job, and checks that nothing that was acknowledged is lost.

    kill_test.py MPIRUN KILL_PROGRAM CASE

CASE is one of
    kills      SIGKILL of one rank, of all ranks, of the launcher, in turn; QUIRE_KILL_COUNT (20) times in all, with a
               verification after each and at the end
    stop       one rank is stopped (SIGSTOP): the others answer "timed out" within their deadline, and nobody hangs
    second     a second program that opens the same database is refused with "busy" within a second

QUIRE_KILL_SHARE divides the count: for a case that is tried in several ways.
The random choices follow from QUIRE_KILL_SEED (printed). Exit status 0 only if all that was promised held.
"""
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RANKS = 4
START_SECONDS = 60      # for a job to begin to write, and for one that was killed to be gone
LOST, FAILED = 3, 4     # exit statuses of the program


def say(text):
    print(f"kill_test: {text}", flush=True)


class Job:
    """One run of the program under the launcher, in a process group of its own."""

    def __init__(self, mpirun, program, home, mode, timeout_ms=0, tag=""):
        self.home = home
        self.output_path = home / f"output{tag}"
        self.output = open(self.output_path, "w")
        for path in home.glob("oracle/pid-*"):
            if not tag:
                path.unlink()
        command = [mpirun, "-n", str(RANKS), program, str(home / "repository"),
                   str(home / "oracle"), mode] + ([str(timeout_ms)] if timeout_ms else [])
        self.process = subprocess.Popen(command, stdout=self.output, stderr=subprocess.STDOUT,
                                        start_new_session=True)

    def wait_until_writing(self):
        """The process ids of all ranks, once all have begun to write pairs; None where the job ended before."""
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            pids = []
            for rank in range(RANKS):
                try:
                    text = (self.home / f"oracle/pid-{rank}").read_text()
                except FileNotFoundError:
                    break
                if not text.endswith("\n"):
                    break
                pids.append(int(text))
            if len(pids) == RANKS:
                return pids
            if self.process.poll() is not None:
                return None
            time.sleep(0.005)
        self.end()
        raise SystemExit(f"kill_test: the job does not begin to write\n{self.text()}")

    def text(self):
        self.output.flush()
        return self.output_path.read_text(errors="replace")

    def wait(self, seconds=START_SECONDS):
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.end()
            raise SystemExit(f"kill_test: the job hangs\n{self.text()}")

    def end(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


def alive(pid):
    """Whether the process holds files and locks still: until the last of its threads is gone, of
    which a first one that is dead already (Z) tells nothing."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        threads = os.listdir(f"/proc/{pid}/task")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX" or len(threads) > 1


def kill_all(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def wait_gone(pids):
    end = time.monotonic() + START_SECONDS
    while any(alive(pid) for pid in pids):
        if time.monotonic() > end:
            raise SystemExit("kill_test: ranks live on")
        time.sleep(0.01)


def check_nothing_lost(job):
    text = job.text()
    if "LOST" in text or job.process.returncode == LOST:
        raise SystemExit(f"kill_test: acknowledged writes are lost\n{text}")


def verify(mpirun, program, home):
    """The count of keys that were looked up."""
    job = Job(mpirun, program, home, "verify")
    code = job.wait()
    check_nothing_lost(job)
    if code != 0:
        raise SystemExit(f"kill_test: verification failed with {code}\n{job.text()}")
    return sum(int(line.split(": ")[1].split()[0]) for line in job.text().splitlines()
               if "keys verified" in line)


def run_kills(mpirun, program, home):
    count = int(os.environ.get("QUIRE_KILL_COUNT") or
                20 * float(os.environ.get("QUIRE_TEST_SCALE") or 1))
    share = int(os.environ.get("QUIRE_KILL_SHARE") or 1)
    if share > 1:
        count = max(3, count // share)  # at least one of each kind of victim
    seed = int(os.environ.get("QUIRE_KILL_SEED") or random.SystemRandom().randrange(1 << 32))
    say(f"QUIRE_KILL_SEED={seed} QUIRE_KILL_COUNT={count}")
    choose = random.Random(seed)
    killed = 0
    while killed < count:
        job = Job(mpirun, program, home, choose.choice(["sequential", "relaxed"]))
        pids = job.wait_until_writing()
        if pids is None:
            check_nothing_lost(job)
            raise SystemExit(f"kill_test: the job ended by itself\n{job.text()}")
        time.sleep(choose.uniform(0, 0.25))
        victim = ["one rank", "all ranks", "the launcher"][killed % 3]
        if victim == "one rank":
            kill_all([choose.choice(pids)])
            # The others hear of it by themselves, or the launcher ends them; no rank goes on for ever.
            job.wait()
        elif victim == "all ranks":
            kill_all(pids)
            job.wait()
        else:
            os.kill(job.process.pid, signal.SIGKILL)
            job.process.wait()
            kill_all(pids)
        wait_gone(pids)
        check_nothing_lost(job)
        killed += 1
    keys = verify(mpirun, program, home)
    say(f"{killed} kills, {keys} keys verified at the end, 0 acknowledged writes lost")
    if keys == 0:
        raise SystemExit("kill_test: nothing was verified")


def run_stop(mpirun, program, home):
    timeout_ms = 2000
    job = Job(mpirun, program, home, "sequential", timeout_ms)
    pids = job.wait_until_writing()
    time.sleep(0.1)
    os.kill(pids[1], signal.SIGSTOP)
    began = time.monotonic()
    try:
        while "write: timed out" not in job.text():
            if time.monotonic() - began > 5 * timeout_ms / 1000 or job.process.poll() is not None:
                raise SystemExit(f"kill_test: no rank told of the time-out\n{job.text()}")
            time.sleep(0.01)
        took = time.monotonic() - began
        say(f"told after {took:.2f} s, deadline {timeout_ms / 1000} s")
    finally:
        kill_all(pids)  # a stopped process dies of it too; the launcher may have been faster
        job.wait()
    wait_gone(pids)
    verify(mpirun, program, home)


def refused_after(mpirun, program, home):
    """The seconds that the slowest rank of a second program waited for its refusal."""
    second = Job(mpirun, program, home, "verify", tag="-second")
    code = second.wait()
    text = second.text()
    if code == 0 or "open: busy" not in text or "locked by process" not in text:
        raise SystemExit(f"kill_test: the second program was not refused\n{text}")
    waited = re.findall(r"open failed after ([0-9.]+) s", text)
    if not waited:
        raise SystemExit(f"kill_test: the second program does not say how long it waited\n{text}")
    return max(float(seconds) for seconds in waited)


def run_second(mpirun, program, home):
    first = Job(mpirun, program, home, "relaxed")
    pids = first.wait_until_writing()
    try:
        # Eight ranks on few cores: the quickest refusal counts.
        seconds = min(refused_after(mpirun, program, home) for _ in range(3))
        say(f"refused after {seconds} s")
        if seconds > 1:
            raise SystemExit("kill_test: the refusal took more than a second")
    finally:
        kill_all(pids)
        first.wait()
    wait_gone(pids)
    verify(mpirun, program, home)


def main():
    mpirun, program, case = sys.argv[1:4]
    home = Path(tempfile.mkdtemp(prefix="quire-kill-"))
    (home / "oracle").mkdir()
    try:
        {"kills": run_kills, "stop": run_stop, "second": run_second}[case](mpirun, program, home)
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
