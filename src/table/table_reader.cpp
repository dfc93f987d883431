#include "table/table_reader.h"

#include <utility>

#include "base/text/coding.h"
#include "base/threads/epoch.h"
#include "filter/bloom/bloom.h"
#include "table/cache_line.h"

namespace quire::table {
namespace {

// Aligns the 64-byte blocks of the filter with cache lines, behind a block's header.
constexpr size_t kFilterPlace = 64 - sizeof(CachedBlock);
// Head, tags and offsets of a block of usual size: asked for before the first of them arrives.
constexpr size_t kPrefetchBytes = 192;

CachedBlock* Fail(Status* status, Status error) {
  *status = std::move(error);
  return nullptr;
}

Status NoMemory(const io::File& file, uint64_t size) {
  return Status(Code::kOutOfMemory,
                file.path() + ": no memory for a block of " + std::to_string(size) + " bytes");
}

void PrefetchHead(const CachedBlock* block) {
  const char* const at = reinterpret_cast<const char*>(block);
  for (size_t offset = 0; offset < kPrefetchBytes; offset += kCacheLineBytes) {
    __builtin_prefetch(at + offset);
  }
}

void Fill(const BlockEntry& entry, CachedBlock* block, LookupResult* found) {
  found->state = StateOf(entry.type);
  found->value = entry.value;
  found->lsn = entry.lsn;
  found->block = block;
}

}  // namespace

Result<std::shared_ptr<Table>> Table::Open(io::FileSystem& fs, const std::string& path,
                                           uint64_t ssid, const StorageOptions& options,
                                           std::shared_ptr<BlockCache> cache) {
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<io::File> file,
                         fs.Open(path, io::FileOpenMode::kReadImmutable));
  return OpenIn(std::move(file), ssid, options, std::move(cache));
}

Result<std::shared_ptr<Table>> Table::OpenIn(std::unique_ptr<io::File> file, uint64_t ssid,
                                             const StorageOptions& options,
                                             std::shared_ptr<BlockCache> cache) {
  const std::string& path = file->path();
  QUIRE_ASSIGN_OR_RETURN(const uint64_t file_bytes, file->Size());
  if (file_bytes < kFooterBytes) {
    return Status(Code::kCorruption, path + ": has " + std::to_string(file_bytes) +
                                         " bytes, too few for an SSTable; restore it from a copy");
  }
  char bytes[kFooterBytes];
  QUIRE_RETURN_IF_ERROR(file->ReadAt(file_bytes - kFooterBytes, kFooterBytes, bytes));
  Result<Footer> footer = DecodeFooter(Slice(bytes, kFooterBytes), file_bytes, ssid);
  if (!footer.ok()) return footer.status().WithContext(path);
  auto table =
      std::make_shared<TableReader>(std::move(file), *footer, options.search, std::move(cache));
  QUIRE_RETURN_IF_ERROR(table->LoadProperties());
  return std::shared_ptr<Table>(std::move(table));
}

TableReader::TableReader(std::unique_ptr<io::File> file, const Footer& footer, SearchMode search,
                         std::shared_ptr<BlockCache> cache)
    : file_(std::move(file)),
      footer_(footer),
      identity_(TableIdentity(footer.file_id, footer.ssid)),
      search_(search),
      cache_(std::move(cache)),
      slots_(new CacheSlot[footer.block_count + 2]()) {}

TableReader::~TableReader() {
  cache_->Drop({slots_.get(), footer_.block_count + 2});
}

Slice TableReader::FilterIn(const CachedBlock& block) {
  return block.slice().substr(kFilterPlace);
}

Status TableReader::LoadProperties() {
  QUIRE_RETURN_IF_ERROR(ReadProperties(&info_, &tombstones_));
  tombstone_set_ = TombstoneSet(tombstones_);
  return Status();
}

Status TableReader::ReadProperties(TableInfo* info, std::vector<RangeTombstone>* tombstones) const {
  std::string part(footer_.properties_bytes, '\0');
  const uint64_t offset = footer_.properties_offset();
  QUIRE_RETURN_IF_ERROR(ReadPart(*file_, base::ChecksumKind::kProperties, identity_, offset,
                                 part.size(), part.data()));
  part.resize(part.size() - kChecksumBytes);
  if (!DecodeProperties(part, info, tombstones)) {
    return Damaged(*file_, "the properties", offset, "they are malformed");
  }
  info->ssid = footer_.ssid;
  info->file_id = footer_.file_id;
  info->file_bytes = footer_.file_bytes();
  return Status();
}

