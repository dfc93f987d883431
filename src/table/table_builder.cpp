#include <algorithm>
#include <map>
#include <utility>

#include "base/core/check.h"
#include "base/hash/hash.h"
#include "base/text/coding.h"
#include "filter/bloom/bloom.h"
#include "table/block.h"
#include "table/block_builder.h"
#include "table/compression.h"
#include "table/format.h"
#include "table/index.h"
#include "table/table.h"

namespace quire::table {
namespace {

// Appends to the file are of this size: large enough that a system call costs nothing beside the
// copy.
constexpr size_t kWriteBytes = 256 << 10;
// The versions of one key stay in a block until it is so many times its aimed size.
constexpr size_t kSameKeyBlocksMax = 4;

class FileTableBuilder final : public TableBuilder {
 public:
  FileTableBuilder(std::unique_ptr<io::File> file, uint64_t ssid, uint64_t file_id,
                   const StorageOptions& options)
      : file_(std::move(file)),
        options_(options),
        identity_(TableIdentity(file_id, ssid)),
        compressor_(options.compression) {
    info_.ssid = ssid;
    info_.file_id = file_id;
    footer_.ssid = ssid;
    footer_.file_id = file_id;
    if (!options.verify_checksums) footer_.flags |= kFlagUncheckedBlocks;
    if (options.bloom_bits_per_key > 0) footer_.flags |= kFlagFilter;
  }

  Status Add(Slice key, log::RecordType type, Slice value, uint64_t lsn) override;
  Status AddRangeTombstone(const RangeTombstone& tombstone) override;
  uint64_t file_bytes() const override { return end() + block_.raw_bytes(); }
  Result<TableInfo> Finish() override;

 private:
  // Returns the place of the next byte in the file.
  uint64_t end() const { return written_bytes_ + pending_.size(); }
  Status CheckEntry(Slice key, log::RecordType type, Slice value) const;
  Status StartKey(Slice key);
  void Count(Slice key, log::RecordType type, Slice value, uint64_t lsn);
  void CountLsn(uint64_t lsn);
  void CountSegment(Slice value);
  Status CloseBlock();
  void IndexClosedBlock(Slice separator, bool continues);
  Status AppendPart(base::ChecksumKind kind, Slice part, uint64_t* part_bytes);
  Status WritePending(size_t bytes_min);
  void AddKeyRange();
  Status WriteParts();

  const std::unique_ptr<io::File> file_;
  const StorageOptions options_;
  const uint64_t identity_;
  Compressor compressor_;
  Status status_;  ///< the first failure; everything fails with it
  bool finished_ = false;

  BlockBuilder block_;
  Buffer contents_;  ///< of a block that is to be compressed
  Buffer pending_;   ///< encoded, not written yet
  uint64_t written_bytes_ = 0;
  IndexBuilder index_;
  uint64_t closed_block_bytes_ =
      0;  ///< of the last closed block, which is not in index_ yet; 0: none

