#include "lsm/version/run_writer.h"

#include <algorithm>
#include <utility>

#include "base/core/out_of_memory.h"
#include "io/files/machine.h"
#include "lsm/version/manifest.h"

namespace quire::lsm {

RunWriter::~RunWriter() {
  if (!finished_) Remove();
}

void RunWriter::Remove() {
  builder_.reset();
  // Best effort: what stays is an orphan, which the next open removes. In another's directory the
  // names are those of its tables. Without a descriptor to look with they go: each attempt of a
  // flush would leave some.
  const bool others =
      !paths_.empty() && IsAnothers(base::OrOutOfMemory([this] { return check_held_(); }));
  for (const std::string& path : paths_) {
    if (!others) static_cast<void>(base::OrOutOfMemory([&] { return fs_.Unlink(path); }));
  }
  paths_.clear();
  tables_.clear();
}

Status RunWriter::Begin(Slice first_key) {
  if (!tables_.empty()) begin_.assign(first_key);
  const auto make = [this](uint64_t ssid) {
    paths_.push_back(directory_ + "/" + TableName(ssid));
    auto made = table::TableBuilder::Create(fs_, paths_.back(), ssid, io::RandomU64(), options_);
    if (!made.ok()) paths_.pop_back();  // a file of that name is not of this writer
    return made;
  };
  QUIRE_ASSIGN_OR_RETURN(builder_, MakeNumbered(check_held_, next_ssid_(), next_ssid_, make));
  return Status();
}

Status RunWriter::Add(Slice key, log::RecordType type, Slice value, uint64_t lsn, bool new_key) {
  if (new_key && builder_ != nullptr && builder_->file_bytes() >= options_.table_bytes_max) {
    QUIRE_RETURN_IF_ERROR(End(&key));
  }
  if (builder_ == nullptr) QUIRE_RETURN_IF_ERROR(Begin(key));
  return builder_->Add(key, type, value, lsn);
}

// The parts of the tombstones in [begin_, *next_key), or to the end of all keys.
Status RunWriter::AddTombstones(const Slice* next_key) {
  for (const table::RangeTombstone& tombstone : tombstones_) {
    table::RangeTombstone part;
    part.lsn = tombstone.lsn;
    part.begin = std::max(tombstone.begin, begin_);
    part.end = next_key == nullptr ? tombstone.end
                                   : std::string(std::min(Slice(tombstone.end), *next_key));
    if (part.begin < part.end) QUIRE_RETURN_IF_ERROR(builder_->AddRangeTombstone(part));
  }
  return Status();
}

Status RunWriter::End(const Slice* next_key) {
  QUIRE_RETURN_IF_ERROR(AddTombstones(next_key));
  QUIRE_ASSIGN_OR_RETURN(table::TableInfo info, builder_->Finish());
  builder_.reset();
  tables_.push_back(std::move(info));
  return Status();
}

Result<std::vector<table::TableInfo>> RunWriter::Finish() {
  if (builder_ == nullptr && !tombstones_.empty()) QUIRE_RETURN_IF_ERROR(Begin({}));
  if (builder_ != nullptr) QUIRE_RETURN_IF_ERROR(End(nullptr));
  finished_ = true;
  return tables_;
}

}  // namespace quire::lsm
