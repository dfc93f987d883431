#!/usr/bin/env python3
"""Tests of assemble, as a whole program: assemble_test.py PROGRAM LAUNCHER CASE

LAUNCHER -n RANKS PROGRAM ... starts it in parallel. The cases: genome, inputs, graphs, errors.
"""
import json
import os
import random
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

    def start(self, reads, ranks=2, transport="auto", **options):
        """The finished process, and where its contigs are."""
        self.run_count += 1
        output = self.folder / f"contigs{self.run_count}.fa"
        repository = self.folder / f"repository{self.run_count}"
        command = [self.launcher, "-n", str(ranks), self.program, *map(str, reads),
                   "--output", str(output), "--repository", str(repository),
                   "--transport", transport]
        for name, value in options.items():
            command += ["-k" if name == "k" else "--" + name.replace("_", "-"), str(value)]
        return subprocess.run(command, capture_output=True, text=True, check=False), output

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


def lambda_genome():
    data = demo_data()
    if data is None:
        print("no reads: install bowtie2-examples, run scripts/demo-data, or set QUIRE_DEMO_DATA")
        sys.exit(SKIPPED)
    return read_fasta(data / "reference/lambda_virus.fa.gz")[0]


def check_gives_back(genome, contigs_path, what):
    contigs = read_fasta(contigs_path)
    check(contigs == [canonical(genome)],
          f"{what}: {len(contigs)} contigs of {sum(map(len, contigs))} bases, not the genome")


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
