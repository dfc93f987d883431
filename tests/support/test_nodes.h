// Which ranks of a parallel test are on one node: as tests/support/mpi_main.cpp splits them
// (QUIRE_TEST_NODES, the number of nodes), or as tests/nodes/nodes.py started them
// (QUIRE_NODES_RANKS, the number of ranks of each node, with commas between); else all are.
//
// Threads: any.
#ifndef QUIRE_TESTS_SUPPORT_TEST_NODES_H_
#define QUIRE_TESTS_SUPPORT_TEST_NODES_H_

#include <mpi.h>
#include <stdlib.h>

#include <algorithm>
#include <vector>

namespace quire::test {

/// The node of each rank of MPI_COMM_WORLD, counted from 0.
inline std::vector<int> NodesOfRanks() {
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::vector<int> nodes(static_cast<size_t>(size), 0);
  if (const char* at = ::getenv("QUIRE_NODES_RANKS")) {
    auto next = nodes.begin();
    for (int node = 0; *at != '\0'; ++node) {
      char* end = nullptr;
      const auto count = std::min<long>(::strtol(at, &end, 10), nodes.end() - next);
      next = std::fill_n(next, count, node);
      at = *end == ',' ? end + 1 : end;
    }
  } else if (const char* const text = ::getenv("QUIRE_TEST_NODES"); text != nullptr && *text != 0) {
    const long count = ::strtol(text, nullptr, 10);
    for (long rank = 0; rank < size; ++rank) {
      nodes[static_cast<size_t>(rank)] = static_cast<int>(rank * count / size);
    }
  }
  return nodes;
}

inline int NodeOf(int rank) {
  return NodesOfRanks()[static_cast<size_t>(rank)];
}

inline int NodeCount() {
  const std::vector<int> nodes = NodesOfRanks();
  return *std::max_element(nodes.begin(), nodes.end()) + 1;
}

/// How many ranks are on the node of `rank`, itself among them.
inline int RanksBeside(int rank) {
  const std::vector<int> nodes = NodesOfRanks();
  return static_cast<int>(std::count(nodes.begin(), nodes.end(), nodes[static_cast<size_t>(rank)]));
}

/// True on one rank of each node.
inline bool IsFirstOfNode(int rank) {
  const std::vector<int> nodes = NodesOfRanks();
  return rank == 0 || nodes[static_cast<size_t>(rank)] != nodes[static_cast<size_t>(rank) - 1];
}

}  // namespace quire::test

#endif  // QUIRE_TESTS_SUPPORT_TEST_NODES_H_
