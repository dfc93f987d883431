"""The goals that the project set itself before it measured, and what of a run answers each."""
from page_tables import BUFFERS, CR_CASES, COLD, basic, engine, warm
from results import digits, of_ranks, percent, rate, scaled, share, times


class Goal:
    """`metric` of a run, or a function of it; met if `better` ("<=" or ">=") than the limit."""

    def __init__(self, text, metric, better, limit, form, page, **where):
        self.text, self.metric, self.better, self.limit = text, metric, better, limit
        self.form, self.page, self.where = form, page, where

    def value(self, run):
        if callable(self.metric):
            return self.metric(run)
        return run.value(self.metric, **self.where)

    def met_by(self, value):
        return value >= self.limit if self.better == ">=" else value <= self.limit


def engine_goals():
    limits = {100: [3, 3, 3, 2, 1.5], 4096: [3, 3, 3, 2, 1.5]}
    ops = ["fillrandom", "overwrite", "readrandom", "readmissing", "seekrandom"]
    for size, title in ((100, "100 B"), (4096, "4 KiB")):
        for op, limit in zip(ops, limits[size]):
            yield Goal(f"{title}: {op} >= {limit}x", "ratio_to_best_other", ">=", limit, times,
                       "engine", bench="engine", **engine(op, size, engine="lsm"))

    def of_hardware(storage, what, factor):
        def ratio(run):
            mine = run.value("mb_per_s", bench="engine", engine="lsm", op="fillrandom",
                             value_bytes=1 << 20, storage=storage)
            limit = run.value("gb_per_s", bench="limits", what=what)
            return mine / 1000 / limit * factor if mine and limit else None
        return ratio
    yield Goal("1 MiB: puts >= 0.9x of the device", of_hardware("ext4", "write_device", 1), ">=",
               0.9, times, "engine")
    yield Goal("1 MiB on tmpfs: puts >= 0.9x of a memory copy into fresh pages",
               of_hardware("tmpfs", "mapped_copy_tmpfs", 1), ">=", 0.9, times, "engine")
    for ranks in (1, 2):
        def added(run, ranks=ranks):
            on, off = (run.value("device_bytes_per_user_byte", bench="small", case="log", log=log,
                                 ranks=ranks) for log in ("on", "off"))
            return on - off if on and off else None

        def slower(run, ranks=ranks):
            return run.ratio("puts_per_s", {"log": "on"}, {"log": "off"}, bench="small",
                             case="log", ranks=ranks)
        yield Goal(f"1 MiB, {of_ranks(ranks)}: device bytes per byte that the log adds <= 0.02",
                   added, "<=", 0.02, scaled(1, "", 2), "engine")
        yield Goal(f"1 MiB, {of_ranks(ranks)}: puts with the log on >= 0.95x of those with it off",
                   slower, ">=", 0.95, times, "engine")


# What PapyrusKV's release did on a machine of this kind, in operations per second. quire-bench does
# not run it. If it had a range, these are the fastest cases.
PAPYRUSKV = [
    ("relaxed put, 1 rank", "put_ops_per_s", 8, 1, "relaxed", 1.5, 1.1e6),
    ("relaxed put, 2 ranks", "put_ops_per_s", 8, 2, "relaxed", 1.5, 1.8e6),
    ("put and barrier(SSTABLE), 2 ranks", "put_barrier_ops_per_s", 8, 2, "relaxed", 4, 0.5e6),
    ("get from tables, 1 rank", "get_ops_per_s", 8, 1, "relaxed", 20, 53e3),
    ("get from tables, 2 ranks", "get_ops_per_s", 8, 2, "relaxed", 20, 37e3),
    ("get from tables, 4 ranks", "get_ops_per_s", 8, 4, "relaxed", 100, 2e3),
    ("sequential put, 2 ranks", "put_ops_per_s", 8, 2, "sequential", 4, 116e3),
    ("sequential put, 4 ranks", "put_ops_per_s", 8, 4, "sequential", 50, 2e3),
    ("128 KiB, 2 ranks: put and barrier", "put_barrier_ops_per_s", 131072, 2, "relaxed", 3, 3050),
    ("128 KiB, 2 ranks: get", "get_ops_per_s", 131072, 2, "relaxed", 3, 12970),
]


