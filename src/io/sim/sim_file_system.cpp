#include "io/sim/sim_file_system.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/core/scope_exit.h"
#include "io/files/posix_error.h"
#include "io/files/sync_places.h"
#include "io/sim/sim_state.h"
#include "io/sim/sync_failure.h"

namespace quire::io {
namespace {

using Guard = std::lock_guard<std::mutex>;

class SimFile : public File, public SyncFailure {
 public:
  SimFile(SimState* state, SimNodePtr node, std::string path, bool writable)
      : state_(state), node_(std::move(node)), path_(std::move(path)),
        incarnation_(state->incarnation), writable_(writable) {}

  Status ReadAt(uint64_t offset, size_t size, char* to) const override {
    const Guard guard(state_->mutex);
    QUIRE_RETURN_IF_ERROR(state_->CheckHandle(incarnation_));
    const uint64_t present = node_->content.size();
    if (offset > present || size > present - offset) {
      return Status(Code::kCorruption, path_ + " ends at offset " + std::to_string(present) +
                                           "; " + std::to_string(size) + " bytes at " +
                                           std::to_string(offset) + " were expected");
    }
    node_->content.Read(offset, size, to);
    return Status();
  }

  Status WriteAt(uint64_t offset, Slice bytes) override {
    const Guard guard(state_->mutex);
    state_->NoteInFlight(node_, offset, bytes, incarnation_);
    QUIRE_RETURN_IF_ERROR(CheckWritable("write"));
    const uint64_t end = offset + bytes.size();
    if (end > node_->content.size()) QUIRE_RETURN_IF_ERROR(state_->Resize(node_.get(), end, path_));
    node_->content.Write(offset, bytes);
    state_->NoteModified(node_.get());
    state_->Step();
    return Status();
  }

  Status Allocate(uint64_t size) override {
    const Guard guard(state_->mutex);
    QUIRE_RETURN_IF_ERROR(CheckWritable("set room aside for"));
    if (size > node_->content.size()) {
      QUIRE_RETURN_IF_ERROR(state_->Resize(node_.get(), size, path_));
    }
    state_->Step();
    return Status();
  }

  Status Truncate(uint64_t size) override {
    const Guard guard(state_->mutex);
    QUIRE_RETURN_IF_ERROR(CheckWritable("truncate"));
    QUIRE_RETURN_IF_ERROR(state_->Resize(node_.get(), size, path_));
    state_->NoteModified(node_.get());
    state_->Step();
    return Status();
  }

  // Stores the zeros; the room stays taken.
  Status Deallocate(uint64_t offset, uint64_t size) override {
    const Guard guard(state_->mutex);
    QUIRE_RETURN_IF_ERROR(CheckWritable("give back room of"));
    const uint64_t end = std::min(node_->content.size(), offset + size);
    if (offset < end) node_->content.Write(offset, std::string(end - offset, '\0'));
    state_->NoteModified(node_.get());
    state_->Step();
    return Status();
  }

  Status Sync() override {
    return AtFileSync([this]() -> Status {
      const Guard guard(state_->mutex);
      QUIRE_RETURN_IF_ERROR(state_->CheckHandle(incarnation_));
      node_->content.Sync();
      state_->Step();
      return Status();
    });
  }

  void FailSync(uint64_t offset, uint64_t size) override {
    const Guard guard(state_->mutex);
    if (state_->CheckHandle(incarnation_).ok()) node_->content.FailSync(offset, size);
  }

  // Does nothing: bytes that were not synced survive by chance anyway.
  void StartWriteBack(uint64_t /*offset*/, uint64_t /*size*/) override {}

  Result<uint64_t> Size() const override {
    const Guard guard(state_->mutex);
    QUIRE_RETURN_IF_ERROR(state_->CheckHandle(incarnation_));
    return node_->content.size();
  }

  const std::string& path() const override { return path_; }

 private:
  Status CheckWritable(const char* action) const {
    QUIRE_RETURN_IF_ERROR(state_->CheckHandle(incarnation_));
    return writable_ ? Status() : ErrnoStatus(EBADF, action, path_);
  }

