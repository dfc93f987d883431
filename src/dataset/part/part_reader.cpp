#include "dataset/part/part_reader.h"

#include <algorithm>
#include <utility>

#include "base/threads/epoch.h"
#include "dataset/part/pair_buffer.h"
#include "io/paths/file_section.h"

namespace quire::dataset {
namespace {

constexpr uint64_t kNewest = UINT64_MAX;

}  // namespace

PartReader::~PartReader() {
  DropShards();
}

Result<std::shared_ptr<PartReader>> PartReader::Open(Options options) {
  std::shared_ptr<PartReader> reader(new PartReader(std::move(options)));
  QUIRE_ASSIGN_OR_RETURN(reader->list_, reader->ReadList());
  reader->tables_.resize(reader->list_.tables.size());
  reader->maps_.resize(reader->list_.maps.size());
  return reader;
}

Result<PartList> PartReader::ReadList() const {
  const PartRecord& record = options_.record;
  const io::File& part = *options_.part;
  std::string list(record.list_bytes, '\0');
  QUIRE_RETURN_IF_ERROR(part.ReadAt(record.list_offset, list.size(), list.data()));
  return DecodeList(list, record.attempt, record.list_offset, part.path());
}

Result<std::shared_ptr<table::Table>> PartReader::TableAt(size_t number) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::shared_ptr<table::Table>& table = tables_[number];
  if (table != nullptr) return table;
  const Extent& extent = list_.tables[number];
  QUIRE_ASSIGN_OR_RETURN(
      std::shared_ptr<table::Table> opened,
      table::Table::OpenIn(io::NewFileSection(options_.part, extent.offset, extent.bytes),
                           number + 1, StorageOptions(), options_.cache));
  if (opened->info().file_id != extent.file_id) {
    return Status(Code::kCorruption, options_.part->path() + ": the table at " +
                                         std::to_string(extent.offset) +
                                         " is another than the one that was written there");
  }
  table = std::move(opened);
  return table;
}

// With mutex_ held.
Result<PartReader::Map*> PartReader::MapAt(size_t number) {
  std::unique_ptr<Map>& map = maps_[number];
  if (map != nullptr) return map.get();
  const Extent& extent = list_.maps[number];
  const auto context = [&](const Status& status) {
    return status.WithContext(options_.part->path() + " at " + std::to_string(extent.offset));
  };
  // The first piece contains the whole head of most maps.
  std::string head(std::min<uint64_t>(extent.bytes, 4096), '\0');
  QUIRE_RETURN_IF_ERROR(options_.part->ReadAt(extent.offset, head.size(), head.data()));
  const Result<uint64_t> head_bytes = filter::RankMap::HeadBytes(head);
  if (!head_bytes.ok()) return context(head_bytes.status());
  if (*head_bytes > head.size() && *head_bytes <= extent.bytes) {
    const uint64_t have = head.size();
    head.resize(*head_bytes);
    QUIRE_RETURN_IF_ERROR(
        options_.part->ReadAt(extent.offset + have, head.size() - have, head.data() + have));
  }
  Result<filter::RankMap> opened = filter::RankMap::Open(head);
  if (!opened.ok()) return context(opened.status());
  if (opened->bytes() != extent.bytes || opened->rank_count() != options_.rank_count ||
      filter::RankMap::Fingerprint(head) != extent.file_id) {
    return context(Status(Code::kCorruption, "another map than the one that was written there"));
  }
  std::vector<std::string> shards(opened->shard_count());
  map = std::make_unique<Map>(Map{std::move(*opened), std::move(shards)});
  return map.get();
}

