"""The tables of docs/benchmarks: which cases of a run their cells show. pages.py writes them."""
from results import digits, percent, rate, scaled, share, times


class Table:
    """Cells are metrics of cases. `rows`: labels, and the parameters of their cases; `columns`:
    title, metric, form, and the parameters that tell it from the others. A metric may be a function
    of a run and the parameters of a cell."""

    def __init__(self, labels, rows, columns, **where):
        self.labels, self.rows, self.columns, self.where = labels, rows, columns, where

    def cell(self, run, row, column):
        _, metric, _, of_column = column
        where = {**self.where, **row, **of_column}
        return metric(run, where) if callable(metric) else run.value(metric, **where)


def bytes_of(size):
    """A size as the pages write it."""
    for limit, unit in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= limit:
            return f"{size // limit} {unit}"
    return f"{size} B"


def columns(metric, form, name, values):
    """A column for each value of a parameter: of its title."""
    return [(title, metric, form, {name: value}) for value, title in values]


def engine(op, size, **more):
    return {"op": op, "value_bytes": size, "storage": "ext4", "verify_checksums": True, **more}


ENGINES = [("lsm", "Quire"), ("leveldb", "LevelDB"), ("rocksdb", "RocksDB"),
           ("rocksdb-blob", "RocksDB, blobs")]
ENGINE_OPS = {100: ["fillrandom", "overwrite", "readrandom", "readmissing", "seekrandom",
                    "readwhilewriting"],
              4096: ["fillrandom", "overwrite", "readrandom", "readmissing", "seekrandom",
                     "readwhilewriting"],
              1 << 20: ["fillrandom", "overwrite", "readrandom"]}
OPS_TITLES = {"seekrandom": "seekrandom, 50 nexts"}


def space(run, where):
    """Bytes on the device after all values were overwritten, as a multiple of the live ones."""
    written = run.value("space_bytes", **where)
    counts = [params["count"] for params, _ in run.matching(where)]
    return written / (counts[0] * (16 + where["value_bytes"])) if written else None


ENGINE = {
    "engine-rates": Table(
        ["operation", "value"],
        [((OPS_TITLES.get(op, op), bytes_of(size)), engine(op, size))
         for size, ops in ENGINE_OPS.items() for op in ops],
        columns("ops_per_s", rate, "engine", ENGINES), bench="engine"),
    "engine-bytes": Table(
        ["bytes written to files per byte put", "value"],
        [((op, bytes_of(size)), engine(op, size))
         for size in ENGINE_OPS for op in ("fillrandom", "overwrite")],
        columns("file_bytes_per_user_byte", digits, "engine", ENGINES), bench="engine"),
    "engine-space": Table(
        ["space after overwrite / live bytes", "value"],
        [(("all engines", bytes_of(size)), engine("overwrite", size)) for size in ENGINE_OPS],
        columns(space, scaled(1, "", 2), "engine", ENGINES), bench="engine"),
    "engine-hardware": Table(
        ["writes of 1 MiB"],
        [(("Quire on ext4, into the page cache",),
          engine("fillrandom", 1 << 20, bench="engine", engine="lsm")),
         (("the device",), {"bench": "limits", "what": "write_device"}),
         (("Quire on tmpfs",), {"bench": "engine", "engine": "lsm", "op": "fillrandom",
                                "value_bytes": 1 << 20, "storage": "tmpfs"}),
         (("memory copy into fresh pages of tmpfs",),
          {"bench": "limits", "what": "mapped_copy_tmpfs"}),
         (("memory copy into present pages of tmpfs",),
          {"bench": "limits", "what": "mapped_copy_tmpfs_touched"})],
        [("GB/s", lambda run, where: run.value("gb_per_s", **where) or
          (run.value("mb_per_s", **where) or 0) / 1000 or None, digits, {})]),
    "engine-log": Table(
        ["ranks"],
        [((ranks,), {"ranks": ranks}) for ranks in (1, 2)],
        [("device bytes per byte, log off", "device_bytes_per_user_byte",
          scaled(1, "", 5), {"log": "off"}),
         ("log on", "device_bytes_per_user_byte", scaled(1, "", 5), {"log": "on"}),
         ("puts, log on / log off",
          lambda run, where: run.ratio("puts_per_s", {"log": "on"}, {"log": "off"}, **where), times,
          {})],
        bench="small", case="log"),
}