CachedBlock* TableReader::FetchIndex(Status* status) const {
  CachedBlock* const block = BlockCache::Find(*index_slot());
  if (block != nullptr) [[likely]]
    return block;
  CachedBlock* const read = ReadIndex(status);
  return read == nullptr ? nullptr : cache_->Keep(index_slot(), read);
}

CachedBlock* TableReader::ReadIndex(Status* status) const {
  cache_->CountMiss();
  const uint64_t memory_bytes = TableIndex::MemoryBytes(footer_.block_count, footer_.index_bytes);
  CachedBlock* const block = CachedBlock::New(memory_bytes);
  if (block == nullptr) return Fail(status, NoMemory(*file_, memory_bytes));
  const uint64_t offset = footer_.index_offset();
  Status read =
      ReadPart(*file_, base::ChecksumKind::kIndexBlock, identity_, offset, footer_.index_bytes,
               TableIndex::StoredPlace(block->data(), footer_.block_count));
  const char* why = nullptr;
  if (read.ok() &&
      TableIndex::Build(block->data(), footer_.block_count, footer_.index_bytes - kChecksumBytes,
                        footer_.data_bytes, &why) == nullptr) {
    read = Damaged(*file_, "SSIndex", offset, why);
  }
  if (read.ok()) return block;
  block->DropReference();
  return Fail(status, std::move(read));
}

CachedBlock* TableReader::FetchFilter(Status* status) const {
  CachedBlock* const block = BlockCache::Find(*filter_slot());
  if (block != nullptr) [[likely]]
    return block;
  CachedBlock* const read = ReadFilter(status);
  return read == nullptr ? nullptr : cache_->Keep(filter_slot(), read);
}

CachedBlock* TableReader::ReadFilter(Status* status) const {
  cache_->CountMiss();
  CachedBlock* const block = CachedBlock::New(kFilterPlace + footer_.filter_bytes);
  if (block == nullptr) return Fail(status, NoMemory(*file_, footer_.filter_bytes));
  Status read =
      ReadPart(*file_, base::ChecksumKind::kFilterBlock, identity_, footer_.filter_offset(),
               footer_.filter_bytes, block->data() + kFilterPlace);
  if (read.ok()) {
    block->Shrink(block->size() - kChecksumBytes);
    return block;
  }
  block->DropReference();
  return Fail(status, std::move(read));
}

void TableReader::PrefetchFilter(uint64_t hash) const {
  const CachedBlock* const block = filter_slot()->load(std::memory_order_acquire);
  if (block != nullptr) filter::BloomPrefetch(FilterIn(*block), hash);
}

bool TableReader::MayContain(uint64_t hash) const {
  if (footer_.block_count == 0) return false;
  if (!footer_.has_filter()) return true;
  Status unreadable;  // fails open: then the table itself says what is wrong
  const CachedBlock* const block = FetchFilter(&unreadable);
  return block == nullptr || filter::BloomMayContain(FilterIn(*block), hash);
}

CachedBlock* TableReader::FetchBlock(const TableIndex& index, uint64_t block,
                                     Status* status) const {
  CachedBlock* const cached = BlockCache::Find(slots_[block]);
  if (cached != nullptr) [[likely]] {
    PrefetchHead(cached);
    cache_->CountHit();
    return cached;
  }
  CachedBlock* const read = ReadBlock(index, block, status);
  return read == nullptr ? nullptr : cache_->Keep(&slots_[block], read);
}

void TableReader::PrefetchBlock(uint64_t block) const {
  if (block >= footer_.block_count) return;
  const CachedBlock* const cached = slots_[block].load(std::memory_order_relaxed);
  if (cached != nullptr) PrefetchHead(cached);  // harmless should it go at this moment
}

CachedBlock* TableReader::ReadBlock(const TableIndex& index, uint64_t block, Status* status) const {
  cache_->CountMiss();
  const uint64_t stored_bytes = index.stored_bytes(block);
  CachedBlock* const read = cache_->New(stored_bytes + kBlockSlackBytes);
  if (read == nullptr) return Fail(status, NoMemory(*file_, stored_bytes));
  std::memset(read->data() + stored_bytes, 0, kBlockSlackBytes);
  Slice contents;
  CachedBlock* decompressed = nullptr;
  Status outcome = file_->ReadAt(index.offset(block), stored_bytes, read->data());
  if (outcome.ok()) {
    outcome = OpenBlock(index, block, Slice(read->data(), stored_bytes), &contents, &decompressed);
  }
  if (outcome.ok() && decompressed == nullptr) {
    read->Shrink(contents.size());
    return read;
  }
  read->DropReference();
  return decompressed != nullptr ? decompressed : Fail(status, std::move(outcome));
}

