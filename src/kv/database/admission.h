/// Admission of calls to an open database: checks what its protection and consistency allow, and
/// changes both, after waiting for the writes that were admitted before.
///
/// Layer      kv
/// Source     PapyrusKV, SC17, sections 3.1 (consistency) and 3.2 (protection)
/// Threads    any; BeginChange, AwaitWrites, EndChange and Close: one thread at a time
/// Invariants one load of `allowed_` decides what a call may do; a write is counted before that
///            load, so that either AwaitWrites waits for the write, or the write sees that it is
///            not allowed; after Close no call is admitted, and the Exchange is not used
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/threads/forked_child.h"
#include "comm/exchange/exchange.h"
#include "kv/protocol/writes_under_way.h"
#include "quire/database.h"

namespace quire::kv {

class Admission {
 public:
  /// The operation that must be allowed for a call; the database must be open for each.
  enum Operation : uint32_t { kOpen = 1, kPut = 2, kUpdate = 4, kGet = 8 };
  struct Mode {
    Protection protection;
    Consistency consistency;
  };

  /// Parameters outlive this, the Exchange until Close. `database_name` is for messages.
  Admission(comm::Exchange* exchange, const std::string& database_name, const Mode& mode);
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

  /// Returns whether a call of the program may go on now.
  ///
  /// Errors  kInvalidArgument: the database is closed, or write-only and this is a get; or the
  ///         caller is a forked child, a function that Quire called, or a thread that MPI forbids.
  ///         kReadOnly: the protection forbids this write.
  Status Admit(Operation needed) const {
    const uint32_t all = kOpen | needed;
    const bool open = (allowed_.load(std::memory_order_acquire) & all) == all;
    const bool may_call = open && process_.MayCall() && (any_thread_ || CheckThread().ok());
    return may_call ? Status() : Refuse(needed);
  }

  /// A write of this rank, from its admission to its end.
  class WriteCall {
   public:
    WriteCall(Admission& admission, Operation needed);
    ~WriteCall();
    WriteCall(const WriteCall&) = delete;
    WriteCall& operator=(const WriteCall&) = delete;
    const Status& admitted() const { return admitted_; }

   private:
    Admission* const counts_;  // null: on one rank there are no other copies of pairs
    size_t side_ = 0;
    Status admitted_;
  };

  bool is_open() const { return (allowed_.load() & kOpen) != 0; }
  bool sequential() const { return (allowed_.load(std::memory_order_relaxed) & kSequential) != 0; }
  const Mode& mode() const { return mode_; }
  /// The process that opened the database.
  const base::OwnProcess& process() const { return process_; }

  /// Allows only operations that both the present mode and `next` allow, until EndChange.
  void BeginChange(const Mode& next);
  /// Waits for the writes that were admitted before BeginChange.
  ///
  /// Errors  those of Exchange::Await
  Status AwaitWrites();
  /// Allows what `mode` allows, from now on.
  void EndChange(const Mode& mode);

  /// Refuses all calls from now on.
  void Close() { allowed_.store(0); }
  /// Returns the error of calls after Close.
  Status ClosedStatus() const;

 private:
  // Other bits of allowed_, which permit nothing.
  static constexpr uint32_t kSequential = 16;  // the consistency
  static constexpr uint32_t kChanging = 32;    // writes that end signal it

  static uint32_t AllowedIn(const Mode& mode);
  Status Refuse(Operation needed) const;
  Status CheckThread() const { return exchange_->CheckThread(); }

  const base::OwnProcess process_;
  comm::Exchange* const exchange_;
  const std::string& name_;
  const bool any_thread_;  // any thread may call, whatever MPI allows
  const bool alone_;       // there are no other ranks
  std::atomic<uint32_t> allowed_;
  WritesUnderWay writes_;
  Mode mode_;  // changed by collective calls alone
};

}  // namespace quire::kv