def basic(size, **more):
    return {"bench": "basic", "value_bytes": size, "storage": "ext4", "transport": "auto",
            "consistency": "relaxed", "search": "tagged", "direct_reads": True, "threads": 1,
            **more}


BASIC_COUNT = {8: 100000, 1024: 100000, 131072: 1000}
MDHIM = [(8, 10000), (131072, 1000)]
PARALLEL = {
    "parallel-rates": Table(
        ["ranks", "value"],
        [((ranks, bytes_of(size)), basic(size, ranks=ranks, count=count))
         for size, count in BASIC_COUNT.items() for ranks in (1, 2, 4)] +
        [((f"{ranks}, sequential", "8 B"), basic(8, ranks=ranks, consistency="sequential"))
         for ranks in (2, 4)],
        [("put", "put_ops_per_s", rate, {}), ("put and barrier", "put_barrier_ops_per_s", rate, {}),
         ("get", "get_ops_per_s", rate, {})]),
    "parallel-threads": Table(
        ["threads"],
        [((threads,), basic(8, ranks=1, count=1000000, threads=threads)) for threads in (1, 2)],
        [("puts", "put_ops_per_s", rate, {}), ("gets", "get_ops_per_s", rate, {})]),
    "parallel-search": Table(
        ["search"],
        [((search,), basic(1024, ranks=2, count=5000, search=search))
         for search in ("sequential", "binary", "tagged")],
        [("by message", "get_ops_per_s", rate, {"direct_reads": False}),
         ("directly", "get_ops_per_s", rate, {"direct_reads": True})]),
    "parallel-protection": Table(
        ["transport"],
        [((title,), {"transport": transport, "ranks": 2})
         for transport, title in (("auto", "shared memory"), ("mpi", "MPI"))],
        [("50 % updates", "ops_per_s", rate, {"update_percent": 50}),
         ("5 % updates", "ops_per_s", rate, {"update_percent": 5}),
         ("no updates, protected against writing", "ops_per_s", rate,
          {"update_percent": 0, "protect": True})],
        bench="workload"),
    "parallel-latency": Table(
        ["operation"],
        [((title,), {"op": op, "transport": transport, "active": active})
         for title, op, transport, active in (
             ("get out of the owner's MemTable, directly", "get direct", "auto", "one"),
             ("get by message, shared memory", "get handler", "auto", "one"),
             ("get by message, shared memory, all ask", "get handler", "auto", "all"),
             ("sequential put, shared memory", "put sequential", "auto", "one"),
             ("get by message, MPI forced", "get handler", "mpi", "one"),
             ("sequential put, MPI forced", "put sequential", "mpi", "one"),
             ("plain MPI ping-pong", "pingpong", "mpi alone", "all"))],
        [(f"{ranks} ranks: {title}", metric, scaled(1, "", 2), {"ranks": ranks})
         for ranks in (2, 4) for title, metric in (("median [µs]", "median_us"),
                                                   ("99th percentile [µs]", "p99_us"))],
        bench="latency"),
    "parallel-kmer": Table(
        ["program"],
        [(("Quire",), {"way": "quire", "combine_bits": 20}),
         (("Quire, one update per k-mer without combining",), {"way": "quire", "combine_bits": 0}),
         (("MPI_Alltoallv into a local hash table",), {"way": "alltoallv"})],
        [(f"ranks: {ranks}", "kmers_per_s", rate, {"ranks": ranks}) for ranks in (1, 2, 4)],
        bench="kmer"),
    "parallel-idle": Table(
        ["4 idle ranks, share of one core"],
        [((title,), {"transport": transport})
         for transport, title in (("auto", "shared memory"), ("mpi", "MPI"))],
        [("outside of calls", "percent_of_one_core", percent, {"state": "outside"}),
         ("in a call that waits", "percent_of_one_core", percent, {"state": "waiting"})],
        bench="idle", ranks=4),
    "parallel-memory": Table(
        ["2 ranks, 4 KiB, ten times the limit"],
        [(("memory held at most",), {"metric": "held"})],
        [("limit [MiB]", lambda run, where: run.value(
            "memory_limit_bytes", **basic(4096, ranks=2, count=320000)), scaled(2**-20), {}),
         ("held [MiB]", lambda run, where: run.value(
             "memory_held_peak_bytes", **basic(4096, ranks=2, count=320000)), scaled(2**-20), {})]),
    "parallel-groups": Table(
        ["search"],
        [((search,), {"search": search}) for search in ("sequential", "binary", "tagged")],
        [("by message", "get_ops_per_s", rate, {"group": False}),
         ("by the group", "get_ops_per_s", rate, {"group": True}),
         ("ratio", "ratio_to_no_group", times, {"group": True})],
        bench="group", ranks=2),
    "parallel-mdhim": Table(
        ["value", "transport"],
        [((bytes_of(size), title), {"value_bytes": size, "transport": transport, "count": count})
         for size, count in MDHIM
         for transport, title in (("auto", "shared memory"), ("mpi", "Quire through MPI, too"))],
        [(f"{title}: {name}", metric, rate, {"store": store})
         for store, title in (("quire", "Quire"), ("range servers", "range servers"))
         for name, metric in (("puts", "put_ops_per_s"), ("mix", "mix_ops_per_s"))] +
        [("ratio: puts", "put_ratio", times, {"store": "quire"}),
         ("ratio: mix", "mix_ratio", times, {"store": "quire"})],
        bench="mdhim", ranks=2),
}

