#!/usr/bin/env python3
"""Tests of particles and trajectory, as whole programs:

    particles_test.py PARTICLES TRAJECTORY LAUNCHER CASE

LAUNCHER -n RANKS PROGRAM ... starts it in parallel. The cases: each format of a dataset, errors,
kills, demo. Below QUIRE_TEST_SCALE=1 a case tries some of its combinations. The random choices
follow from QUIRE_KILL_SEED (printed).
"""
import itertools
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PARTICLES, STEPS, EVERY = 500, 6, 2
FORMATS = ("base", "pointer", "bloom", "cuckoo", "ribbon")
# So small that an epoch is several tables, and messages are many.
SMALL = {"QUIRE_DATASET_TABLE_BYTES": "64KiB", "QUIRE_DATASET_PARTITION_BYTES": "64KiB",
         "QUIRE_DATASET_BATCH_BYTES": "1KiB"}


def check(is_true, what):
    if not is_true:
        sys.exit("FAILED: " + what)


class Programs:
    def __init__(self, particles, trajectory, launcher, folder):
        self.particles, self.trajectory, self.launcher = particles, trajectory, launcher
        self.repository = folder

    def write(self, ranks, *arguments, environment=None):
        command = [self.launcher, "-n", str(ranks), self.particles, "--repository", self.repository]
        return subprocess.run([*command, *arguments], capture_output=True, text=True, check=False,
                              env={**os.environ, **(environment or {})})

    def read(self, command, dataset, *arguments):
        """The reader is one process, started without the launcher."""
        directory = f"{self.repository}/{dataset}"
        return subprocess.run([self.trajectory, command, directory, *arguments],
                              capture_output=True, text=True, check=False)


