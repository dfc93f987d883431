#include "stream/store/writer.h"

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <new>
#include <utility>

#include "base/core/out_of_memory.h"
#include "base/core/program_call.h"
#include "base/text/printable.h"
#include "base/threads/forked_child.h"
#include "io/files/machine.h"
#include "io/watch/page_watch.h"
#include "stream/store/part.h"
#include "stream/store/writer_object.h"

namespace quire::stream {
namespace {

constexpr uint64_t kReadersPauseNs = 1'000'000;

Status NoSuchObject(Slice key) {
  return Status(Code::kNotFound,
                "there is no object " + base::Printable(key) + ": create or attach it first");
}

StreamDurability DurabilityOf(const LogMemory& memory) {
  if (memory.persistent()) return StreamDurability::kMachine;
  return memory.in_memory() ? StreamDurability::kMemory : StreamDurability::kProcess;
}

class LocalWriter final : public StreamWriter {
 public:
  explicit LocalWriter(StreamOptions options) : options_(std::move(options)) {}
  // Must precede all other calls, and be the last step: an open that succeeds changes the log.
  Status Open(io::FileSystem& fs, const PartName& name) {
    QUIRE_ASSIGN_OR_RETURN(part_, Part::Open(fs, name, options_, true));
    durability_ = DurabilityOf(part_->heap().memory());
    return Status();
  }
  ~LocalWriter() override {
    try {
      // Only Finish reports an error.
      if (part_ != nullptr && part_->own()) static_cast<void>(part_->Finish());
    } catch (const std::bad_alloc&) {
      // Readers see that the writer is gone.
    }
  }

  Result<char*> Create(Slice key, uint64_t bytes, const StreamShape& shape) override {
    return base::OrOutOfMemory([&] { return Add(key, nullptr, bytes, shape); });
  }
  Status Attach(Slice key, char* memory, uint64_t bytes, const StreamShape& shape) override {
    if (memory == nullptr) return Status(Code::kInvalidArgument, "an object needs its memory");
    return base::OrOutOfMemory([&] { return Add(key, memory, bytes, shape).status(); });
  }
  Status Free(Slice key) override;
  Result<uint64_t> Put(Slice key) override;
  Result<uint64_t> Snapshot() override;
  Result<uint64_t> Snapshot(const std::vector<Slice>& keys) override;
  Status MarkDirty(Slice key, uint64_t offset, uint64_t bytes) override;
  Status Restore(uint64_t snapshot, Slice key) override {
    return base::OrOutOfMemory([&] { return RestoreAsAt(snapshot, key); });
  }
  uint64_t LastSnapshot() const override;
  Status Sync() override;
  StreamDurability durability() const override { return durability_; }
  Status Keep(uint64_t snapshot) override {
    return base::OrOutOfMemory([&] { return KeepWhole(snapshot); });
  }
  Status Release(uint64_t snapshot) override;
  Status Collect() override;
  Result<std::string> Tracking(Slice key) const override;
  StreamStatistics Statistics() const override;
  Status Finish() override;

 private:
  using Objects = std::map<std::string, std::unique_ptr<WriterObject>, std::less<>>;

  Result<char*> Add(Slice key, char* memory, uint64_t bytes, const StreamShape& shape);
  Result<WriterObject*> Find(Slice key) const;
  /// One call, with the mutex locked unless it is refused. It is refused before it waits for the
  /// mutex: a log sink may run while the mutex is locked, and in a forked child the thread that
  /// locked it does not exist.
  class Call {
   public:
    explicit Call(const LocalWriter& writer)
        : admitted_(writer.process_.Check("the stream")), lock_(writer.mutex_, std::defer_lock) {
      if (!admitted_.ok()) return;
      lock_.lock();
      admitted_ = writer.Check();
    }
    const Status& admitted() const { return admitted_; }

   private:
    Status admitted_;
    std::unique_lock<std::mutex> lock_;
  };

  Status Check() const;
  Result<uint64_t> Store(const std::vector<WriterObject*>& objects);
  Status WholeWhereRoomEnds(const std::vector<WriterObject*>& objects);
  Status WaitForReaders(const std::function<Status()>& try_once);
  void Count(const std::vector<PendingVersion>& items);
  Result<uint64_t> VersionAt(const WriterObject& object, uint64_t snapshot) const;
  Status RestoreAsAt(uint64_t snapshot, Slice key);
  Status KeepWhole(uint64_t snapshot);