CR_CASES = [("2 ranks, 525 MB", {"ranks": 2, "value_bytes": 131072, "count": 2000}),
            ("2 ranks, 2.1 GB", {"ranks": 2, "value_bytes": 131072, "count": 8000}),
            ("2 ranks, 10 million pairs of 8 B", {"ranks": 2, "value_bytes": 8, "count": 5000000}),
            ("4 ranks, 525 MB", {"ranks": 4, "value_bytes": 131072, "count": 1000}),
            ("4 ranks, 10 million pairs of 8 B", {"ranks": 4, "value_bytes": 8, "count": 2500000})]
COLD = ("2 ranks, 525 MB, files not in the page cache",
        {"ranks": 2, "value_bytes": 131072, "count": 2000, "cache": "cold"})


def warm(case):
    return {"cache": "warm", **case}


def of_what(title, what, metric, form):
    return (title, metric, form, {"what": what})


CR_ROWS = [((title,), warm(case)) for title, case in CR_CASES] + [((COLD[0],), COLD[1])]
PERSISTENCE = {
    "cr-seconds": Table(
        ["seconds"], CR_ROWS,
        [of_what("`cp`", "cp", "seconds", digits),
         of_what("`cp` and `sync`", "cp_sync", "seconds", digits),
         of_what("checkpoint: the call", "checkpoint", "call_seconds", scaled(1, "", 2)),
         of_what("checkpoint: until the event ended", "checkpoint", "seconds", digits),
         of_what("restart and open", "restart", "seconds", digits),
         of_what("restart in place, every pair moved", "restart_redistributed", "seconds", digits)],
        bench="cr"),
    "cr-ratios": Table(
        ["speed / that of `cp` and `sync`"], CR_ROWS,
        [of_what("checkpoint", "checkpoint", "speed_to_cp_sync", times),
         of_what("restart and open", "restart", "speed_to_cp_sync", times),
         of_what("checkpoint / `cp` alone", "checkpoint", "speed_to_cp", times)],
        bench="cr"),
    "cr-second": Table(
        ["second checkpoint, 1 % of the keys changed"], CR_ROWS,
        [of_what("bytes copied / bytes of the first", "checkpoint_changed", "copied_share", share),
         of_what("time [s]", "checkpoint_changed", "seconds", scaled(1, "", 2)),
         of_what("time / time of the first", "checkpoint_changed", "ratio_to_first", share)],
        bench="cr"),
    "cr-first-get": Table(
        ["milliseconds until the first value"], CR_ROWS,
        [of_what(title, what, lambda run, where: run.sum(
            "open_seconds", "first_get_seconds", **where), scaled(1000, "", 2))
         for title, what in (("1 rank opens the database", "elastic_repository"),
                             ("1 rank opens the checkpoint where it lies", "elastic_checkpoint"),
                             ("more ranks open the database", "elastic_more"))],
        bench="cr"),
    "cr-open": Table(
        ["milliseconds to open"], CR_ROWS,
        [of_what(f"{size} % of the pairs", f"open-{size}", "seconds", scaled(1000, "", 2))
         for size in (1, 10, 100)],
        bench="cr"),
    "small-open": Table(
        ["ranks"], [((ranks,), {"ranks": ranks}) for ranks in (1, 2)],
        [("open, median [ms]", "open_ms", digits, {}),
         ("open, longest of 20 [ms]", "open_ms_max", digits, {}),
         ("close, median [ms]", "close_ms", digits, {}),
         ("left on the device [KB]", "space_bytes", scaled(1e-3, "", 2), {})],
        bench="small", case="open"),
}

