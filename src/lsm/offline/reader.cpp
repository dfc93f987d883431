#include "lsm/offline/reader.h"

#include <atomic>
#include <list>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "base/coding.h"
#include "base/epoch.h"
#include "base/hash.h"
#include "io/paths/sole_writer.h"
#include "log/segment.h"
#include "lsm/offline/reader_view.h"
#include "lsm/version/run_lookup.h"
#include "lsm/version/user_iterator.h"
#include "lsm/db/verify.h"

namespace quire::lsm {
namespace {

struct Found {
  Reader::Presence presence = Reader::Presence::kNowhere;
  bool separated = false;
  Slice value;  // inside the caller's EpochGuard
};

template <typename State>
Found FoundOf(State state, Slice value) {
  switch (state) {
    case State::kAbsent:
      break;
    case State::kDeleted:
      return {Reader::Presence::kDeleted, false, {}};
    case State::kValue:
      return {Reader::Presence::kPresent, false, value};
    case State::kValueRef:
      return {Reader::Presence::kPresent, true, value};
  }
  return {};
}

Status Find(const Version& version, Slice key, Found* found) {
  const uint64_t hash = base::HashKey(key);
  for (const std::shared_ptr<MemoryHandle>& memory : version.immutables) {
    const Lookup lookup = memory->table().Get(key, hash, kMaxLsn);
    *found = FoundOf(lookup.state, lookup.value);
    if (found->presence != Reader::Presence::kNowhere) return Status();
  }
  RunLookup lookup;
  QUIRE_RETURN_IF_ERROR(LookupRuns(version.runs, key, hash, kMaxLsn, &lookup));
  *found = FoundOf(lookup.state, lookup.value);
  return Status();
}

// Of the tables, and of the values that they refer to.
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

class DirectoryReader final : public Reader, public std::enable_shared_from_this<DirectoryReader> {
 public:
  DirectoryReader(ReaderLooks looks, bool unchanging)
      : looks_(std::move(looks)), unchanging_(unchanging) {}
  ~DirectoryReader() override {
    // One that failed to open may go inside an EpochGuard, and nobody has seen a view of it.
    if (current_ == nullptr) return;
    // The last to let go of it may be a guard's holder or a reclaimer.
    current_.reset();
    if (!base::EpochMaySynchronize()) {
      base::EpochRetire(std::move(end_of_current_));
      return;
    }
    end_of_current_.clear();
    base::EpochSynchronize();  // earlier views go before the file system and the cache may
  }

  Status Get(Slice key, const AllocateFn& allocate, Presence* presence) const override;
  std::unique_ptr<Iterator> NewIterator(const IteratorOptions& options) const override;
  Status Refresh() override;
  ReaderState State() const override;
  Status Verify(const VerifyProgress& progress) const override;

 private:
  std::shared_ptr<const ReaderView> Pin() const {
    const base::EpochGuard guard;
    return view_.load(std::memory_order_acquire)->shared_from_this();
  }
  Status ReadValue(const ReaderView& view, const log::ValueRef& reference,
                   const AllocateFn& allocate) const;
  Status CheckValue(const ReaderView& view, const log::ValueRef& reference) const;
  Status CheckSegments(const ReaderView& view) const;
  Status SegmentIsGone(const ReaderView& view, uint64_t segment_id) const;
  std::string SegmentPath(uint64_t segment_id) const {
    return looks_.directory() + "/" + ValueSegmentName(segment_id);
  }

