/// The requests under way from this rank, found by the number that their answers carry.
///
/// Layer      comm
/// Threads    any
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/exchange/exchange.h"
#include "quire/slice.h"
#include "quire/status.h"

namespace quire::comm {

/// Written by the polling thread until `done_`, then by the waiting thread.
class PendingCall : public Call {
 public:
  using Callback = std::function<void(const Outcome& outcome)>;

  /// `then` is empty if a thread waits.
  PendingCall(int destination, uint64_t window_bytes, Callback then)
      : destination_(destination), window_bytes_(window_bytes), then_(std::move(then)) {}
  bool Done() const override { return done_.load(std::memory_order_acquire); }
  int destination() const { return destination_; }
  /// Returns the bytes of the window to its destination that the call uses until it is answered.
  uint64_t window_bytes() const { return window_bytes_; }
  /// Records, before Complete, that this rank received an answer (or the end of all answers) for
  /// which it had no memory.
  void LoseAnswer() { answer_lost_ = true; }
  bool answer_lost() const { return answer_lost_; }
  /// Ends the call and runs the callback. Throws nothing: exceptions of the callback are dropped.
  void Complete(Status status, std::string answer);
  /// Returns its result, once; requires Done(). Takes no memory.
  Status TakeOutcome(std::string* answer) {
    if (answer != nullptr) *answer = std::move(answer_);
    return std::move(status_);
  }

 private:
  const int destination_;
  const uint64_t window_bytes_;
  Callback then_;
  std::atomic<bool> done_{false};
  bool answer_lost_ = false;
  Status status_;
  std::string answer_;
};

class CallTable {
 public:
  /// Stores `call` until it is taken; returns its number, which is never used again.
  uint64_t Add(std::shared_ptr<PendingCall> call);
  /// Removes and returns the call with that number; null if there is none.
  std::shared_ptr<PendingCall> Take(uint64_t number);
  /// Removes and returns one of the calls to `destination`; null if there is none. Allocates no
  /// memory.
  std::shared_ptr<PendingCall> TakeOne(int destination);

 private:
  struct Slot {
    uint32_t generation = 0;
    std::shared_ptr<PendingCall> call;
  };
  std::mutex mutex_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
};

}  // namespace quire::comm