  const base::OwnProcess process_;
  const StreamOptions options_;
  StreamDurability durability_ = StreamDurability::kProcess;  // since Open
  mutable std::mutex mutex_;                                  // guards all below
  std::unique_ptr<Part> part_;                                // null: finished
  Objects objects_;
  std::vector<WriterObject*> all_;  // those of objects_, in order; empty: to be gathered
  std::vector<PendingVersion> items_;  // of the last commit; their memory is used again
  StreamStatistics statistics_;
};

Status LocalWriter::Check() const {
  if (part_ != nullptr) return Status();
  return Status(Code::kInvalidArgument, "the stream has been finished");
}

Result<char*> LocalWriter::Add(Slice key, char* memory, uint64_t bytes, const StreamShape& shape) {
  const Call call(*this);
  QUIRE_RETURN_IF_ERROR(call.admitted());
  if (key.empty() || key.size() > kKeyBytesMax) {
    return Status(Code::kInvalidArgument,
                  "a key has 1 to 1024 bytes, not " + std::to_string(key.size()));
  }
  QUIRE_RETURN_IF_ERROR(CheckShape(bytes, shape));
  if (objects_.find(key) != objects_.end()) {
    return Status(Code::kInvalidArgument,
                  "there is an object " + base::Printable(key) + " already");
  }
  if (objects_.size() >= options_.objects_max) {
    return Status(Code::kNoSpace, std::to_string(objects_.size()) +
                                      " objects are there: give a larger stream_objects_max");
  }
  const uint64_t capacity = part_->heap().identity().capacity;
  if (bytes > capacity) {
    return Status(Code::kNoSpace,
                  "an object of " + std::to_string(bytes) + " bytes does not fit into a log of " +
                      std::to_string(capacity) + ": give a larger stream_log_bytes");
  }
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<WriterObject> object,
                         WriterObject::New(std::string(key), memory, bytes, shape, options_));
  QUIRE_ASSIGN_OR_RETURN(const uint32_t slot, part_->SlotOf(key));
  object->SetSlot(slot);
  char* const data = object->memory();
  all_.clear();
  objects_.emplace(std::string(key), std::move(object));
  return data;
}

Result<WriterObject*> LocalWriter::Find(Slice key) const {
  QUIRE_RETURN_IF_ERROR(Check());
  const auto found = objects_.find(key);
  if (found == objects_.end()) return NoSuchObject(key);
  return found->second.get();
}

Status LocalWriter::Free(Slice key) {
  const Call call(*this);
  QUIRE_RETURN_IF_ERROR(call.admitted());
  QUIRE_RETURN_IF_ERROR(Find(key).status());
  all_.clear();
  objects_.erase(objects_.find(key));
  return Status();
}

Result<uint64_t> LocalWriter::Put(Slice key) {
  const Call call(*this);
  QUIRE_RETURN_IF_ERROR(call.admitted());
  QUIRE_ASSIGN_OR_RETURN(WriterObject* const object, Find(key));
  const uint64_t version = part_->NextVersion(object->slot());
  return base::OrOutOfMemory([&]() -> Result<uint64_t> {
    QUIRE_RETURN_IF_ERROR(Store({object}).status());
    return version;
  });
}

Result<uint64_t> LocalWriter::Snapshot() {
  const Call call(*this);
  QUIRE_RETURN_IF_ERROR(call.admitted());
  return base::OrOutOfMemory([&] {
    if (all_.empty()) {
      all_.reserve(objects_.size());
      for (const auto& [key, object] : objects_) all_.push_back(object.get());
    }
    return Store(all_);
  });
}

Result<uint64_t> LocalWriter::Snapshot(const std::vector<Slice>& keys) {
  const Call call(*this);
  QUIRE_RETURN_IF_ERROR(call.admitted());
  return base::OrOutOfMemory([&]() -> Result<uint64_t> {
    std::vector<WriterObject*> objects;
    for (const Slice key : keys) {
      QUIRE_ASSIGN_OR_RETURN(WriterObject* const object, Find(key));
      objects.push_back(object);
    }
    std::sort(objects.begin(), objects.end());
    if (std::adjacent_find(objects.begin(), objects.end()) != objects.end()) {
      return Status(Code::kInvalidArgument, "an object is named twice");
    }
    return Store(objects);
  });
}

Result<uint64_t> LocalWriter::Store(const std::vector<WriterObject*>& objects) {
  if (objects.empty()) return Status(Code::kInvalidArgument, "there is no object to store");
  const uint64_t begin_ns = io::RealClock().NowNs();
  const uint64_t snapshot = part_->snapshot() + 1;
  const bool audit = options_.audit_every != 0 && snapshot % options_.audit_every == 0;
  items_.resize(objects.size());
  uint64_t bytes = 0;
  for (size_t i = 0; i < objects.size(); ++i) {
    const uint64_t version = part_->NextVersion(objects[i]->slot());
    QUIRE_RETURN_IF_ERROR(objects[i]->Prepare(version, audit, &items_[i]));
    bytes += objects[i]->bytes();
  }
  QUIRE_RETURN_IF_ERROR(WholeWhereRoomEnds(objects));
  QUIRE_RETURN_IF_ERROR(WaitForReaders([&] { return part_->Commit(&items_, snapshot); }));
  // Each object accounts for a share of the time, by its size.
  const uint64_t took_ns = io::RealClock().NowNs() - begin_ns;
  for (WriterObject* object : objects) {
    const double share = static_cast<double>(object->bytes()) / static_cast<double>(bytes);
    object->Stored(static_cast<uint64_t>(share * static_cast<double>(took_ns)));
  }
  statistics_.audits += audit ? objects.size() : 0;
  Count(items_);
  // The commit stays, even if tidying up fails: the next commit tries that again.
  static_cast<void>(base::OrOutOfMemory([&] { return part_->CollectAtThreshold(); }));
  return snapshot;
}

// Stores whole versions if deltas would leave too little room. A delta keeps all versions on which
// it rests, and only a later whole version frees them: there must be room left for one.
Status LocalWriter::WholeWhereRoomEnds(const std::vector<WriterObject*>& objects) {
  const bool deltas = std::any_of(items_.begin(), items_.end(),
                                  [](const PendingVersion& item) { return item.entry.delta; });
  if (!deltas || part_->LeavesRoom(items_)) return Status();
  for (size_t i = 0; i < objects.size(); ++i) {
    QUIRE_RETURN_IF_ERROR(objects[i]->PrepareWhole(&items_[i]));
  }
  return Status();
}

// Retries every millisecond, because readers release the log without a notice.
Status LocalWriter::WaitForReaders(const std::function<Status()>& try_once) {
  const uint64_t deadline = io::RealClock().NowNs() + options_.wait_ms * 1'000'000;
  while (true) {
    const Status status = try_once();
    const bool wait =
        status.code() == Code::kNoSpace && part_->pinned() && io::RealClock().NowNs() < deadline;
    if (!wait) return status;
    io::RealClock().SleepNs(kReadersPauseNs);
  }
}

void LocalWriter::Count(const std::vector<PendingVersion>& items) {
  ++statistics_.commits;
  statistics_.versions += items.size();
  for (const PendingVersion& item : items) {
    statistics_.deltas += item.entry.delta ? 1 : 0;
    statistics_.object_bytes += item.entry.bytes;
    statistics_.stored_bytes += item.entry.stored;
  }
}

Status LocalWriter::MarkDirty(Slice key, uint64_t offset, uint64_t bytes) {
  const Call call(*this);
  QUIRE_RETURN_IF_ERROR(call.admitted());
  QUIRE_ASSIGN_OR_RETURN(WriterObject* const object, Find(key));
  if (offset > object->bytes() || bytes > object->bytes() - offset) {
    return Status(Code::kInvalidArgument, "object " + base::Printable(key) + " has " +
                                              std::to_string(object->bytes()) + " bytes");
  }
  object->MarkDirty(offset, bytes);
  return Status();
}

// Returns the number of the version that can be restored into the object.
Result<uint64_t> LocalWriter::VersionAt(const WriterObject& object, uint64_t snapshot) const {
  QUIRE_ASSIGN_OR_RETURN(const VersionEntry entry, part_->EntryAt(object.key(), snapshot));
  if (entry.bytes != object.bytes()) {
    return Status(Code::kInvalidArgument, "object " + base::Printable(object.key()) + " had " +
                                              std::to_string(entry.bytes) +
                                              " bytes then, and has " +
                                              std::to_string(object.bytes()));
  }
  return entry.version;
}

Status LocalWriter::RestoreAsAt(uint64_t snapshot, Slice key) {
  const Call call(*this);
  QUIRE_RETURN_IF_ERROR(call.admitted());
  std::vector<WriterObject*> objects;
  if (!key.empty()) {
    QUIRE_ASSIGN_OR_RETURN(WriterObject* const object, Find(key));
    objects.push_back(object);
  } else {
    for (const auto& [name, object] : objects_) objects.push_back(object.get());
  }
  // Nothing is overwritten before all versions are found.
  std::vector<uint64_t> versions;
  for (const WriterObject* object : objects) {
    QUIRE_ASSIGN_OR_RETURN(versions.emplace_back(), VersionAt(*object, snapshot));
  }
  const io::WatchedStores stores;
  for (size_t i = 0; i < objects.size(); ++i) {
    QUIRE_RETURN_IF_ERROR(part_->Read(objects[i]->key(), versions[i], objects[i]->memory()));
  }
  return Status();
}

uint64_t LocalWriter::LastSnapshot() const {
  if (!process_.MayCall()) return 0;
  const std::lock_guard guard(mutex_);
  return part_ == nullptr ? 0 : part_->snapshot();
}

Status LocalWriter::Sync() {
  const Call call(*this);
  QUIRE_RETURN_IF_ERROR(call.admitted());
  return base::OrOutOfMemory([&] { return part_->Sync(); });
}

Status LocalWriter::KeepWhole(uint64_t snapshot) {
  const Call call(*this);
  QUIRE_RETURN_IF_ERROR(call.admitted());
  const std::vector<uint64_t>& kept = part_->heap().head().kept;
  if (std::binary_search(kept.begin(), kept.end(), snapshot)) return Status();
  QUIRE_RETURN_IF_ERROR(part_->WhetherWhole(snapshot));
  if (kept.size() == kKeptMax) {
    return Status(Code::kNoSpace, std::to_string(kKeptMax) + " snapshots are kept already");
  }
  return WaitForReaders([&] { return part_->KeepAlso(snapshot); });
}

Status LocalWriter::Release(uint64_t snapshot) {
  const Call call(*this);
  QUIRE_RETURN_IF_ERROR(call.admitted());
  return base::OrOutOfMemory([&]() -> Status {
    std::vector<uint64_t> kept = part_->heap().head().kept;
    if (std::erase(kept, snapshot) == 0) {
      return Status(Code::kNotFound, "snapshot " + std::to_string(snapshot) + " is not kept");
    }
    return part_->SetKept(std::move(kept));
  });
}

Status LocalWriter::Collect() {
  const Call call(*this);
  QUIRE_RETURN_IF_ERROR(call.admitted());
  return base::OrOutOfMemory([&] { return part_->Collect(); });
}

Result<std::string> LocalWriter::Tracking(Slice key) const {
  const Call call(*this);
  QUIRE_RETURN_IF_ERROR(call.admitted());
  QUIRE_ASSIGN_OR_RETURN(WriterObject* const object, Find(key));
  return std::string(object->tracking());
}

StreamStatistics LocalWriter::Statistics() const {
  if (!process_.MayCall()) return {};
  const std::lock_guard guard(mutex_);
  StreamStatistics statistics = statistics_;
  if (part_ == nullptr) return statistics;
  statistics.relocated_bytes = part_->relocated_bytes();
  statistics.collected = part_->collected();
  statistics.pinned_waits = part_->pinned_waits();
  statistics.log_bytes = part_->heap().identity().capacity;
  statistics.live_bytes = part_->heap().live_bytes();
  return statistics;
}

Status LocalWriter::Finish() {
  const Call call(*this);
  QUIRE_RETURN_IF_ERROR(call.admitted());
  QUIRE_RETURN_IF_ERROR(base::OrOutOfMemory([&] { return part_->Finish(); }));
  part_.reset();
  for (const auto& [key, object] : objects_) object->EndTracking();
  return Status();
}

}  // namespace

Result<std::unique_ptr<StreamWriter>> OpenWriter(io::FileSystem& fs, const std::string& place,
                                                 const std::string& name, uint32_t rank,
                                                 const StreamOptions& options) {
  return base::OrOutOfMemory([&]() -> Result<std::unique_ptr<StreamWriter>> {
    auto writer = std::make_unique<LocalWriter>(options);
    QUIRE_RETURN_IF_ERROR(writer->Open(fs, PartName{place, name, rank}));
    return std::unique_ptr<StreamWriter>(std::move(writer));
  });
}

}  // namespace quire::stream
