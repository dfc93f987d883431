#include "lsm/vlog/value_log.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <new>
#include <set>
#include <utility>

#include "base/core/check.h"
#include "base/core/log_sink.h"
#include "base/core/out_of_memory.h"
#include "base/core/scope_exit.h"
#include "base/threads/epoch.h"
#include "base/threads/sync_point.h"
#include "io/files/machine.h"
#include "lsm/vlog/value_files.h"
#include "lsm/vlog/value_segment.h"

namespace quire::lsm {
namespace {

// The next segment is begun when this share of the last one is full: early enough for writers that
// are faster than its pages, late enough to spare small databases a second file.
constexpr uint64_t kPrepareShare = 4;

// Makes segments: in the background, one ahead, or at once if that is too late.
class SegmentMaker : public std::enable_shared_from_this<SegmentMaker> {
 public:
  SegmentMaker(io::FileSystem& fs, const std::string& directory, const StorageOptions& options,
               const ValueLogStart& start)
      : fs_(fs),
        directory_(directory),
        capacity_(options.value_segment_bytes / 8 * 8),
        owner_epoch_(start.owner_epoch),
        check_held_(start.check_held),
        next_id_(start.next_id) {}

  uint64_t capacity() const { return capacity_; }
  uint64_t next_id() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return next_id_;
  }
  uint64_t TakeId() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return next_id_++;
  }
  // The lowest id that was not handed out as a segment yet.
  uint64_t open_floor() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return state_ == State::kMaking || state_ == State::kReady ? ahead_id_ : next_id_;
  }
  std::string PathOf(uint64_t id) const { return directory_ + "/" + ValueSegmentName(id); }

  log::SegmentHeader HeaderFor(uint64_t id) const {
    log::SegmentHeader header;
    header.kind = log::SegmentKind::kValue;
    header.generation = std::max<uint64_t>(io::RandomU64(), 1);
    header.id = id;
    header.capacity = capacity_;
    header.boot_id = fs_.BootId();
    header.owner_epoch = owner_epoch_;
    return header;
  }

  // Makes the next segment in the background. `touch`: also touches the remaining pages of
  // `current`, and those of the next one.
  void Prepare(base::Executor& executor, const std::shared_ptr<ValueSegment>& current, bool touch) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (state_ != State::kIdle) return;
      state_ = State::kQueued;
    }
    try {
      executor.Schedule([self = shared_from_this(), weak = std::weak_ptr(current), touch] {
        self->MakeAhead(weak, touch);
      });
    } catch (const std::bad_alloc&) {
      const std::lock_guard<std::mutex> lock(mutex_);
      state_ = State::kIdle;  // Take makes one then
    }
  }

  // The prepared segment, or one made here and now.
  Result<std::shared_ptr<ValueSegment>> Take() {
    uint64_t id = 0;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      made_.wait(lock, [this] { return state_ != State::kMaking; });
      if (state_ == State::kReady) {
        state_ = State::kIdle;
        return std::move(ahead_);
      }
      id = next_id_++;  // a job that is still queued makes the one after
    }
    return Make(id);
  }

  // A segment by `make(id)`, or with a later id.
  template <typename MakeOne>
  Result<std::shared_ptr<ValueSegment>> MakeNew(uint64_t id, const MakeOne& make) {
    QUIRE_ASSIGN_OR_RETURN(std::shared_ptr<ValueSegment> made,
                           MakeNumbered(check_held_, id, [this] { return TakeId(); }, make));
    return made;
  }

  // The log goes: nothing more is made, and what was made in vain is removed.
  // Also where it fails nothing runs in the background any more.
  Status Stop() {
    std::unique_lock<std::mutex> lock(mutex_);
    made_.wait(lock, [this] { return state_ != State::kMaking; });
    state_ = State::kStopped;
    made_.wait(lock, [this] { return jobs_ == 0; });  // they hold mappings
    if (ahead_ == nullptr) return Status();
    const std::string path = PathOf(ahead_->id());
    ahead_.reset();
    QUIRE_RETURN_IF_ERROR(check_held_());
    return fs_.Unlink(path);  // an empty segment that stays behind is found and removed at open
  }

 private:
  enum class State { kIdle, kQueued, kMaking, kReady, kStopped };

  Result<std::shared_ptr<ValueSegment>> Make(uint64_t id) {
    return MakeNew(id, [this](uint64_t number) {
      return ValueSegment::Create(fs_, PathOf(number), HeaderFor(number));
    });
  }

  void MakeAhead(const std::weak_ptr<ValueSegment>& current, bool touch) {
    uint64_t id = 0;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (state_ != State::kQueued) return;
      state_ = State::kMaking;
      id = ahead_id_ = next_id_++;
      ++jobs_;
    }
    const auto next = Publish(base::OrOutOfMemory([&] { return Make(id); }));
    if (touch) {
      Touch(current.lock());
      Touch(next.lock());
    }
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      --jobs_;
    }
    made_.notify_all();
  }

  // If it failed, the thread that needs the segment retries and reports.
  std::weak_ptr<ValueSegment> Publish(Result<std::shared_ptr<ValueSegment>> made) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      state_ = made.ok() ? State::kReady : State::kIdle;
      if (made.ok()) ahead_ = *made;
    }
    made_.notify_all();
    return made.ok() ? *made : nullptr;
  }

  // While it goes on the segment may already be written to.
  void Touch(const std::shared_ptr<ValueSegment>& segment) {
    if (segment == nullptr) return;
    do {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (state_ == State::kStopped) return;
    } while (segment->TouchNext());
  }

  io::FileSystem& fs_;
  const std::string directory_;
  const uint64_t capacity_;
  const uint64_t owner_epoch_;
  const CheckHeldFn check_held_;
  mutable std::mutex mutex_;
  std::condition_variable made_;
  State state_ = State::kIdle;            // guarded by mutex_
  uint64_t next_id_;                      // guarded by mutex_
  uint64_t ahead_id_ = 0;                 // guarded by mutex_
  int jobs_ = 0;                          // guarded by mutex_: under way
  std::shared_ptr<ValueSegment> ahead_;   // guarded by mutex_
};

