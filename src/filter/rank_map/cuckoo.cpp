#include "filter/rank_map/cuckoo.h"

#include "base/text/coding.h"
#include "filter/rank_map/cuckoo_layout.h"
#include "filter/rank_map/pair_list.h"

namespace quire::filter {
const char* ValidateCuckoo(Slice body, int rank_bits, uint32_t rank_count) {
  if (body.size() < kCuckooHeaderBytes) return "a cut-off cuckoo table";
  const uint32_t table_count = base::LoadLe<uint32_t>(body.data());
  if (table_count > kCuckooTablesMax) return "too many cuckoo tables";
  uint64_t size = kCuckooHeaderBytes + table_count * sizeof(uint32_t);
  if (body.size() < size) return "a cut-off list of cuckoo tables";
  for (uint32_t table = 0; table < table_count; ++table) {
    const uint32_t bucket_count =
        base::LoadLe<uint32_t>(body.data() + kCuckooHeaderBytes + table * sizeof(uint32_t));
    if (bucket_count == 0) return "a cuckoo table without buckets";
    size += CuckooTableBytes(bucket_count, kPartialKeyBits + rank_bits);
  }
  size += kCuckooSlackBytes;
  if (body.size() < size) return "a cut-off cuckoo table";
  return PairList(body.substr(size), base::LoadLe<uint32_t>(body.data() + 4)).Validate(rank_count);
}

void FindInCuckoo(Slice body, int rank_bits, uint64_t hash, std::vector<uint32_t>* ranks) {
  const uint32_t table_count = base::LoadLe<uint32_t>(body.data());
  const int slot_bits = kPartialKeyBits + rank_bits;
  const uint32_t slot_mask = (1u << slot_bits) - 1;
  const char* slots = body.data() + kCuckooHeaderBytes + table_count * sizeof(uint32_t);
  for (uint32_t table = 0; table < table_count; ++table) {
    const uint32_t bucket_count =
        base::LoadLe<uint32_t>(body.data() + kCuckooHeaderBytes + table * sizeof(uint32_t));
    const CuckooPlace place(hash, table, bucket_count);
    const uint32_t other = CuckooPlace::Other(place.bucket, place.partial, bucket_count);
    for (const uint32_t bucket : {place.bucket, other}) {
      uint64_t bit = uint64_t{bucket} * kSlotsPerCuckooBucket * static_cast<uint64_t>(slot_bits);
      for (uint32_t i = 0; i < kSlotsPerCuckooBucket;
           ++i, bit += static_cast<uint64_t>(slot_bits)) {
        const uint64_t word = base::LoadLe<uint64_t>(slots + bit / 8) >> bit % 8;
        const uint32_t slot = static_cast<uint32_t>(word) & slot_mask;
        if ((slot & kPartialKeys) == place.partial) ranks->push_back(slot >> kPartialKeyBits);
      }
      if (bucket == other) break;
    }
    slots += CuckooTableBytes(bucket_count, slot_bits);
  }
  const uint32_t listed_count = base::LoadLe<uint32_t>(body.data() + 4);
  if (listed_count == 0) return;
  const size_t listed_at = static_cast<size_t>(slots - body.data()) + kCuckooSlackBytes;
  PairList(body.substr(listed_at), listed_count).Find(hash, ranks);
}

}  // namespace quire::filter
