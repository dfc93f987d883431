/// One fence, and the failed writes that it found until the program is told of them. A collective
/// call may report what another rank found, or be given up; then the next fence reports them.
///
/// Layer      kv
/// Source     PapyrusKV, SC17, section 3.1 (fence); docs/durability.md
/// Threads    one thread
/// Invariants a failure that was found and not told is back in the FailureLog when this object ends
#pragma once

#include "kv/migration/dispatcher.h"
#include "kv/protocol/failure_log.h"
#include "quire/status.h"

namespace quire::kv {

class FenceReport {
 public:
  /// A fence of `rank`. `dispatcher` outlives this; null: there are no other ranks.
  FenceReport(Dispatcher* dispatcher, int rank) : dispatcher_(dispatcher), rank_(rank) {}
  ~FenceReport();
  FenceReport(const FenceReport&) = delete;
  FenceReport& operator=(const FenceReport&) = delete;

  /// Sends all that is staged, and waits until it is acknowledged. Returns the failures of staged
  /// writes since the last report; if there are none, those of Dispatcher::DrainAll.
  const Status& Run();
  /// Returns `answer`, which the program gets. If that is the failure that Run returned here, it is
  /// told. Takes no memory: the other ranks have theirs.
  const Status& Told(const Status& answer);
  /// Takes the failures as told: the program gets what Run returned.
  void Tell() { found_ = WriteFailures(); }

 private:
  Dispatcher* const dispatcher_;
  const int rank_;
  WriteFailures found_;
  Status status_;
};

}  // namespace quire::kv
