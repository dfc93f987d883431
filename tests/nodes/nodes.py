#!/usr/bin/env python3
"""Runs an MPI program on simulated nodes of a cluster (cluster.py says what they are).

    nodes.py [--nodes 2] [--ranks-per-node 2 | 1,3] [--bandwidth 100mbit]
             [--timeout 60] [--work DIRECTORY] -- PROGRAM [ARGUMENTS...]

In arguments {storage} stands for the directory that every node has for itself (also $TMPDIR), and
{shared} for the one that all share. They are in memory and gone afterwards, unless --work names a
directory to keep them in. Without --ranks-per-node each node has 2; a list has one number per node.

Exit status: the program's; 77 where this machine permits no such nodes (it says why); 124 when the
time is over; 125 when the harness fails.
"""
import argparse
import os
import sys

sys.dont_write_bytecode = True  # the sources may be read-only
import cluster  # noqa: E402


def shape_of(options):
    counts = [int(count) for count in options.ranks_per_node.split(",")]
    if len(counts) == 1:
        counts *= options.nodes or 2
    if options.nodes and len(counts) != options.nodes:
        raise SystemExit(f"nodes.py: --nodes {options.nodes}, but {len(counts)} numbers of ranks")
    if min(counts) < 0 or sum(counts) == 0 or len(counts) > 200:
        raise SystemExit("nodes.py: 1 to 200 nodes, and at least one rank")
    return cluster.Shape(counts, options.bandwidth, options.work)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--nodes", type=int, default=0)
    parser.add_argument("--ranks-per-node", default="2")
    parser.add_argument("--bandwidth", default="")
    parser.add_argument("--timeout", type=float, default=60)
    parser.add_argument("--work", type=os.path.abspath)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()

    def body(nodes):
        return nodes.status(nodes.start(*options.command))

    return cluster.inside(shape_of(options), body, options.timeout)


if __name__ == "__main__":
    sys.exit(main())
