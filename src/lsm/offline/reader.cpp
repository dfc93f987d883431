#include "lsm/offline/reader.h"

#include <list>
#include <set>
#include <utility>
#include <vector>

#include "base/hash/hash.h"
#include "base/text/coding.h"
#include "base/threads/epoch.h"
#include "io/paths/sole_writer.h"
#include "log/segment.h"
#include "lsm/db/verify.h"
#include "lsm/offline/published_state.h"
#include "lsm/version/run_lookup.h"
#include "lsm/version/user_iterator.h"
#include "lsm/vlog/value_resolver.h"
#include "table/block_cache.h"

namespace quire::lsm {
namespace {

Status Find(const Version& version, Slice key, table::LookupResult* found) {
  const uint64_t hash = base::HashKey(key);
  for (const std::shared_ptr<PooledMemTable>& memory : version.immutables) {
    *found = memory->table().Get(key, hash, kMaxLsn);
    if (found->state != table::KeyState::kAbsent) return Status();
  }
  FilterCounts counts;
  return LookupRuns(version.runs, key, hash, kMaxLsn, found, &counts);
}

// Returns the bytes of the tables, and of the values to which they refer.
uint64_t BytesToVerify(const Version& version) {
  uint64_t bytes = 0;
  for (const std::shared_ptr<const Run>& run : version.runs) {
    bytes += run->bytes();
    for (const std::shared_ptr<TableHandle>& table : run->tables()) {
      for (const table::SegmentUse& use : table->info().segments) bytes += use.bytes;
    }
  }
  return bytes;
}

class OfflineReader final : public Reader, public std::enable_shared_from_this<OfflineReader> {
 public:
  OfflineReader(std::shared_ptr<const PublishedStateLoader> loader, bool unchanging,
                std::shared_ptr<const PublishedState> view)
      : loader_(std::move(loader)),
        unchanging_(unchanging),
        view_(std::move(view)),
        resolver_([this](const log::ValueRef& reference, const BufferAllocator& allocate) {
          return ReadValue(reference, allocate);
        }),
        end_of_view_(base::EpochPrepare([kept = view_] {})) {}
  ~OfflineReader() override {
    // The last to let go of it may be a guard's holder or a reclaimer.
    if (!base::EpochMaySynchronize()) base::EpochRetire(std::move(end_of_view_));
  }

  Status Get(Slice key, const BufferAllocator& allocate, table::KeyState* state) const override;
  std::unique_ptr<engine::Iterator> NewIterator(
      const engine::IteratorOptions& options) const override;
  Result<std::shared_ptr<engine::StoredPart>> Newer() const override;
  engine::TablesPosition Position() const override {
    return {view_->manifest.store_id, view_->manifest.edition, false};
  }
  uint64_t EntryBytes() const override;
  ReaderState State() const override;
  Status Verify(const VerifyProgress& progress) const override;

 private:
  Status ReadValue(const log::ValueRef& reference, const BufferAllocator& allocate) const;
  Status CheckValue(const log::ValueRef& reference) const;
  Status CheckSegments() const;
  Status SegmentIsGone(uint64_t segment_id) const;
  std::string SegmentPath(uint64_t segment_id) const {
    return loader_->directory() + "/" + ValueSegmentName(segment_id);
  }

