#include <algorithm>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "io/sim/sim_file_system.h"
#include "io/sim/sync_failure.h"

namespace quire::io {
namespace {

// A resource that a process holds without making calls, such as a lock or a mapping.
class FaultHolding {
 public:
  virtual ~FaultHolding() = default;
  virtual void OnKill() = 0;
};

// Counts the calls and decides which fail; shared by the file system and its handles.
class FaultPlan {
 public:
  void Add(FaultHolding* holding) {
    const std::lock_guard<std::mutex> lock(mutex_);
    holdings_.insert(holding);
  }
  void Remove(FaultHolding* holding) {
    const std::lock_guard<std::mutex> lock(mutex_);
    holdings_.erase(holding);
  }
  void Kill() {
    const std::lock_guard<std::mutex> lock(mutex_);
    killed_ = true;
    for (FaultHolding* holding : holdings_) holding->OnKill();
  }
  bool killed() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return killed_;
  }

  void Set(uint32_t ops, uint64_t n, uint64_t count, Code code) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ops_ = ops;
    first_ = n;
    count_ = count;
    code_ = code;
    calls_ = 0;
    failures_ = 0;
  }

  void SetBelow(const std::string& directory) {
    const std::lock_guard<std::mutex> lock(mutex_);
    below_ = directory.empty() ? std::string() : directory + "/";
  }

  void SetHook(uint32_t ops, std::function<void(const std::string&)> hook) {
    hook_ops_ = hook ? ops : 0;
    hook_ = std::move(hook);
  }

  // `ops`: the kinds of the call. The call counts, once, if one of its kinds was chosen.
  Status Call(uint32_t ops, const char* name, const std::string& path) {
    if ((hook_ops_ & ops) != 0 && !killed()) hook_(path);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (killed_) return Status(Code::kIo, "the process is dead: " + std::string(name) + " " + path);
    if ((ops_ & ops) == 0 || !path.starts_with(below_)) return Status();
    ++calls_;
    if (calls_ < first_ || calls_ - first_ >= count_) return Status();
    ++failures_;
    return Status(code_, "injected fault: " + std::string(name) + " " + path);
  }

  uint64_t calls() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return calls_;
  }
  uint64_t failures() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return failures_;
  }

 private:
  mutable std::mutex mutex_;
  uint32_t ops_ = 0;
  uint64_t first_ = 1;
  uint64_t count_ = 0;
  Code code_ = Code::kIo;
  uint64_t calls_ = 0;
  uint64_t failures_ = 0;
  std::string below_;
  bool killed_ = false;
  std::set<FaultHolding*> holdings_;
  uint32_t hook_ops_ = 0;
  std::function<void(const std::string&)> hook_;
};

// Returns the kinds of a call that opens a file; one that may write has one kind more.
uint32_t OpenOps(FileOpenMode mode) {
  return OnlyReads(mode) ? kFaultOpen : kFaultOpen | kFaultWritable;
}

uint32_t MapOps(MapMode mode) {
  return mode == MapMode::kRead ? kFaultMap : kFaultMap | kFaultWritable;
}

// Lets the simulated device fail, too, unless the fault is a lack of memory.
template <typename SomeFile>
void FailSync(SomeFile* base, const Status& fault, uint64_t offset, uint64_t size) {
  auto* const simulated = dynamic_cast<SyncFailure*>(base);
  if (simulated != nullptr && fault.code() != Code::kOutOfMemory) simulated->FailSync(offset, size);
}

class FaultFile : public File {
 public:
  FaultFile(FaultPlan* plan, std::unique_ptr<File> base) : plan_(plan), base_(std::move(base)) {}

