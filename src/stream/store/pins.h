/// The part of a log that one reader holds; the collector sees it in a slot of the gate.
///
/// Layer      stream
/// Source     docs/decisions/0013-streams.md (pins)
/// Threads    any
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "io/files/file_system.h"
#include "stream/index/gate.h"
#include "stream/store/part.h"

namespace quire::stream {

class Pins {
 public:
  /// `gate` must be writable and outlive this object.
  Pins(io::FileSystem& fs, PartName name, Gate* gate)
      : fs_(fs), name_(std::move(name)), gate_(gate) {}
  ~Pins();

  /// The held part of the log; destroying it releases the hold. Only Hold creates one. The Pins
  /// must outlive it.
  class Held {
   public:
    /// Holds nothing.
    Held() = default;
    Held(Held&& other) noexcept : pins_(std::exchange(other.pins_, nullptr)), at_(other.at_) {}
    Held& operator=(Held&& other) noexcept {
      std::swap(pins_, other.pins_);
      std::swap(at_, other.at_);
      return *this;
    }
    ~Held() {
      if (pins_ != nullptr) pins_->Release(at_);
    }

   private:
    friend class Pins;
    Held(Pins* pins, Position at) : pins_(pins), at_(at) {}
    Pins* pins_ = nullptr;
    Position at_ = 0;
  };
  /// Holds the log from `at` on. Returns no value if that has been collected. The first call takes
  /// a slot and its lock, which shows the collector that this reader is alive.
  ///
  /// Errors  kBusy: there are kPinsMax readers. kPeerFailed: the store was removed or moved.
  Result<std::optional<Held>> Hold(Position at);

 private:
  void Release(Position at);
  bool HasSlot() const;
  Status TakeSlot();
  void Tell();

  io::FileSystem& fs_;
  PartName name_;
  uint32_t generation_ = 0;  // of the process that took the slot; a forked child has no slot
  Gate* gate_;
  std::mutex mutex_;
  std::multiset<Position> held_;
  uint32_t slot_ = 0;
  std::unique_ptr<io::FileLock> lock_;
};

}  // namespace quire::stream
