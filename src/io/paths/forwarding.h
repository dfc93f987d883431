/// Files and file systems that forward all calls, except those that a subclass overrides.
///
/// Layer      io
/// Threads    as what they forward to
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/files/file_system.h"

namespace quire::io {

class ForwardingFile : public File {
 public:
  explicit ForwardingFile(std::unique_ptr<File> base) : base_(std::move(base)) {}

  Status ReadAt(uint64_t offset, size_t size, char* to) const override {
    return base_->ReadAt(offset, size, to);
  }
  Status WriteAt(uint64_t offset, Slice bytes) override { return base_->WriteAt(offset, bytes); }
  Status Allocate(uint64_t size) override { return base_->Allocate(size); }
  Status Truncate(uint64_t size) override { return base_->Truncate(size); }
  Status Deallocate(uint64_t offset, uint64_t size) override {
    return base_->Deallocate(offset, size);
  }
  Status Sync() override { return base_->Sync(); }
  void StartWriteBack(uint64_t offset, uint64_t size) override {
    base_->StartWriteBack(offset, size);
  }
  Result<uint64_t> Size() const override { return base_->Size(); }
  const std::string& path() const override { return base_->path(); }

 private:
  const std::unique_ptr<File> base_;
};

class ForwardingFileSystem : public FileSystem {
 public:
  /// `base` must outlive this object and the files that it returns.
  explicit ForwardingFileSystem(FileSystem& base) : base_(base) {}

  Result<std::unique_ptr<File>> Open(const std::string& path, FileOpenMode mode) override {
    return At(path).Open(path, mode);
  }
  Result<std::unique_ptr<MappedFile>> Map(const std::string& path, uint64_t size,
                                          MapMode mode) override {
    return At(path).Map(path, size, mode);
  }
  Status Rename(const std::string& from, const std::string& to) override {
    return At(from).Rename(from, to);
  }
  Status Unlink(const std::string& path) override { return At(path).Unlink(path); }
  Status Link(const std::string& from, const std::string& to) override {
    return At(from).Link(from, to);
  }
  Status MakeDirectory(const std::string& path) override { return At(path).MakeDirectory(path); }
  Status CheckDirectory(const std::string& path) override {
    return At(path).CheckDirectory(path);
  }
  Result<uint32_t> SoleWriter(const std::string& path) override {
    return At(path).SoleWriter(path);
  }
  Status RemoveDirectory(const std::string& path) override {
    return At(path).RemoveDirectory(path);
  }
  Result<bool> RemoveSome(const std::string& directory, size_t* most) override {
    return At(directory).RemoveSome(directory, most);
  }
  Result<std::vector<FileInfo>> List(const std::string& directory) override {
    return At(directory).List(directory);
  }
  Status SyncDirectory(const std::string& directory) override {
    return At(directory).SyncDirectory(directory);
  }
  Result<std::unique_ptr<OpenDirectory>> OpenForSync(const std::string& directory) override {
    return At(directory).OpenForSync(directory);
  }
  Result<bool> Exists(const std::string& path) override { return At(path).Exists(path); }
  Result<std::unique_ptr<FileLock>> Lock(const std::string& path,
                                         const std::string& holder) override {
    return At(path).Lock(path, holder);
  }
  Result<std::unique_ptr<FileLock>> LockShared(const std::string& path) override {
    return At(path).LockShared(path);
  }
  Result<std::string> LockHolder(const std::string& path) override {
    return At(path).LockHolder(path);
  }
  Result<uint64_t> FreeBytes(const std::string& path) override { return At(path).FreeBytes(path); }
  uint64_t BootId() override { return base_.BootId(); }

 protected:
  /// Returns the file system that handles `path`.
  virtual FileSystem& At(const std::string& /*path*/) { return base_; }

 private:
  FileSystem& base_;
};

}  // namespace quire::io