class SegmentedValueLog : public ValueLog {
 public:
  SegmentedValueLog(io::FileSystem& fs, const std::string& directory, const StorageOptions& options,
                    base::Executor& executor, const ValueLogStart& start)
      : fs_(fs),
        directory_(directory),
        executor_(executor),
        maker_(std::make_shared<SegmentMaker>(fs, directory, options, start)),
        files_(fs, directory, io::FileOpenMode::kReadNamed) {}

  ~SegmentedValueLog() override {
    // These calls only release room, without which the next open can do; they may also lack memory.
    (void)base::OrOutOfMemory([this] { return Seal(); });
    (void)base::OrOutOfMemory([this] { return maker_->Stop(); });
    base::EpochSynchronize();  // readers of retired segments are on their way out
  }

  void AddSealed(const ValueSegmentInfo& info) {
    sealed_[info.id] = info;
    sealed_[info.id].sealed = true;
  }

  Status Append(Slice key, Slice value, log::ValueRef* ref) override {
    const uint64_t record_bytes = log::RecordSize(key.size(), value.size());
    if (record_bytes > maker_->capacity() - log::kSegmentHeaderBytes) {
      return AppendAlone(key, value, ref);
    }
    while (true) {
      uint64_t full_id = 0;
      Status status;
      const bool stored = value.size() >= kWriteCallBytesMin
                              ? AppendLarge(key, value, ref, &status, &full_id)
                              : AppendSmall(key, value, ref, &status, &full_id);
      if (stored) return status;
      QUIRE_RETURN_IF_ERROR(Switch(full_id));
    }
  }

  Status Read(const log::ValueRef& ref, const BufferAllocator& allocate) const override {
    {
      const base::EpochGuard guard;
      const ValueSegment* active = active_.load(std::memory_order_acquire);
      if (active != nullptr && active->id() == ref.segment_id && active->InMapping(ref)) {
        char* const to = allocate(ref.value_size);
        if (to == nullptr) return Status(Code::kOutOfMemory, "no memory for a value");
        if (active->TryCopy(ref, to)) {
          return VerifyValue(Slice(to, ref.value_size), ref, files_.PathOf(ref.segment_id));
        }
      }
    }
    return files_.Read(ref, allocate);
  }

  Status Check(const log::ValueRef& ref) const override { return files_.Check(ref); }

