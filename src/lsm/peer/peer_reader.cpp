#include "lsm/peer/peer_reader.h"

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/core/log_sink.h"
#include "base/hash/hash.h"
#include "base/text/coding.h"
#include "base/threads/epoch.h"
#include "base/threads/sync_point.h"
#include "log/segment.h"
#include "lsm/memtable/memtable.h"
#include "lsm/memtable/peer_memtable.h"
#include "lsm/version/manifest.h"
#include "lsm/version/run_lookup.h"
#include "lsm/version/run_opener.h"
#include "lsm/version/version.h"
#include "lsm/vlog/value_resolver.h"
#include "table/block_cache.h"

namespace quire::lsm {
namespace {

// The owner changes its set of MemTables some times a second; a look takes microseconds, or, after
// a change of the tables, a millisecond.
constexpr int kPeerAttempts = 32;

Status Busy(const std::string& directory, const char* why) {
  return Status(Code::kBusy, "the database in " + directory + " cannot be read directly: " + why +
                                 "; ask its owner");
}

// The neighbour's database according to one state of the board. Never changes.
struct PeerView {
  uint64_t sequence = 0;                                  // of the board
  uint64_t edition = 0;                                   // of the manifest; at least the board's
  bool has_base = false;                                  // which is not read from here
  std::vector<PeerMemTable> memtables;                    // newest first
  std::vector<std::shared_ptr<io::MappedFile>> mappings;  // of their records; null: in the region
  std::vector<std::shared_ptr<const Run>> runs;
};

// Holds what it is in; the memory of a neighbour may come to be another MemTable's all the same.
struct PeerLateValue : LateValue {
  std::optional<PeerMemTable> memtable;  // of `beside_key`
};

class SharedMemoryReader final : public engine::PeerReader {
 public:
  SharedMemoryReader(io::FileSystem& fs, std::string directory,
                     std::unique_ptr<SharedRegion> region, const StorageOptions& options,
                     std::shared_ptr<table::BlockCache> cache)
      : fs_(fs),
        directory_(std::move(directory)),
        region_(std::move(region)),
        options_(options),
        cache_(std::move(cache)),
        values_(ValueReader::Create(fs, directory_)),
        resolver_([this](const log::ValueRef& reference, const BufferAllocator& allocate) {
          return values_->Read(reference, allocate);
        }),
        mappings_(static_cast<size_t>(region_->pool_slots())) {}

  ~SharedMemoryReader() override {
    delete view_.load(std::memory_order_relaxed);
    base::EpochSynchronize();  // earlier views go before the file system and the cache may
  }

  Status Get(Slice key, const BufferAllocator& allocate) const override {
    const uint64_t hash = base::HashKey(key);
    for (int attempt = 0; attempt < kPeerAttempts; ++attempt) {
      bool changed = true;
      PeerLateValue late;
      {
        const base::EpochGuard guard;
        const PeerView* const view = view_.load(std::memory_order_acquire);
        if (view != nullptr && region_->Unchanged(view->sequence)) {
          base::SyncPoint("lsm.peer.viewed");
          const Status status = GetFrom(*view, key, hash, allocate, &changed, &late);
          if (!changed) return status;
        }
      }
      if (late.there()) {
        const Status status = ReadLate(late, allocate, &changed);
        if (!changed) return status;
      }
      QUIRE_RETURN_IF_ERROR(Refresh());
    }
    return Busy(directory_, "it changed at every look");
  }

  // Reads the epoch of these files' opener, whatever the edition; before another job can open them.
  Status LearnEpoch() const {
    QUIRE_ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(fs_, directory_));
    const std::lock_guard<std::mutex> lock(mutex_);
    epoch_ = manifest.epoch;
    return Status();
  }