Status TableReader::OpenBlock(const TableIndex& index, uint64_t block, Slice stored,
                              Slice* contents, CachedBlock** decompressed) const {
  const uint64_t offset = index.offset(block);
  const Slice checked = stored.substr(0, stored.size() - kChecksumBytes);
  if (footer_.checked_blocks() &&
      base::LoadLe<uint64_t>(checked.data() + checked.size()) !=
          PartChecksum(base::ChecksumKind::kDataBlock, identity_, offset, checked)) {
    return Damaged(*file_, "data block " + std::to_string(block), offset,
                   "its checksum does not match");
  }
  *contents = checked.substr(0, checked.size() - 1);
  const auto form = static_cast<BlockForm>(checked.back());
  CachedBlock* raw = nullptr;
  if (form != BlockForm::kRaw) {
    QUIRE_RETURN_IF_ERROR(Decompressed(offset, form, *contents, &raw));
    *contents = raw->slice();
  }
  BlockKeys keys;
  const char* wrong = ValidateBlock(*contents, &keys);
  if (wrong == nullptr) wrong = index.CheckKeys(block, keys);
  if (wrong == nullptr) {
    *decompressed = raw;
    return Status();
  }
  if (raw != nullptr) raw->DropReference();
  return Damaged(*file_, "data block " + std::to_string(block), offset, wrong);
}

Status TableReader::Decompressed(uint64_t offset, BlockForm form, Slice stored,
                                 CachedBlock** block) const {
  uint64_t raw_size = 0;
  Slice body;
  if (!RawSize(stored, &raw_size, &body)) {
    return Damaged(*file_, "a compressed data block", offset, "it has an impossible size");
  }
  CachedBlock* const raw = cache_->New(raw_size + kBlockSlackBytes);
  if (raw == nullptr) return NoMemory(*file_, raw_size);
  std::memset(raw->data() + raw_size, 0, kBlockSlackBytes);
  const Code code = Decompress(form, body, raw->data(), raw_size);
  if (code == Code::kOk) {
    raw->Shrink(raw_size);
    *block = raw;
    return Status();
  }
  raw->DropReference();
  if (code == Code::kOutOfMemory) return NoMemory(*file_, raw_size);
  return Damaged(*file_, "a compressed data block", offset, "it does not decompress");
}

bool TableReader::FindIn(const CachedBlock& block, Slice key, uint64_t hash, uint64_t snapshot,
                         BlockEntry* entry) const {
  const BlockView view(block.slice());
  return search_ == SearchMode::kTagged ? view.FindTagged(key, TagOf(hash), snapshot, entry)
                                        : view.FindBinary(key, snapshot, entry);
}

Status TableReader::Get(Slice key, uint64_t hash, uint64_t snapshot, LookupResult* found) const {
  found->state = KeyState::kAbsent;
  Status status;
  const CachedBlock* const index_block = FetchIndex(&status);
  if (index_block == nullptr) return status;
  const TableIndex& index = IndexIn(*index_block);
  if (search_ == SearchMode::kSequential) return GetSequentially(index, key, snapshot, found);
  for (uint64_t at = index.FindBlock(key, slots_.get()); at < index.block_count(); ++at) {
    CachedBlock* const block = FetchBlock(index, at, &status);
    if (block == nullptr) return status;
    BlockEntry entry;
    if (FindIn(*block, key, hash, snapshot, &entry)) {
      Fill(entry, block, found);
      break;
    }
    // Older versions of the key may stand in the next block.
    if (!index.Continues(at) || index.separator(at) != key) break;
  }
  return status;
}

Status TableReader::GetSequentially(const TableIndex& index, Slice key, uint64_t snapshot,
                                    LookupResult* found) const {
  Status status;
  for (uint64_t at = 0; at < index.block_count(); ++at) {
    CachedBlock* const block = FetchBlock(index, at, &status);
    if (block == nullptr) return status;
    BlockEntry entry;
    bool passed = false;
    if (BlockView(block->slice()).FindSequential(key, snapshot, &entry, &passed)) {
      Fill(entry, block, found);
      break;
    }
    if (passed) break;
  }
  return status;
}

uint64_t TableReader::CoveringTombstone(Slice key, uint64_t snapshot) const {
  return tombstone_set_.empty() ? 0 : tombstone_set_.Covering(key, snapshot);
}

std::unique_ptr<EntryIterator> TableReader::NewIterator(bool fill_cache) const {
  return NewTableIterator(shared_from_this(), fill_cache);
}

}  // namespace quire::table
