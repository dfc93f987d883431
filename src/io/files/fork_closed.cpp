#include "io/files/fork_closed.h"

#include <pthread.h>
#include <unistd.h>

#include <utility>

namespace quire::io {

struct ForkClosedList {
  std::mutex mutex;
  ForkClosed* first = nullptr;

  // Runs in a child of a process with threads, so it uses only what is safe in a signal handler.
  void CloseAll() const {
    for (ForkClosed* each = first; each != nullptr; each = each->next_) {
      ::close(each->fd_.Release());
    }
  }
};

namespace {

ForkClosedList& TheList() {
  static ForkClosedList* const list = [] {
    auto* const made = new ForkClosedList;  // never destroyed: locks may outlive statics
    // Fails only for lack of memory; then a child keeps its parent's descriptors.
    static_cast<void>(::pthread_atfork([] { TheList().mutex.lock(); },
                                       [] { TheList().mutex.unlock(); },
                                       [] {
                                         TheList().CloseAll();
                                         TheList().mutex.unlock();
                                       }));
    return made;
  }();
  return *list;
}

}  // namespace

NoFork::NoFork() : lock_(TheList().mutex) {}

ForkClosed::ForkClosed(FileDescriptor fd, const NoFork& /*no_fork*/) : fd_(std::move(fd)) {
  ForkClosedList& list = TheList();
  next_ = list.first;
  if (next_ != nullptr) next_->previous_ = this;
  list.first = this;
}

ForkClosed::~ForkClosed() {
  ForkClosedList& list = TheList();
  const std::lock_guard<std::mutex> lock(list.mutex);
  (previous_ == nullptr ? list.first : previous_->next_) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
}

}  // namespace quire::io
