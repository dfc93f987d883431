"""The tables at a glance: a row compares one workload with its best peer."""
from statistics import median

from goals import PAPYRUSKV
from page_tables import CR_CASES, basic, engine, warm
from results import digits, percent, rate, scaled


def best_of(metric, engines, where):
    """The fastest of these engines: its name and its values, one for each run."""
    def found(runs):
        rates = [(name, [v for v in (run.value(metric, engine=engine, **where) for run in runs)
                         if v is not None]) for engine, name in engines]
        rates = [(name, values) for name, values in rates if values]
        return max(rates, key=lambda rate: median(rate[1])) if rates else ("", [])
    return found


def other(name, metric, **where):
    def found(runs):
        return name, [v for v in (run.value(metric, **where) for run in runs) if v is not None]
    return found


def papyruskv(text):
    peer = next(row[-1] for row in PAPYRUSKV if row[0] == text)
    return lambda runs: ("PapyrusKV", [peer])


class Row:
    """`less`: the smaller value is the better one. `command`: of quire-bench."""

    def __init__(self, workload, quire, peer, form, command, less=False):
        self.workload, self.quire, self.peer, self.form = workload, quire, peer, form
        self.command, self.less = command, less

    def cells(self, runs):
        mine = self.quire(runs)[1]
        name, theirs = self.peer(runs)
        cells = {"workload": self.workload, "command": f"`quire-bench {self.command}`",
                 "quire": self.form(median(mine)) if mine else "", "peer": "", "ratio": ""}
        if mine and theirs:
            ratio = median(mine) / median(theirs)
            cells["peer"] = f"{name}: {self.form(median(theirs))}"
            cells["ratio"] = digits(1 / ratio if self.less else ratio, 2)
        return cells


PEERS = [("leveldb", "LevelDB"), ("rocksdb", "RocksDB"), ("rocksdb-blob", "RocksDB, blobs")]


def of_engine(op, size, title):
    command = ("engine --value-bytes 100 --engine lsm,rocksdb,leveldb" if size == 100 else
               "engine --value-bytes 4096,1048576")
    where = {"bench": "engine", **engine(op, size)}
    return Row(title, other("Quire", "ops_per_s", engine="lsm", **where),
               best_of("ops_per_s", PEERS, where), rate, command)


PAIRS = {"ranks": 2, "count": 100000}
MIX = {"bench": "mdhim", "value_bytes": 8, "transport": "auto", "ranks": 2}
KMERS = {"bench": "kmer", "ranks": 2}
SAVED = {"bench": "cr", **warm(CR_CASES[1][1])}
EPOCH = {"bench": "partition", "figure": 8, "residual_percent": 50, "buffer_bytes": 100663296,
         "network_mb_per_s": 10.0}
PUTS = {"bench": "stream", "figure": "5", "variable_bytes": 1 << 20}
TWO_RANKS = "basic --value-bytes 8,1024 --count 100000"
SECONDS = scaled(1, "s", 2)
SPEED = scaled(1, "MB/s")

FIRST = [of_engine("fillrandom", 100, "random puts, 100 B, 1 rank"),
         of_engine("readrandom", 100, "random gets, 100 B, 1 rank"),
         of_engine("readrandom", 4096, "random gets, 4 KiB, 1 rank"),
         of_engine("fillrandom", 1 << 20, "random puts, 1 MiB, 1 rank"),
         Row("relaxed puts, 8 B, 2 ranks", other("", "put_ops_per_s", **basic(8, **PAIRS)),
             papyruskv("relaxed put, 2 ranks"), rate, TWO_RANKS),
         Row("gets from tables, 8 B, 2 ranks", other("", "get_ops_per_s", **basic(8, **PAIRS)),
             papyruskv("get from tables, 2 ranks"), rate, TWO_RANKS),
         Row("checkpoint of 2.1 GB, 2 ranks", other("", "seconds", what="checkpoint", **SAVED),
             other("`cp` and `sync`", "seconds", what="cp_sync", **SAVED), SECONDS,
             "cr --count 8000", less=True),
         Row("counting k-mers, 2 ranks",
             other("", "kmers_per_s", way="quire", combine_bits=20, **KMERS),
             other("MPI_Alltoallv", "kmers_per_s", way="alltoallv", **KMERS), rate, "kmer"),
         Row("time added to a partitioned epoch",
             other("", "slowdown_percent", format="ribbon", **EPOCH),
             other("pointers", "slowdown_percent", format="pointer", **EPOCH), percent,
             "partition --figure 8 --buffer-bytes 100663296 "
             "--formats direct,base,pointer,bloom,cuckoo,ribbon", less=True),
         Row("stream, puts of 1 MiB, 1 rank", other("", "mb_per_s", method="stream", **PUTS),
             other("memcpy", "mb_per_s", method="memcpy", **PUTS), SPEED, "stream --figure 5")]
MORE = [of_engine("seekrandom", 100, "seeks and 50 nexts, 100 B, 1 rank"),
        Row("half puts, half gets, 8 B, 2 ranks", other("", "mix_ops_per_s", store="quire", **MIX),
            other("range servers", "mix_ops_per_s", store="range servers", **MIX), rate,
            "mdhim --value-bytes 8 --count 10000 --transport auto")]


class Glance:
    def __init__(self, head, columns, rows):
        self.head, self.columns, self.rows = head, columns, rows


GLANCE = {
    "first": Glance(["measured on 2 cores ([all results](docs/benchmarks/README.md))", "Quire",
                     "compared with", "ratio"], ["workload", "quire", "peer", "ratio"], FIRST),
    "glance": Glance(["workload", "Quire", "best peer", "ratio", "command"],
                     ["workload", "quire", "peer", "ratio", "command"], FIRST + MORE),
}
