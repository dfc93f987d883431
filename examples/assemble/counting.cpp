#include "counting.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace quire::assemble {
namespace {

constexpr size_t kCollectedMax = 64;

uint8_t SumUpTo255(unsigned a, unsigned b) {
  return static_cast<uint8_t>(std::min(a + b, 255u));
}

}  // namespace

void KmerCounts::Add(uint8_t left, uint8_t right) {
  if (count < std::numeric_limits<uint32_t>::max()) ++count;
  if (left != kNoBase) beside[left] = SumUpTo255(beside[left], 1);
  if (right != kNoBase) beside[4u + right] = SumUpTo255(beside[4u + right], 1);
}

void KmerCounts::Add(const KmerCounts& other) {
  const uint64_t sum = uint64_t{count} + other.count;
  count = static_cast<uint32_t>(std::min<uint64_t>(sum, std::numeric_limits<uint32_t>::max()));
  for (size_t i = 0; i < beside.size(); ++i) beside[i] = SumUpTo255(beside[i], other.beside[i]);
}

void KmerCounts::Encode(char* bytes) const {
  for (size_t i = 0; i < 4; ++i) bytes[i] = static_cast<char>((count >> (8 * i)) & 0xff);
  std::memcpy(bytes + 4, beside.data(), beside.size());
}

Result<KmerCounts> KmerCounts::Decode(Slice bytes) {
  if (bytes.size() != kBytes) {
    return Status(Code::kCorruption,
                  "counts of a k-mer have " + std::to_string(bytes.size()) + " bytes");
  }
  KmerCounts counts;
  for (size_t i = 0; i < 4; ++i) {
    counts.count |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  std::memcpy(counts.beside.data(), bytes.data() + 4, counts.beside.size());
  return counts;
}

Status AddCounts(Slice, const Slice* present, Slice argument, std::string* updated) {
  QUIRE_ASSIGN_OR_RETURN(KmerCounts sum, KmerCounts::Decode(argument));
  if (present != nullptr) {
    QUIRE_ASSIGN_OR_RETURN(const KmerCounts before, KmerCounts::Decode(*present));
    sum.Add(before);
  }
  updated->resize(KmerCounts::kBytes);
  sum.Encode(updated->data());
  return Status();
}

KmerCounter::KmerCounter(Database& database, const KmerShape& shape, unsigned slot_bits)
    : database_(database),
      shape_(shape),
      buckets_(slot_bits == 0 ? 0 : size_t{1} << (slot_bits - 1)) {}

Status KmerCounter::Add(Slice sequence) {
  Status status;
  ForEachKmer(shape_, sequence, [&](const KmerInRead& found) {
    if (!buckets_.empty()) __builtin_prefetch(&BucketOf(found.kmer), 1);
    collected_.push_back(found);
    if (collected_.size() >= kCollectedMax && status.ok()) status = AddCollected();
  });
  QUIRE_RETURN_IF_ERROR(status);
  return AddCollected();
}

// Adds many k-mers at a time: their buckets are rarely in a cache, and memory loads them in
// parallel.
Status KmerCounter::AddCollected() {
  for (const KmerInRead& found : collected_) QUIRE_RETURN_IF_ERROR(AddOne(found));
  collected_.clear();
  return Status();
}

Status KmerCounter::AddOne(const KmerInRead& found) {
  ++occurrence_count_;
  if (buckets_.empty()) {
    KmerCounts one;
    one.Add(found.left, found.right);
    return Send(found.kmer, one);
  }
  auto& [first, second] = BucketOf(found.kmer).slots;
  Slot* slot = first.kmer == found.kmer ? &first : &second;
  if (slot->kmer != found.kmer || slot->counts.count == 0) {
    // Sends away the less frequent k-mer of the bucket: most errors occur once.
    slot = first.counts.count < second.counts.count ? &first : &second;
    if (slot->counts.count != 0) QUIRE_RETURN_IF_ERROR(Send(slot->kmer, slot->counts));
    *slot = {found.kmer, KmerCounts()};
  }
  slot->counts.Add(found.left, found.right);
  return Status();
}

Status KmerCounter::Send(Kmer kmer, const KmerCounts& counts) {
  char argument[KmerCounts::kBytes];
  counts.Encode(argument);
  return database_.Update(shape_.Key(kmer), kAddCounts, {argument, sizeof argument});
}

Status KmerCounter::Flush() {
  for (Bucket& bucket : buckets_) {
    for (Slot& slot : bucket.slots) {
      if (slot.counts.count == 0) continue;
      QUIRE_RETURN_IF_ERROR(Send(slot.kmer, slot.counts));
      slot = Slot();
    }
  }
  return Status();
}

}  // namespace quire::assemble