FORMATS = ("base", "pointer", "bloom", "cuckoo", "ribbon")
BUFFERS = [(8388608, "8 MiB"), (100663296, "96 MiB")]


def map_rows():
    return [((f"2^{power}", name), {"partitions": 1 << power, "format": name})
            for power in (10, 12, 14, 16, 18, 20, 22, 24)
            for name in ("pointer", "bloom", "cuckoo", "ribbon")
            if name == "ribbon" or power in (10, 16, 24)]


def less_slow(name, than):
    """How many times less a format slows the program down than another one."""
    def ratio(run, where):
        return run.ratio("slowdown_percent", {"format": than}, {"format": name}, **where)
    return ratio


def pair_sizes(left):
    """How much slower a program gets that leaves so much of a link, by the size of its pairs."""
    return Table([f"slower, {left} % left"], [((name,), {"format": name}) for name in FORMATS],
                 [(f"{size} B", "slowdown_percent", percent, {"pair_bytes": size})
                  for size in (16, 32, 64, 96, 128, 192)],
                 bench="partition", figure=9, residual_percent=left)


DATASET = {
    "maps": Table(
        ["N", "format"], map_rows(),
        [("bits per key", "bits_per_key", scaled(1, "", 4), {}),
         ("ranks per question", "partitions_per_query", scaled(1, "", 2), {}),
         ("build [ns]", "build_ns", digits, {}), ("question [ns]", "query_ns", digits, {}),
         ("in order [ns]", "ordered_query_ns", digits, {})],
        bench="partition", figure=7),
    "epochs": Table(
        ["64 B", "buffers"],
        [((name, title), {"format": name, "buffer_bytes": size})
         for size, title in BUFFERS for name in FORMATS],
        [("stored per pair [B]", "stored_bytes_per_pair", digits, {"residual_percent": 50}),
         ("sent per pair [B]", "sent_bytes_per_pair", digits, {"residual_percent": 50}),
         ("slower, 50 % left", "slowdown_percent", percent, {"residual_percent": 50}),
         ("slower, 75 % left", "slowdown_percent", percent, {"residual_percent": 75})],
        bench="partition", figure=8, network_mb_per_s=10.0),
    "pair-sizes-50": pair_sizes(50),
    "pair-sizes-75": pair_sizes(75),
    "less-slow": Table(
        ["64 B, half a link, buffers"],
        [(("96 MiB, which hold the epoch",), {"figure": 8, "buffer_bytes": 100663296}),
         (("8 MiB, an eighth of the epoch",), {"figure": 8, "buffer_bytes": 8388608}),
         (("2 MiB, an epoch of 16 MiB",), {"figure": 9, "buffer_bytes": 2097152})],
        [(f"{name} / {title}", less_slow(name, than), times, {})
         for name in ("ribbon", "cuckoo")
         for than, title in (("pointer", "pointers"), ("base", "whole pairs"))],
        bench="partition", residual_percent=50, pair_bytes=64, network_mb_per_s=10.0),
    "epochs-in-memory": Table(
        ["format", "ranks"],
        [((name, ranks), {"format": name, "ranks": ranks})
         for ranks in (1, 2) for name in ("direct", *FORMATS, "sorted")],
        [("puts", "put_ops_per_s", rate, {}),
         ("whole epochs with tables and maps", "epoch_ops_per_s", rate, {})],
        bench="partition", figure=8, buffer_bytes=268435456, network_mb_per_s=0.0),
    "questions": Table(
        ["µs, median"],
        [(("first question of a reader",), {"metric": "first_median_us"}),
         (("next questions",), {"metric": "next_median_us"}),
         (("ranks asked",), {"metric": "partitions_per_query"})],
        [(title, lambda run, where: run.value(where["metric"], **{
            name: value for name, value in where.items() if name != "metric"}), digits,
          {"format": name})
         for name, title in [(name, name) for name in FORMATS] +
         [("direct", "all files read"), ("sorted", "sorted file")]],
        bench="partition", figure=10),
}