 private:
  // Reads the board, and builds a view if the board has changed. OK if the caller must read it
  // again.
  Status Refresh() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (region_->marked_closed()) return Busy(directory_, "its owner closed it");
    const PeerView* const former = view_.load(std::memory_order_relaxed);
    if (former != nullptr && region_->Unchanged(former->sequence)) return Status();
    BoardState board;
    auto view = std::make_unique<PeerView>();
    if (!region_->Read(&board, &view->sequence)) {
      return Busy(directory_, "its owner died while it changed it");
    }
    if (unreadable_ == view->sequence) return Busy(directory_, "a file of it cannot be read");
    base::SyncPoint("lsm.peer.board_read");
    view->has_base = board.has_base;
    Status status = AddMemTables(board, view.get());
    if (status.ok()) status = AddRuns(board, former, view.get());
    if (status.code() == Code::kNotFound) return Status();  // a file went: the board moved on
    if (!status.ok()) return GiveUp(status, view->sequence);
    // Made before the view goes: then nothing fails any more.
    auto retired = base::EpochPrepare([former] { delete former; });
    view_.store(view.release(), std::memory_order_release);
    base::EpochRetire(std::move(retired));
    return Status();
  }

  // A file that cannot be opened concerns some keys, or only this process: the owner reports each.
  Status GiveUp(const Status& why, uint64_t sequence) const {
    if (why.code() == Code::kBusy) return why;
    unreadable_ = sequence;
    if (base::LogEnabled()) {
      base::Log(LogLevel::kWarning, "no direct reads in " + directory_ +
                                        " until its owner changes its tables: " + why.ToString());
    }
    return Busy(directory_, "a file of it cannot be read");
  }

  // *changed: the view is none any more, or *late is to be read; and the status nothing.
  Status GetFrom(const PeerView& view, Slice key, uint64_t hash, const BufferAllocator& allocate,
                 bool* changed, PeerLateValue* late) const {
    for (size_t i = 0; i < view.memtables.size(); ++i) {
      const PeerMemTable& memtable = view.memtables[i];
      std::optional<table::LookupResult> found = memtable.Find(key, hash);
      if (!found.has_value()) return Status();
      if (found->state == table::KeyState::kAbsent) {
        if (!memtable.Unchanged()) return Status();
        continue;
      }
      std::array<char, sizeof(log::ValueRef)> reference;
      if (found->state == table::KeyState::kValueRef) {
        // The reference may have changed while it was copied: then nothing is read by it.
        std::memcpy(reference.data(), found->value.data(), reference.size());
        if (!memtable.Unchanged()) return Status();
        found->value = Slice(reference.data(), reference.size());
        return Resolve(*found, allocate, changed, late);
      }
      const Status status = Resolve(*found, allocate, changed, late);
      if (!late->there()) base::SyncPoint("lsm.peer.delivered");
      *changed = late->there() || !memtable.Unchanged();
      if (late->there()) {
        late->memtable = memtable;
        late->holder = view.mappings[i];
      }
      return status;
    }
    return GetFromRuns(view, key, hash, allocate, changed, late);
  }

  Status GetFromRuns(const PeerView& view, Slice key, uint64_t hash,
                     const BufferAllocator& allocate, bool* changed, PeerLateValue* late) const {
    table::LookupResult found;
    FilterCounts counts;
    const Status status = LookupRuns(view.runs, key, hash, kMaxLsn, &found, &counts);
    *changed = false;
    QUIRE_RETURN_IF_ERROR(status);
    if (found.state == table::KeyState::kAbsent && view.has_base) {
      return Busy(directory_, "the key may be of an older generation");
    }
    return Resolve(found, allocate, changed, late);
  }

  // A segment that is gone was collected: newer tables know where the value is now.
  Status Resolve(const table::LookupResult& found, const BufferAllocator& allocate, bool* changed,
                 PeerLateValue* late) const {
    const Status status = resolver_.Resolve(found, allocate, late);
    const bool reference = found.state == table::KeyState::kValueRef;
    *changed = late->there() || (reference && status.code() == Code::kNotFound);
    return status;
  }

  // Reads a late value, without the guard.
  Status ReadLate(const PeerLateValue& late, const BufferAllocator& allocate, bool* changed) const {
    const Status status = resolver_.ResolveLate(late, allocate);
    base::SyncPoint("lsm.peer.delivered");
    *changed = late.reference.has_value()
                   ? status.code() == Code::kNotFound
                   : late.memtable.has_value() && !late.memtable->Unchanged();
    return status;
  }

