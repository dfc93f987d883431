#include "dataset/route/partition_builder.h"

#include <algorithm>
#include <string>

#include "base/hash/hash.h"
#include "base/text/coding.h"

namespace quire::dataset {
namespace {

filter::RankMapOptions MapOptions(const DatasetOptions& options, uint32_t rank_count) {
  filter::RankMapOptions map;
  map.rank_count = rank_count;
  map.kind = filter::RankMapKind::kRibbon;
  if (options.format == DatasetFormat::kCuckoo) map.kind = filter::RankMapKind::kCuckoo;
  if (options.format == DatasetFormat::kBloom) map.kind = filter::RankMapKind::kBloom;
  if (options.bloom_ranks > 0) map.chance_ranks = options.bloom_ranks - 1;
  return map;
}

constexpr size_t HashEntryBytes(bool marked) {
  return sizeof(uint64_t) + (marked ? kMarkBytes : 0);
}

}  // namespace

PartitionBuilder::PartitionBuilder(const DatasetOptions& options, const Route& route,
                                   SerialQueue* queue, PartWriter* part)
    : format_(options.format),
      route_(route),
      hash_count_max_(options.partition_bytes / sizeof(filter::KeyRank)),
      queue_(queue),
      hashes_(queue,
              [part, map = MapOptions(options, route.size())](HashBuffer* buffer, bool /*only*/) {
                return part->AddMap(map, &buffer->pairs);
              }),
      pairs_(
          queue, [part](PairBuffer* buffer, bool only) { return part->AddTable(buffer, only); },
          options.partition_bytes) {}

Status PartitionBuilder::Take(uint32_t source, bool marked, Slice entries) {
  const std::lock_guard<std::mutex> lock(mutex_);
  // The epoch can no longer be completed, so the sender need not wait for room.
  if (!queue_->status().ok()) return Status();
  return HasKeys(format_) ? TakePairs(source, marked, entries)
                          : TakeHashes(source, marked, entries);
}

Status PartitionBuilder::TakeHashes(uint32_t source, bool marked, Slice entries) {
  const uint64_t count = entries.size() / HashEntryBytes(marked);
  std::vector<filter::KeyRank>* pairs = &hashes_.filling().pairs;
  if (pairs->size() + count > hash_count_max_ && !pairs->empty()) {
    if (!hashes_.spare_free()) return Status(Code::kBusy);
    hashes_.Turn();
    pairs = &hashes_.filling().pairs;
  }
  const size_t before = pairs->size();
  // Reserves the whole planned size at once: pages that were never touched use no memory.
  if (before + count > pairs->capacity()) pairs->reserve(std::max(before + count, hash_count_max_));
  if (!AppendHashes(source, marked, entries, pairs)) {
    pairs->resize(before);
    return Misplaced(source);
  }
  received_ += count;
  return Status();
}

// Appends the entries. All have the same size, which is checked once; the rank that a mark names is
// checked for each entry.
bool PartitionBuilder::AppendHashes(uint32_t source, bool marked, Slice entries,
                                    std::vector<filter::KeyRank>* pairs) const {
  const size_t entry_bytes = HashEntryBytes(marked);
  if (entries.size() % entry_bytes != 0) return false;
  const char* const end = entries.data() + entries.size();
  for (const char* entry = entries.data(); entry != end; entry += entry_bytes) {
    const char* const hash = entry + (marked ? kMarkBytes : 0);
    const uint32_t from = marked ? route_.SourceOf(source, base::LoadLe<uint16_t>(entry)) : source;
    if (from >= route_.size()) return false;
    pairs->push_back({base::LoadLe<uint64_t>(hash), from});
  }
  return true;
}

Status PartitionBuilder::TakePairs(uint32_t source, bool marked, Slice entries) {
  uint64_t count = 0;
  for (Slice rest = entries; !rest.empty(); ++count) {
    if (!TakeSource(source, marked, &rest) || !TakeEntry(format_, &rest)) return Misplaced(source);
  }
  // The heads and the index of the pairs in the buffer count, too.
  const uint64_t bytes = entries.size() + count * PairBuffer::kExtraBytes;
  if (!pairs_.filling().Fits(0, bytes)) {
    if (!pairs_.spare_free()) return Status(Code::kBusy);
    pairs_.Turn();
  }
  pairs_.filling().Reserve(bytes);
  while (!entries.empty()) {
    const uint32_t from = *TakeSource(source, marked, &entries);
    const ShuffleEntry entry = *TakeEntry(format_, &entries);
    pairs_.filling().Add(entry.key, entry.value, from);
  }
  received_ += count;
  return Status();
}

// Removes the mark from the front, if there are marks. Returns the rank that put the entry behind
// it; nothing if no rank can have put it.
std::optional<uint32_t> PartitionBuilder::TakeSource(uint32_t source, bool marked,
                                                     Slice* entries) const {
  if (!marked) return source;
  if (entries->size() < kMarkBytes) return std::nullopt;
  const uint32_t from = route_.SourceOf(source, base::LoadLe<uint16_t>(entries->data()));
  entries->remove_prefix(kMarkBytes);
  if (from >= route_.size()) return std::nullopt;
  return from;
}

Status PartitionBuilder::Misplaced(uint32_t source) const {
  return Status(Code::kCorruption, "rank " + std::to_string(source) +
                                       " sent a batch of a dataset that holds no entries");
}

void PartitionBuilder::Finish() {
  const std::lock_guard<std::mutex> lock(mutex_);
  hashes_.Finish();
  pairs_.Finish();
}

void PartitionBuilder::Drop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  hashes_.Drop();
  pairs_.Drop();
}

uint64_t PartitionBuilder::received() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return received_;
}

}  // namespace quire::dataset
