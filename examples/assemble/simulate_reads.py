#!/usr/bin/env python3
"""Reads of a genome, with errors, for tests: the same for the same seed.

    simulate_reads.py GENOME.fa READS.fq.gz --coverage 40 --length 150 --error-rate 0.01 --seed 1

Fragments begin anywhere such that every base of the genome is covered alike: those that hang over
an end are cut there. Half of the reads come from the other strand. An error is another base, or
(one in ten) an N. The name of READS says what is written: .fq or .fa, with or without .gz.
"""
import argparse
import gzip
import random


def opened(path, mode):
    return gzip.open(path, mode + "t") if str(path).endswith(".gz") else open(path, mode)


def read_fasta(path):
    """The sequences of a FASTA file, in capitals."""
    sequences = []
    with opened(path, "r") as file:
        for line in file:
            if line.startswith(">"):
                sequences.append([])
            else:
                sequences[-1].append(line.strip().upper())
    return ["".join(parts) for parts in sequences]


def reverse_complement(bases):
    return bases[::-1].translate(str.maketrans("ACGT", "TGCA"))


def with_errors(bases, error_rate, rng):
    result = list(bases)
    for i, base in enumerate(result):
        if rng.random() < error_rate:
            result[i] = "N" if rng.random() < 0.1 else rng.choice([b for b in "ACGT" if b != base])
    return "".join(result)


def simulate(genome, coverage, length, error_rate, seed):
    """Yields reads of `genome`."""
    rng = random.Random(seed)
    for _ in range(int(coverage * len(genome) / length)):
        begin = rng.randrange(1 - length, len(genome))
        read = genome[max(begin, 0):begin + length]
        if rng.random() < 0.5:
            read = reverse_complement(read)
        yield with_errors(read, error_rate, rng)


def write_reads(path, reads):
    fasta = str(path).removesuffix(".gz").endswith(".fa")
    with opened(path, "w") as file:
        for number, read in enumerate(reads):
            if fasta:
                lines = "\n".join(read[at:at + 60] for at in range(0, len(read), 60))
                file.write(f">r{number}\n{lines}\n")
            else:
                file.write(f"@r{number}\n{read}\n+\n{'I' * len(read)}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("genome")
    parser.add_argument("reads")
    parser.add_argument("--coverage", type=float, default=40)
    parser.add_argument("--length", type=int, default=150)
    parser.add_argument("--error-rate", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    reads = []
    for genome in read_fasta(options.genome):
        reads += simulate(genome, options.coverage, options.length, options.error_rate,
                          options.seed)
    write_reads(options.reads, reads)


if __name__ == "__main__":
    main()
