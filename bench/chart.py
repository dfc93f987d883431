#!/usr/bin/env python3
"""Draws the table of docs/benchmarks/README.md as docs/benchmarks/overview.svg.

    chart.py            writes the picture
    chart.py --check    fails if the picture is not that of the table

A bar is the ratio of Quire to the best peer, on a logarithmic axis. A row without one is left out.
"""
import argparse
import math
import sys
from html import escape
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "docs/benchmarks"
HEAD = "| workload | Quire | best peer | ratio | command |"
TICKS = (0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200)
WIDTH, LEFT, RIGHT, TOP, ROW = 880, 275, 160, 44, 28
INK, GRID, FASTER, SLOWER = "#24292f", "#d0d7de", "#2f6fb5", "#b5532f"


def rows(page):
    """Of each row of the table with a ratio: workload, name of the peer, ratio."""
    lines = page.read_text().splitlines()
    for line in lines[lines.index(HEAD) + 2:]:
        if not line.startswith("|"):
            return
        workload, _, peer, ratio, _ = (c.strip().replace("`", "") for c in line[1:-1].split("|"))
        if ratio:  # else it was not measured
            yield workload, peer.partition(":")[0], ratio


def place(ratio):
    """The x of a ratio on the axis."""
    if not TICKS[0] <= ratio <= TICKS[-1]:
        sys.exit(f"the axis of the chart has no room for {ratio:g}: change TICKS")
    low, high = math.log(TICKS[0]), math.log(TICKS[-1])
    return round(LEFT + (math.log(ratio) - low) / (high - low) * (WIDTH - LEFT - RIGHT), 1)


def text(x, y, anchor, words):
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{escape(words)}</text>'


def bar(begin, end, y, look):
    width = round(abs(end - begin), 1)
    return f'<rect x="{min(begin, end)}" y="{y}" width="{width}" height="{ROW - 10}" {look}/>'


def picture(table):
    # The light background is the picture's own, so that it is readable on dark pages too.
    bottom = TOP + ROW * len(table)
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 34}" '
           f'font-family="sans-serif" font-size="13" fill="{INK}">',
           f'<rect width="{WIDTH}" height="{bottom + 34}" rx="8" fill="#f6f8fa"/>',
           text(LEFT, 24, "start", "Quire / best peer (logarithmic; right of 1: Quire is faster)")]
    for tick in TICKS:
        look = f'stroke="{INK}" stroke-width="2"' if tick == 1 else f'stroke="{GRID}"'
        svg += [f'<path d="M{place(tick)} {TOP - 8}V{bottom}" {look}/>',
                text(place(tick), bottom + 20, "middle", f"{tick:g}")]
    for i, (workload, peer, ratio) in enumerate(table):
        end, y = place(float(ratio)), TOP + ROW * i
        color = FASTER if float(ratio) >= 1 else SLOWER
        svg += [text(LEFT - 12, y + 13, "end", workload),
                bar(place(1), end, y, f'fill="{color}"'),
                text(max(place(1), end) + 6, y + 13, "start", f"{ratio}, {peer}")]
    return "\n".join(svg + ["</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if it would")
    check = parser.parse_args().check
    target, drawn = FOLDER / "overview.svg", picture(list(rows(FOLDER / "README.md")))
    if not check:
        target.write_text(drawn)
    elif not target.exists() or target.read_text() != drawn:
        sys.exit(f"{target} is not the picture of the table in README.md: run bench/chart.py")


if __name__ == "__main__":
    main()
