/// Readers that wait for the next snapshot of a part. Readers that wait for the same snapshot share
/// one question. Questions have threads of their own, and take turns if there are more of them than
/// threads: so a wait delays no get, and no other wait.
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
  /// Returns the newest snapshot; kTimedOut: none came in `timeout_ms`. May take until
  /// `deadline_ns`, which includes the time of the answer.
  using Ask = std::function<Result<uint64_t>(const Question& question, uint64_t timeout_ms,
                                             uint64_t deadline_ns)>;
  /// Called once with what Ask returned. Must not wait.
  using Tell = std::function<void(const Result<uint64_t>& newest)>;
  struct Waiter {
    uint64_t until_ns = 0;     // answered with kTimedOut then, or about 20 ms later
    uint64_t deadline_ns = 0;  ///< of its answer
    Tell tell;
  };

  Waits(int threads_max, Ask ask) : threads_max_(threads_max), ask_(std::move(ask)),
                                    workers_(threads_max) {}
  /// Asks the question at once, on the caller's thread if all other threads are busy.
  void Add(const Question& question, Waiter waiter);
  /// Stops answering waiting readers. Returns whether all running questions ended within the time.
  bool Stop(uint64_t timeout_ms) { return workers_.Stop(timeout_ms); }
  /// Returns the number of open questions.
  size_t size();

 private:
  struct Open {
    Question question;
    std::vector<Waiter> waiters;
    uint64_t ends_ns = 0;  ///< when its current turn ends
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
