#include "lsm/version/version.h"

#include <algorithm>
#include <new>

#include "base/core/check.h"

namespace quire::lsm {

// If there is no memory, the file becomes an orphan, which the next open removes.
void ObsoleteFiles::AddTable(const std::string& path) noexcept try {
  const std::lock_guard<std::mutex> lock(mutex_);
  tables_.push_back(path);
} catch (const std::bad_alloc&) {
}

void ObsoleteFiles::AddSegment(uint64_t segment_id) noexcept try {
  const std::lock_guard<std::mutex> lock(mutex_);
  segments_.push_back(segment_id);
} catch (const std::bad_alloc&) {
}

std::vector<std::string> ObsoleteFiles::TakeTables() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(tables_, {});
}

std::vector<uint64_t> ObsoleteFiles::TakeSegments() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(segments_, {});
}

TableHandle::~TableHandle() {
  if (obsolete_.load(std::memory_order_acquire)) obsolete_files_->AddTable(path_);
}

SegmentHandle::~SegmentHandle() {
  if (obsolete_.load(std::memory_order_acquire)) obsolete_files_->AddSegment(id_);
}

Run::Run(std::vector<std::shared_ptr<TableHandle>> tables) : tables_(std::move(tables)) {
  QUIRE_CHECK(!tables_.empty());
  for (const std::shared_ptr<TableHandle>& table : tables_) {
    bytes_ += table->info().file_bytes;
    newest_ssid_ = std::max(newest_ssid_, table->info().ssid);
    if (table->info().range_tombstone_count != 0) has_range_tombstones_ = true;
  }
}

size_t Run::FindIndex(Slice key) const {
  const auto behind = std::upper_bound(
      tables_.begin(), tables_.end(), key,
      [](Slice wanted, const std::shared_ptr<TableHandle>& table) {
        return wanted < Slice(table->info().smallest_key);
      });
  const size_t index = static_cast<size_t>(behind - tables_.begin());
  return index == 0 ? 0 : index - 1;
}

const table::Table* Run::FindAmongMany(Slice key) const {
  return &tables_[FindIndex(key)]->table();
}

}  // namespace quire::lsm
