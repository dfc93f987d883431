#include "stream/index/log_contents.h"

#include <algorithm>
#include <vector>

#include "base/threads/sync_point.h"

namespace quire::stream {
namespace {

constexpr uint64_t kVersionBytes = 4096;  // of log, for each version for which the index has room
constexpr uint64_t kVersionsMin = 1024;
constexpr uint64_t kKeyBytes = 64;  // of keys, for each object for which the index has room

}  // namespace

EntrySizes SizesOf(const VersionEntry& entry) {
  const uint64_t of_entry = EntryBytes(entry.key.size(), entry.shape.extents.size());
  return {AlignUp(entry.stored, kRecordBytes) + of_entry,
          AlignUp(entry.bytes, kRecordBytes) + of_entry};
}

VersionRef RefOf(const VersionEntry& entry, Position at) {
  return {entry.version,      entry.snapshot, at,         std::min(entry.data, at),
          entry.unix_time_ns, entry.stored,   entry.delta};
}

void KeepReadable(std::vector<VersionRef>* refs, Position from) {
  uint64_t below = 0;  // the version of which the next newer one may be a delta; 0: there is none
  for (size_t i = refs->size(); i > 0; --i) {
    VersionRef& ref = (*refs)[i - 1];
    const bool readable = ref.data >= from && (!ref.delta || below + 1 == ref.version);
    below = readable ? ref.version : 0;
    if (!readable) ref.version = 0;
  }
  std::erase_if(*refs, [](const VersionRef& ref) { return ref.version == 0; });
}

Result<LogContents> ReadContents(LogHeap* heap, const HowToRead& how, WalkEnd* end) {
  LogContents contents;
  const auto take = [&](Position at, const Record& record,
                        const std::vector<VersionEntry>& entries) -> Status {
    if (how.go_on) QUIRE_RETURN_IF_ERROR(how.go_on());
    uint64_t whole_bytes = kRecordBytes;
    contents.commits.push_back({at, record.bytes, {}});
    Position entry_at = at + record.directory;
    for (const VersionEntry& entry : entries) {
      const auto object = contents.objects.try_emplace(entry.key).first;
      auto& versions = object->second;
      if (versions.empty()) contents.key_bytes += entry.key.size();
      const VersionRef ref = RefOf(entry, entry_at);
      contents.version_count += versions.insert_or_assign(entry.version, ref).second ? 1 : 0;
      contents.snapshot = std::max(contents.snapshot, entry.snapshot);
      const EntrySizes entry_sizes = SizesOf(entry);
      contents.commits.back().entries.push_back(
          {&object->first, entry.version, entry_at, entry_sizes});
      whole_bytes += std::max(entry_sizes.stored, entry_sizes.whole);
      entry_at += entry.encoded;
    }
    contents.largest_commit = std::max(contents.largest_commit, whole_bytes);
    return Status();
  };
  base::SyncPoint("stream.walk.before");
  QUIRE_ASSIGN_OR_RETURN(*end, heap->Walk(how.check_data, take));
  while (how.any_order && heap->Lacks(end->at)) {
    contents = LogContents();
    if (heap->FallBack()) {
      QUIRE_ASSIGN_OR_RETURN(*end, heap->Walk(how.check_data, take));
    } else {
      *end = {heap->tail(), Status()};
    }
  }
  return contents;
}

HowToRead HowToReadDuring(uint64_t boot_id, const LogHeap& heap) {
  const bool same_boot = heap.head().boot_id == boot_id;
  return {.check_data = !same_boot, .any_order = !same_boot && !heap.persistent()};
}

Status CheckEnd(const LogHeap& heap, const WalkEnd& end, Position told, bool ordered) {
  const Position trusted = std::max({heap.head().durable, heap.head().relies_on, told});
  if (end.at >= trusted && (!ordered || end.status.ok())) return Status();
  const std::string what = end.status.ok() ? "a commit is missing" : end.status.message();
  return Status(Code::kCorruption,
                heap.path() + " is damaged at position " + std::to_string(end.at) + " of " +
                    std::to_string(std::max(trusted, end.at)) + ": " + what);
}

IndexSizes SizesFor(const LogContents& contents, uint32_t objects_min, uint64_t capacity) {
  IndexSizes sizes;
  sizes.objects = std::max(objects_min, static_cast<uint32_t>(contents.objects.size()));
  // At least two versions of each object: the kept one, and the one that is about to be stored.
  const uint64_t versions = std::max({capacity / kVersionBytes, uint64_t{2} * sizes.objects,
                                      contents.version_count + kVersionsMin});
  sizes.versions = static_cast<uint32_t>(std::min<uint64_t>(versions, UINT32_MAX / 2));
  sizes.key_bytes = sizes.objects * kKeyBytes + kKeyBytesMax + contents.key_bytes;
  return sizes;
}

Status FillIndex(const LogContents& contents, Index* index) {
  for (const auto& [key, versions] : contents.objects) {
    std::vector<VersionRef> refs;
    for (const auto& [number, ref] : versions) refs.push_back(ref);
    std::reverse(refs.begin(), refs.end());
    KeepReadable(&refs, 0);
    if (refs.empty()) continue;
    QUIRE_ASSIGN_OR_RETURN(const uint32_t object, index->FindOrAdd(key));
    for (size_t i = refs.size(); i > 0; --i) {
      QUIRE_RETURN_IF_ERROR(index->Add(object, refs[i - 1]));
    }
  }
  return Status();
}

}  // namespace quire::stream
