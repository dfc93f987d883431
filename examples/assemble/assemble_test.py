#!/usr/bin/env python3
"""Tests of assemble, as a whole program: assemble_test.py PROGRAM LAUNCHER CASE

LAUNCHER -n RANKS PROGRAM ... starts it in parallel. The cases: demo, genome, inputs, graphs,
reference, errors.
"""
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from simulate_reads import opened, read_fasta, reverse_complement, simulate, write_reads
from unitigs import Graph, canonical, differences

SKIPPED = 77


class Runner:
    def __init__(self, program, launcher, folder):
        self.program, self.launcher, self.folder = program, launcher, Path(folder)
        self.run_count = 0
        self.environment = dict(os.environ)

    def start(self, reads, ranks=2, transport="auto", **options):
        """The finished process, and where its contigs are. No `ranks`: one, without the launcher."""
        self.run_count += 1
        output = self.folder / f"contigs{self.run_count}.fa"
        repository = self.folder / f"repository{self.run_count}"
        launched = [self.launcher, "-n", str(ranks)] if ranks else []
        command = [*launched, self.program, *map(str, reads),
                   "--output", str(output), "--repository", str(repository),
                   "--transport", transport]
        for name, value in options.items():
            command += ["-k" if name == "k" else "--" + name.replace("_", "-"), str(value)]
        return subprocess.run(command, capture_output=True, text=True, check=False,
                              env=self.environment), output

    def run(self, reads, **options):
        """(the result line, the file of contigs) of a run that must succeed."""
        done, output = self.start(reads, **options)
        if done.returncode != 0:
            sys.exit(f"{' '.join(done.args)} failed:\n{done.stderr[-3000:]}")
        return json.loads(done.stdout.splitlines()[-1]), output


def check(is_true, what):
    if not is_true:
        sys.exit("FAILED: " + what)


def demo_data():
    """The folder of bowtie2's examples, or None."""
    root = Path(__file__).resolve().parents[2]
    for folder in (os.environ.get("QUIRE_DEMO_DATA", ""), "/usr/share/doc/bowtie2/examples",
                   root / "build/demo-data/usr/share/doc/bowtie2/examples"):
        if folder and (Path(folder) / "reference/lambda_virus.fa.gz").exists():
            return Path(folder)
    return None


def skip(why):
    print(why)
    sys.exit(SKIPPED)


def lambda_genome():
    data = demo_data()
    if data is None:
        skip("no reads: install bowtie2-examples, run scripts/demo-data, or set QUIRE_DEMO_DATA")
    return read_fasta(data / "reference/lambda_virus.fa.gz")[0]


def check_gives_back(genome, contigs_path, what):
    contigs = read_fasta(contigs_path)
    check(contigs == [canonical(genome)],
          f"{what}: {len(contigs)} contigs of {sum(map(len, contigs))} bases, not the genome")


def case_demo(runner):
    """The job of "make demo": real reads, one contig, nearly all of the reference."""
    lambda_genome()
    if not shutil.which("minimap2"):
        skip("not compared with the reference: install minimap2")
    build = Path(runner.program).resolve().parents[2]
    done = subprocess.run([str(Path(__file__).with_name("demo.sh")), str(build)], text=True,
                          capture_output=True, check=False,
                          env={**os.environ, "QUIRE_DEMO_DATA": str(demo_data())})
    check(done.returncode == 0, f"demo.sh: {done.returncode} {done.stderr[-2000:]}")
    result = json.loads(done.stdout.splitlines()[-1])
    print(json.dumps(result))
    check(list(result) == ["ranks", "reads", "distinct_kmers", "solid_kmers", "contigs", "n50",
                           "reference_covered", "identity", "seconds"], f"fields of {result}")
    check(result["ranks"] == 4 and result["reads"] == 20000, f"{result}")
    check(result["contigs"] == 1, f"{result['contigs']} contigs, not 1")
    for name in ("reference_covered", "identity"):
        check(0.99 <= result[name] <= 1, f"{name} is {result[name]}")
    # Of one contig each base but the last k - 1 begins a k-mer that was kept, and no other was.
    check(result["n50"] == result["solid_kmers"] + 20, f"k-mers and bases differ: {result}")
    check(f"each of {result['solid_kmers']} k-mers stands in exactly one contig" in done.stderr,
          f"the k-mers were not checked: {done.stderr[-2000:]}")