  SimState* const state_;
  const SimNodePtr node_;
  const std::string path_;
  const uint64_t incarnation_;
  const bool writable_;
};

class SimMappedFile : public MappedFile, public SyncFailure {
 public:
  SimMappedFile(SimState* state, SimNodePtr node, std::string path, uint64_t size)
      : state_(state), node_(std::move(node)), path_(std::move(path)),
        incarnation_(state->incarnation), buffer_(node_->content.buffer()) {
    data_ = buffer_->data();
    size_ = size;
    observe_stores_ = true;
    persistent_ = in_memory_ = state_->persistent;
  }

  Status Sync(uint64_t offset, uint64_t size) override {
    const Guard guard(state_->mutex);
    QUIRE_RETURN_IF_ERROR(state_->CheckHandle(incarnation_));
    node_->content.SyncRange(offset, size);
    state_->Step();
    return Status();
  }

  void FailSync(uint64_t offset, uint64_t size) override {
    const Guard guard(state_->mutex);
    if (state_->CheckHandle(incarnation_).ok()) node_->content.FailSync(offset, size);
  }

  void Prefault(uint64_t /*offset*/, uint64_t /*size*/) override {}
  const std::string& path() const override { return path_; }

 protected:
  // Does nothing: the file has room for its size.
  Status SetAside(uint64_t /*begin*/, uint64_t /*end*/) override {
    const Guard guard(state_->mutex);
    return state_->CheckHandle(incarnation_);
  }
  void OnStored(uint64_t offset, uint64_t size) override {
    const Guard guard(state_->mutex);
    if (size == 0) {
      OnFence();
      return;
    }
    state_->NoteInFlight(node_, offset, Slice(data_ + offset, size), incarnation_);
    if (!state_->CheckHandle(incarnation_).ok()) return;
    if (persistent_) state_->unfenced.push_back({node_, offset, size});
    node_->content.MarkStored(offset, size);
    state_->NoteModified(node_.get());
    state_->Step();
  }

 private:
  void OnFence() {
    if (!persistent_ || incarnation_ != state_->incarnation) return;
    state_->Fence();
    if (!state_->crashed) state_->Step();
  }

  SimState* const state_;
  const SimNodePtr node_;
  const std::string path_;
  const uint64_t incarnation_;
  const std::shared_ptr<SimBuffer> buffer_;  // the file's own until a crash, dead memory after it
};

// Returns the holder of a lock from the content of its file.
std::string HolderIn(const SimContent& content) {
  std::string text(content.size(), '\0');
  content.Read(0, text.size(), text.data());
  return text.empty() ? "a process that has not written its name" : text;
}

class SimFileLock : public FileLock {
 public:
  SimFileLock(SimState* state, SimNodePtr node, bool shared)
      : state_(state), node_(std::move(node)), shared_(shared), incarnation_(state->incarnation) {}
  ~SimFileLock() override {
    const Guard guard(state_->mutex);
    if (incarnation_ != state_->incarnation) return;
    if (shared_) {
      state_->locked_shared.erase(state_->locked_shared.find(node_.get()));
    } else {
      state_->locked.erase(node_.get());
    }
  }

 private:
  SimState* const state_;
  const SimNodePtr node_;
  const bool shared_;
  const uint64_t incarnation_;
};

class SimFs : public SimFileSystem {
 public:
  Result<std::unique_ptr<File>> Open(const std::string& path, FileOpenMode mode) override;
  Result<std::unique_ptr<MappedFile>> Map(const std::string& path, uint64_t size,
                                          MapMode mode) override;
  Status Rename(const std::string& from, const std::string& to) override;
  Status Unlink(const std::string& path) override;
  Status Link(const std::string& from, const std::string& to) override;
  Status MakeDirectory(const std::string& path) override;
  Status CheckDirectory(const std::string& path) override;
  Result<uint32_t> SoleWriter(const std::string& path) override;
  Status RemoveDirectory(const std::string& path) override;
  Result<std::vector<FileInfo>> List(const std::string& directory) override;
  Status SyncDirectory(const std::string& directory) override;
  Result<bool> Exists(const std::string& path) override;
  Result<std::unique_ptr<FileLock>> Lock(const std::string& path,
                                         const std::string& holder) override;
  Result<std::unique_ptr<FileLock>> LockShared(const std::string& path) override;
  Result<std::string> LockHolder(const std::string& path) override;
  Result<uint64_t> FreeBytes(const std::string& path) override;
  uint64_t BootId() override {
    const Guard guard(state_.mutex);
    return state_.boot_id;
  }