  Status Sync() override {
    const std::lock_guard<std::mutex> sync_lock(sync_mutex_);
    base::SyncPoint("lsm.values.sync.before");
    std::vector<std::shared_ptr<ValueSegment>> segments;
    uint64_t new_files = 0;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      segments = unsynced_;
      if (active_owner_ != nullptr) segments.push_back(active_owner_);
      new_files = new_files_;
    }
    std::vector<const ValueSegment*> done;
    for (const auto& segment : segments) {
      const bool drained = segment->drained();
      QUIRE_RETURN_IF_ERROR(segment->Sync());
      if (drained) done.push_back(segment.get());
    }
    if (new_files != synced_files_) QUIRE_RETURN_IF_ERROR(fs_.SyncDirectory(directory_));
    synced_files_ = new_files;
    base::SyncPoint("lsm.values.sync.after");
    const std::lock_guard<std::mutex> lock(mutex_);
    std::erase_if(unsynced_, [&done](const auto& segment) {
      return std::find(done.begin(), done.end(), segment.get()) != done.end();
    });
    return Status();
  }

  Status Seal() override {
    std::vector<std::shared_ptr<ValueSegment>> closing;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (active_owner_ != nullptr) {
        active_owner_->Close();
        Retire();
      }
      closing = closing_;
    }
    // Under no lock: other threads write on meanwhile.
    for (const std::shared_ptr<ValueSegment>& segment : closing) segment->Drain();
    const std::lock_guard<std::mutex> lock(mutex_);
    return FinishDrained();
  }

  std::vector<ValueSegmentInfo> Segments() const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<ValueSegmentInfo> infos;
    for (const auto& [id, info] : sealed_) infos.push_back(info);
    const auto add = [&infos](const ValueSegment& segment) {
      infos.push_back({segment.id(), segment.file_bytes(), segment.record_bytes(), false});
    };
    for (const auto& segment : closing_) add(*segment);
    if (active_owner_ != nullptr) add(*active_owner_);
    std::sort(infos.begin(), infos.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
    return infos;
  }

  uint64_t next_id() const override { return maker_->next_id(); }

  uint64_t call_bytes() const override { return call_bytes_.load(std::memory_order_relaxed); }

  uint64_t open_floor() const override {
    // Under mutex_, so that no segment is on its way from the maker to a list here.
    const std::lock_guard<std::mutex> lock(mutex_);
    uint64_t floor = maker_->open_floor();
    for (const auto& segment : closing_) floor = std::min(floor, segment->id());
    if (active_owner_ != nullptr) floor = std::min(floor, active_owner_->id());
    for (const uint64_t id : alone_) floor = std::min(floor, id);
    return floor;
  }

  Status Remove(uint64_t segment_id) override {
    base::SyncPoint("lsm.values.remove");
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      sealed_.erase(segment_id);
      std::erase_if(unsynced_, [segment_id](const auto& s) { return s->id() == segment_id; });
    }
    const Status status = fs_.Unlink(files_.PathOf(segment_id));
    files_.Forget(segment_id);
    return status.code() == Code::kNotFound ? Status() : status;
  }

 private:
  // The copy is short: the segment is kept alive by an epoch.
  bool AppendSmall(Slice key, Slice value, log::ValueRef* ref, Status* status,
                   uint64_t* full_id) {
    const base::EpochGuard guard;
    ValueSegment* const active = active_.load(std::memory_order_acquire);
    return active != nullptr && AppendTo(*active, key, value, ref, status, full_id);
  }

  // The write may wait for the device, so the segment is kept alive by a reference.
  bool AppendLarge(Slice key, Slice value, log::ValueRef* ref, Status* status,
                   uint64_t* full_id) {
    std::shared_ptr<ValueSegment> active;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      active = active_owner_;
    }
    const bool stored = active != nullptr && AppendTo(*active, key, value, ref, status, full_id);
    if (stored && status->ok()) CountCall(key, value);
    return stored;
  }

  void CountCall(Slice key, Slice value) {
    call_bytes_.fetch_add(log::RecordSize(key.size(), value.size()), std::memory_order_relaxed);
  }

  // False: the segment, whose id *full_id then is, is full.
  bool AppendTo(ValueSegment& segment, Slice key, Slice value, log::ValueRef* ref, Status* status,
                uint64_t* full_id) {
    const uint64_t record_bytes = log::RecordSize(key.size(), value.size());
    *full_id = segment.id();
    const uint64_t offset = segment.Reserve(record_bytes, status);
    if (offset == log::kNoRoom) return !status->ok();
    *status = segment.Store(offset, key, value, ref);
    const uint64_t early = maker_->capacity() / kPrepareShare;
    if (offset < early && offset + record_bytes >= early) {
      maker_->Prepare(executor_, segment.shared_from_this(), segment.mostly_small());
    }
    return true;
  }

  Status AppendAlone(Slice key, Slice value, log::ValueRef* ref) {
    uint64_t id = 0;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      id = maker_->TakeId();
      alone_.insert(id);
    }
    auto made = base::OrOutOfMemory([&] {
      return maker_->MakeNew(id, [&](uint64_t number) {
        return ValueSegment::CreateAlone(fs_, maker_->PathOf(number), maker_->HeaderFor(number),
                                         key, value, ref);
      });
    });
    const std::lock_guard<std::mutex> lock(mutex_);
    const base::ScopeExit written([&] { alone_.erase(id); });
    if (!made.ok()) return made.status();
    CountCall(key, value);
    ++new_files_;
    MakeRoomForClosing();
    closing_.push_back(*made);
    unsynced_.push_back(*made);
    FinishQuietly();
    return Status();
  }

  // Begins a new active segment, unless another thread did since the one with `full_id` was seen
  // full (0: there was none).
  Status Switch(uint64_t full_id) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const uint64_t active_id = active_owner_ != nullptr ? active_owner_->id() : 0;
    if (active_id != full_id) return Status();
    QUIRE_ASSIGN_OR_RETURN(std::shared_ptr<ValueSegment> next, maker_->Take());
    if (active_owner_ != nullptr) Retire();
    ++new_files_;
    active_owner_ = std::move(next);
    active_.store(active_owner_.get(), std::memory_order_release);
    FinishQuietly();
    return Status();
  }

  // Takes the active segment, which is closed, out of the way of readers and writers. With mutex_.
  void Retire() {
    // Allocates memory before all else: if half of it were done, no write would ever end.
    MakeRoomForClosing();
    auto retired = base::EpochPrepare([segment = active_owner_] {});
    base::SyncPoint("lsm.values.retire");
    active_.store(nullptr, std::memory_order_release);
    closing_.push_back(active_owner_);
    unsynced_.push_back(std::exchange(active_owner_, nullptr));
    base::EpochRetire(std::move(retired));
  }

  void MakeRoomForClosing() {
    closing_.reserve(closing_.size() + 1);
    unsynced_.reserve(unsynced_.size() + 1);
  }

  // Closed segments whose last writer is done become sealed ones. With mutex_.
  Status FinishDrained() {
    Status status;
    for (auto at = closing_.begin(); at != closing_.end();) {
      ValueSegment& segment = **at;
      if (!segment.drained()) {
        ++at;
        continue;
      }
      const Status finished = segment.Finish();
      if (status.ok()) status = finished;
      sealed_[segment.id()] = {segment.id(), segment.file_bytes(), segment.record_bytes(), true};
      at = closing_.erase(at);
    }
    return status;
  }

  // An append does not fail because an earlier segment keeps room that it does not need.
  void FinishQuietly() {
    const Status status = base::OrOutOfMemory([this] { return FinishDrained(); });
    if (!status.ok() && base::LogEnabled()) {
      base::Log(LogLevel::kWarning, "value log: " + status.ToString());
    }
  }

  io::FileSystem& fs_;
  const std::string directory_;
  base::Executor& executor_;
  const std::shared_ptr<SegmentMaker> maker_;
  ValueFiles files_;
  std::atomic<ValueSegment*> active_{nullptr};
  std::atomic<uint64_t> call_bytes_{0};

  std::mutex sync_mutex_;  // taken before mutex_
  uint64_t synced_files_ = 0;  // guarded by sync_mutex_: of new_files_, those in the directory
  mutable std::mutex mutex_;
  std::shared_ptr<ValueSegment> active_owner_;            // guarded by mutex_
  std::vector<std::shared_ptr<ValueSegment>> closing_;    // guarded by mutex_
  std::vector<std::shared_ptr<ValueSegment>> unsynced_;   // guarded by mutex_
  std::map<uint64_t, ValueSegmentInfo> sealed_;           // guarded by mutex_
  std::set<uint64_t> alone_;                              // guarded by mutex_: being written
  uint64_t new_files_ = 0;                                // guarded by mutex_: made so far
};

}  // namespace

Result<std::unique_ptr<ValueLog>> ValueLog::Open(io::FileSystem& fs, const std::string& directory,
                                                 const StorageOptions& options,
                                                 base::Executor& executor,
                                                 const ValueLogStart& start) {
  QUIRE_CHECK(start.next_id != 0);  // 0 stands for none
  auto log = std::make_unique<SegmentedValueLog>(fs, directory, options, executor, start);
  for (const ValueSegmentInfo& info : start.sealed) {
    if (info.id >= start.next_id) {
      return Status(Code::kInvalidArgument, "value segment " + std::to_string(info.id) +
                                                " exists, but the next one is to be " +
                                                std::to_string(start.next_id));
    }
    log->AddSealed(info);
  }
  return std::unique_ptr<ValueLog>(std::move(log));
}

}  // namespace quire::lsm