def case_genome(runner):
    """Reads with errors give their genome back, and the same bytes for all ranks and transports."""
    genome = lambda_genome()
    reads = runner.folder / "reads.fq.gz"
    write_reads(reads, simulate(genome, coverage=40, length=150, error_rate=0.01, seed=1))
    first = None
    for ranks in (1, 2, 3, 4):
        for transport in ("auto", "mpi"):
            what = f"{ranks} ranks, {transport}"
            result, output = runner.run([reads], ranks=ranks, transport=transport)
            check_gives_back(genome, output, what)
            first = first or (result, output.read_bytes())
            check(output.read_bytes() == first[1], what + ": other contigs")
            for name in ("reads", "distinct_kmers", "solid_kmers", "contigs", "n50"):
                check(result[name] == first[0][name],
                      f"{what}: {name} {result[name]}, was {first[0][name]}")
            check(result["ranks"] == ranks and result["reference_covered"] is None,
                  f"{what}: {result}")


def case_inputs(runner):
    """Every kind of file and length of k-mer gives the genome back; two files count as one."""
    genome = lambda_genome()
    reads = list(simulate(genome, coverage=50, length=150, error_rate=0.003, seed=2))
    half = len(reads) // 2
    for k, suffix, files in ((21, ".fq", 1), (31, ".fa.gz", 2), (22, ".fa", 2), (63, ".fq.gz", 1)):
        paths = [runner.folder / f"reads{k}_{part}{suffix}" for part in range(files)]
        for part, path in enumerate(paths):
            write_reads(path, reads if files == 1 else [reads[:half], reads[half:]][part])
        result, output = runner.run(paths, ranks=2, k=k)
        check_gives_back(genome, output, f"k {k}, {files} files {suffix}")
        check(result["reads"] == len(reads), f"{result['reads']} reads, not {len(reads)}")


def tangled_reads(rng, k):
    """Reads that repeat, turn round, and close rings."""
    letters = rng.choice(["ACGT", "ACGT", "AT", "ACGTN"])
    units = ["".join(rng.choices(letters, k=rng.randrange(1, 3 * k + 5)))
             for _ in range(rng.randrange(1, 6))]
    reads = []
    for _ in range(rng.randrange(1, 8)):
        parts = rng.choices(units, k=rng.randrange(1, 5))
        read = "".join(rng.choice([part, reverse_complement(part)]) for part in parts)
        if rng.random() < 0.3:
            read = read * 2 + read[:k]
        reads += [read] * rng.randrange(1, 3)
    return reads


def case_graphs(runner):
    """Small tangled graphs give the contigs that the obvious way gives."""
    ring_count = 0
    # Seeds whose graphs branch much, hold palindromes, or rings (40, 81, 95, 99, 124, 145).
    for number, seed in enumerate((0, 4, 17, 40, 65, 81, 95, 99, 124, 130, 135, 145)):
        rng = random.Random(seed)
        k, count_min = rng.choice([1, 2, 3, 4, 5, 6, 8, 11, 32]), rng.choice([1, 1, 2])
        reads = tangled_reads(rng, k)
        path = runner.folder / f"tangled{seed}.fq"
        write_reads(path, reads)
        _, output = runner.run([path], ranks=1 + number % 4, k=k, min_count=count_min,
                               transport=["auto", "mpi"][number % 3 == 2],
                               combine_bits=[17, 0, 2][number % 3])
        graph = Graph(reads, k, count_min)
        ring_count += len(graph.contigs()[1])
        problems = differences(graph, read_fasta(output))
        check(not problems, f"seed {seed}, k {k}, at least {count_min}: {problems[:3]}")
    check(ring_count == 8, f"{ring_count} rings in all graphs, not 8")


