#!/usr/bin/env python3
"""Prints what quire-bench wrote as the Markdown tables of docs/benchmarks: one per figure.

    table.py results.jsonl [more.jsonl ...] [--bench NAME]

A parameter that is the same in all cases of a benchmark is said once, above its table.
"""
import argparse
from pathlib import Path

from results import Run, rate


def text_of(value):
    """A number with three significant digits, and M and k; anything else as it is."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return rate(value) if is_number else str(value)


def names_of(cases, part):
    """The fields of one part over all cases, in the order of their first appearance."""
    return list(dict.fromkeys(name for case in cases for name in case[part]))


def table(bench, cases):
    params = names_of(cases, "params")
    same = {name: cases[0]["params"].get(name) for name in params
            if len({str(case["params"].get(name)) for case in cases}) == 1}
    differing = [name for name in params if name not in same]
    results = names_of(cases, "results")
    lines = [f"### {bench}", ", ".join(f"{name} {value}" for name, value in same.items()), "",
             "| " + " | ".join(differing + results) + " |",
             "| " + " | ".join("---" for _ in differing + results) + " |"]
    for case in cases:
        cells = [str(case["params"].get(name, "")) for name in differing]
        cells += [text_of(case["results"].get(name, "")) for name in results]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", nargs="+", type=Path)
    parser.add_argument("--bench", help="this benchmark alone")
    arguments = parser.parse_args()
    groups = {}
    for path in arguments.results:
        for case in Run(path).cases:
            groups.setdefault((case["bench"], case["params"].get("figure")), []).append(case)
    for (bench, _), cases in groups.items():
        if arguments.bench in (None, bench):
            print(table(bench, cases), end="\n\n")


if __name__ == "__main__":
    main()