  std::string last_key_;  ///< of the last entry; while block_ is not empty its copy there is used
  uint64_t last_lsn_ = 0;
  uint64_t last_hash_ = 0;
  std::vector<uint64_t> hashes_;
  std::map<uint64_t, uint64_t> segments_;
  std::vector<RangeTombstone> tombstones_;
  TableInfo info_;
  Footer footer_;
};

Status FileTableBuilder::Add(Slice key, log::RecordType type, Slice value, uint64_t lsn) {
  QUIRE_CHECK(!finished_);
  if (!status_.ok()) return status_;
  QUIRE_RETURN_IF_ERROR(CheckEntry(key, type, value));
  const Slice last = block_.empty() ? Slice(last_key_) : block_.last_key();
  const int order = info_.entry_count == 0 ? -1 : last.compare(key);
  if (order > 0 || (order == 0 && lsn >= last_lsn_)) [[unlikely]] {
    return status_ = Status(Code::kCorruption, file_->path() + ": entries come out of order");
  }
  if (order < 0) {
    QUIRE_RETURN_IF_ERROR(StartKey(key));
  } else if (block_.raw_bytes() >= kSameKeyBlocksMax * options_.block_bytes) {
    QUIRE_RETURN_IF_ERROR(CloseBlock());
  }
  if (closed_block_bytes_ != 0) {
    IndexClosedBlock(order < 0 ? Slice(ShortestSeparator(last_key_, key)) : key, order == 0);
  }
  block_.Add(key, TagOf(last_hash_), type, value, lsn);
  last_lsn_ = lsn;
  Count(key, type, value, lsn);
  return Status();
}

Status FileTableBuilder::CheckEntry(Slice key, log::RecordType type, Slice value) const {
  if (!log::IsKeySize(key.size())) [[unlikely]]
    return log::KeySizeError(key.size());
  if (!ValidEntry(type, value.size())) [[unlikely]] {
    return Status(Code::kInvalidArgument,
                  "an entry of type " + std::to_string(static_cast<int>(type)) + " with " +
                      std::to_string(value.size()) + " bytes of value cannot stand in a table");
  }
  return Status();
}

Status FileTableBuilder::StartKey(Slice key) {
  if (block_.raw_bytes() >= options_.block_bytes) QUIRE_RETURN_IF_ERROR(CloseBlock());
  last_hash_ = base::HashKey(key);
  if (footer_.has_filter()) hashes_.push_back(last_hash_);
  ++info_.key_count;
  return Status();
}

void FileTableBuilder::Count(Slice key, log::RecordType type, Slice value, uint64_t lsn) {
  CountLsn(lsn);
  if (info_.entry_count == 0) info_.smallest_key = key;
  ++info_.entry_count;
  info_.raw_bytes += key.size() + value.size();
  if (type == log::RecordType::kDelete) ++info_.tombstone_count;
  if (type == log::RecordType::kValueRef) CountSegment(value);
}

void FileTableBuilder::CountLsn(uint64_t lsn) {
  const bool first = info_.entry_count == 0 && tombstones_.empty();
  info_.min_lsn = first ? lsn : std::min(info_.min_lsn, lsn);
  info_.max_lsn = first ? lsn : std::max(info_.max_lsn, lsn);
}

void FileTableBuilder::CountSegment(Slice value) {
  const auto reference = base::LoadLe<log::ValueRef>(value.data());
  segments_[reference.segment_id] += log::RecordSize(reference.key_size, reference.value_size);
}

Status FileTableBuilder::AddRangeTombstone(const RangeTombstone& tombstone) {
  QUIRE_CHECK(!finished_);
  if (!status_.ok()) return status_;
  if (tombstone.begin >= tombstone.end || tombstone.end.size() > log::kKeyBytesMax ||
      tombstone.begin.size() > log::kKeyBytesMax) {
    return Status(Code::kInvalidArgument, "a range tombstone whose range is empty or too long");
  }
  CountLsn(tombstone.lsn);
  tombstones_.push_back(tombstone);
  ++info_.tombstone_count;
  ++info_.range_tombstone_count;
  return Status();
}

// The block's entry in SSIndex waits for the next key, which decides the separator.
Status FileTableBuilder::CloseBlock() {
  if (block_.empty()) return Status();
  last_key_ = block_.last_key();
  const uint64_t offset = end();
  const size_t begin = pending_.size();
  BlockForm form = BlockForm::kRaw;
  if (options_.compression == Compression::kNone) {
    block_.Finish(&pending_);
  } else {
    contents_.Clear();
    block_.Finish(&contents_);
    const Buffer* const compressed = compressor_.Compress(contents_.slice());
    if (compressed != nullptr) form = compressor_.form();
    pending_.Append(compressed != nullptr ? compressed->slice() : contents_.slice());
  }
  char* const trailer = pending_.Reserve(kBlockTrailerBytes);
  *trailer = static_cast<char>(form);
  pending_.Commit(1);
  uint64_t checksum = 0;
  if (footer_.checked_blocks()) {
    checksum = PartChecksum(base::ChecksumKind::kDataBlock, identity_, offset,
                            pending_.slice().substr(begin));
  }
  base::StoreLe(trailer + 1, checksum);
  pending_.Commit(kChecksumBytes);
  closed_block_bytes_ = end() - offset;
  return WritePending(kWriteBytes);
}

void FileTableBuilder::IndexClosedBlock(Slice separator, bool continues) {
  index_.Add(closed_block_bytes_, separator, continues);
  closed_block_bytes_ = 0;
}

Status FileTableBuilder::AppendPart(base::ChecksumKind kind, Slice part, uint64_t* part_bytes) {
  const uint64_t checksum = PartChecksum(kind, identity_, end(), part);
  *part_bytes = part.size() + kChecksumBytes;
  pending_.Append(part);
  base::StoreLe(pending_.Reserve(kChecksumBytes), checksum);
  pending_.Commit(kChecksumBytes);
  return WritePending(kWriteBytes);
}

// Writes what is pending once it has `bytes_min`.
Status FileTableBuilder::WritePending(size_t bytes_min) {
  if (pending_.size() < bytes_min) return Status();
  status_ = file_->WriteAt(written_bytes_, pending_.slice());
  written_bytes_ += pending_.size();
  pending_.Clear();
  return status_;
}

// Makes the info's key range cover the entries and the range tombstones.
void FileTableBuilder::AddKeyRange() {
  if (info_.entry_count != 0) info_.largest_key = last_key_;
  bool first = info_.entry_count == 0;
  for (const RangeTombstone& tombstone : tombstones_) {
    if (first || tombstone.begin < info_.smallest_key) info_.smallest_key = tombstone.begin;
    if (first || tombstone.end > info_.largest_key) info_.largest_key = tombstone.end;
    first = false;
  }
  for (const auto& [segment_id, bytes] : segments_) info_.segments.push_back({segment_id, bytes});
}

Status FileTableBuilder::WriteParts() {
  footer_.data_bytes = end();
  footer_.block_count = index_.block_count();
  QUIRE_RETURN_IF_ERROR(
      AppendPart(base::ChecksumKind::kIndexBlock, index_.bytes(), &footer_.index_bytes));
  if (footer_.has_filter()) {
    const std::string filter = filter::BloomBuild(hashes_, options_.bloom_bits_per_key);
    QUIRE_RETURN_IF_ERROR(
        AppendPart(base::ChecksumKind::kFilterBlock, filter, &footer_.filter_bytes));
  }
  QUIRE_RETURN_IF_ERROR(AppendPart(base::ChecksumKind::kProperties,
                                   EncodeProperties(info_, tombstones_),
                                   &footer_.properties_bytes));
  pending_.Append(EncodeFooter(footer_));
  QUIRE_RETURN_IF_ERROR(WritePending(1));
  return status_ = file_->Sync();
}

Result<TableInfo> FileTableBuilder::Finish() {
  QUIRE_CHECK(!finished_);
  finished_ = true;
  if (!status_.ok()) return status_;
  QUIRE_RETURN_IF_ERROR(CloseBlock());
  if (closed_block_bytes_ != 0) IndexClosedBlock(last_key_, false);
  AddKeyRange();
  QUIRE_RETURN_IF_ERROR(WriteParts());
  info_.file_bytes = footer_.file_bytes();
  return std::move(info_);
}

}  // namespace

Result<std::unique_ptr<TableBuilder>> TableBuilder::Create(io::FileSystem& fs,
                                                           const std::string& path, uint64_t ssid,
                                                           uint64_t file_id,
                                                           const StorageOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<io::File> file, fs.Open(path, io::FileOpenMode::kCreate));
  return CreateIn(std::move(file), ssid, file_id, options);
}

std::unique_ptr<TableBuilder> TableBuilder::CreateIn(std::unique_ptr<io::File> file, uint64_t ssid,
                                                     uint64_t file_id,
                                                     const StorageOptions& options) {
  return std::make_unique<FileTableBuilder>(std::move(file), ssid, file_id, options);
}

}  // namespace quire::table
