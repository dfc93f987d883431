#!/usr/bin/env python3
"""Draws the lines that quire-bench prints: one picture per benchmark, or per figure of one.

    quire-bench engine > results.jsonl
    plot.py results.jsonl [more.jsonl ...] --output FOLDER

Needs matplotlib (Debian: python3-matplotlib).
"""
import argparse
import collections
import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402: the backend is chosen first

# For each benchmark: what one panel holds, what stands along its axis, what is told apart in it,
# what is drawn.
PICTURES = {
    "engine": (["value_bytes"], ["op"], ["engine"], ["ops_per_s"]),
    "basic": (["consistency", "level", "transport"], ["value_bytes"], ["ranks"],
              ["put_ops_per_s", "put_barrier_ops_per_s", "get_ops_per_s"]),
    "workload": (["value_bytes", "transport"], ["update_percent", "protect"], ["ranks"],
                 ["ops_per_s"]),
    "latency": (["active", "ranks"], ["op"], ["transport"], ["median_us", "p99_us"]),
    "idle": (["transport"], ["ranks"], ["state"], ["percent_of_one_core"]),
    "limits": (["storage"], ["what"], [], ["gb_per_s"]),
    "kmer": (["reads", "transport"], ["ranks"], ["way", "combine_bits"], ["kmers_per_s"]),
    "partition-7": (["keys"], ["partitions"], ["format"],
                    ["bits_per_key", "compressed_bits_per_key", "partitions_per_query"]),
    "partition-8": (["residual_percent", "network_mb_per_s"], ["pair_bytes"], ["format"],
                    ["seconds", "slowdown_percent", "sent_bytes_per_pair"]),
    "partition-9": (["residual_percent", "network_mb_per_s"], ["pair_bytes"], ["format"],
                    ["slowdown_percent"]),
    "partition-10": (["ranks", "rank_bytes"], ["pair_bytes"], ["format"],
                     ["first_median_us", "next_median_us", "partitions_per_query"]),
    "stream-5": (["place", "ranks"], ["variable_bytes"], ["method"], ["mb_per_s"]),
    "stream-6": (["place", "variable_bytes"], ["ranks"], ["method"], ["mb_per_s"]),
    "stream-small": (["place", "variables"], ["variable_bytes"], ["method"], ["mb_per_s"]),
    "stream-7": (["changed_percent", "ranks"], ["step"], ["method"], ["snapshot_s"]),
    "stream-8": (["ranks"], ["object_bytes"], ["method"], ["mb_per_s", "us"]),
    "stream-9": (["object_bytes", "piece_bytes"], ["changed_percent"], ["method"],
                 ["stored_percent", "put_s"]),
    "stream-10": (["blocks", "sweeps", "ranks"], ["changed_before_percent", "changed_percent"],
                  ["method"], ["step_s", "snapshot_s", "snapshot_first_s"]),
    "stream-remote": (["ranks"], ["object_bytes"], ["method"], ["mb_per_s"]),
    "stream-wait": (["ranks"], ["object_bytes"], ["method"], ["put_us", "seen_after_call_us"]),
}


def label(params, names):
    words = ("op", "engine", "what", "way", "state", "format", "method", "place")
    return ", ".join(str(params[name]) if name in words else f"{name} {params[name]}"
                     for name in names if params.get(name) is not None)


def draw(bench, cases, folder):
    """One picture: a row of panels for each drawn result."""
    panel_names, axis_names, series_names, results = PICTURES[bench]
    panels = collections.defaultdict(list)
    for case in cases:
        panels[label(case["params"], panel_names)].append(case)
    figure, axes = plt.subplots(len(results), len(panels), squeeze=False,
                                figsize=(5 * len(panels) + 1, 4 * len(results)),
                                layout="constrained")
    for row, result in enumerate(results):
        for column, (title, members) in enumerate(panels.items()):
            draw_panel(axes[row][column], members, (axis_names, series_names, result))
            axes[row][column].set_title(title)
    machine = cases[0]["machine"]
    figure.suptitle(f"{bench}: {machine['processor']}, {machine['cores']} cores, "
                    f"commit {cases[0]['commit']}")
    path = folder / f"{bench}.png"
    figure.savefig(path, dpi=120)
    plt.close(figure)
    print(path)


def draw_panel(axes, cases, what):
    """Bars in groups: a group for each place on the axis, a bar for each series."""
    axis_names, series_names, result = what
    places, series = [], {}
    for case in cases:
        if result not in case["results"]:
            continue
        place = label(case["params"], axis_names)
        if place not in places:
            places.append(place)
        series.setdefault(label(case["params"], series_names), {})[place] = case["results"][result]
    width = 0.8 / max(1, len(series))
    for number, (name, values) in enumerate(series.items()):
        present = [place for place in places if place in values]
        axes.bar([places.index(place) + number * width for place in present],
                 [values[place] for place in present], width, label=name)
    middles = [i + 0.4 - width / 2 for i in range(len(places))]
    axes.set_xticks(middles, places, rotation=30, ha="right")
    axes.set_yscale("log")
    axes.set_ylabel(result)
    if any(series):
        axes.legend()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--output", type=Path, default=Path("."))
    options = parser.parse_args()
    by_bench = collections.defaultdict(list)
    for path in options.files:
        for line in path.read_text().splitlines():
            case = json.loads(line)
            figure = case["params"].get("figure")
            by_bench[case["bench"] + (f"-{figure}" if figure else "")].append(case)
    options.output.mkdir(parents=True, exist_ok=True)
    for bench, cases in by_bench.items():
        if bench in PICTURES:
            draw(bench, cases, options.output)
        else:
            print(f"{bench}: no picture", file=sys.stderr)


if __name__ == "__main__":
    main()