def parallel_goals():
    for text, metric, size, ranks, mode, limit, peer in PAPYRUSKV:
        count = {"relaxed": 100000 if size == 8 else 1000, "sequential": 10000}[mode]
        where = basic(size, ranks=ranks, consistency=mode, count=count)

        def ratio(run, metric=metric, where=where, peer=peer):
            value = run.value(metric, **where)
            return value / peer if value else None
        yield Goal(f"{text} >= {limit}x of PapyrusKV ({rate(peer)})", ratio, ">=", limit, times,
                   "parallel")
    for ranks in (2, 4):
        yield Goal(f"get out of another rank's MemTable <= 1 µs, {ranks} ranks", "median_us", "<=",
                   1, digits, "parallel", bench="latency", op="get direct", active="one",
                   ranks=ranks)
    for active, title in (("all", "both ranks ask"), ("one", "the owner waits")):
        yield Goal(f"get through the owner's handler <= 5 µs, {title}", "median_us", "<=", 5,
                   digits, "parallel", bench="latency", op="get handler", transport="auto",
                   active=active, ranks=2)

    def to_pingpong(run):
        mine = run.value("median_us", bench="latency", op="get handler", transport="mpi",
                         active="all", ranks=2)
        plain = run.value("median_us", bench="latency", op="pingpong", active="all", ranks=2)
        return mine / plain if mine and plain else None
    yield Goal("get through MPI <= 1.5x of a plain ping-pong", to_pingpong, "<=", 1.5, times,
               "parallel")
    for transport, title in (("auto", "shared memory"), ("mpi", "MPI")):
        yield Goal(f"4 idle ranks, {title}: at most 5 % of one core", "percent_of_one_core", "<=",
                   5, percent, "parallel", bench="idle", ranks=4, transport=transport,
                   state="waiting")
    for ranks in (1, 2, 4):
        yield Goal(f"counting k-mers, {of_ranks(ranks)} >= 0.33x of MPI_Alltoallv",
                   "ratio_to_alltoallv", ">=", 1 / 3, times, "parallel", bench="kmer", way="quire",
                   combine_bits=20, ranks=ranks)
    for search in ("sequential", "binary", "tagged"):
        yield Goal(f"gets of 4 KiB with the storage group >= 1.3x, {search} search",
                   "ratio_to_no_group", ">=", 1.3, times, "parallel", bench="group", group=True,
                   search=search, ranks=2)

    def held(run):
        where = basic(4096, ranks=2, count=320000)
        peak, limit = (run.value(f"memory_{name}_bytes", **where)
                       for name in ("held_peak", "limit"))
        return peak / limit if peak and limit else None
    yield Goal("memory held while ten times the limit is written <= the limit", held, "<=", 1,
               share, "parallel")


def persistence_goals():
    for title, case in CR_CASES:
        for what in ("checkpoint", "restart"):
            yield Goal(f"{what}, {title} >= 0.85x of `cp` and `sync`", "speed_to_cp_sync", ">=",
                       0.85, times, "persistence", bench="cr", what=what, **warm(case))
    for what in ("checkpoint", "restart"):
        yield Goal(f"{what}, {COLD[0]} >= 0.85x of `cp` and `sync`", "speed_to_cp_sync", ">=", 0.85,
                   times, "persistence", bench="cr", what=what, **COLD[1])
        yield Goal(f"{what}, {CR_CASES[1][0]} >= 0.85x of `cp` alone", "speed_to_cp", ">=", 0.85,
                   times, "persistence", bench="cr", what=what, **warm(CR_CASES[1][1]))
    for title, case in CR_CASES[:3]:
        yield Goal(f"second checkpoint, 1 % changed, {title}: < 5 % of the first's bytes",
                   "copied_share", "<=", 0.05, share, "persistence", bench="cr",
                   what="checkpoint_changed", **warm(case))
        yield Goal(f"second checkpoint, 1 % changed, {title}: < 5 % of the first's time",
                   "ratio_to_first", "<=", 0.05, share, "persistence", bench="cr",
                   what="checkpoint_changed", **warm(case))
    for what, title in (("elastic_repository", "fewer ranks"), ("elastic_more", "more ranks")):
        def first_get(run, what=what):
            return run.sum("open_seconds", "first_get_seconds", bench="cr", what=what,
                           **warm(CR_CASES[2][1]))
        yield Goal(f"first get at 10 million keys <= 100 ms, {title}", first_get, "<=", 0.1,
                   scaled(1000), "persistence")

    def by_size(run):
        return run.ratio("seconds", {"what": "open-100"}, {"what": "open-1"}, bench="cr",
                         **warm(CR_CASES[2][1]))
    yield Goal("open of 10 million pairs <= 1.5x of the open of 0.1 million", by_size, "<=", 1.5,
               times, "persistence")
    for ranks in (1, 2):
        yield Goal(f"open a database of four pairs <= 10 ms, {of_ranks(ranks)}", "open_ms", "<=",
                   10, digits, "persistence", bench="small", case="open", ranks=ranks)


