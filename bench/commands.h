/// The subcommands of quire-bench. Each adds itself and its options to the command line, and
/// returns the function that runs it.
///
/// Layer      bench
/// Threads    one thread at a time
#pragma once

#include <functional>
#include <string>

#include "quire/status.h"

namespace CLI {
class App;
}

namespace quire::bench {

/// One subcommand.
struct Command {
  CLI::App* app = nullptr;
  std::function<Status()> run;
  bool parallel = false;  ///< needs MPI, on any number of ranks; other commands run on one rank
};

/// The parallel database: put, barrier, get (SC17, figures 6 and 7).
Command AddBasic(CLI::App& app);
/// The parallel database: a mix of gets and puts (SC17, figure 9).
Command AddWorkload(CLI::App& app);
/// One rank's storage against other engines.
Command AddEngine(CLI::App& app);
/// The time and space that a small database takes, and what the log of large values costs.
Command AddSmall(CLI::App& app);
/// Processor time of ranks that have nothing to do.
Command AddIdle(CLI::App& app);
/// One remote get, one sequential put, beside a plain MPI ping-pong.
Command AddLatency(CLI::App& app);
/// The limits of the machine: memory copy, device.
Command AddLimits(CLI::App& app);
/// Checkpoint, restart, redistribution, elastic open, beside cp.
Command AddCr(CLI::App& app);
/// Gets from neighbours' tables, with and without a storage group.
Command AddGroup(CLI::App& app);
/// Quire beside range servers over LevelDB.
Command AddMdhim(CLI::App& app);
/// A simulation's output, partitioned by key (FilterKV, figures 7 to 10).
Command AddPartition(CLI::App& app);
/// A simulation's arrays as versions that other programs read (NVStream, figures 5 to 10).
Command AddStream(CLI::App& app);
/// Counting k-mers, beside a hand-written MPI program.
Command AddKmer(CLI::App& app);

/// Returns the default directory of benchmarks: $TMPDIR, else /tmp.
std::string DefaultDirectory();

}  // namespace quire::bench
