#!/usr/bin/env python3
"""Compares a dataset that feed wrote with the dumps of LAMMPS, which this script reads by itself.

    check_dumps.py --quire QUIRE DUMPS DATASET [--count N] [--seed S]

Asks the command QUIRE for the trajectories of N random atoms, for all atoms of the last step, and
for an atom that there is not. Fails where one answer, its rank included, is not what the dumps say.
"""
import argparse
import json
import random
import re
import struct
import subprocess
import sys
from pathlib import Path


def read_dumps(folder):
    """{step: {key: (rank, value)}}; keys and values in hexadecimal, as README.md says they lie."""
    steps = {}
    for path in Path(folder).glob("melt.*.dump"):
        rank, step = map(int, re.fullmatch(r"melt\.(\d+)\.(\d+)\.dump", path.name).groups())
        atoms = steps.setdefault(step, {})
        for line in path.read_text().split("vz", 1)[1].split("\n")[1:-1]:
            atom, *state = line.split()
            key = struct.pack(">Q", int(atom)).hex()
            if key in atoms:
                sys.exit(f"{path}: atom {atom} is also in the dump of rank {atoms[key][0]}")
            atoms[key] = rank, struct.pack("<6d", *map(float, state)).hex()
    return dict(sorted(steps.items()))


def ask(arguments, status=0):
    """The lines that the command prints, as objects."""
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode != status:
        sys.exit(f"{' '.join(map(str, arguments))[:300]}: {done.returncode}\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def compare(what, found, expected):
    if found != expected:
        differ = sorted(set(found) ^ set(expected))[:4]
        sys.exit(f"{what}: {len(found)} values, {len(expected)} in the dumps; differ: {differ}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quire", required=True)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("dumps")
    parser.add_argument("dataset")
    arguments = parser.parse_args()
    steps = read_dumps(arguments.dumps)
    dataset = [arguments.quire, "dataset"]

    last, atoms = list(steps.items())[-1]
    pairs = ask([*dataset, "scan", "--json", "--epoch", str(last), arguments.dataset])
    compare(f"step {last}",
            sorted((pair["key_hex"], pair["rank"], pair["value_hex"]) for pair in pairs),
            sorted((key, *atom) for key, atom in atoms.items()))

    count = min(arguments.count, len(atoms))
    keys = random.Random(arguments.seed).sample(sorted(atoms), count)
    ways = {key: [] for key in keys}
    for value in ask([*dataset, "get", "--json", "--hex", arguments.dataset, *keys]):
        ways[value["key_hex"]].append((value["epoch"], value["rank"], value["value_hex"]))
    for key, way in ways.items():
        compare(f"atom {int(key, 16)}", way,
                [(step, *of_step[key]) for step, of_step in steps.items() if key in of_step])
    ask([*dataset, "get", "--json", "--hex", arguments.dataset, "f" * 16], status=1)

    moved = sum(len({rank for _, rank, _ in way}) > 1 for way in ways.values())
    print(json.dumps({"steps": len(steps), "atoms": len(atoms), "trajectories": len(keys),
                      "of_several_ranks": moved}))


if __name__ == "__main__":
    main()
