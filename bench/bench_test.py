#!/usr/bin/env python3
"""Runs one benchmark, small, and checks the shape of what it prints.

    bench_test.py LAUNCHER RANKS quire-bench SUBCOMMAND [arguments]

Every line of standard output is one case: {"bench", "params", "results", "machine", "commit"};
every result is a number, and no rate of operations is zero.
"""
import json
import subprocess
import sys

KEYS = ["bench", "params", "results", "machine", "commit"]


def problems(line, bench, ranks):
    try:
        case = json.loads(line)
    except ValueError:
        return [f"not JSON: {line}"]
    found = []
    if list(case) != KEYS:
        found.append(f"fields {list(case)}")
    if case.get("bench") != bench:
        found.append(f"bench {case.get('bench')}")
    if case["params"].get("ranks", ranks) != ranks:
        found.append(f"ranks {case['params'].get('ranks')}")
    for name, value in case["results"].items():
        if not isinstance(value, (int, float)):
            found.append(f"{name} is {value}")
        elif name.endswith("ops_per_s") and value <= 0:
            found.append(f"{name} is {value}")
    return found


def main():
    launcher, ranks, program, bench, *arguments = sys.argv[1:]
    done = subprocess.run([launcher, "-n", ranks, program, bench, *arguments],
                          stdout=subprocess.PIPE, text=True, check=False)
    lines = done.stdout.splitlines()
    found = [problem for line in lines for problem in problems(line, bench, int(ranks))]
    if done.returncode != 0:
        found.append(f"exit status {done.returncode}")
    if not lines:
        found.append("no case was printed")
    print(f"{len(lines)} cases")
    if found:
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
