/// Helpers of the tests of trackers: an object with a copy that follows its tracker's results, and
/// writes to memory that no tracker sees.
///
/// Layer      stream (tests)
/// Threads    an object belongs to one thread
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "io/files/page_memory.h"
#include "stream/changes/tracker.h"

namespace quire::stream {

/// An object, its tracker, and a copy of the object that is updated only from the tracker's
/// results.
class TrackedObject {
 public:
  TrackedObject(uint64_t bytes, StreamDeltas deltas, bool audited = false)
      : own_(std::move(*io::AllocatePages(bytes))),
        memory_(own_.data()),
        bytes_(bytes),
        copy_(bytes, '\0') {
    Track(deltas, audited);
  }
  /// For memory of another owner.
  TrackedObject(char* memory, uint64_t bytes, StreamDeltas deltas, bool audited = false)
      : memory_(memory), bytes_(bytes), copy_(bytes, '\0') {
    Track(deltas, audited);
  }

  char* data() { return memory_; }
  uint64_t bytes() const { return bytes_; }
  Tracker& tracker() { return *tracker_; }
  std::string mechanism() const { return tracker_->mechanism(); }
  void LetGo() { tracker_.reset(); }

  Changes DetectChanges() {
    Result<Changes> changes = tracker_->DetectChanges();
    EXPECT_TRUE(changes.ok()) << changes.status().ToString();
    return changes.ok() ? std::move(*changes) : Changes{};
  }
  /// Copies `changes`. [bytes]
  uint64_t Copy(const Changes& changes) {
    if (changes.all) {
      std::memcpy(copy_.data(), memory_, bytes_);
      return bytes_;
    }
    uint64_t copied = 0;
    for (const BlockRun& run : changes.runs) {
      const uint64_t begin = run.first * kBlockBytes;
      const uint64_t end = std::min(begin + run.count * kBlockBytes, bytes_);
      std::memcpy(copy_.data() + begin, memory_ + begin, end - begin);
      copied += end - begin;
    }
    return copied;
  }
  /// One version: copies the tracker's results, after which the copy equals the object. Returns the
  /// bytes that were copied.
  uint64_t Step(uint64_t whole_ns = 0) {
    const Changes changes = DetectChanges();
    const uint64_t copied = Copy(changes);
    EXPECT_TRUE(IsCopied());
    tracker_->CommitChanges(!changes.all, changes.all ? whole_ns : 0);
    return copied;
  }
  bool IsCopied() const { return std::memcmp(copy_.data(), memory_, bytes_) == 0; }
  /// Blocks in which the object differs from the copy.
  uint64_t ChangedBlocks() const {
    uint64_t count = 0;
    for (uint64_t at = 0; at < bytes_; at += kBlockBytes) {
      const uint64_t size = std::min(kBlockBytes, bytes_ - at);
      if (std::memcmp(copy_.data() + at, memory_ + at, size) != 0) ++count;
    }
    return count;
  }

 private:
  void Track(StreamDeltas deltas, bool audited) {
    auto tracker = Tracker::New(memory_, bytes_, deltas, audited);
    EXPECT_TRUE(tracker.ok()) << tracker.status().ToString();
    tracker_ = std::move(*tracker);
  }

  io::PageMemory own_;
  char* memory_;
  uint64_t bytes_;
  std::string copy_;
  std::unique_ptr<Tracker> tracker_;
};

/// Memory with two addresses: no tracker in this process sees writes through the second one.
class TwiceMapped {
 public:
  explicit TwiceMapped(uint64_t bytes) : bytes_(bytes) {
    const int fd = ::memfd_create("twice", MFD_CLOEXEC);
    EXPECT_EQ(::ftruncate(fd, static_cast<off_t>(bytes)), 0);
    for (char*& place : places_) {
      void* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
      EXPECT_NE(data, MAP_FAILED);
      place = static_cast<char*>(data);
    }
    ::close(fd);
  }
  ~TwiceMapped() {
    for (char* const place : places_) ::munmap(place, bytes_);
  }
  TwiceMapped(const TwiceMapped&) = delete;
  TwiceMapped& operator=(const TwiceMapped&) = delete;
  char* here() const { return places_[0]; }
  char* there() const { return places_[1]; }

 private:
  uint64_t bytes_;
  char* places_[2];
};

/// Changes a byte to a different value.
inline void Change(char* at) {
  volatile char* const byte = at;
  *byte = static_cast<char>(*byte + 1);
}

}  // namespace quire::stream