  // kNotFound: a MemTable is gone already.
  Status AddMemTables(const BoardState& board, PeerView* view) const {
    for (int i = 0; i < board.live_count; ++i) {
      if (board.live[i].pool_slot == kNotShared) {
        return Busy(directory_, "it has a MemTable outside of its shared memory");
      }
      const auto pool_slot = static_cast<int>(board.live[i].pool_slot);
      const uint64_t generation = board.live[i].generation;
      const char* data = region_->records(pool_slot);
      std::shared_ptr<io::MappedFile> mapping;
      if (data == nullptr) {
        QUIRE_ASSIGN_OR_RETURN(mapping, MapSegment(pool_slot, generation));
        data = mapping->data();
      }
      view->mappings.push_back(std::move(mapping));
      view->memtables.emplace_back(region_->index(pool_slot), data, region_->segment_bytes(),
                                   generation);
    }
    return Status();
  }

  // Returns the mapping of the segment's file: the existing one, or a new one if the file was
  // replaced.
  Result<std::shared_ptr<io::MappedFile>> MapSegment(int pool_slot, uint64_t generation) const {
    std::shared_ptr<io::MappedFile>& mapping = mappings_[static_cast<size_t>(pool_slot)];
    for (const bool again : {false, true}) {
      if (mapping == nullptr || again) {
        QUIRE_ASSIGN_OR_RETURN(auto mapped, fs_.Map(directory_ + "/" + LogSegmentName(pool_slot),
                                                    region_->segment_bytes(), io::MapMode::kRead));
        mapping = std::move(mapped);
      }
      const PeerMemTable probe(region_->index(pool_slot), mapping->data(), region_->segment_bytes(),
                               generation);
      if (probe.Unchanged()) return mapping;
    }
    return Status(Code::kNotFound);
  }

  // The runs of the manifest, which is at least as new as the board. kNotFound: a table is gone
  // already.
  Status AddRuns(const BoardState& board, const PeerView* former, PeerView* view) const {
    if (former != nullptr && former->edition == board.edition) {
      view->edition = former->edition;
      view->runs = former->runs;
      return Status();
    }
    QUIRE_ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(fs_, directory_));
    if (manifest.edition < board.edition) return Status(Code::kNotFound);
    if (epoch_ != manifest.epoch) return Busy(directory_, "another job opened it");
    KnownTables known;
    if (former != nullptr) known = TablesOf(former->runs);
    view->edition = manifest.edition;
    QUIRE_ASSIGN_OR_RETURN(view->runs, OpenRuns({&fs_, directory_, &options_, cache_, nullptr},
                                                manifest.runs, &known));
    return Status();
  }

  io::FileSystem& fs_;
  const std::string directory_;
  const std::unique_ptr<SharedRegion> region_;
  const StorageOptions options_;
  const std::shared_ptr<table::BlockCache> cache_;
  const std::unique_ptr<ValueReader> values_;
  const ValueResolver resolver_;
  mutable std::atomic<const PeerView*> view_{nullptr};
  mutable std::mutex mutex_;
  // by pool slot; guarded by mutex_
  mutable std::vector<std::shared_ptr<io::MappedFile>> mappings_;
  // guarded by mutex_
  mutable uint64_t epoch_ = 0;                  // of the manifest, as the owner opened it
  mutable std::optional<uint64_t> unreadable_;  // of the board, while a file could not be opened
};

}  // namespace

Result<std::unique_ptr<engine::PeerReader>> OpenPeerReader(io::FileSystem& fs,
                                                           const engine::PeerAddress& address,
                                                           const engine::ReaderOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(auto region,
                         SharedRegion::Attach(address.region_name, address.region_bytes));
  auto reader = std::make_unique<SharedMemoryReader>(fs, address.directory, std::move(region),
                                                     options.storage, options.cache);
  QUIRE_RETURN_IF_ERROR(reader->LearnEpoch());
  return std::unique_ptr<engine::PeerReader>(std::move(reader));
}

}  // namespace quire::lsm