  Status ReadAt(uint64_t offset, size_t size, char* to) const override {
    QUIRE_RETURN_IF_ERROR(plan_->Call(kFaultRead, "read", path()));
    return base_->ReadAt(offset, size, to);
  }
  Status WriteAt(uint64_t offset, Slice bytes) override {
    const bool dead = plan_->killed();
    const Status fault = plan_->Call(kFaultWrite, "write", path());
    if (fault.ok()) return base_->WriteAt(offset, bytes);
    if (dead) return fault;
    // A device that fills up or fails does so in the middle of a write, and so does a process that
    // dies. The caller receives the fault.
    static_cast<void>(base_->WriteAt(offset, bytes.substr(0, bytes.size() / 2)));
    return fault;
  }
  Status Allocate(uint64_t size) override {
    QUIRE_RETURN_IF_ERROR(plan_->Call(kFaultAllocate, "allocate", path()));
    return base_->Allocate(size);
  }
  Status Truncate(uint64_t size) override {
    QUIRE_RETURN_IF_ERROR(plan_->Call(kFaultWrite, "truncate", path()));
    return base_->Truncate(size);
  }
  Status Deallocate(uint64_t offset, uint64_t size) override {
    QUIRE_RETURN_IF_ERROR(plan_->Call(kFaultWrite, "give back room of", path()));
    return base_->Deallocate(offset, size);
  }
  Status Sync() override {
    const bool dead = plan_->killed();
    const Status fault = plan_->Call(kFaultSync, "sync", path());
    if (fault.ok()) return base_->Sync();
    if (!dead) FailSync(base_.get(), fault, 0, UINT64_MAX);
    return fault;
  }
  void StartWriteBack(uint64_t offset, uint64_t size) override {
    if (!plan_->killed()) base_->StartWriteBack(offset, size);
  }
  Result<uint64_t> Size() const override {
    QUIRE_RETURN_IF_ERROR(plan_->Call(kFaultRead, "size", path()));
    return base_->Size();
  }
  const std::string& path() const override { return base_->path(); }

 private:
  FaultPlan* const plan_;
  const std::unique_ptr<File> base_;
};

class FaultMappedFile : public MappedFile, private FaultHolding {
 public:
  FaultMappedFile(FaultPlan* plan, std::unique_ptr<MappedFile> base, MapMode mode)
      : plan_(plan), base_(std::move(base)), writable_(mode == MapMode::kReadWrite) {
    data_ = base_->data();
    size_ = base_->size();
    observe_stores_ = true;
    plan_->Add(this);
  }
  ~FaultMappedFile() override {
    plan_->Remove(this);
    std::copy(at_kill_.begin(), at_kill_.end(), data_);
  }

  Status Sync(uint64_t offset, uint64_t size) override {
    const bool dead = plan_->killed();
    const Status fault = plan_->Call(kFaultSync, "sync", path());
    if (fault.ok()) return base_->Sync(offset, size);
    if (!dead) FailSync(base_.get(), fault, offset, size);
    return fault;
  }
  Status MakeReadable(uint64_t offset, uint64_t size) override {
    QUIRE_RETURN_IF_ERROR(plan_->Call(kFaultRead, "read", path()));
    return base_->MakeReadable(offset, size);
  }
  void Prefault(uint64_t offset, uint64_t size) override { base_->Prefault(offset, size); }
  const std::string& path() const override { return base_->path(); }

 protected:
  Status SetAside(uint64_t begin, uint64_t end) override {
    QUIRE_RETURN_IF_ERROR(plan_->Call(kFaultAllocate, "allocate", path()));
    base_->LimitRoom(begin);
    return base_->GrowRoom(end);
  }
  void OnStored(uint64_t offset, uint64_t size) override {
    if (!plan_->killed()) base_->Stored(offset, size);
  }

 private:
  void OnKill() override {
    if (writable_) at_kill_.assign(data_, size_);
  }

  FaultPlan* const plan_;
  const std::unique_ptr<MappedFile> base_;
  const bool writable_;
  std::string at_kill_;
};

class FaultLock : public FileLock, private FaultHolding {
 public:
  FaultLock(FaultPlan* plan, std::unique_ptr<FileLock> base) : plan_(plan), base_(std::move(base)) {
    plan_->Add(this);
  }
  ~FaultLock() override { plan_->Remove(this); }

 private:
  void OnKill() override { base_.reset(); }

  FaultPlan* const plan_;
  std::unique_ptr<FileLock> base_;
};

class FaultFs : public FaultFileSystem {
 public:
  explicit FaultFs(FileSystem& base) : base_(base) {}

