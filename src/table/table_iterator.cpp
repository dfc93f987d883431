#include <optional>

#include "base/threads/epoch.h"
#include "table/block_stream.h"
#include "table/table_reader.h"

namespace quire::table {
namespace {

class TableIterator final : public EntryIterator {
 public:
  TableIterator(std::shared_ptr<const TableReader> table, bool fill_cache)
      : table_(std::move(table)), fill_cache_(fill_cache) {}

  void SeekToFirst() override;
  void SeekToLast() override;
  void Seek(Slice key) override;
  void SeekBefore(Slice key) override;
  void Next() override;
  void Prev() override;
  Status status() const override { return status_; }

 private:
  bool Restart();
  Status OpenIndex();
  bool EnterBlock(uint64_t block);
  void EnterLast(uint64_t block);
  Status LoadBlock(uint64_t block, Slice* contents);
  void SetEntry(uint32_t position);

  const std::shared_ptr<const TableReader> table_;
  const bool fill_cache_;
  BlockPin index_pin_;
  const TableIndex* index_ = nullptr;
  std::optional<BlockStream> stream_;  ///< without fill_cache_

  Status status_;
  BlockPin block_pin_;
  uint64_t block_ = 0;
  BlockView view_;
  uint32_t position_ = 0;  ///< in view_
  Entry shown_;
  Buffer key_bytes_;  ///< the block's prefix; behind it, uncommitted, the present suffix
};

void TableIterator::SeekToFirst() {
  if (Restart() && EnterBlock(0)) SetEntry(0);
}

void TableIterator::SeekToLast() {
  if (Restart()) EnterLast(index_->block_count());
}

void TableIterator::Seek(Slice key) {
  if (!Restart()) return;
  const uint64_t block = index_->FindBlock(key);
  if (!EnterBlock(block)) return;
  const uint32_t position = view_.LowerBound(key);
  if (position < view_.count()) {
    SetEntry(position);
  } else if (EnterBlock(block + 1)) {  // a separator may lie above the last key of its block
    SetEntry(0);
  }
}

void TableIterator::SeekBefore(Slice key) {
  if (!Restart()) return;
  const uint64_t block = index_->FindBlock(key);
  if (block == index_->block_count()) return EnterLast(block);
  if (!EnterBlock(block)) return;
  const uint32_t position = view_.LowerBound(key);
  if (position == 0) return EnterLast(block);
  SetEntry(position - 1);
}

void TableIterator::Next() {
  if (position_ + 1 < view_.count()) return SetEntry(position_ + 1);
  if (EnterBlock(block_ + 1)) SetEntry(0);
}

void TableIterator::Prev() {
  if (position_ > 0) return SetEntry(position_ - 1);
  EnterLast(block_);
}

// Forgets position and failure; false (with the status set) where the index cannot be read.
bool TableIterator::Restart() {
  StandOn(nullptr);
  status_ = Status();
  if (index_ == nullptr) status_ = OpenIndex();
  return status_.ok();
}

Status TableIterator::OpenIndex() {
  const base::EpochGuard guard;
  Status status;
  CachedBlock* block = nullptr;
  if (fill_cache_) {
    block = table_->FetchIndex(&status);
    if (block == nullptr) return status;
    index_pin_ = BlockPin(block);
  } else {
    block = table_->ReadIndex(&status);
    if (block == nullptr) return status;
    index_pin_ = BlockPin::Adopt(block);
  }
  index_ = &TableReader::IndexIn(*block);
  if (!fill_cache_) stream_.emplace(*table_, *index_);
  return Status();
}

// Enters a block. Returns false, and is not valid, if there is no such block or it cannot be read.
bool TableIterator::EnterBlock(uint64_t block) {
  StandOn(nullptr);
  if (block >= index_->block_count()) return false;
  Slice contents;
  status_ = LoadBlock(block, &contents);
  if (!status_.ok()) return false;
  block_ = block;
  view_ = BlockView(contents);
  key_bytes_.Clear();
  key_bytes_.Append(view_.prefix());
  return true;
}

// Goes to the last entry before `block`.
void TableIterator::EnterLast(uint64_t block) {
  StandOn(nullptr);
  if (block > 0 && EnterBlock(block - 1)) SetEntry(view_.count() - 1);
}

Status TableIterator::LoadBlock(uint64_t block, Slice* contents) {
  if (!fill_cache_) return stream_->Read(block, contents);
  const base::EpochGuard guard;
  Status status;
  CachedBlock* const cached = table_->FetchBlock(*index_, block, &status);
  if (cached == nullptr) return status;
  block_pin_ = BlockPin(cached);
  table_->PrefetchBlock(block + 1);
  *contents = cached->slice();
  return status;
}

void TableIterator::SetEntry(uint32_t position) {
  position_ = position;
  const BlockEntry entry = view_.Entry(position);
  shown_.value = entry.value;
  shown_.lsn = entry.lsn;
  shown_.type = entry.type;
  StandOn(&shown_);
  if (key_bytes_.size() == 0) {
    shown_.key = entry.suffix;
    return;
  }
  char* const to = key_bytes_.Reserve(entry.suffix.size());
  CopyBytes(to, entry.suffix.data(), entry.suffix.size());
  shown_.key = Slice(key_bytes_.data(), key_bytes_.size() + entry.suffix.size());
}

}  // namespace

std::unique_ptr<EntryIterator> NewTableIterator(std::shared_ptr<const TableReader> table,
                                                bool fill_cache) {
  return std::make_unique<TableIterator>(std::move(table), fill_cache);
}

}  // namespace quire::table