def dataset_goals():
    def less_slow(name, than):
        def ratio(run):
            return run.ratio("slowdown_percent", {"format": than}, {"format": name},
                             bench="partition", figure=8, residual_percent=50,
                             buffer_bytes=BUFFERS[1][0], network_mb_per_s=10.0)
        return ratio
    for name in ("ribbon", "cuckoo"):
        for than, title, limit in (("pointer", "pointers", 2), ("base", "whole pairs", 3)):
            yield Goal(f"64 bytes, half a link: {name} >= {limit}x less slow than {title}",
                       less_slow(name, than), ">=", limit, times, "dataset")
    memory = {"bench": "partition", "figure": 8, "buffer_bytes": 268435456, "format": "ribbon",
              "ranks": 2, "network_mb_per_s": 0.0}
    yield Goal("64 bytes in memory: 5 M puts per second and rank", "put_ops_per_s", ">=", 5e6, rate,
               "dataset", **memory)
    yield Goal("64 bytes in memory, with tables and maps: 1.5 M puts per second and rank",
               "epoch_ops_per_s", ">=", 1.5e6, rate, "dataset", **memory)
    large = {"bench": "partition", "figure": 7, "format": "ribbon", "partitions": 1 << 24}
    yield Goal("ribbon of 2^24 ranks <= 1.03 log2 N bits",
               lambda run: (run.value("bits_per_key", **large) or 0) / 24 or None, "<=", 1.03,
               scaled(1, "", 4), "dataset")
    yield Goal("ribbon: 1 rank per question", "partitions_per_query", "<=", 1, digits, "dataset",
               **large)
    yield Goal("ribbon of 2^24 ranks: built in 250 ns a key", "build_ns", "<=", 250, digits,
               "dataset", **large)
    yield Goal("ribbon of 2^24 ranks: asked in 100 ns, in a reader's order", "ordered_query_ns",
               "<=", 100, digits, "dataset", **large)
    yield Goal("ribbon of 2^24 ranks: asked in 100 ns, at random", "query_ns", "<=", 100, digits,
               "dataset", **large)


def stream_goals():
    for size, title in ((1 << 20, "1 MiB"), (10 << 20, "10 MiB")):
        yield Goal(f"put of {title} >= 0.9x of memcpy to the same memory", "speed_to_memcpy", ">=",
                   0.9, times, "stream", bench="stream", figure="5", method="stream",
                   variable_bytes=size)
    yield Goal("put of 32 KiB >= 2.6x of files on tmpfs", "speed_to_tmpfs", ">=", 2.6, times,
               "stream", bench="stream", figure="5", method="stream", variable_bytes=32768)
    for size, title in ((262144, "256 KiB"), (32768, "32 KiB"), (4096, "4 KiB"), (1024, "1 KiB")):
        yield Goal(f"snapshot of 1,000 variables of {title} >= 0.8x of one memcpy",
                   "speed_to_memcpy-whole", ">=", 0.8, times, "stream", bench="stream",
                   figure="small", method="stream-snapshot", variable_bytes=size)
    steps = {"bench": "stream", "figure": "10"}
    yield Goal("step with deltas, 10 % change <= 1.25x of one that stores nothing", "times_none",
               "<=", 1.25, times, "stream", method="delta", changed_percent=10.0, **steps)
    for before, title in ((100.0, "all changes"), (0.0, "a mesh that rested changes all")):
        def to_full(run, before=before):
            return run.ratio("snapshot_s", {"method": "delta"}, {"method": "full"},
                             changed_percent=100.0, changed_before_percent=before, **steps)
        yield Goal(f"delta snapshot <= 1.1x of a full one, {title}", to_full, "<=", 1.1, times,
                   "stream")
    yield Goal("a sleeping reader sees a version <= 50 µs after the call of put",
               "seen_after_call_us", "<=", 50, digits, "stream", bench="stream", figure="wait",
               object_bytes=4096)
    yield Goal("a view of 400 MiB <= 2 µs", "us", "<=", 2, digits, "stream", bench="stream",
               figure="8", method="view", object_bytes=400 << 20)
    for size, title in ((128 << 20, "128 MiB"), (16 << 20, "16 MiB"), (1 << 20, "1 MiB"),
                        (65536, "64 KiB")):
        yield Goal(f"remote get of {title} >= 0.8x of TCP alone", "speed_to_tcp", ">=", 0.8, times,
                   "stream", bench="stream", figure="remote", method="remote", object_bytes=size)


GOALS = {"goals-engine": engine_goals, "goals-parallel": parallel_goals,
         "goals-persistence": persistence_goals, "goals-dataset": dataset_goals,
         "goals-stream": stream_goals}
