// Verification of a whole table: everything is read from the file again, checked, and compared with
// what the properties, the tags and the filter say.
#include <map>

#include "base/hash/hash.h"
#include "base/text/coding.h"
#include "base/threads/epoch.h"
#include "filter/bloom/bloom.h"
#include "table/block_stream.h"
#include "table/table_reader.h"

namespace quire::table {
namespace {

class Verifier {
 public:
  Verifier(const TableReader& table, bool entries) : table_(table), entries_(entries) {}

  Status Run() {
    Status status;
    index_pin_ = BlockPin::Adopt(table_.ReadIndex(&status));
    QUIRE_RETURN_IF_ERROR(status);
    if (table_.footer().has_filter()) {
      filter_pin_ = BlockPin::Adopt(table_.ReadFilter(&status));
      QUIRE_RETURN_IF_ERROR(status);
    }
    QUIRE_RETURN_IF_ERROR(table_.ReadProperties(&expected_, &tombstones_));
    for (const RangeTombstone& tombstone : tombstones_) CountTombstone(tombstone);
    QUIRE_RETURN_IF_ERROR(Blocks());
    return entries_ ? Properties() : Status();
  }

 private:
  Status Blocks() {
    const TableIndex& index = TableReader::IndexIn(*index_pin_.get());
    BlockStream stream(table_, index);
    for (uint64_t block = 0; block < index.block_count(); ++block) {
      Slice contents;
      QUIRE_RETURN_IF_ERROR(stream.Read(block, &contents));
      if (!entries_) continue;
      if (const char* wrong = Block(BlockView(contents))) {
        return Damaged(table_.file(), "data block " + std::to_string(block), index.offset(block),
                       wrong);
      }
    }
    return Status();
  }

  const char* Block(const BlockView& view) {
    std::string key(view.prefix());
    for (uint32_t i = 0; i < view.count(); ++i) {
      const BlockEntry entry = view.Entry(i);
      key.resize(view.prefix().size());
      key.append(entry.suffix);
      const uint64_t hash = base::HashKey(key);
      if (view.tag(i) != TagOf(hash)) return "has a tag that does not belong to its key";
      if (filter_pin_.get() != nullptr &&
          !filter::BloomMayContain(TableReader::FilterIn(*filter_pin_.get()), hash)) {
        return "has a key that the filter rejects";
      }
      if (const char* wrong = Count(key, entry)) return wrong;
    }
    return nullptr;
  }

  const char* Count(const std::string& key, const BlockEntry& entry) {
    const bool first = found_.entry_count == 0;
    if (first || key != last_key_) {
      ++found_.key_count;
    } else if (entry.lsn >= last_lsn_) {
      return "has versions out of order";
    }
    CountRange(key, key);
    CountLsn(entry.lsn);
    ++found_.entry_count;
    found_.raw_bytes += key.size() + entry.value.size();
    if (entry.type == log::RecordType::kDelete) ++found_.tombstone_count;
    if (entry.type == log::RecordType::kValueRef) {
      const auto reference = base::LoadLe<log::ValueRef>(entry.value.data());
      segments_[reference.segment_id] += log::RecordSize(reference.key_size, reference.value_size);
    }
    last_key_ = key;
    last_lsn_ = entry.lsn;
    return nullptr;
  }

  void CountTombstone(const RangeTombstone& tombstone) {
    CountRange(tombstone.begin, tombstone.end);
    CountLsn(tombstone.lsn);
    ++found_.tombstone_count;
  }

  void CountRange(const std::string& smallest, const std::string& largest) {
    if (!counted_ || smallest < found_.smallest_key) found_.smallest_key = smallest;
    if (!counted_ || largest > found_.largest_key) found_.largest_key = largest;
  }

  // Called after CountRange.
  void CountLsn(uint64_t lsn) {
    if (!counted_ || lsn < found_.min_lsn) found_.min_lsn = lsn;
    if (!counted_ || lsn > found_.max_lsn) found_.max_lsn = lsn;
    counted_ = true;
  }

  Status Properties() {
    for (const auto& [segment_id, bytes] : segments_)
      found_.segments.push_back({segment_id, bytes});
    // Encoded, two infos are equal exactly if all that is counted is.
    if (EncodeProperties(found_, tombstones_) == EncodeProperties(expected_, tombstones_)) {
      return Status();
    }
    return Damaged(table_.file(), "the properties", table_.footer().properties_offset(),
                   "they do not agree with the entries");
  }

  const TableReader& table_;
  const bool entries_;  // are looked at one by one
  BlockPin index_pin_;
  BlockPin filter_pin_;
  TableInfo expected_;
  TableInfo found_;
  bool counted_ = false;
  std::vector<RangeTombstone> tombstones_;
  std::map<uint64_t, uint64_t> segments_;
  std::string last_key_;
  uint64_t last_lsn_ = 0;
};

// Adds the range of `block`. Damaged blocks that follow each other make one range, even if there
// are whole blocks between them that contain only versions of the key with which the range ends.
void AddLost(const TableIndex& index, uint64_t block, std::vector<LostRange>* lost) {
  const Slice before = block > 0 ? index.separator(block - 1) : Slice();
  if (lost->empty() || lost->back().up_to != before) {
    lost->emplace_back();
    if (block > 0) lost->back().after = std::string(before);
    lost->back().with_after = block > 0 && index.Continues(block - 1);
  }
  lost->back().up_to = std::string(index.separator(block));
}

}  // namespace

Status TableReader::Verify() const {
  return Verifier(*this, true).Run();
}

Status TableReader::VerifyChecksums() const {
  return Verifier(*this, !footer_.checked_blocks()).Run();
}

Result<std::vector<LostRange>> TableReader::FindLostRanges() const {
  Status status;
  const BlockPin index_pin = BlockPin::Adopt(ReadIndex(&status));
  QUIRE_RETURN_IF_ERROR(status);
  const TableIndex& index = IndexIn(*index_pin.get());
  BlockStream stream(*this, index);
  std::vector<LostRange> lost;
  for (uint64_t block = 0; block < index.block_count(); ++block) {
    Slice contents;
    const Status read = stream.Read(block, &contents);
    if (read.ok()) continue;
    if (read.code() != Code::kCorruption) return read;
    AddLost(index, block, &lost);
  }
  return lost;
}

}  // namespace quire::table