def result_of(done):
    check(done.returncode == 0, f"{' '.join(map(str, done.args))}: {done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def check_way(text, ranks, what):
    """A printed trajectory obeys the rules of the README, reckoned here by themselves."""
    lines = [line.split("\t") for line in text.splitlines()[1:]]
    check([int(line[0]) for line in lines] == list(range(STEPS + 1)), f"{what}: epochs of {lines}")
    before = None
    for _, rank, *numbers in lines:
        state = list(map(float, numbers))
        check(int(rank) == math.floor(state[0]), f"{what}: rank {rank} has x = {state[0]}")
        for axis, length in enumerate((ranks, 1, 1)):
            check(0 <= state[axis] < length, f"{what}: {state} is outside")
            if before:
                turns = (before[axis] + state[3 + axis] - state[axis]) / length
                check(abs(turns - round(turns)) < 1e-9, f"{what}: from {before} to {state}")
        before = state


def check_one(programs, dataset_format, ranks, movers):
    what = f"{dataset_format}, {ranks} ranks, movers {movers}"
    name = f"{ranks}-{movers}"
    options = ["--dataset", name, "--format", dataset_format, "--movers", str(movers),
               "--particles", str(PARTICLES), "--steps", str(STEPS), "--padding", "150"]
    written = result_of(programs.write(ranks, *options, environment=SMALL))
    epochs, total = STEPS + 1, PARTICLES * ranks
    expected = {"ranks": ranks, "particles": total, "steps": STEPS, "epochs": epochs,
                "format": dataset_format, "pairs": epochs * (total + 1)}
    check({key: written[key] for key in expected} == expected, f"{what}: {written}")
    check(written["pair_bytes"] > epochs * total * 206, f"{what}: {written}")
    share = movers if ranks > 1 else 0
    near = 0 if movers in (0, 1) else 0.03
    check(abs(written["share_moved"] - share) <= near, f"{what}: {written}")
    read = result_of(programs.read("check", name, "--count", str(total)))
    check(read["trajectories"] == total and read["queries"] == total * epochs, f"{what}: {read}")
    asked, wrong = read["partitions_per_query"], read["false_candidates_per_query"]
    check(abs(asked - wrong - 1) < 1e-9 and read["bytes_read_per_query"] > 0, f"{what}: {read}")
    if ranks == 1 or dataset_format in ("base", "pointer"):
        check(wrong == 0, f"{what}: {read}")
    check_way(programs.read("print", name, str(total - 1)).stdout, ranks, what)


def some(choices, least):
    """All of them in a full test, in a shorter one as many as its scale says, drawn at random."""
    scale = float(os.environ.get("QUIRE_TEST_SCALE") or 1)
    count = max(least, round(len(choices) * scale))
    if count >= len(choices):
        return choices
    return random.sample(choices, count)


def case_formats(programs, dataset_format):
    for ranks, movers in some(list(itertools.product((1, 2, 3, 4), (0, 0.1, 1))), 4):
        check_one(programs, dataset_format, ranks, movers)


def case_errors(programs):
    """What cannot be done is said, and nothing else happens."""
    few = ["--particles", "50", "--steps", "6", "--every", "3"]
    check(result_of(programs.write(2, *few))["epochs"] == 3, "epochs 0, 3 and 6")
    for says, done in (
            ("has epochs of another run", programs.write(2, *few)),
            ('has the format "ribbon", not "base"', programs.write(2, *few, "--format", "base")),
            ("dataset_format", programs.write(2, *few, "--format", "fastest")),
            ("--movers", programs.write(2, *few, "--movers", "1.5")),
            ("no epoch has a particle 100", programs.read("print", "steps", "100")),
            (programs.repository, programs.read("check", "absent"))):
        check(done.returncode != 0 and says in done.stderr + done.stdout,
              f"{says}: {done.returncode} {done.stdout[-500:]} {done.stderr[-1000:]}")
    check(result_of(programs.read("check", "steps"))["trajectories"] == 100, "it is as it was")


def ranks_of(repository):
    """The processes of particles that write there."""
    pids = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended
        if words[0].endswith(b"/particles") and repository.encode() in words:
            pids.append(int(place.name))
    return pids


def kill_some(repository, everybody):
    pids = ranks_of(repository)
    for pid in pids if everybody else random.sample(pids, min(1, len(pids))):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    return len(pids)


def case_kills(programs):
    """Ranks are killed amid epochs: those that are complete are whole, and it can be written on."""
    for life, dataset_format in some(list(enumerate(FORMATS)), 2):
        ranks, what = life % 4 + 1, dataset_format
        name = dataset_format
        command = [programs.launcher, "-n", str(ranks), programs.particles, "--repository",
                   programs.repository, "--dataset", name, "--format", dataset_format,
                   "--particles", "2000", "--steps", "1000000", "--movers", "0.3"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env={**os.environ, **SMALL}) as job:
            deadline = time.monotonic() + 60
            # A dataset has its list of epochs before it has the first epoch, so its reader is asked.
            while programs.read("check", name, "--count", "1").returncode != 0:
                check(time.monotonic() < deadline and job.poll() is None, f"{what}: no epoch")
                time.sleep(0.01)
            time.sleep(random.random() / 2)
            check(kill_some(programs.repository, life % 2 == 0) == ranks, f"{what}: not all ran")
            check(job.wait(120) != 0, f"{what}: it came to its end")
        read = result_of(programs.read("check", name, "--count", "300"))
        check(read["epochs"] >= 1 and read["queries"] == read["trajectories"] * read["epochs"],
              f"{what}: {read}")
        again = programs.write(ranks, "--dataset", name, "--format", dataset_format, "--steps", "1")
        check("has epochs of another run" in again.stderr, f"{what}: {again.stderr[-1000:]}")


def case_demo(programs):
    build = Path(programs.particles).resolve().parents[2]
    done = subprocess.run([str(Path(__file__).with_name("demo.sh")), str(build)], text=True,
                          capture_output=True, check=False)
    check(done.returncode == 0, f"demo.sh: {done.returncode} {done.stderr[-2000:]}")
    print(done.stdout)
    written, read = (json.loads(line) for line in done.stdout.splitlines())
    check(written["pairs"] == 21 * 80001, f"{written}")
    check(abs(written["share_moved"] - 0.1) < 0.01, f"{written}")
    check(read["trajectories"] == 1000 and read["queries"] == 21000, f"{read}")


def main():
    particles, trajectory, launcher, case = sys.argv[1:]
    seed = int(os.environ.get("QUIRE_KILL_SEED") or random.randrange(1000))
    print(f"QUIRE_KILL_SEED={seed}")
    random.seed(seed)
    with tempfile.TemporaryDirectory(prefix="particles-test-") as folder:
        programs = Programs(particles, trajectory, launcher, folder)
        if case in FORMATS:
            case_formats(programs, case)
        else:
            globals()["case_" + case](programs)


if __name__ == "__main__":
    main()
