#include "stream/index/index.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/hash/hash.h"
#include "base/threads/sequence_lock.h"
#include "base/threads/sync_point.h"
#include "io/files/machine.h"
#include "io/memory/streaming_stores.h"

namespace quire::stream {
namespace {

constexpr uint64_t kIndexMagic = 0x32584449544D5453;  // "STMTIDX2"
constexpr int kIndexAttempts = 200;
constexpr uint64_t kIndexPauseNs = 50'000;
constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr auto kAcquire = std::memory_order_acquire;
constexpr auto kRelease = std::memory_order_release;

uint32_t SlotCount(uint32_t objects) {
  return std::bit_ceil(objects) * 2;
}

}  // namespace

struct Index::Header {
  uint64_t magic;
  uint64_t log_id;
  uint32_t number;
  uint32_t objects;
  uint32_t versions;
  uint64_t key_bytes;
  std::atomic<uint32_t> object_count;
  std::atomic<uint64_t> name_bytes;  // used
};

struct Index::ObjectSlot {
  std::atomic<uint64_t> hash;
  std::atomic<uint64_t> name_at;
  std::atomic<uint32_t> name_size;  // 0: the slot is free
  std::atomic<uint32_t> newest;     // version slot plus 1; 0: none
  base::SequenceLock<uint32_t> lock;  // guards the versions
  uint32_t unused;
};

// A slot fills one cache line: each version that is looked at costs one of them.
struct alignas(64) Index::VersionSlot {
  std::atomic<uint64_t> version;
  std::atomic<uint64_t> snapshot;
  std::atomic<uint64_t> entry;
  std::atomic<uint64_t> data;
  std::atomic<uint64_t> unix_time_ns;
  std::atomic<uint64_t> stored;
  std::atomic<uint32_t> older;  // version slot plus 1
  std::atomic<uint32_t> delta;
};

uint64_t Index::BytesFor(const IndexSizes& sizes) {
  return AlignUp(kPageBytes + SlotCount(sizes.objects) * sizeof(ObjectSlot) +
                     uint64_t{sizes.versions} * sizeof(VersionSlot) + sizes.key_bytes,
                 kPageBytes);
}

void Index::Format(char* memory, const IndexSizes& sizes, uint64_t log_id, uint32_t number) {
  Index index(memory, sizes);
  Header& header = index.header();
  header.log_id = log_id;
  header.number = number;
  header.objects = sizes.objects;
  header.versions = sizes.versions;
  header.key_bytes = sizes.key_bytes;
  header.magic = kIndexMagic;
}

Result<Index> Index::Attach(char* memory, uint64_t bytes, uint64_t log_id, uint32_t number) {
  Index index(memory, {});
  const Header& header = index.header();
  const IndexSizes sizes{header.objects, header.versions, header.key_bytes};
  const bool right = bytes >= kPageBytes && header.magic == kIndexMagic &&
                     header.log_id == log_id && header.number == number &&
                     sizes.objects <= 1u << 24 && sizes.key_bytes <= bytes &&
                     BytesFor(sizes) <= bytes;
  if (!right) return Status(Code::kCorruption, "the index belongs to another log or is damaged");
  index.sizes_ = sizes;
  return index;
}

uint32_t Index::slots() const {
  return SlotCount(sizes_.objects);
}

Index::Header& Index::header() const {
  return *reinterpret_cast<Header*>(memory_);
}
Index::ObjectSlot& Index::object(uint32_t which) const {
  return reinterpret_cast<ObjectSlot*>(memory_ + kPageBytes)[which];
}
Index::VersionSlot& Index::version(uint32_t which) const {
  const uint64_t before = slots() * sizeof(ObjectSlot);
  return reinterpret_cast<VersionSlot*>(memory_ + kPageBytes + before)[which];
}
char* Index::names() const {
  return reinterpret_cast<char*>(&version(0)) + uint64_t{sizes_.versions} * sizeof(VersionSlot);
}

Slice Index::KeyOf(const ObjectSlot& slot) const {
  const uint64_t size = slot.name_size.load(kAcquire);
  const uint64_t at = slot.name_at.load(kRelaxed);
  const uint64_t all = sizes_.key_bytes;
  return at <= all && size <= all - at ? Slice(names() + at, size) : Slice();
}

// Returns the slot of the key, or the free slot for it; the number of slots if all belong to other
// keys.
uint32_t Index::Probe(Slice key, uint64_t hash) const {
  const uint32_t count = slots();
  for (uint32_t step = 0; step < count; ++step) {
    const uint32_t at = (static_cast<uint32_t>(hash) + step) % count;
    const ObjectSlot& slot = object(at);
    if (slot.name_size.load(kAcquire) == 0) {
      base::SyncPoint("stream.index.at_free_slot");
      return at;
    }
    if (slot.hash.load(kRelaxed) == hash && KeyOf(slot) == key) return at;
  }
  return count;
}

Result<uint32_t> Index::Find(Slice key) const {
  const uint32_t at = Probe(key, base::HashKey(key));
  // A slot that was free a moment ago may belong to another object by now.
  if (at == slots() || KeyOf(object(at)) != key) return Status(Code::kNotFound);
  return at;
}

Result<uint32_t> Index::FindOrAdd(Slice key) {
  const uint64_t hash = base::HashKey(key);
  const uint32_t at = Probe(key, hash);
  newest_.resize(slots());
  Header& head = header();
  const uint64_t used = head.name_bytes.load(kRelaxed);
  if (at < slots() && !KeyOf(object(at)).empty()) return at;
  if (head.object_count.load(kRelaxed) >= sizes_.objects || used + key.size() > sizes_.key_bytes) {
    return Status(Code::kNoSpace, "there are " + std::to_string(sizes_.objects) +
                                      " objects, or their keys are long on average: give a larger "
                                      "stream_objects_max");
  }
  io::StoreByPages(names() + used, key.data(), key.size());
  head.name_bytes.store(used + key.size(), kRelaxed);
  head.object_count.fetch_add(1, kRelaxed);
  ObjectSlot& slot = object(at);
  slot.hash.store(hash, kRelaxed);
  slot.name_at.store(used, kRelaxed);
  base::SyncPoint("stream.index.amid_object");
  slot.name_size.store(static_cast<uint32_t>(key.size()), kRelease);
  return at;
}

// Loads and stores each field with the ordering that an object's SequenceLock requires.
VersionRef Index::Load(const VersionSlot& slot) const {
  VersionRef ref;
  ref.version = slot.version.load(kAcquire);
  ref.snapshot = slot.snapshot.load(kAcquire);
  ref.entry = slot.entry.load(kAcquire);
  ref.data = slot.data.load(kAcquire);
  ref.unix_time_ns = slot.unix_time_ns.load(kAcquire);
  ref.stored = slot.stored.load(kAcquire);
  ref.delta = slot.delta.load(kAcquire) != 0;
  return ref;
}

void Index::Store(VersionSlot& slot, const VersionRef& ref) {
  slot.version.store(ref.version, kRelease);
  slot.snapshot.store(ref.snapshot, kRelease);
  slot.entry.store(ref.entry, kRelease);
  slot.data.store(ref.data, kRelease);
  slot.unix_time_ns.store(ref.unix_time_ns, kRelease);
  slot.stored.store(ref.stored, kRelease);
  slot.delta.store(ref.delta ? 1 : 0, kRelease);
}

bool Index::TryVersions(const ObjectSlot& slot, const Enough& enough,
                        std::vector<VersionRef>* versions) const {
  versions->clear();
  const std::optional<uint32_t> before = slot.lock.BeginRead();
  if (!before.has_value()) return false;
  uint32_t next = slot.newest.load(kAcquire);
  while (next != 0 && next <= sizes_.versions && versions->size() < sizes_.versions) {
    const VersionSlot& at = version(next - 1);
    versions->push_back(Load(at));
    if (enough && enough(versions->back())) break;
    next = at.older.load(kAcquire);
  }
  base::SyncPoint("stream.index.before_recheck");
  return slot.lock.EndRead(*before);
}

Status Index::Versions(uint32_t which, std::vector<VersionRef>* versions,
                       const Enough& enough) const {
  const ObjectSlot& slot = object(which);
  for (int attempt = 0; attempt < kIndexAttempts; ++attempt) {
    if (TryVersions(slot, enough, versions)) return Status();
    io::RealClock().SleepNs(kIndexPauseNs);
  }
  return Status(Code::kBusy, "the writer is amid a change of the index, or died there");
}

void Index::EachObject(const std::function<void(uint32_t, Slice)>& visit) const {
  const uint32_t count = slots();
  for (uint32_t i = 0; i < count; ++i) {
    const Slice key = KeyOf(object(i));
    if (!key.empty()) visit(i, key);
  }
}

std::vector<std::string> Index::Keys() const {
  std::vector<std::string> keys;
  EachObject([&](uint32_t, Slice key) { keys.emplace_back(key); });
  return keys;
}

void Index::FetchObject(uint32_t which) const {
  __builtin_prefetch(&object(which));
}
void Index::FetchNewest(uint32_t which) const {
  const uint32_t newest = object(which).newest.load(kRelaxed);
  if (newest != 0 && newest <= sizes_.versions) __builtin_prefetch(&version(newest - 1));
}

Status Index::Add(uint32_t which, const VersionRef& ref) {
  if (free_versions() == 0) {
    return Status(Code::kNoSpace, "the index has no room for more than " +
                                      std::to_string(sizes_.versions) + " versions");
  }
  uint32_t fresh = used_;
  if (free_.empty()) {
    ++used_;
  } else {
    fresh = free_.back();
    free_.pop_back();
    if (free_.size() >= kAhead) __builtin_prefetch(&version(free_[free_.size() - kAhead]), 1);
  }
  ObjectSlot& slot = object(which);
  std::atomic<uint32_t>* link = &slot.newest;
  while (ref.version < newest_[which]) {
    const uint32_t next = link->load(kRelaxed);
    if (next == 0 || version(next - 1).version.load(kRelaxed) < ref.version) break;
    link = &version(next - 1).older;
  }
  newest_[which] = std::max(newest_[which], ref.version);
  slot.lock.BeginWrite();
  Store(version(fresh), ref);
  version(fresh).older.store(link->load(kRelaxed), kRelease);
  base::SyncPoint("stream.index.amid_add");
  link->store(fresh + 1, kRelease);
  slot.lock.EndWrite();
  return Status();
}

uint64_t Index::Newest(uint32_t which) const {
  return newest_[which];
}

bool Index::Move(uint32_t which, const VersionRef& ref) {
  ObjectSlot& slot = object(which);
  for (uint32_t next = slot.newest.load(kRelaxed); next != 0;) {
    VersionSlot& at = version(next - 1);
    if (at.version.load(kRelaxed) == ref.version) {
      slot.lock.BeginWrite();
      Store(at, ref);
      base::SyncPoint("stream.index.amid_move");
      slot.lock.EndWrite();
      return true;
    }
    next = at.older.load(kRelaxed);
  }
  return false;
}

void Index::Retain(uint32_t which, const std::vector<VersionRef>& stay) {
  // Allocates first, so that nothing fails during the change.
  if (free_.capacity() < used_) free_.reserve(2 * size_t{used_});
  ObjectSlot& slot = object(which);
  auto next_stay = stay.begin();
  slot.lock.BeginWrite();
  std::atomic<uint32_t>* link = &slot.newest;
  for (uint32_t next = link->load(kRelaxed); next != 0; next = link->load(kRelaxed)) {
    VersionSlot& at = version(next - 1);
    if (next_stay != stay.end() && at.version.load(kRelaxed) == next_stay->version) {
      link = &at.older;
      ++next_stay;
      continue;
    }
    link->store(at.older.load(kRelaxed), kRelease);
    at.version.store(0, kRelease);
    free_.push_back(next - 1);
    base::SyncPoint("stream.index.amid_removal");
  }
  slot.lock.EndWrite();
  newest_[which] = stay.empty() ? 0 : stay.front().version;
}

}  // namespace quire::stream