  void CrashAfter(uint64_t steps) override {
    const Guard guard(state_.mutex);
    state_.SetStepsLeft(steps);
  }
  uint64_t steps() const override {
    const Guard guard(state_.mutex);
    return state_.steps;
  }
  bool crashed() const override {
    const Guard guard(state_.mutex);
    return state_.crashed;
  }
  void Restart(CrashKind kind, uint64_t seed) override {
    const Guard guard(state_.mutex);
    state_.Restart(kind, seed);
  }
  Status Damage(const std::string& path,
                const std::function<void(std::string*)>& change) override;
  void SetPersistent(bool persistent) override {
    const Guard guard(state_.mutex);
    state_.persistent = persistent;
  }
  void SetFreeBytes(uint64_t bytes) override {
    const Guard guard(state_.mutex);
    state_.capacity = bytes == SimState::kNever ? SimState::kNever : state_.used + bytes;
  }

 private:
  // Makes an empty file under the place's name; this is a step.
  SimNodePtr Create(const SimPlace& place) {
    auto node = std::make_shared<SimNode>(false);
    place.directory->Change({"", place.name, node});
    state_.NoteModified(node.get());
    state_.Step();
    return node;
  }

  mutable SimState state_;
};

Result<std::unique_ptr<File>> SimFs::Open(const std::string& path, FileOpenMode mode) {
  const Guard guard(state_.mutex);
  QUIRE_RETURN_IF_ERROR(state_.CheckAlive());
  QUIRE_ASSIGN_OR_RETURN(SimPlace place, state_.Find(path));
  const bool may_create = mode == FileOpenMode::kCreate || mode == FileOpenMode::kReadWriteCreate;
  if (!place.node && !may_create) return ErrnoStatus(ENOENT, "open", path);
  if (place.node && mode == FileOpenMode::kCreate) return ErrnoStatus(EEXIST, "open", path);
  if (place.node && place.node->is_directory) return ErrnoStatus(EISDIR, "open", path);
  if (!place.node) place.node = Create(place);
  const bool writable = !OnlyReads(mode);
  return std::unique_ptr<File>(
      std::make_unique<SimFile>(&state_, place.node, path, writable));
}

Result<std::unique_ptr<MappedFile>> SimFs::Map(const std::string& path, uint64_t size,
                                               MapMode mode) {
  const Guard guard(state_.mutex);
  QUIRE_RETURN_IF_ERROR(state_.CheckAlive());
  QUIRE_ASSIGN_OR_RETURN(SimNodePtr node, state_.FindFile(path));
  if (node->content.size() < size) {
    return Status(Code::kCorruption,
                  path + " ends at offset " + std::to_string(node->content.size()) + "; " +
                      std::to_string(size) + " bytes were to be mapped");
  }
  if (size == 0) return Status(Code::kInvalidArgument, "cannot map no bytes of " + path);
  if (mode == MapMode::kReadWrite) node->content.MarkMapped();
  if (state_.persistent) node->content.MarkPersistent();
  return std::unique_ptr<MappedFile>(
      std::make_unique<SimMappedFile>(&state_, std::move(node), path, size));
}

Status SimFs::Rename(const std::string& from, const std::string& to) {
  const Guard guard(state_.mutex);
  QUIRE_RETURN_IF_ERROR(state_.CheckAlive());
  QUIRE_ASSIGN_OR_RETURN(const SimPlace source, state_.Find(from));
  QUIRE_ASSIGN_OR_RETURN(const SimPlace target, state_.Find(to));
  if (!source.node) return ErrnoStatus(ENOENT, "rename " + from + " to", to);
  if (source.directory != target.directory) {
    return Status(Code::kUnsupported, "cannot rename " + from + " to " + to +
                                          ": another directory, in the simulation");
  }
  if (source.node == target.node) return Status();
  if (target.node) {
    if (target.node->is_directory != source.node->is_directory) {
      return ErrnoStatus(target.node->is_directory ? EISDIR : ENOTDIR, "rename " + from + " to",
                         to);
    }
    if (!target.node->entries.empty()) {
      return ErrnoStatus(ENOTEMPTY, "rename " + from + " to", to);
    }
    state_.DropName(target.node.get());
  }
  source.directory->Change({source.name, target.name, source.node});
  state_.Step();
  return Status();
}

Status SimFs::Unlink(const std::string& path) {
  const Guard guard(state_.mutex);
  QUIRE_RETURN_IF_ERROR(state_.CheckAlive());
  QUIRE_ASSIGN_OR_RETURN(const SimPlace place, state_.Find(path));
  if (!place.node) return ErrnoStatus(ENOENT, "remove", path);
  if (place.node->is_directory) return ErrnoStatus(EISDIR, "remove", path);
  state_.DropName(place.node.get());
  place.directory->Change({place.name, "", nullptr});
  state_.Step();
  return Status();
}

Status SimFs::Link(const std::string& from, const std::string& to) {
  const Guard guard(state_.mutex);
  QUIRE_RETURN_IF_ERROR(state_.CheckAlive());
  QUIRE_ASSIGN_OR_RETURN(const SimNodePtr node, state_.FindFile(from));
  QUIRE_ASSIGN_OR_RETURN(const SimPlace place, state_.Find(to));
  if (place.node) return ErrnoStatus(EEXIST, "link " + from + " to", to);
  ++node->names;
  place.directory->Change({"", place.name, node});
  state_.Step();
  return Status();
}

Status CheckIsDirectory(const SimPlace& place, const std::string& path) {
  return place.node->is_directory ? Status() : ErrnoStatus(ENOTDIR, "open the directory", path);
}

Status SimFs::MakeDirectory(const std::string& path) {
  const Guard guard(state_.mutex);
  QUIRE_RETURN_IF_ERROR(state_.CheckAlive());
  QUIRE_ASSIGN_OR_RETURN(const SimPlace place, state_.Find(path));
  if (place.node) return CheckIsDirectory(place, path);
  place.directory->Change({"", place.name, std::make_shared<SimNode>(true)});
  state_.Step();
  return Status();
}

Status SimFs::CheckDirectory(const std::string& path) {
  const Guard guard(state_.mutex);
  QUIRE_RETURN_IF_ERROR(state_.CheckAlive());
  QUIRE_ASSIGN_OR_RETURN(const SimPlace place, state_.Find(path));
  return place.node ? CheckIsDirectory(place, path)
                    : ErrnoStatus(ENOENT, "open the directory", path);
}

// The simulated machine has one user.
Result<uint32_t> SimFs::SoleWriter(const std::string& path) {
  const Guard guard(state_.mutex);
  QUIRE_RETURN_IF_ERROR(state_.CheckAlive());
  QUIRE_ASSIGN_OR_RETURN(const SimPlace place, state_.Find(path));
  if (!place.node) return ErrnoStatus(ENOENT, "ask about", path);
  return 0u;
}

Status SimFs::RemoveDirectory(const std::string& path) {
  const Guard guard(state_.mutex);
  QUIRE_RETURN_IF_ERROR(state_.CheckAlive());
  QUIRE_ASSIGN_OR_RETURN(const SimNodePtr node, state_.FindDirectory(path));
  if (!node->entries.empty() || node == state_.root) {
    return ErrnoStatus(ENOTEMPTY, "remove the directory", path);
  }
  QUIRE_ASSIGN_OR_RETURN(const SimPlace place, state_.Find(path));
  place.directory->Change({place.name, "", nullptr});
  state_.Step();
  return Status();
}

Result<std::vector<FileInfo>> SimFs::List(const std::string& directory) {
  const Guard guard(state_.mutex);
  QUIRE_RETURN_IF_ERROR(state_.CheckAlive());
  QUIRE_ASSIGN_OR_RETURN(const SimNodePtr node, state_.FindDirectory(directory));
  std::vector<FileInfo> files;
  for (const auto& [name, child] : node->entries) {
    const uint64_t size = child->content.size();
    files.push_back({name, child->is_directory, size, child->modified, size});
  }
  return files;
}

Status SimFs::SyncDirectory(const std::string& directory) {
  return AtDirectorySync([&]() -> Status {
    const Guard guard(state_.mutex);
    QUIRE_RETURN_IF_ERROR(state_.CheckAlive());
    QUIRE_ASSIGN_OR_RETURN(const SimNodePtr node, state_.FindDirectory(directory));
    node->SyncEntries();
    state_.Step();
    return Status();
  });
}

Result<bool> SimFs::Exists(const std::string& path) {
  const Guard guard(state_.mutex);
  QUIRE_RETURN_IF_ERROR(state_.CheckAlive());
  const Result<SimPlace> place = state_.Find(path);
  if (place.status().code() == Code::kNotFound) return false;
  QUIRE_RETURN_IF_ERROR(place.status());
  return place->node != nullptr;
}

Result<std::unique_ptr<FileLock>> SimFs::Lock(const std::string& path,
                                              const std::string& holder) {
  const Guard guard(state_.mutex);
  QUIRE_RETURN_IF_ERROR(state_.CheckAlive());
  QUIRE_ASSIGN_OR_RETURN(SimPlace place, state_.Find(path));
  if (place.node && place.node->is_directory) return ErrnoStatus(EISDIR, "lock", path);
  if (!place.node) place.node = Create(place);
  SimContent& content = place.node->content;
  if (state_.locked_shared.contains(place.node.get()))
    return LockedStatus(path, kReadingHolder);
  if (!state_.locked.insert(place.node.get()).second)
    return LockedStatus(path, HolderIn(content));
  bool held = false;  // stays false if the lock cannot be allocated
  const base::ScopeExit undo([&] {
    if (!held) state_.locked.erase(place.node.get());
  });
  // On a full device the lock is valid, too, without its text.
  if (state_.Resize(place.node.get(), holder.size(), path).ok()) content.Write(0, holder);
  auto lock = std::make_unique<SimFileLock>(&state_, place.node, false);
  held = true;
  return std::unique_ptr<FileLock>(std::move(lock));
}

Result<std::unique_ptr<FileLock>> SimFs::LockShared(const std::string& path) {
  const Guard guard(state_.mutex);
  QUIRE_RETURN_IF_ERROR(state_.CheckAlive());
  QUIRE_ASSIGN_OR_RETURN(const SimPlace place, state_.Find(path));
  if (!place.node) return ErrnoStatus(ENOENT, "lock", path);
  if (state_.locked.contains(place.node.get()))
    return LockedStatus(path, HolderIn(place.node->content));
  state_.locked_shared.insert(place.node.get());
  return std::unique_ptr<FileLock>(std::make_unique<SimFileLock>(&state_, place.node, true));
}

Result<std::string> SimFs::LockHolder(const std::string& path) {
  const Guard guard(state_.mutex);
  QUIRE_RETURN_IF_ERROR(state_.CheckAlive());
  const Result<SimPlace> place = state_.Find(path);
  if (place.status().code() == Code::kNotFound) return std::string();
  QUIRE_RETURN_IF_ERROR(place.status());
  if (!place->node || !state_.locked.contains(place->node.get())) return std::string();
  return HolderIn(place->node->content);
}

Result<uint64_t> SimFs::FreeBytes(const std::string& path) {
  const Guard guard(state_.mutex);
  QUIRE_RETURN_IF_ERROR(state_.CheckAlive());
  QUIRE_ASSIGN_OR_RETURN(const SimPlace place, state_.Find(path));
  if (!place.node) return ErrnoStatus(ENOENT, "ask for the free space at", path);
  return state_.FreeBytes();
}

Status SimFs::Damage(const std::string& path, const std::function<void(std::string*)>& change) {
  const Guard guard(state_.mutex);
  QUIRE_RETURN_IF_ERROR(state_.CheckAlive());
  QUIRE_ASSIGN_OR_RETURN(const SimNodePtr node, state_.FindFile(path));
  std::string bytes(node->content.size(), '\0');
  node->content.Read(0, bytes.size(), bytes.data());
  change(&bytes);
  state_.used += bytes.size() - node->content.size();
  node->content.Replace(bytes);
  return Status();
}

}  // namespace

std::unique_ptr<SimFileSystem> NewSimFileSystem() { return std::make_unique<SimFs>(); }

}  // namespace quire::io
