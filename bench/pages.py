#!/usr/bin/env python3
"""Writes the tables of README.md and docs/benchmarks from the runs in bench/results.

    pages.py            writes each table between <!-- pages.py: NAME --> and <!-- end -->
    pages.py --check    fails if a table is not what the runs say, or is on no page

A cell is the median over the runs; an empty one was not measured.
"""
import argparse
import re
import sys
from pathlib import Path
from statistics import median

import results
from glance import GLANCE
from goals import GOALS
from page_tables import TABLES

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs/benchmarks").glob("*.md"))]
BLOCK = re.compile(r"<!-- pages\.py: ([\w-]+) -->\n(?:(?!<!--).*\n)*<!-- end -->")


def markdown(head, rows):
    lines = ["|".join(["", *(f" {cell} " if cell != "" else " " for cell in row), ""])
             for row in [head, ["---"] * len(head), *rows]]
    return "\n".join(lines)


def middle(values, form):
    """The median of what was measured, in its form."""
    values = [value for value in values if value is not None]
    return form(median(values)) if values else ""


def table(spec, runs):
    rows = [(*labels, *(middle([spec.cell(run, row, column) for run in runs], column[2])
                        for column in spec.columns)) for labels, row in spec.rows]
    return markdown([*spec.labels, *(column[0] for column in spec.columns)], rows)


def goals(named, runs):
    rows = []
    for goal in named():
        values = [value for value in map(goal.value, runs) if value is not None]
        met = [goal.met_by(value) for value in values]
        said = "yes" if all(met) else "partly" if any(met) else "no"
        spread = f"{goal.form(min(values))} to {goal.form(max(values))}" if len(values) > 1 else ""
        rows.append((goal.text, middle(values, goal.form), spread, said if values else "not run",
                     f"[{goal.page}]({goal.page}.md)"))
    return markdown(["goal", "result", "range", "met", "page"], rows)


def glance(spec, runs):
    rows = [row.cells(runs) for row in spec.rows]
    return markdown(spec.head, [[cells[name] for name in spec.columns] for cells in rows])


def machine(runs):
    """One line for each run: which commit, which machine."""
    rows = []
    for run in runs:
        case = run.cases[0]
        of = case["machine"]
        rows.append((run.name, case["commit"], of["processor"], of["cores"],
                     f"{of['memory_bytes'] / 2**30:.0f} GiB", of["kernel"], len(run.cases)))
    return markdown(["run", "commit", "processor", "cores", "memory", "kernel", "cases"], rows)


def block(name, runs):
    if name == "runs":
        return machine(runs)
    if name in TABLES:
        return table(TABLES[name], runs)
    if name in GOALS:
        return goals(GOALS[name], runs)
    if name in GLANCE:
        return glance(GLANCE[name], runs)
    sys.exit(f"no table has the name {name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if it would")
    check = parser.parse_args().check
    runs, there, stale = results.runs(), set(), []
    for page in PAGES:
        def written(found):
            there.add(found[1])
            return f"<!-- pages.py: {found[1]} -->\n{block(found[1], runs)}\n<!-- end -->"
        before = page.read_text()
        after = BLOCK.sub(written, before)
        if after != before:
            stale.append(page.name)
            if not check:
                page.write_text(after)
    missing = {"runs", *TABLES, *GOALS, *GLANCE} - there
    if missing:
        sys.exit(f"no page has these tables: {', '.join(sorted(missing))}")
    if check and stale:
        sys.exit(f"{', '.join(stale)}: not what bench/results says: run bench/pages.py")


if __name__ == "__main__":
    main()
