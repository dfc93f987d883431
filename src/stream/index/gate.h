/// The state that a log's writer and its readers exchange, in a small mapped file that outlives
/// both: the end of the log, the index that describes it, and the readers' pins.
///
/// Layer      stream
/// Source     docs/decisions/0013-streams.md
/// Encoding   docs/format/stream.md
/// Threads    any; what the writer sets is set by one at a time
/// Invariants The writer waits for no reader. A word here is trusted only if something else
///            confirms it: a commit's checksum, or a lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "io/files/file_system.h"
#include "stream/log/log_format.h"

namespace quire::stream {

/// The maximum number of readers of one log that hold part of it.
constexpr uint32_t kPinsMax = 1000;
constexpr Position kNoPin = UINT64_MAX;

enum class GateState : uint32_t {
  kNone = 0,
  kWriting = 1,   ///< or the writer died while writing: the lock shows which
  kFinished = 2,  ///< the writer called Finish
  kEnded = 3,     ///< the writer ended without Finish; the index is complete
};

class Gate {
 public:
  /// Opens the gate; creates the file if it is absent. The caller holds the log's lock.
  static Result<std::unique_ptr<Gate>> Create(io::FileSystem& fs, const std::string& path);
  /// Opens an existing gate. With MapMode::kRead nothing can be stored in it: only accessors and
  /// Wait may be called.
  ///
  /// Errors  kNotFound, kCorruption.
  static Result<std::unique_ptr<Gate>> Open(io::FileSystem& fs, const std::string& path,
                                            io::MapMode mode = io::MapMode::kReadWrite);

  /// Returns whether pins can be stored in it.
  bool writable() const { return writable_; }
  /// Returns whether it belongs to this log and this boot.
  bool Describes(uint64_t log_id, uint64_t boot_id) const;
  uint64_t log_id() const { return words().log_id.load(std::memory_order_acquire); }
  /// Returns whether it belongs to this log.
  bool Holds(uint64_t log_id) const { return this->log_id() == log_id; }
  /// Assigns the gate to this log and boot, and drops the earlier state (also the pins, if they
  /// belong to another log).
  void Assign(uint64_t log_id, uint64_t boot_id);

  Position head() const { return words().head.load(std::memory_order_seq_cst); }
  void SetHead(Position head) { words().head.store(head, std::memory_order_seq_cst); }
  Position tail() const { return words().tail.load(std::memory_order_acquire); }
  void SetTail(Position tail) { words().tail.store(tail, std::memory_order_release); }
  /// Returns the newest commit that readers may see.
  uint64_t snapshot() const { return words().snapshot.load(std::memory_order_acquire); }
  GateState state() const { return GateState(words().state.load(std::memory_order_acquire)); }
  /// Returns the number of the current index: that of the file "index-<rank>" must be equal.
  uint32_t index_number() const { return words().index_number.load(std::memory_order_acquire); }
  void SetIndexNumber(uint32_t number);

  /// Makes `snapshot` visible, and wakes readers that wait for one.
  void Publish(uint64_t snapshot);
  void SetState(GateState state);
  /// Sleeps until Publish or SetState, at most `timeout_ns`, unless something was published after
  /// `snapshot` or the state is not `state`. If the gate is not writable, the writer cannot see
  /// sleeping readers: the reader polls every few milliseconds.
  void Wait(uint64_t snapshot, GateState state, uint64_t timeout_ns) const;

  /// Returns how often owners have asked a program that only tends the part to release it.
  uint32_t asked() const { return words().asked.load(std::memory_order_acquire); }
  void Ask() { words().asked.fetch_add(1, std::memory_order_acq_rel); }

  /// Returns the number of slots that readers have ever used: [0, pin_slots()).
  uint32_t pin_slots() const;
  /// Returns the position from which on the reader in `slot` holds the log.
  Position pin(uint32_t slot) const;
  /// Called by a reader: holds the log from `at` on. The reader must read head() afterwards: if it
  /// is larger, the pin came too late.
  void Pin(uint32_t slot, Position at);

 private:
  struct Words {
    std::atomic<uint64_t> magic;
    std::atomic<uint64_t> log_id;
    std::atomic<uint64_t> boot_id;
    std::atomic<uint64_t> head;
    std::atomic<uint64_t> tail;
    std::atomic<uint64_t> snapshot;
    std::atomic<uint32_t> state;
    std::atomic<uint32_t> index_number;
    std::atomic<uint32_t> wake;     // counts events for waiting readers
    std::atomic<uint32_t> waiting;  // a reader may sleep
    std::atomic<uint32_t> pin_slots;
    std::atomic<uint32_t> asked;
  };
  struct alignas(64) PinSlot {
    std::atomic<uint64_t> position;  // plus 1; 0: none
  };
  Gate() = default;
  Words& words() const { return *reinterpret_cast<Words*>(data_); }
  PinSlot& slot(uint32_t which) const;
  void Wake();

  std::unique_ptr<io::MappedFile> map_;
  char* data_ = nullptr;
  bool writable_ = true;
};

}  // namespace quire::stream
