/// Exchanges of one process that have no handler threads: a thread that waits in one of them makes
/// progress in all, since the rank it waits for may itself wait in another.
///
/// Layer      comm
/// Threads    any
#pragma once

#include <functional>
#include <mutex>
#include <vector>

namespace quire::comm {

class ProgressGroup {
 public:
  /// The one of the transports that poll MPI from the program's threads.
  static ProgressGroup& OfMpi();

  /// `poll` handles what has arrived at `member`.
  void Join(const void* member, std::function<void()> poll);
  /// Its poll does not run any more when this returns.
  void Leave(const void* member);
  /// Polls all but `member`, unless another thread does so or this one runs a service.
  void PollOthers(const void* member);

 private:
  struct Entry {
    const void* member;
    std::function<void()> poll;
  };
  std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace quire::comm
