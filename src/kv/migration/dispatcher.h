/// The message dispatcher: sends the batches of the migration queues, several under way per owner,
/// in order, and receives the owners' answers. Its thread sends the remaining batches when earlier
/// ones are acknowledged, and lingering ones. A thread that fills or fences a batch sends it
/// itself. Without a handler thread there is no dispatcher thread either: then batches are sent
/// inside calls.
///
/// Layer      kv
/// Source     PapyrusKV, SC17, section 2.4 (migration, message dispatcher), 3.1 (fence)
/// Threads    any
/// Invariants batches of one owner leave in order (RemoteMemTable::SendMutex); every operation that
///            was staged is applied, or counted in the FailureLog; no wait is longer than the
///            Exchange's deadline per answer
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "comm/exchange/exchange.h"
#include "kv/migration/remote_memtable.h"
#include "kv/protocol/counters.h"
#include "kv/protocol/failure_log.h"

namespace quire::kv {

/// A batch without additions is sent after one to two of these [ns].
constexpr uint64_t kLingerNs = 5'000'000;

class Dispatcher : public RemoteMemTable::Sender, public std::enable_shared_from_this<Dispatcher> {
 public:
  struct Options {
    RemoteMemTable::Options remote_memtable;
    uint32_t database_number = 0;
  };
  /// Shared, because answers may come after all other owners have released it.
  ///
  /// Errors     kOutOfMemory  The system refused its thread.
  static Result<std::shared_ptr<Dispatcher>> Create(comm::Exchange* exchange,
                                                    const Options& options,
                                                    DatabaseCounters* counters);
  ~Dispatcher() override;

  RemoteMemTable& remote_memtable() { return remote_memtable_; }
  FailureLog& failures() { return failures_; }

  /// Sends everything that is staged for `owner` and waits until it is acknowledged. The failed
  /// operations go to failures(); the status reports only that `owner` does not answer.
  Status Drain(int owner);
  /// Does the same for all owners at once.
  Status DrainAll();
  /// Sends what can be sent now, without waiting for answers (programs that compute long without a
  /// handler thread).
  void SendLingering();
  /// Ends the thread. Staged writes stay; nothing more can be staged, or is sent.
  void Stop(const Status& why);

  // RemoteMemTable::Sender
  void Ready(int owner) override;
  void Opened() override;
  void MakeRoom() override;

 private:
  Dispatcher(comm::Exchange* exchange, const Options& options, DatabaseCounters* counters);
  struct Wave;
  void Pump(int owner);
  void SendNext(int owner, StagedBatchPtr batch);
  Status StartWave(Wave* wave);
  Status FinishWave(Wave* wave);
  void Settle(int owner, const StagedBatchPtr& batch, const comm::Outcome& outcome);
  void OnAnswer(int owner, const StagedBatchPtr& batch, const comm::Outcome& outcome);
  void GiveUp(int owner, const Status& why);
  void Enqueue(int owner);
  void RunThread();
  void RunTurn(std::unique_lock<std::mutex>& lock);
  void PumpAll(std::unique_lock<std::mutex>& lock);
  void WakeThread();

  comm::Exchange* const exchange_;
  const uint32_t database_number_;
  DatabaseCounters* const counters_;
  RemoteMemTable remote_memtable_;
  FailureLog failures_;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<int> ready_;  // owners with batches for the thread to send
  bool stopping_ = false;
  uint64_t tick_ = 1;                // the thread's
  std::atomic<bool> asleep_{false};  // until there is work; no linger clock runs
  std::thread thread_;
};

}  // namespace quire::kv
