#!/usr/bin/env python3
"""Keeps what the tests take: tests/seconds.txt, and the table of docs/testing.md made from it.

    test_times.py LOG       takes the seconds from a whole run's build/release/ctest.log
    test_times.py --check   fails if the table of docs/testing.md is not that of tests/seconds.txt
    test_times.py --costs BUILD
                            tells CTest what the tests of a build take that was not tested before, so
                            that it begins with the long ones, and no processor is idle at the end
"""
import collections
import re
import subprocess
import sys
from pathlib import Path

import progress

ROOT = Path(__file__).resolve().parent.parent
SECONDS = ROOT / "tests/seconds.txt"
GUIDE = ROOT / "docs/testing.md"
TABLE = re.compile(r"(<!-- test_times.py -->\n).*?(<!-- end -->\n)", re.S)
HEAD = """# What the tests of each suite take: suite, number of tests, seconds of all. Made by
# scripts/test_times.py, for docs/testing.md and the progress of a test run.
"""
SUITES_SHOWN = 20


def read_log(path):
    """{suite: [number of tests, seconds]} of the tests that passed."""
    sums = collections.defaultdict(lambda: [0, 0.0])
    for line in Path(path).read_text(errors="replace").splitlines():
        test = progress.TESTED.match(line)
        if test and test.group(4) == "Passed":
            row = sums[progress.suite(test.group(3))]
            row[0] += 1
            row[1] += float(re.search(r"([\d.]+) sec", line[test.end(4):]).group(1))
    return sums


def table(rows):
    if not rows:
        return "No whole run of this version is recorded yet.\n"
    count, total = sum(row[0] for row in rows.values()), sum(row[1] for row in rows.values())
    lines = ["| suite | tests | seconds |", "| --- | ---: | ---: |"]
    shown = sorted(rows.items(), key=lambda row: (-row[1][1], row[0]))
    for name, (number, seconds) in shown[:SUITES_SHOWN]:
        lines.append(f"| `{name}` | {number} | {seconds:.0f} |")
    others = shown[SUITES_SHOWN:]
    lines.append(f"| {len(others)} other suites | {sum(row[0] for _, row in others)} | "
                 f"{sum(row[1] for _, row in others):.0f} |")
    lines.append(f"| all | {count} | {total:.0f} |")
    return "\n".join(lines) + "\n"


def write_costs(build):
    """In CTest's own form, which it renews after each run: name, number of runs, seconds."""
    costs = build / "Testing/Temporary/CTestCostData.txt"
    if costs.exists():
        return
    listed = subprocess.run(["ctest", "--test-dir", str(build), "-N"], capture_output=True, text=True,
                            check=True).stdout
    known = progress.Progress(progress.read_seconds(SECONDS), 0)
    names = re.findall(r"^ *Test +#\d+: (\S+)", listed, re.M)
    costs.parent.mkdir(parents=True, exist_ok=True)
    costs.write_text("".join(f"{name} 1 {known.of_test(name):.3f}\n" for name in names) + "---\n")


def main():
    if sys.argv[1] == "--costs":
        return write_costs(Path(sys.argv[2]))
    if sys.argv[1] != "--check":
        rows = read_log(sys.argv[1])
        text = "".join(f"{name} {row[0]} {row[1]:.1f}\n" for name, row in sorted(rows.items()))
        SECONDS.write_text(HEAD + text)
    guide = GUIDE.read_text()
    made = table(progress.read_seconds(SECONDS))
    new = TABLE.sub(lambda found: found[1] + made + found[2], guide)
    if sys.argv[1] != "--check":
        GUIDE.write_text(new)
    elif new != guide:
        sys.exit("docs/testing.md: its table is not that of tests/seconds.txt: run "
                 "scripts/test_times.py build/release/ctest.log")
    return None


if __name__ == "__main__":
    main()
