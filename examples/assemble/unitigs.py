#!/usr/bin/env python3
"""The contigs that assemble should give, found in the slow, obvious way: the oracle of its tests.

Strings for k-mers, dictionaries for counts, one node at a time.
"""
import collections

from simulate_reads import reverse_complement


def canonical(bases):
    return min(bases, reverse_complement(bases))


def kmers_of(bases, k):
    return [canonical(bases[i:i + k]) for i in range(len(bases) - k + 1)]


class Graph:
    def __init__(self, reads, k, count_min):
        self.k = k
        kmers, self.edges = collections.Counter(), collections.Counter()
        for read in reads:
            for part in "".join(b if b in "ACGT" else " " for b in read.upper()).split():
                kmers.update(kmers_of(part, k))
                self.edges.update(kmers_of(part, k + 1))
        for counts in (kmers, self.edges):
            for bases in counts:
                if bases == reverse_complement(bases):
                    counts[bases] *= 2  # it stands there on both strands
        self.kept = {kmer for kmer, count in kmers.items() if count >= count_min}
        self.count_min = count_min

    def behind(self, kmer):
        return [kmer[1:] + base for base in "ACGT"
                if self.edges[canonical(kmer + base)] >= self.count_min]

    def next(self, kmer):
        """The k-mer that a link joins to `kmer` on its right, or None."""
        behind = self.behind(kmer)
        if len(behind) != 1 or kmer == reverse_complement(kmer):
            return None
        other = behind[0]
        back = reverse_complement(other)
        if back in (other, kmer) or len(self.behind(back)) != 1:
            return None
        return other

    def contigs(self):
        """(paths, rings): paths as the smaller reading, rings as the set of their k-mers."""
        paths, rings, seen = set(), [], set()
        for kmer in sorted(self.kept):
            if kmer in seen:
                continue
            right, is_ring = self.walk(kmer)
            left = [] if is_ring else self.walk(reverse_complement(kmer))[0]
            path = [reverse_complement(other) for other in reversed(left)] + [kmer] + right
            seen.update(canonical(other) for other in path)
            if is_ring:
                rings.append(frozenset(canonical(other) for other in path))
            else:
                paths.add(canonical(path[0] + "".join(other[-1] for other in path[1:])))
        return paths, rings

    def walk(self, first):
        found, at = [], self.next(first)
        while at is not None and at != first:
            found.append(at)
            at = self.next(at)
        return found, at == first


def differences(graph, contigs):
    """What is wrong with `contigs` (in the order of the file), as sentences."""
    problems = []
    paths, rings = graph.contigs()
    for contig in contigs:
        if contig in paths:
            paths.remove(contig)
            continue
        kmers = kmers_of(contig, graph.k)
        if frozenset(kmers) in rings and len(set(kmers)) == len(kmers):
            rings.remove(frozenset(kmers))
        else:
            problems.append(f"not a contig: {contig}")
    problems += [f"missing: {path}" for path in paths]
    problems += [f"missing ring of {len(ring)}" for ring in rings]
    if contigs != sorted(contigs, key=lambda bases: (-len(bases), bases)):
        problems.append("not in order")
    return problems
