/// The part of a log that one reader holds; the collector sees it in a slot of the gate.
///
/// Layer      stream
/// Source     docs/decisions/0013-streams.md (pins)
/// Threads    any
#pragma once

#include <memory>
#include <mutex>
#include <set>

#include "io/files/file_system.h"
#include "stream/index/gate.h"
#include "stream/store/part.h"

namespace quire::stream {

class Pins {
 public:
  /// The gate must outlive it, and be writable.
  Pins(io::FileSystem& fs, PartName name, Gate* gate)
      : fs_(fs), name_(std::move(name)), gate_(gate) {}
  ~Pins();
  /// Holds all from `at` on until Release. False: it has been collected. The first takes a slot,
  /// and its lock, by which the collector knows that this reader lives.
  ///
  /// Errors  kBusy: there are kPinsMax readers.
  Result<bool> Hold(Position at);
  void Release(Position at);

 private:
  bool HasSlot() const;
  Status TakeSlot();
  void Tell();

  io::FileSystem& fs_;
  PartName name_;
  uint32_t generation_ = 0;  // of the process that took the slot: a forked child has none
  Gate* gate_;
  std::mutex mutex_;
  std::multiset<Position> held_;
  uint32_t slot_ = 0;
  std::unique_ptr<io::FileLock> lock_;
};

}  // namespace quire::stream
