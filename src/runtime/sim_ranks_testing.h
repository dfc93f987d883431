/// Ranks in this process, each with a context over the simulated network: for tests of what stands
/// on a context alone.
///
/// Layer      runtime (tests only)
/// Threads    one; the program runs on one thread per rank
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "comm/sim/sim_transport.h"
#include "runtime/context_state.h"

namespace quire::runtime {

struct SimRanksOptions {
  int rank_count = 1;
  bool by_turns = true;  ///< seeded, without threads; false: free-running
  uint64_t seed = 1;
  uint64_t timeout_ms = 60'000;
  uint64_t memory_bytes = 4ull << 30;  ///< the limit of each
  int background_threads = 1;          ///< of each, where it is free-running
  /// The file system of each rank, shared; null: none.
  std::function<io::FileSystem*(int rank)> file_system = {};
  std::string repository = "/repository";
  /// What is to befall the ranks on their way: deaths, stops.
  std::function<void(comm::SimNetwork& network)> mishaps = {};
};

/// Runs `program` on every rank to its end. The end of a context is not collective.
inline void RunSimRanks(const SimRanksOptions& options,
                        const std::function<void(const std::shared_ptr<ContextState>&)>& program) {
  comm::SimNetwork::Options network_options;
  network_options.rank_count = options.rank_count;
  network_options.deterministic = options.by_turns;
  network_options.seed = options.seed;
  const auto network = comm::SimNetwork::Create(network_options);
  if (options.mishaps) options.mishaps(*network);
  network->Run([&](int rank, std::unique_ptr<comm::Transport> transport) {
    auto context = std::make_shared<ContextState>();
    context->executor = options.by_turns
                            ? base::NewManualExecutor()
                            : base::NewThreadPool(options.background_threads, "test").value();
    context->blocking_executor = context->executor;
    context->manual_background = options.by_turns;
    context->options.timeout_ms = options.timeout_ms;
    context->repository = options.repository;
    context->budget = std::make_unique<MemoryBudget>(options.memory_bytes);
    if (options.file_system) context->fs = options.file_system(rank);
    context->exchange =
        comm::Exchange::Create(std::move(transport), {.timeout_ms = options.timeout_ms});
    context->exchange->Serve(kPingChannel, [](int, Slice, std::string*) { return Status(); });
    context->progress_queue =
        std::make_unique<ProgressQueue>(context->exchange.get(), context->blocking_executor);
    program(context);
    context->End();
  });
}

}  // namespace quire::runtime