  Result<std::unique_ptr<File>> Open(const std::string& path, FileOpenMode mode) override {
    QUIRE_RETURN_IF_ERROR(plan_.Call(OpenOps(mode), "open", path));
    QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<File> file, base_.Open(path, mode));
    return std::unique_ptr<File>(std::make_unique<FaultFile>(&plan_, std::move(file)));
  }
  Result<std::unique_ptr<MappedFile>> Map(const std::string& path, uint64_t size,
                                          MapMode mode) override {
    QUIRE_RETURN_IF_ERROR(plan_.Call(MapOps(mode), "map", path));
    QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> file, base_.Map(path, size, mode));
    return std::unique_ptr<MappedFile>(
        std::make_unique<FaultMappedFile>(&plan_, std::move(file), mode));
  }
  Status Rename(const std::string& from, const std::string& to) override {
    QUIRE_RETURN_IF_ERROR(plan_.Call(kFaultRename, "rename", from));
    return base_.Rename(from, to);
  }
  Status Unlink(const std::string& path) override {
    QUIRE_RETURN_IF_ERROR(plan_.Call(kFaultUnlink, "unlink", path));
    return base_.Unlink(path);
  }
  Status Link(const std::string& from, const std::string& to) override {
    QUIRE_RETURN_IF_ERROR(plan_.Call(kFaultRename, "link", to));
    return base_.Link(from, to);
  }
  Status MakeDirectory(const std::string& path) override {
    QUIRE_RETURN_IF_ERROR(plan_.Call(kFaultDirectory | kFaultWritable, "make directory", path));
    return base_.MakeDirectory(path);
  }
  Status CheckDirectory(const std::string& path) override {
    QUIRE_RETURN_IF_ERROR(plan_.Call(kFaultDirectory, "check directory", path));
    return base_.CheckDirectory(path);
  }
  Result<uint32_t> SoleWriter(const std::string& path) override {
    QUIRE_RETURN_IF_ERROR(plan_.Call(kFaultDirectory, "ask who may write to", path));
    return base_.SoleWriter(path);
  }
  Status RemoveDirectory(const std::string& path) override {
    QUIRE_RETURN_IF_ERROR(plan_.Call(kFaultUnlink, "remove directory", path));
    return base_.RemoveDirectory(path);
  }
  Result<std::vector<FileInfo>> List(const std::string& directory) override {
    QUIRE_RETURN_IF_ERROR(plan_.Call(kFaultDirectory, "list", directory));
    return base_.List(directory);
  }
  Status SyncDirectory(const std::string& directory) override {
    QUIRE_RETURN_IF_ERROR(plan_.Call(kFaultSync, "sync directory", directory));
    return base_.SyncDirectory(directory);
  }
  Result<bool> Exists(const std::string& path) override {
    QUIRE_RETURN_IF_ERROR(plan_.Call(kFaultDirectory, "exists", path));
    return base_.Exists(path);
  }
  Result<std::unique_ptr<FileLock>> Lock(const std::string& path,
                                         const std::string& holder) override {
    QUIRE_RETURN_IF_ERROR(plan_.Call(kFaultOpen | kFaultWritable, "lock", path));
    QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<FileLock> lock, base_.Lock(path, holder));
    return std::unique_ptr<FileLock>(std::make_unique<FaultLock>(&plan_, std::move(lock)));
  }
  Result<std::unique_ptr<FileLock>> LockShared(const std::string& path) override {
    QUIRE_RETURN_IF_ERROR(plan_.Call(kFaultOpen, "lock", path));
    QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<FileLock> lock, base_.LockShared(path));
    return std::unique_ptr<FileLock>(std::make_unique<FaultLock>(&plan_, std::move(lock)));
  }
  Result<std::string> LockHolder(const std::string& path) override {
    QUIRE_RETURN_IF_ERROR(plan_.Call(kFaultOpen, "ask about the lock on", path));
    return base_.LockHolder(path);
  }
  Result<uint64_t> FreeBytes(const std::string& path) override {
    QUIRE_RETURN_IF_ERROR(plan_.Call(kFaultDirectory, "free bytes", path));
    return base_.FreeBytes(path);
  }
  uint64_t BootId() override { return base_.BootId(); }

  void FailAt(uint32_t ops, uint64_t n, uint64_t count, Code code) override {
    plan_.Set(ops, n, count, code);
  }
  void BeforeCalls(uint32_t ops, std::function<void(const std::string&)> hook) override {
    plan_.SetHook(ops, std::move(hook));
  }
  void OnlyBelow(const std::string& directory) override { plan_.SetBelow(directory); }
  void Kill() override { plan_.Kill(); }
  uint64_t calls() const override { return plan_.calls(); }
  uint64_t failures() const override { return plan_.failures(); }

 private:
  FileSystem& base_;
  FaultPlan plan_;
};

}  // namespace

std::unique_ptr<FaultFileSystem> NewFaultFileSystem(FileSystem& base) {
  return std::make_unique<FaultFs>(base);
}

}  // namespace quire::io
