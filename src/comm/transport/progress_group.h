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
  /// Returns the group of the transports that poll MPI from the program's threads.
  static ProgressGroup& OfMpi();

  /// Adds `member`; `poll` handles the messages that have arrived at it.
  void Join(const void* member, std::function<void()> poll);
  /// Removes `member`: its poll no longer runs when this returns.
  void Leave(const void* member);
  /// Polls all members except `member`, unless another thread does so or this one runs a service.
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
