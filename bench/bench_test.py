#!/usr/bin/env python3
"""Runs one benchmark, small, and checks the shape of what it prints.

    bench_test.py LAUNCHER RANKS quire-bench SUBCOMMAND [arguments]

Every line of standard output is one case: {"bench", "params", "results", "machine", "commit"};
every result is a number, and no rate of operations is zero. Of figures 5 and 10 of streams all
methods are there, with what others read of them.
"""
import json
import subprocess
import sys

KEYS = ["bench", "params", "results", "machine", "commit"]


# Of a figure of streams: its methods, parameters and results that have to be there.
STREAM_FIGURES = {
    "5": ({"stream", "memcpy", "memcpy-flush", "tmpfs", "file", "file-sync"},
          {"method", "variable_bytes"}, {"mb_per_s"}),
    "10": ({"none", "full", "delta"}, {"method", "changed_percent"}, {"step_s"}),
}


def missing_of_figures(cases, chosen):
    """What a figure lacks: methods, unless some were chosen, and fields of its cases."""
    found = []
    for figure, (methods, params, results) in STREAM_FIGURES.items():
        of = [case for case in cases if case["params"].get("figure") == figure]
        there = {case["params"].get("method") for case in of}
        if of and not chosen and not methods <= there:
            found.append(f"figure {figure} has no {sorted(methods - there)}")
        for case in of:
            lacks = (params - set(case["params"])) | (results - set(case["results"]))
            if lacks:
                found.append(f"figure {figure}, {case['params'].get('method')}: no {sorted(lacks)}")
    return found


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
    if bench == "stream" and not found:
        found = missing_of_figures([json.loads(line) for line in lines], "--methods" in arguments)
    if done.returncode != 0:
        found.append(f"exit status {done.returncode}")
    if not lines:
        found.append("no case was printed")
    print(f"{len(lines)} cases")
    if found:
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
