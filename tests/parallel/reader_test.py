#!/usr/bin/env python3
"""A reader in a process of its own beside jobs that open one database with other numbers of ranks.

    reader_test.py MPIRUN READER_JOB READER_PROGRAM

Two ranks write a database; a reader (reader_program.cpp) reads it over and over; jobs of 3, 1, 2,
... ranks (reader_job.cpp) open it, and write and compact while the pairs move to their new owners.
Exit status 0 only if no job fails and the reader has seen nothing wrong, also where pairs were
moving, and after it was told that it was stale.
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

JOBS = (3, 1, 2, 1, 3)
ROUNDS = 4
TRIES_MAX = 12  # until what should be met was met: who is quick may miss the other
SECONDS = 60  # for a job, and for the reader's last look


def fail(what, output=""):
    raise SystemExit(f"reader_test: {what}\n{output}")


def run_job(mpirun, job, home, ranks):
    process = subprocess.Popen(
        [mpirun, "-n", str(ranks), job, home / "repository", home / "told", str(ROUNDS)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
    try:
        output = process.communicate(timeout=SECONDS)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        fail(f"a job of {ranks} ranks hangs", process.communicate()[0])
    if process.returncode != 0:
        fail(f"a job of {ranks} ranks ended with {process.returncode}", output)


def run(mpirun, job, program, home):
    """How often the reader looked beside moving pairs, and was stale."""
    run_job(mpirun, job, home, 2)
    reader = subprocess.Popen([program, home / "repository/db", home / "told"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        for ranks in JOBS:
            run_job(mpirun, job, home, ranks)
            if reader.poll() is not None:
                break
        with open(home / "told", "a") as told:
            told.write("end\n")
        output = reader.communicate(timeout=SECONDS)[0]
    finally:
        reader.kill()
        reader.wait()
    said = re.search(r"^looks \d+, beside moving pairs (\d+), stale (\d+)$", output, re.M)
    if reader.returncode != 0 or not said:
        fail(f"the reader ended with {reader.returncode}", output)
    print(f"reader_test: {output}", end="")
    return int(said.group(1)), int(said.group(2))


def main():
    moving = stale = 0
    for _ in range(TRIES_MAX):
        home = Path(tempfile.mkdtemp(prefix="quire-reader-"))
        try:
            counts = run(*sys.argv[1:4], home)
        finally:
            shutil.rmtree(home, ignore_errors=True)
        moving, stale = moving + counts[0], stale + counts[1]
        if moving > 0 and stale > 0:
            return
    fail(f"the reader looked {moving} times beside moving pairs and was {stale} times stale")


if __name__ == "__main__":
    main()