class Aligner:
    """A program minimap2 that is found before the real one: prints `output`, ends with `status`.

    Launchers may put folders of their own first into the PATH.
    """

    def __init__(self, runner, output="", status=0):
        folder = runner.folder / "bin"
        folder.mkdir(exist_ok=True)
        (folder / "minimap2.out").write_text(output)
        program = folder / "minimap2"
        program.write_text(f"#!/bin/sh\ncat '{folder}/minimap2.out'\nexit {status}\n")
        program.chmod(0o755)
        self.runner, self.path = runner, f"{folder}:{os.environ['PATH']}"

    def __enter__(self):
        self.runner.environment["PATH"] = self.path

    def __exit__(self, *_):
        self.runner.environment["PATH"] = os.environ["PATH"]


def check_comparison(runner, reads, reference, covered, identity):
    result, _ = runner.run([reads], ranks=0, reference=reference)
    for name, wanted in (("reference_covered", covered), ("identity", identity)):
        got = result[name]
        same = got is wanted if wanted is None else got is not None and abs(got - wanted) < 1e-9
        check(same, f"{reference.name}: {name} is {got}, not {wanted}")


def case_reference(runner):
    """--reference: what is covered, and how well, of genomes whose answer is known."""
    rng = random.Random(7)
    genome, other = ("".join(rng.choices("ACGT", k=size)) for size in (4000, 1000))
    reads = runner.folder / "reads.fq"
    write_reads(reads, simulate(genome, coverage=40, length=100, error_rate=0, seed=3))
    same, longer = runner.folder / "it's the same.fa", runner.folder / "longer.fa"
    write_reads(same, [genome])
    write_reads(longer, [genome, other])
    # 0 to 3000 of one sequence, overlapping; half of the other: 3500 of 5000. 3400 of 3600 equal.
    paf = ("c\t4000\t0\t2000\t+\tr0\t4000\t0\t2000\t1900\t2000\t60\ttp:A:P\n"
           "c\t4000\t0\t1100\t-\tr0\t4000\t1900\t3000\t1000\t1100\t60\n"
           "c\t4000\t0\t500\t+\tr1\t1000\t500\t1000\t500\t500\t60\n")
    with Aligner(runner, paf):
        check_comparison(runner, reads, longer, 3500 / 5000, 3400 / 3600)
    with Aligner(runner):
        check_comparison(runner, reads, longer, 0, 0)
    with Aligner(runner, status=127):  # what the shell says where there is none
        check_comparison(runner, reads, longer, None, None)
    for output, status, says in (("what?\n", 0, "minimap2 said: what?"), ("", 1, "failed: minimap2")):
        with Aligner(runner, output, status):
            done, _ = runner.start([reads], ranks=0, reference=longer)
            check(done.returncode != 0 and says in done.stderr, f"{says}: {done.stderr[-500:]}")
    done, _ = runner.start([reads], reference=runner.folder / "absent.fa")
    check(done.returncode != 0 and "absent.fa" in done.stderr, f"absent: {done.stderr[-500:]}")
    if not shutil.which("minimap2"):
        skip("all but the real aligner was tried: install minimap2")
    check_comparison(runner, reads, same, 1, 1)
    check_comparison(runner, reads, longer, 4000 / 5000, 1)
    changed = list(genome)
    for at in range(200, 4000, 200):
        changed[at] = "ACGT"["CGTA".index(changed[at])]
    write_reads(same, ["".join(changed)])
    check_comparison(runner, reads, same, 1, 1 - 19 / 4000)


def case_errors(runner):
    """Damaged and missing input ends all ranks with a sentence that names the file."""
    cut = runner.folder / "cut.fq.gz"
    write_reads(cut, ["ACGTTGCATT" * 20] * 2000)
    cut.write_bytes(cut.read_bytes()[:-40])
    wrong = runner.folder / "wrong.fq"
    wrong.write_text("@r0\nACGT\n+\nII\n")
    text = runner.folder / "text.fa"
    with opened(text, "w") as file:
        file.write("once upon a time\n")
    for path, says in ((cut, "cut.fq.gz"), (wrong, "one quality per base"), (text, "record 1"),
                       (runner.folder / "absent.fq", "absent.fq")):
        done, _ = runner.start([path], ranks=2)
        check(done.returncode != 0 and says in done.stderr,
              f"{path}: {done.returncode} {done.stderr[-500:]}")


def main():
    program, launcher, case = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="assemble-test-") as folder:
        globals()["case_" + case](Runner(program, launcher, folder))


if __name__ == "__main__":
    main()
