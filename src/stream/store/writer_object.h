/// An object of a writer: the memory in which the program computes, and the data of its next
/// version.
///
/// Layer      stream
/// Source     NVStream, HPDC18, sections 5.1 and 5.2
/// Threads    one at a time
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "io/files/page_memory.h"
#include "quire/stream.h"
#include "stream/store/part.h"
#include "stream/changes/tracker.h"

namespace quire::stream {

class WriterObject {
 public:
  /// Uses `memory`, or its own pages if that is null.
  static Result<std::unique_ptr<WriterObject>> New(std::string key, char* memory, uint64_t bytes,
                                                   const StreamShape& shape,
                                                   const StreamOptions& options);
  /// Returns its slot in the part's index.
  uint32_t slot() const { return slot_; }
  void SetSlot(uint32_t slot) { slot_ = slot; }
  const std::string& key() const { return key_; }
  char* memory() const { return memory_; }
  uint64_t bytes() const { return bytes_; }
  const char* tracking() const { return tracker_ == nullptr ? "whole" : tracker_->mechanism(); }
  void MarkDirty(uint64_t offset, uint64_t bytes);
  /// Ends tracking: no version is prepared any more. The memory stays, but is no longer watched.
  void EndTracking() { tracker_.reset(); }

  /// Fills `item`, which may be from an earlier version, with the version `version`: the whole
  /// object, or its changes. `audit`: compares the reported changes with the whole object;
  /// kCorruption. The item refers to this object, until Stored or the next Prepare.
  Status Prepare(uint64_t version, bool audit, PendingVersion* item);
  /// Makes the prepared version a whole one.
  Status PrepareWhole(PendingVersion* item);
  /// Records that the prepared version was committed; storing it took `store_ns`.
  void Stored(uint64_t store_ns);

 private:
  WriterObject(std::string key, uint64_t bytes, StreamShape shape, const StreamOptions& options)
      : key_(std::move(key)), bytes_(bytes), shape_(std::move(shape)), options_(options) {}
  void Whole(PendingVersion* item);
  bool Delta(const Changes& changes, PendingVersion* item);
  Status Packed(PendingVersion* item);

  std::string key_;
  uint32_t slot_ = 0;
  uint64_t bytes_;
  StreamShape shape_;
  const StreamOptions& options_;
  io::PageMemory own_;
  char* memory_ = nullptr;
  std::unique_ptr<Tracker> tracker_;  // null: every version is stored in full
  uint32_t since_whole_ = 0;
  bool prepared_delta_ = false;
  std::string table_;   // of the delta that was prepared
  std::string packed_;  // the prepared data, compressed by LZ4
};

}  // namespace quire::stream