METHODS = [("stream", "stream"), ("stream-snapshot", "snapshot"), ("memcpy", "memcpy"),
           ("memcpy-flush", "memcpy, lines written back"), ("tmpfs", "tmpfs"), ("file", "file"),
           ("file-sync", "file, synced")]
STEPS = [("10 % change", {"changed_percent": 10.0, "changed_before_percent": 10.0}),
         ("all change", {"changed_percent": 100.0, "changed_before_percent": 100.0}),
         ("all change, none before", {"changed_percent": 100.0, "changed_before_percent": 0.0})]
STREAM = {
    "stream-puts": Table(
        ["MB/s, variables of"],
        [((bytes_of(size),), {"variable_bytes": size})
         for size in (4096, 32768, 262144, 1 << 20, 10 << 20)],
        columns("mb_per_s", digits, "method", METHODS), bench="stream", figure="5"),
    "stream-ranks": Table(
        ["MB/s, 1 MiB, ranks"], [((ranks,), {"ranks": ranks}) for ranks in (1, 2, 4)],
        columns("mb_per_s", digits, "method", [METHODS[i] for i in (0, 2, 4)]),
        bench="stream", figure="6", variable_bytes=1 << 20),
    "stream-small": Table(
        ["variables of"],
        [((bytes_of(size),), {"variable_bytes": size}) for size in (262144, 32768, 4096, 1024)],
        [("snapshot / one memcpy", "speed_to_memcpy-whole", times, {"method": "stream-snapshot"}),
         ("snapshot / a memcpy for each", "speed_to_memcpy", times, {"method": "stream-snapshot"}),
         ("snapshot / files on tmpfs", "speed_to_tmpfs", times, {"method": "stream-snapshot"})],
        bench="stream", figure="small"),
    "stream-steps": Table(
        ["milliseconds of a step"], [((title,), case) for title, case in STEPS],
        columns("step_s", scaled(1000), "method", [("none", "nothing stored"), ("full", "whole"),
                                             ("delta", "deltas")]) +
        [("deltas / nothing stored", "times_none", times, {"method": "delta"}),
         ("stored share", "stored_share", share, {"method": "delta"})],
        bench="stream", figure="10"),
    "stream-snapshots": Table(
        ["milliseconds of a snapshot"], [((title,), case) for title, case in STEPS[:2]],
        columns("snapshot_s", scaled(1000), "method", [("full", "whole"), ("delta", "deltas"),
                                                 ("memcpy", "memcpy"),
                                                 ("tmpfs", "files on tmpfs")]),
        bench="stream", figure="7", step=None),
    "stream-reads": Table(
        ["µs of a read, object of"],
        [((bytes_of(size),), {"object_bytes": size})
         for size in (4096, 32768, 1 << 20, 10 << 20, 100 << 20, 400 << 20)],
        columns("us", digits, "method", [("get", "copy, checked"), ("view", "view"),
                                         ("view-verified", "view, checked"), ("memcpy", "memcpy"),
                                         ("tmpfs", "file on tmpfs")]),
        bench="stream", figure="8"),
    "stream-deltas": Table(
        ["changed"],
        [((percent(changed),), {"changed_percent": changed})
         for changed in (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)],
        [(f"{title}, {way}", "stored_percent", percent, {"piece_bytes": size, "method": method})
         for size, title in ((8, "words"), (4096, "pages"))
         for method, way in (("hash", "hash"), ("delta", "auto"))] +
        [("pages, auto: put [ms]", "put_s", scaled(1000),
          {"piece_bytes": 4096, "method": "delta"})],
        bench="stream", figure="9"),
    "stream-wait": Table(
        ["a reader that sleeps sees a version [µs]"],
        [(("after the call of put, median",), {"metric": "seen_after_call_us"}),
         (("after the return of put, median",), {"metric": "seen_after_return_us"}),
         (("after the return of put, 99th percentile",), {"metric": "seen_after_return_p99_us"})],
        [(bytes_of(size), lambda run, where: run.value(
            where["metric"], bench="stream", figure="wait", object_bytes=where["size"]), digits,
          {"size": size}) for size in (64, 4096)]),
    "stream-remote": Table(
        ["version of"],
        [((bytes_of(size),), {"object_bytes": size})
         for size in (128 << 20, 16 << 20, 1 << 20, 65536)],
        [("get / TCP alone", "speed_to_tcp", times, {"method": "remote"}),
         ("view / TCP alone", "speed_to_tcp", times, {"method": "remote-view"}),
         ("get [µs]", "us", digits, {"method": "remote"}),
         ("TCP alone [µs]", "us", digits, {"method": "tcp"})],
        bench="stream", figure="remote"),
}

LIMITS = {
    "limits": Table(
        ["operation"],
        [((title,), {"what": what}) for title, what in (
            ("memory copy", "memory_copy"),
            ("memory copy within the cache", "memory_copy_in_cache"),
            ("copy into a mapped file whose pages are present", "mapped_copy_file_touched"),
            ("copy into a mapped file whose pages are new", "mapped_copy_file"),
            ("copy into a mapped file on tmpfs, pages present", "mapped_copy_tmpfs_touched"),
            ("copy into a mapped file on tmpfs, pages new", "mapped_copy_tmpfs"),
            ("`pwrite` over present pages", "write_page_cache"), ("device write", "write_device"),
            ("device read", "read_device"))],
        [("GB/s", "gb_per_s", digits, {})], bench="limits"),
    "limits-operations": Table(
        ["operation"],
        [(("`pread` of 4 KiB out of the page cache",), {"what": "read_page_cache_4k"}),
         (("sync of 4 KiB",), {"what": "sync_4k"})],
        [("per second", "ops_per_s", rate, {})], bench="limits"),
}

TABLES = {**ENGINE, **PARALLEL, **PERSISTENCE, **DATASET, **STREAM, **LIMITS}
