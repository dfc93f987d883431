/// Readers that wait for the next snapshot of a part. Those that wait for the same thing are one
/// question. Questions have threads of their own, and take turns if there are more of them than
/// threads: a wait keeps no get from being served, and no other wait from being answered.
///
/// Layer      tools
/// Threads    any
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <vector>

#include "quire/status.h"
#include "stream/remote/request.h"
#include "tools/quire-streamd/workers.h"

namespace quire::streamd {

class Waits {
 public:
  /// A snapshot of `part` behind `after`.
  struct Question {
    stream::StorePart part;
    uint64_t after = 0;
    bool operator==(const Question& other) const = default;
  };
  /// The newest snapshot; kTimedOut: none came in `timeout_ms`. May take until `deadline_ns`, for
  /// the answer to travel.
  using Ask = std::function<Result<uint64_t>(const Question& question, uint64_t timeout_ms,
                                             uint64_t deadline_ns)>;
  /// Called once with what Ask returned. Must not wait.
  using Tell = std::function<void(const Result<uint64_t>& newest)>;
  struct Waiter {
    uint64_t until_ns = 0;     // answered with kTimedOut then, or some 20 ms later
    uint64_t deadline_ns = 0;  ///< of its answer
    Tell tell;
  };

  Waits(int threads_max, Ask ask) : threads_max_(threads_max), ask_(std::move(ask)),
                                    workers_(threads_max) {}
  /// Asks at once, and on the caller's thread if all others are busy.
  void Add(const Question& question, Waiter waiter);
  /// Waiting readers get no further answer. Whether all that had begun ended within the time.
  bool Stop(uint64_t timeout_ms) { return workers_.Stop(timeout_ms); }
  /// Questions that are open.
  size_t size();

 private:
  struct Open {
    Question question;
    std::vector<Waiter> waiters;
    uint64_t ends_ns = 0;  ///< when the turn under way ends
    bool asked = false;    // it has had a turn
  };
  using Place = std::list<Open>::iterator;

  bool Join(const Question& question, Waiter* waiter);
  void Begin(Place open);
  void Turn(Place open);
  uint64_t TurnMs(const Open& open, uint64_t now) const;

  const int threads_max_;
  const Ask ask_;
  std::mutex mutex_;
  std::list<Open> open_;  ///< each is under way, or its turn comes
  Workers workers_;       // ends first
};

}  // namespace quire::streamd
