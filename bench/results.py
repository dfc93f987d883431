"""The results of quire-bench: each file of bench/results is one run, each line one case."""
import json
from decimal import Decimal
from pathlib import Path
from statistics import median

FOLDER = Path(__file__).resolve().parent / "results"


class Run:
    """One run of bench/all.sh."""

    def __init__(self, path):
        self.name = path.stem
        self.cases = [json.loads(line) for line in path.read_text().splitlines()]

    def value(self, metric, **where):
        """The metric's median over the cases with these parameters ("bench" and "ranks" among
        them); None if there is no such case. A parameter that is None must be missing. Cases that
        differ in another parameter must not be mixed."""
        found = [(params, results[metric]) for params, results in self.matching(where)
                 if metric in results]
        if any(params != found[0][0] for params, _ in found):
            raise SystemExit(f"{metric} of {where}: the cases of {self.name} differ")
        return median([value for _, value in found]) if found else None

    def matching(self, where):
        """Parameters and results of each case that has these parameters."""
        for case in self.cases:
            params = {"bench": case["bench"], **case["params"]}
            if all(params.get(name) == value for name, value in where.items()):
                yield params, case["results"]

    def sum(self, *metrics, **where):
        """The sum of value() of each metric; None if one was not measured."""
        values = [self.value(metric, **where) for metric in metrics]
        return sum(values) if None not in values else None

    def ratio(self, metric, of, to, **where):
        """value(metric) with the parameters `of`, divided by the one with `to`."""
        above, below = self.value(metric, **where, **of), self.value(metric, **where, **to)
        return above / below if above is not None and below else None


def runs(folder=FOLDER):
    found = [Run(path) for path in sorted(folder.glob("*.jsonl"))]
    if not found:
        raise SystemExit(f"{folder} has no results: run scripts/bench")
    return found


def digits(value, count=3):
    """As many significant digits, without an exponent."""
    rounded = float(f"{value:.{count}g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 1000 else f"{Decimal(str(rounded)).normalize():f}"


def of_ranks(count):
    return f"{count} rank" if count == 1 else f"{count} ranks"


def rate(value):
    """Operations per second."""
    for limit, unit in ((1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{digits(value / limit)} {unit}"
    return digits(value)


def times(value):
    return f"{digits(value)}x"


def percent(value):
    return f"{digits(value, 2)} %"


def share(value):
    """A share of 1 as a percentage."""
    return percent(100 * value)


def scaled(factor, unit="", count=3):
    return lambda value: f"{digits(value * factor, count)}{' ' if unit else ''}{unit}"