  const ReaderLooks looks_;
  const bool unchanging_;
  // What readers load, inside an EpochGuard; kept alive by current_.
  std::atomic<const ReaderView*> view_{nullptr};
  std::mutex mutex_;
  std::shared_ptr<const ReaderView> current_;     // guarded by mutex_
  std::list<base::EpochRetired> end_of_current_;  // likewise; keeps it until it is retired
};

Status DirectoryReader::Refresh() {
  const std::lock_guard<std::mutex> lock(mutex_);
  QUIRE_ASSIGN_OR_RETURN(std::shared_ptr<const ReaderView> view, looks_.Next(current_.get()));
  // What may find no memory before all else: gets that go on use the former view.
  auto end_of_view = base::EpochPrepare([view] {});
  view_.store(view.get(), std::memory_order_release);
  current_ = std::move(view);
  base::EpochRetire(std::exchange(end_of_current_, std::move(end_of_view)));
  return Status();
}

Status DirectoryReader::Get(Slice key, const AllocateFn& allocate, Presence* presence) const {
  if (presence != nullptr) *presence = Presence::kNowhere;
  if (key.empty() || key.size() > log::kKeyBytesMax) {
    return Status(Code::kInvalidArgument,
                  "a key of " + std::to_string(key.size()) + " bytes; keys have 1 to 65536");
  }
  const base::EpochGuard guard;
  const ReaderView& view = *view_.load(std::memory_order_acquire);
  Found found;
  QUIRE_RETURN_IF_ERROR(Find(view.version, key, &found));
  if (presence != nullptr) *presence = found.presence;
  if (found.presence != Presence::kPresent) return Status(Code::kNotFound);
  if (!found.separated) return Deliver(found.value, allocate);
  return ReadValue(view, base::LoadLe<log::ValueRef>(found.value.data()), allocate);
}

std::unique_ptr<Iterator> DirectoryReader::NewIterator(const IteratorOptions& options) const {
  IteratorSources sources;
  const std::shared_ptr<const ReaderView> view = Pin();
  sources.version = std::shared_ptr<const Version>(view, &view->version);
  sources.read_value = [self = shared_from_this(), view](const log::ValueRef& reference,
                                                         const AllocateFn& allocate) {
    return self->ReadValue(*view, reference, allocate);
  };
  sources.snapshot = options.snapshot == nullptr ? kMaxLsn : options.snapshot->lsn();
  AddVersion(&sources);
  return NewUserIterator(std::move(sources), options);
}

ReaderState DirectoryReader::State() const {
  const std::shared_ptr<const ReaderView> view = Pin();
  ReaderState state;
  state.manifest = std::shared_ptr<const Manifest>(view, &view->manifest);
  state.writer = view->writer;
  state.log_records = view->log_records;
  state.log_holes = view->log_holes;
  return state;
}

Status DirectoryReader::ReadValue(const ReaderView& view, const log::ValueRef& reference,
                                  const AllocateFn& allocate) const {
  const Status status = view.values->Read(reference, allocate);
  return status.code() == Code::kNotFound ? SegmentIsGone(view, reference.segment_id) : status;
}

Status DirectoryReader::CheckValue(const ReaderView& view, const log::ValueRef& reference) const {
  const Status status = view.values->Check(reference);
  return status.code() == Code::kNotFound ? SegmentIsGone(view, reference.segment_id) : status;
}

// A segment goes only after a manifest that needs it no more.
Status DirectoryReader::SegmentIsGone(const ReaderView& view, uint64_t segment_id) const {
  const std::string path = SegmentPath(segment_id);
  bool same = unchanging_;
  if (!same) {
    QUIRE_ASSIGN_OR_RETURN(same, StillStored(looks_.fs(), looks_.directory(), view.manifest));
  }
  if (same) {
    return Status(Code::kCorruption, path +
                                         " is missing, though a value in it is referred to; "
                                         "restore the file from a copy or checkpoint");
  }
  return Status(Code::kBusy, "stale: " + path + " was removed since edition " +
                                 std::to_string(view.manifest.edition) +
                                 " of the database was read; refresh, and read again");
}

Status DirectoryReader::CheckSegments(const ReaderView& view) const {
  std::set<uint64_t> segments;
  for (const std::vector<table::TableInfo>& run : view.manifest.runs) {
    for (const table::TableInfo& table : run) {
      for (const table::SegmentUse& use : table.segments) segments.insert(use.segment_id);
    }
  }
  for (const uint64_t id : segments) {
    const std::string path = SegmentPath(id);
    const Result<log::SegmentHeader> header = log::ReadSegmentHeader(looks_.fs(), path);
    if (header.status().code() == Code::kNotFound) return SegmentIsGone(view, id);
    QUIRE_RETURN_IF_ERROR(header.status());
    if (header->kind == log::SegmentKind::kValue && header->id == id) continue;
    return Status(Code::kCorruption, path + ": this is another segment's file (number " +
                                         std::to_string(header->id) + "); restore the right one");
  }
  return Status();
}

Status DirectoryReader::Verify(const VerifyProgress& progress) const {
  const std::shared_ptr<const ReaderView> view = Pin();
  const uint64_t total = BytesToVerify(view->version);
  uint64_t done = 0;
  const auto advance = [&](uint64_t bytes) {
    done += bytes;
    if (progress) progress(done, total);
  };
  const ValueCheck check = [&](const log::ValueRef& reference) {
    return CheckValue(*view, reference);
  };
  QUIRE_RETURN_IF_ERROR(CheckSegments(*view));
  for (const std::shared_ptr<const Run>& run : view->version.runs) {
    QUIRE_RETURN_IF_ERROR(VerifyRun(
        *run,
        [&](const log::ValueRef& reference) {
          advance(log::RecordSize(reference.key_size, reference.value_size));
          return check(reference);
        },
        [&](const table::TableInfo& table) { advance(table.file_bytes); }));
  }
  for (const std::shared_ptr<MemoryHandle>& memory : view->version.immutables) {
    QUIRE_RETURN_IF_ERROR(VerifyMemory(*memory, looks_.directory(), check));
  }
  return Status();
}

}  // namespace

Result<std::shared_ptr<Reader>> Reader::Open(io::FileSystem& fs, const std::string& directory,
                                             const ReaderOptions& options) {
  QUIRE_RETURN_IF_ERROR(io::CheckSoleWriter(fs, directory));
  auto reader = std::make_shared<DirectoryReader>(
      ReaderLooks(fs, directory, options.storage,
                  options.cache != nullptr ? options.cache
                                           : table::NewBlockCache(options.storage.cache_bytes)),
      options.unchanging);
  QUIRE_RETURN_IF_ERROR(reader->Refresh());
  return std::shared_ptr<Reader>(std::move(reader));
}

}  // namespace quire::lsm
