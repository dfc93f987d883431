#!/usr/bin/env python3
"""Tests of feed and check_dumps.py: lammps_test.py BUILD_DIR LAUNCHER CASE

The cases: melt, by LAMMPS itself (skipped where it is not there); made_up, of dumps made from
random numbers.
"""
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
SKIPPED = 77
RANKS, ATOMS, STEPS = 3, 300, (0, 5, 10, 100)
HEADER = """ITEM: TIMESTEP
{step}
ITEM: NUMBER OF ATOMS
{count}
ITEM: BOX BOUNDS pp pp pp
0.0 1.0
0.0 1.0
0.0 1.0
ITEM: ATOMS id x y z vx vy vz
"""


def check(is_true, what):
    if not is_true:
        sys.exit("FAILED: " + what)


def run(*command):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)


def case_melt(build, _launcher, _folder):
    done = run(HERE / "demo.sh", build)
    if done.returncode == SKIPPED:
        print(done.stdout.splitlines()[-1])
        sys.exit(SKIPPED)
    check(done.returncode == 0,
          f"demo.sh: {done.returncode} {done.stdout[-2000:]} {done.stderr[-2000:]}")
    result = json.loads(done.stdout.splitlines()[-1])
    print(result)
    moved = result.pop("of_several_ranks")
    check(result == {"steps": 11, "atoms": 4000, "trajectories": 200}, f"{result}")
    check(moved > 0, "no atom that was asked for changed its rank")


def make_dumps(folder):
    """Each step's atoms at random ranks and places; the rank of the middle has none."""
    rng = random.Random(5)
    for step in STEPS:
        lines = {rank: [] for rank in range(RANKS)}
        for atom in rng.sample(range(1, ATOMS + 1), ATOMS):
            state = [rng.uniform(-2, 2) for _ in range(5)] + [0.0]
            lines[rng.choice((0, RANKS - 1))].append(f"{atom} {' '.join(map(repr, state))} \n")
        for rank, atoms in lines.items():
            text = HEADER.format(step=step, count=len(atoms)) + "".join(atoms)
            (folder / f"melt.{rank}.{step}.dump").write_text(text)


def case_made_up(build, launcher, folder):
    """Each format gives back what dumps hold; a dump that then differs in one number is noticed."""
    dumps, repository = folder / "dumps", folder / "repository"
    dumps.mkdir()
    make_dumps(dumps)

    def feed(ranks, *arguments):
        return run(launcher, "-n", ranks, build / "examples/lammps/feed", dumps,
                   "--repository", repository, *arguments)

    def compare(dataset):
        return run(HERE / "check_dumps.py", "--quire", build / "tools/quire/quire",
                   "--count", ATOMS, dumps, repository / dataset)

    for dataset_format in ("base", "pointer", "bloom", "cuckoo", "ribbon"):
        fed = feed(RANKS, "--format", dataset_format, "--dataset", dataset_format)
        check(fed.returncode == 0, f"{dataset_format}: {fed.stderr[-2000:]}")
        done = compare(dataset_format)
        check(done.returncode == 0, f"{dataset_format}: {done.stdout}{done.stderr[-2000:]}")
        check(json.loads(done.stdout)["trajectories"] == ATOMS, done.stdout)

    for ranks, says in ((RANKS - 1, "melt.2.0.dump is there"),
                        (RANKS + 1, "melt.3.0.dump is not there")):
        fed = feed(ranks, "--dataset", "other")
        check(fed.returncode != 0 and says in fed.stderr, f"{ranks} ranks: {fed.stderr[-2000:]}")

    for step, notices in ((100, "step 100"), (5, "atom ")):
        path = dumps / f"melt.0.{step}.dump"
        text = path.read_text()
        path.write_text(text[:-3] + "1 \n")  # the last velocity
        done = compare("ribbon")
        check(done.returncode != 0 and done.stderr.startswith(notices),
              f"{step}: {done.stderr[-2000:]}")
        path.write_text(text)
    (dumps / "melt.2.10.dump").rename(dumps / "melt.2.10")
    fed = feed(RANKS, "--dataset", "another")
    check(fed.returncode != 0 and "melt.2.10.dump" in fed.stderr, f"no dump: {fed.stderr[-2000:]}")


def main():
    build, launcher, case = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="lammps-test-") as folder:
        globals()["case_" + case](Path(build), launcher, Path(folder))


if __name__ == "__main__":
    main()
