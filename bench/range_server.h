/// Range servers: one per rank, which owns a slice of the ordered keys and answers puts and gets
/// that come as MPI messages out of a LevelDB of its own. MDHIM's design, written anew and as
/// small as it can be, so that Quire has it for comparison; not MDHIM itself.
///
/// Layer      bench
/// Source     Greenberg, Bent, Grider: MDHIM, HotStorage 2015; PapyrusKV, SC17, figure 11
/// Threads    Put, Get: one thread per rank. Each rank has one more that serves.
#pragma once

#include <mpi.h>

#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "engines/engine.h"

namespace quire::bench {

class RangeServers {
 public:
  /// A new database in `directory`, this rank's own. Collective.
  ///
  /// Errors  kUnsupported where this build has no LevelDB, or MPI allows one thread only.
  static Result<std::unique_ptr<RangeServers>> Open(const std::string& directory);
  /// Collective: no rank asks any more.
  ~RangeServers();

  /// Each waits for the owner's answer; what this rank owns needs no message. Keys are those of
  /// KeyMaker, from 8 bytes on. Errors  those of LevelDB; kNotFound.
  Status Put(Slice key, Slice value);
  Status Get(Slice key, std::string* value);

 private:
  RangeServers() = default;
  int OwnerOf(Slice key) const;
  Status Ask(int owner, char operation, Slice key, Slice value);
  void Serve();
  void Answer(Slice request);

  std::unique_ptr<Engine> engine_;
  std::unique_ptr<EngineReader> own_reader_;
  std::unique_ptr<EngineReader> reader_;  // the server's
  std::mutex put_mutex_;
  MPI_Comm communicator_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  std::thread server_;
  std::string message_;  // this rank's last request, then its answer
  std::string answer_;   // the server's last one
};

}  // namespace quire::bench