  const std::shared_ptr<const PublishedStateLoader> loader_;  // goes last: see there
  const bool unchanging_;
  const std::shared_ptr<const PublishedState> view_;
  const ValueResolver resolver_;
  std::list<base::EpochRetired> end_of_view_;
};

uint64_t OfflineReader::EntryBytes() const {
  uint64_t bytes = 0;
  for (const auto& run : view_->manifest.runs) {
    for (const table::TableInfo& table : run) bytes += table.raw_bytes;
  }
  return bytes;
}

Result<std::shared_ptr<engine::StoredPart>> OfflineReader::Newer() const {
  QUIRE_ASSIGN_OR_RETURN(std::shared_ptr<const PublishedState> view, loader_->Next(view_.get()));
  return std::shared_ptr<engine::StoredPart>(
      std::make_shared<OfflineReader>(loader_, unchanging_, std::move(view)));
}

Status OfflineReader::Get(Slice key, const BufferAllocator& allocate,
                          table::KeyState* state) const {
  if (state != nullptr) *state = table::KeyState::kAbsent;
  if (!log::IsKeySize(key.size())) return log::KeySizeError(key.size());
  LateValue late;
  {
    const base::EpochGuard guard;
    table::LookupResult found;
    QUIRE_RETURN_IF_ERROR(Find(view_->version, key, &found));
    if (state != nullptr) {
      const bool apart = found.state == table::KeyState::kValueRef;
      *state = apart ? table::KeyState::kValue : found.state;
    }
    // The file system may be slow: a separated value is read without the guard, however small.
    if (found.state == table::KeyState::kValueRef) {
      ValueResolver::Postpone(found.value, &late);
    } else {
      QUIRE_RETURN_IF_ERROR(resolver_.Resolve(found, allocate, &late));
    }
  }
  return resolver_.ResolveLate(late, allocate);
}

std::unique_ptr<engine::Iterator> OfflineReader::NewIterator(
    const engine::IteratorOptions& options) const {
  IteratorSources sources;
  sources.version = std::shared_ptr<const Version>(view_, &view_->version);
  sources.values = {shared_from_this(), &resolver_};
  sources.snapshot = options.snapshot == nullptr ? kMaxLsn : options.snapshot->lsn();
  AddVersion(&sources);
  return NewUserIterator(std::move(sources), options);
}

ReaderState OfflineReader::State() const {
  ReaderState state;
  state.manifest = std::shared_ptr<const Manifest>(view_, &view_->manifest);
  state.writer = view_->writer;
  state.log_records = view_->log_records;
  state.log_holes = view_->log_holes;
  return state;
}

Status OfflineReader::ReadValue(const log::ValueRef& reference,
                                const BufferAllocator& allocate) const {
  const Status status = view_->values->Read(reference, allocate);
  return status.code() == Code::kNotFound ? SegmentIsGone(reference.segment_id) : status;
}

Status OfflineReader::CheckValue(const log::ValueRef& reference) const {
  const Status status = view_->values->Check(reference);
  return status.code() == Code::kNotFound ? SegmentIsGone(reference.segment_id) : status;
}

// A segment goes only after a manifest that needs it no more.
Status OfflineReader::SegmentIsGone(uint64_t segment_id) const {
  const std::string path = SegmentPath(segment_id);
  bool same = unchanging_;
  if (!same) {
    QUIRE_ASSIGN_OR_RETURN(same, StillStored(loader_->fs(), loader_->directory(), view_->manifest));
  }
  if (same) {
    return Status(Code::kCorruption, path +
                                         " is missing, though a value in it is referred to; "
                                         "restore the file from a copy or checkpoint");
  }
  return Status(Code::kBusy, "stale: " + path + " was removed since edition " +
                                 std::to_string(view_->manifest.edition) +
                                 " of the database was read; refresh, and read again");
}

Status OfflineReader::CheckSegments() const {
  std::set<uint64_t> segments;
  for (const std::vector<table::TableInfo>& run : view_->manifest.runs) {
    for (const table::TableInfo& table : run) {
      for (const table::SegmentUse& use : table.segments) segments.insert(use.segment_id);
    }
  }
  for (const uint64_t id : segments) {
    const std::string path = SegmentPath(id);
    const Result<log::SegmentHeader> header = log::ReadSegmentHeader(loader_->fs(), path);
    if (header.status().code() == Code::kNotFound) return SegmentIsGone(id);
    QUIRE_RETURN_IF_ERROR(header.status());
    if (header->kind == log::SegmentKind::kValue && header->id == id) continue;
    return Status(Code::kCorruption, path + ": this is another segment's file (number " +
                                         std::to_string(header->id) + "); restore the right one");
  }
  return Status();
}

Status OfflineReader::Verify(const VerifyProgress& progress) const {
  const uint64_t total = BytesToVerify(view_->version);
  uint64_t done = 0;
  const auto advance = [&](uint64_t bytes) {
    done += bytes;
    if (progress) progress(done, total);
  };
  const ValueCheck check = [&](const log::ValueRef& reference) { return CheckValue(reference); };
  QUIRE_RETURN_IF_ERROR(CheckSegments());
  for (const std::shared_ptr<const Run>& run : view_->version.runs) {
    QUIRE_RETURN_IF_ERROR(VerifyRun(
        *run,
        [&](const log::ValueRef& reference) {
          advance(log::RecordSize(reference.key_size, reference.value_size));
          return check(reference);
        },
        [&](const table::TableInfo& table) { advance(table.file_bytes); }));
  }
  for (const std::shared_ptr<PooledMemTable>& memory : view_->version.immutables) {
    QUIRE_RETURN_IF_ERROR(VerifyMemory(*memory, loader_->directory(), check));
  }
  return Status();
}

}  // namespace

Result<std::shared_ptr<Reader>> Reader::Open(io::FileSystem& fs, const std::string& directory,
                                             const engine::ReaderOptions& options) {
  QUIRE_RETURN_IF_ERROR(io::CheckSoleWriter(fs, directory));
  const auto loader = std::make_shared<const PublishedStateLoader>(
      fs, directory, options.storage,
      options.cache != nullptr ? options.cache : table::NewBlockCache(options.storage.cache_bytes));
  QUIRE_ASSIGN_OR_RETURN(std::shared_ptr<const PublishedState> view, loader->Next(nullptr));
  return std::shared_ptr<Reader>(
      std::make_shared<OfflineReader>(loader, options.unchanging, std::move(view)));
}

}  // namespace quire::lsm
