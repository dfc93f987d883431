/// One fence, and the failed writes that it found until they are reported to the program. A
/// collective call may report another rank's failure, or be given up; then the next fence reports
/// them.
///
/// Layer      kv
/// Source     PapyrusKV, SC17, section 3.1 (fence); docs/durability.md
/// Threads    one thread
/// Invariants a failure that was found and not reported is back in the FailureLog at destruction
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
  /// Returns `answer`, which the program receives. If that is the failure that Run returned here,
  /// it counts as reported. Allocates no memory: the other ranks have their answers.
  const Status& Told(const Status& answer);
  /// Counts the failures as reported: the program receives what Run returned.
  void Tell() { found_ = WriteFailures(); }

 private:
  Dispatcher* const dispatcher_;
  const int rank_;
  WriteFailures found_;
  Status status_;
};

}  // namespace quire::kv
