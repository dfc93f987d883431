/// Helpers of the tests of streams: values that describe themselves, a part of a store on a
/// simulated machine, and actions at a place in the code.
///
/// Layer      tests
/// Threads    one at a time
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/threads/sync_point.h"
#include "io/sim/sim_file_system.h"
#include "quire/stream.h"

namespace quire::stream {

/// Bytes that only this version of this object has; those of neighbouring versions differ in some
/// blocks alone.
std::string BytesOf(Slice key, uint64_t version, uint64_t size);

/// A simulated machine with one store, of which rank 0 is written and read.
class StreamMachine {
 public:
  StreamMachine();
  io::SimFileSystem& fs() { return *fs_; }
  Result<std::unique_ptr<StreamWriter>> Write(const StreamOptions& options);
  Result<std::unique_ptr<StreamReader>> Read();
  std::string log_path() const { return "/place/store/log-0"; }

 private:
  std::unique_ptr<io::SimFileSystem> fs_;
};

/// Does something once, when a thread first reaches a place.
class AtPlace final : public base::SyncPointListener {
 public:
  AtPlace(std::string place, std::function<void()> work)
      : place_(std::move(place)), work_(std::move(work)), installed_(this) {}
  void Reach(const char* name) override {
    if (place_ != name || done_) return;
    done_ = true;
    work_();
  }

 private:
  const std::string place_;
  const std::function<void()> work_;
  bool done_ = false;
  base::ScopedSyncPoints installed_;
};

/// Small enough that tests wrap it soon.
StreamOptions SmallLog(uint64_t log_bytes);
/// Fills an object's memory with BytesOf.
void Compute(char* memory, Slice key, uint64_t version, uint64_t size);

}  // namespace quire::stream
