/// The volatile index of a log, in shared memory: the versions of each object and their positions
/// in the log. Each writer rebuilds it from the log; readers in other processes search it without
/// messages.
///
/// Layer      stream
/// Source     NVStream, HPDC18, section 4 (figure 4); docs/decisions/0013-streams.md
/// Encoding   docs/format/stream.md
/// Threads    one writer; any number of readers in any process, under a sequence count for each
///            object
/// Invariants No value in it is trusted: indexes are checked against its sizes, positions against
///            the log's checksums.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "stream/log/log_format.h"

namespace quire::stream {

struct IndexSizes {
  uint32_t objects = 0;    ///< at most
  uint32_t versions = 0;   ///< of all objects, at most
  uint64_t key_bytes = 0;  ///< of all objects, at most
};

/// One version of an object, as the index stores it.
struct VersionRef {
  uint64_t version = 0;
  uint64_t snapshot = 0;
  Position entry = 0;  ///< position of its entry
  Position data = 0;   ///< the lowest byte that it needs
  uint64_t unix_time_ns = 0;
  uint64_t stored = 0;
  bool delta = false;  ///< the previous version is needed, too
};

class Index {
 public:
  /// Returns the bytes that an index of these sizes takes.
  static uint64_t BytesFor(const IndexSizes& sizes);
  /// Writes an empty index into zeroed memory, which must begin at a page and outlive the index.
  static void Format(char* memory, const IndexSizes& sizes, uint64_t log_id, uint32_t number);
  /// Opens an index that Format wrote. kCorruption: it belongs to another log, has another number,
  /// or is damaged.
  static Result<Index> Attach(char* memory, uint64_t bytes, uint64_t log_id, uint32_t number);
  const IndexSizes& sizes() const { return sizes_; }

  // Calls of readers. kBusy: the writer has begun a change and does not finish it.
  /// Returns the slot of an object; kNotFound.
  Result<uint32_t> Find(Slice key) const;
  /// Returns the versions of an object, newest first; ends after the first version for which
  /// `enough` returns true, if it is given.
  using Enough = std::function<bool(const VersionRef&)>;
  Status Versions(uint32_t object, std::vector<VersionRef>* versions,
                  const Enough& enough = {}) const;
  /// Returns the keys of all objects, unordered.
  std::vector<std::string> Keys() const;
  void EachObject(const std::function<void(uint32_t object, Slice key)>& visit) const;

  // Calls of the writer, which has called Format.
  /// Returns the number of an object's newest version; 0 if it has none.
  uint64_t Newest(uint32_t object) const;
  /// Returns the slot of an object; creates it if there is none. kNoSpace.
  Result<uint32_t> FindOrAdd(Slice key);
  /// Inserts a version among those of the object, in order. kNoSpace.
  Status Add(uint32_t object, const VersionRef& version);
  /// Changes the position of a version. Returns false if there is no such version.
  bool Move(uint32_t object, const VersionRef& version);
  /// Prefetches cache lines for later steps, for a caller that reads many objects' versions in turn
  /// and is at `step`.
  template <typename Steps>
  void FetchAhead(const Steps& steps, size_t step) const {
    if (step + kFarAhead < steps.size()) FetchObject(steps[step + kFarAhead].slot);
    if (step + kAhead < steps.size()) FetchNewest(steps[step + kAhead].slot);
  }
  /// Removes the versions that are not in `stay`, which is in the order of Versions.
  void Retain(uint32_t object, const std::vector<VersionRef>& stay);
  /// Returns the number of slots for objects.
  uint32_t slots() const;
  /// Returns the number of further versions for which there is room.
  uint32_t free_versions() const {
    return sizes_.versions - used_ + static_cast<uint32_t>(free_.size());
  }

 private:
  struct Header;
  struct ObjectSlot;
  struct VersionSlot;
  Index(char* memory, const IndexSizes& sizes) : memory_(memory), sizes_(sizes) {}
  Header& header() const;
  ObjectSlot& object(uint32_t which) const;
  VersionSlot& version(uint32_t which) const;
  char* names() const;
  Slice KeyOf(const ObjectSlot& slot) const;
  uint32_t Probe(Slice key, uint64_t hash) const;
  VersionRef Load(const VersionSlot& slot) const;
  void Store(VersionSlot& slot, const VersionRef& ref);
  bool TryVersions(const ObjectSlot& slot, const Enough& enough,
                   std::vector<VersionRef>* versions) const;
  static constexpr size_t kAhead = 8;
  static constexpr size_t kFarAhead = 2 * kAhead;  // data with the positions of nearer data
  void FetchObject(uint32_t which) const;
  void FetchNewest(uint32_t which) const;

  char* memory_;
  IndexSizes sizes_;
  uint32_t used_ = 0;             // version slots that were ever used
  std::vector<uint32_t> free_;    // of those, the free ones
  std::vector<uint64_t> newest_;  // the writer's: the newest version of each object, 0: none
};

}  // namespace quire::stream
