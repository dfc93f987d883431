#include "tools/quire/chain.h"

#include <algorithm>
#include <utility>

#include "base/hash/hash.h"
#include "io/paths/sole_writer.h"
#include "runtime/partitioning.h"

namespace quire::tool {
namespace {

using table::KeyState;

constexpr uint64_t kCacheBytes = 64 << 20;
constexpr int kLooksMax = 10;  // without progress

}  // namespace

// The live pairs of one part, and the position in them.
struct Chain::Cursor {
  size_t generation_index = 0;
  std::unique_ptr<engine::Iterator> iterator;
};

Chain::Chain(io::FileSystem& fs, DatabaseOnDisk place)
    : fs_(fs), place_(std::move(place)), cache_(table::NewBlockCache(kCacheBytes)) {}

Status Chain::CheckReady() const {
  QUIRE_RETURN_IF_ERROR(place_.status);
  if (kv::IsThere(place_.descriptor)) return Status();
  return Status(Code::kNotFound, "the database in " + place_.directory +
                                     " is being made or removed, or that was cut short");
}

Result<std::shared_ptr<lsm::Reader>> Chain::ReaderOf(const PartOnDisk& part) {
  std::shared_ptr<lsm::Reader>& reader = readers_[part.directory];
  if (reader != nullptr) return reader;
  if (!part.here) {
    return Status(Code::kNotFound, part.directory + " is not here: it may be on another node");
  }
  if (place_.described) {
    QUIRE_RETURN_IF_ERROR(io::CheckSoleWriter(fs_, io::DirectoryOf(part.directory)));
  }
  engine::ReaderOptions options;
  options.cache = cache_;
  Result<std::shared_ptr<lsm::Reader>> opened = lsm::Reader::Open(fs_, part.directory, options);
  QUIRE_RETURN_IF_ERROR(CheckPresent());
  QUIRE_ASSIGN_OR_RETURN(reader, std::move(opened));
  return reader;
}

// Fails if the generations changed: a part that was opened after that may miss tombstones, or be
// gone.
Status Chain::CheckPresent() const {
  if (!place_.described) return Status();
  for (const kv::Generation& generation : place_.descriptor.generations) {
    QUIRE_RETURN_IF_ERROR(kv::CheckCheckpoint(fs_, generation));
  }
  const Result<kv::DatabaseDescriptor> now = kv::ReadDescriptor(fs_, place_.directory);
  if (now.ok() && kv::SameGenerations(now->generations, place_.descriptor.generations))
    return Status();
  return Status(Code::kBusy, "the generations of " + place_.directory +
                                 " changed while they were read; try again");
}

// Returns the parts that may contain `key`: its owner's, or all if the program has its own
// partitioner.
std::vector<const PartOnDisk*> Chain::PartsFor(const kv::Generation& generation, Slice key) const {
  std::vector<const PartOnDisk*> parts;
  const bool by_hash = generation.partitioner == runtime::Partitioning::kByHash;
  const int owner = base::OwnerOf(base::HashKey(key), std::max(generation.rank_count, 1));
  for (const PartOnDisk& part : place_.parts) {
    if (part.generation != generation.number || (by_hash && part.rank != owner)) continue;
    parts.push_back(&part);
  }
  return parts;
}

Result<KeyState> Chain::Ask(const kv::Generation& generation, Slice key, std::string* value) {
  for (const PartOnDisk* part : PartsFor(generation, key)) {
    QUIRE_ASSIGN_OR_RETURN(const std::shared_ptr<lsm::Reader> reader, ReaderOf(*part));
    KeyState state = KeyState::kAbsent;
    const Status status = reader->Get(key, Into(value), &state);
    if (!status.ok() && status.code() != Code::kNotFound) return status;
    if (state != KeyState::kAbsent) return state;
  }
  return KeyState::kAbsent;
}

Status Chain::Get(Slice key, std::string* value) {
  QUIRE_RETURN_IF_ERROR(CheckReady());
  for (const kv::Generation& generation : place_.descriptor.generations) {
    QUIRE_ASSIGN_OR_RETURN(const KeyState state, Ask(generation, key, value));
    if (state == KeyState::kValue) return Status();
    if (state == KeyState::kDeleted) break;
  }
  return Status(Code::kNotFound);
}

// Returns whether a newer generation contains the key. If it is alive there, its own pair was
// shown.
Result<bool> Chain::HiddenByNewer(size_t generation_index, Slice key) {
  std::string ignored;
  for (size_t i = 0; i < generation_index; ++i) {
    QUIRE_ASSIGN_OR_RETURN(const KeyState state,
                           Ask(place_.descriptor.generations[i], key, &ignored));
    if (state != KeyState::kAbsent) return true;
  }
  return false;
}

Result<std::vector<Chain::Cursor>> Chain::OpenCursors(const std::string& from,
                                                      const std::string& to) {
  std::vector<Cursor> cursors;
  engine::IteratorOptions range;
  range.lower_bound = from;
  range.upper_bound = to;
  const std::vector<kv::Generation>& generations = place_.descriptor.generations;
  for (size_t i = 0; i < generations.size(); ++i) {
    for (const PartOnDisk& part : place_.parts) {
      if (part.generation != generations[i].number) continue;
      QUIRE_ASSIGN_OR_RETURN(const std::shared_ptr<lsm::Reader> reader, ReaderOf(part));
      Cursor cursor{i, reader->NewIterator(range)};
      cursor.iterator->SeekToFirst();
      QUIRE_RETURN_IF_ERROR(cursor.iterator->status());
      if (cursor.iterator->Valid()) cursors.push_back(std::move(cursor));
    }
  }
  return cursors;
}

Status Chain::Scan(const std::string& from, const std::string& to,
                   const std::function<Result<bool>(Slice key, const Value& value)>& take) {
  QUIRE_RETURN_IF_ERROR(CheckReady());
  QUIRE_ASSIGN_OR_RETURN(std::vector<Cursor> cursors, OpenCursors(from, to));
  // The first cursor has the lowest key; of equal keys, that of the newest generation.
  const auto behind = [](const Cursor& a, const Cursor& b) {
    const int order = a.iterator->key().compare(b.iterator->key());
    return order > 0 || (order == 0 && a.generation_index > b.generation_index);
  };
  std::make_heap(cursors.begin(), cursors.end(), behind);
  while (!cursors.empty()) {
    std::pop_heap(cursors.begin(), cursors.end(), behind);
    Cursor& cursor = cursors.back();
    const std::string key(cursor.iterator->key());
    QUIRE_ASSIGN_OR_RETURN(const bool hidden, HiddenByNewer(cursor.generation_index, key));
    if (!hidden) {
      QUIRE_ASSIGN_OR_RETURN(const bool more, take(key, [&](std::string* value) {
                               value->assign(cursor.iterator->value());
                               return cursor.iterator->status();
                             }));
      if (!more) return Status();
    }
    cursor.iterator->Next();
    QUIRE_RETURN_IF_ERROR(cursor.iterator->status());
    if (cursor.iterator->Valid()) {
      std::push_heap(cursors.begin(), cursors.end(), behind);
    } else {
      cursors.pop_back();
    }
  }
  return Status();
}

Status ReadBesideWriter(
    io::FileSystem& fs, const std::string& path,
    const std::function<Status(const DatabaseOnDisk& place, Chain& chain, bool* progress)>& read) {
  for (int looks = 1;; ++looks) {
    QUIRE_ASSIGN_OR_RETURN(const DatabaseOnDisk place, FindDatabase(fs, path));
    Chain chain(fs, place);
    bool progress = false;
    const Status status = read(place, chain, &progress);
    if (progress) looks = 0;
    if (status.code() != Code::kBusy || looks == kLooksMax) return status;
  }
}

}  // namespace quire::tool
