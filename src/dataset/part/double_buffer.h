/// Two buffers of one kind: one is filled while the other is written in the background.
///
/// Layer      dataset
/// Threads    filling, Turn, Finish, Drop: one at a time; spare_free: any
/// Invariants nothing is lost: a buffer is passed to the queue once, and filled again when empty;
///            it is empty and free also if writing failed, even for lack of memory; if there is no
///            memory to hand it over, std::bad_alloc is thrown, and it is filled as before
#pragma once

#include <atomic>
#include <functional>
#include <new>
#include <utility>

#include "base/core/out_of_memory.h"
#include "dataset/part/serial_queue.h"
#include "quire/status.h"

namespace quire::dataset {

template <typename Buffer>
class DoubleBuffer {
 public:
  /// Writes the content of a buffer; `only`: the epoch has no other data.
  using Write = std::function<Status(Buffer* buffer, bool only)>;

  /// `empty...` are a buffer's constructor arguments. This object must not be destroyed before the
  /// queue is drained.
  template <typename... Empty>
  DoubleBuffer(SerialQueue* queue, Write write, const Empty&... empty)
      : queue_(queue), write_(std::move(write)), buffers_{Buffer(empty...), Buffer(empty...)} {}

  Buffer& filling() { return buffers_[filling_]; }
  const Buffer& filling() const { return buffers_[filling_]; }
  /// Returns whether Turn may be called.
  bool spare_free() const { return spare_free_.load(std::memory_order_acquire); }
  /// Queues the buffer for writing, and continues with the other one.
  void Turn() { Give(false); }
  /// Queues the rest of the epoch for writing; there may be none.
  void Finish() {
    if (!filling().empty()) Give(!turned_);
    turned_ = false;
  }
  /// Drops the content of the buffer.
  void Drop() {
    filling().Clear();
    turned_ = false;
  }

 private:
  void Give(bool only) {
    Buffer* const full = &buffers_[filling_];
    std::function<Status()> work = [this, full, only] {
      Status status = queue_->status();  // what failed before makes this pointless
      if (status.ok()) status = base::OrOutOfMemory([&] { return write_(full, only); });
      full->Clear();
      spare_free_.store(true, std::memory_order_release);
      return status;
    };
    spare_free_.store(false, std::memory_order_release);
    try {
      queue_->Run(std::move(work));
    } catch (const std::bad_alloc&) {
      spare_free_.store(true, std::memory_order_release);
      throw;  // the buffer is filled on, or dropped
    }
    filling_ = 1 - filling_;
    turned_ = true;
  }

  SerialQueue* const queue_;
  const Write write_;
  Buffer buffers_[2];
  int filling_ = 0;
  bool turned_ = false;  ///< in this epoch
  std::atomic<bool> spare_free_{true};
};

}  // namespace quire::dataset