// With mutex_ held.
Result<Slice> PartReader::ShardOf(size_t number, Map* map, uint32_t shard) {
  std::string& bytes = map->shards[shard];
  if (!bytes.empty()) return Slice(bytes);
  const filter::RankMap::Extent extent = map->map.shard(shard);
  const uint64_t offset = list_.maps[number].offset + extent.offset;
  std::string fresh(extent.bytes, '\0');
  QUIRE_RETURN_IF_ERROR(options_.part->ReadAt(offset, fresh.size(), fresh.data()));
  if (const Status checked = map->map.Check(shard, fresh); !checked.ok()) {
    return checked.WithContext(options_.part->path() + " at " + std::to_string(offset));
  }
  if (held_ + fresh.size() > options_.held_max) DropShards();
  held_ += fresh.size();
  *options_.held += fresh.size();
  bytes = std::move(fresh);
  return Slice(bytes);
}

// With mutex_ held. (A string that is assigned an empty one keeps its memory.)
void PartReader::DropShards() {
  for (const std::unique_ptr<Map>& map : maps_) {
    if (map == nullptr) continue;
    for (std::string& shard : map->shards) std::string().swap(shard);
  }
  *options_.held -= held_;
  held_ = 0;
}

Status PartReader::FindRanks(uint64_t hash, std::vector<uint32_t>* ranks) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (size_t number = 0; number < maps_.size(); ++number) {
    QUIRE_ASSIGN_OR_RETURN(Map* const map, MapAt(number));
    QUIRE_ASSIGN_OR_RETURN(const Slice shard, ShardOf(number, map, map->map.ShardOf(hash)));
    map->map.Find(hash, shard, ranks);
  }
  if (maps_.size() < 2) return Status();
  std::sort(ranks->begin(), ranks->end());
  ranks->erase(std::unique(ranks->begin(), ranks->end()), ranks->end());
  return Status();
}

Status PartReader::Get(Slice key, uint64_t hash, bool many, const Take& take) {
  std::vector<uint32_t> seen;
  for (size_t number = table_count(); number-- > 0;) {
    QUIRE_ASSIGN_OR_RETURN(const std::shared_ptr<table::Table> table, TableAt(number));
    const base::EpochGuard guard;
    if (!table->MayContain(hash)) continue;
    table::LookupResult found;
    for (uint64_t snapshot = kNewest;; snapshot = found.lsn - 1) {
      found = {};
      QUIRE_RETURN_IF_ERROR(table->Get(key, hash, snapshot, &found));
      if (found.state == table::KeyState::kAbsent) break;
      if (found.state != table::KeyState::kValue || found.lsn == 0) {
        return Status(Code::kCorruption, options_.part->path() + " has an entry of another kind");
      }
      const uint32_t rank = RankOf(found.lsn);
      if (std::find(seen.begin(), seen.end(), rank) == seen.end()) {
        QUIRE_RETURN_IF_ERROR(take(rank, found.value));
        seen.push_back(rank);
      }
      if (!many || found.lsn == 1) break;
    }
    if (!many && !seen.empty()) break;
  }
  return Status();
}

// The files may have changed since they were read.
void PartReader::Forget() {
  const std::lock_guard<std::mutex> lock(mutex_);
  DropShards();
  for (std::unique_ptr<Map>& map : maps_) map.reset();
  for (std::shared_ptr<table::Table>& table : tables_) table.reset();
}

Status PartReader::Verify() {
  Forget();
  QUIRE_RETURN_IF_ERROR(ReadList().status());
  for (size_t number = 0; number < table_count(); ++number) {
    QUIRE_ASSIGN_OR_RETURN(const std::shared_ptr<table::Table> table, TableAt(number));
    QUIRE_RETURN_IF_ERROR(table->Verify());
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  for (size_t number = 0; number < maps_.size(); ++number) {
    QUIRE_ASSIGN_OR_RETURN(Map* const map, MapAt(number));
    for (uint32_t shard = 0; shard < map->map.shard_count(); ++shard) {
      QUIRE_RETURN_IF_ERROR(ShardOf(number, map, shard).status());
    }
  }
  return Status();
}

}  // namespace quire::dataset
