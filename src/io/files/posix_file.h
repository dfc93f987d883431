/// The real File and MappedFile: thin owners of a descriptor and of a mapping.
///
/// Layer      io (internal)
/// Threads    as File and MappedFile
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "io/files/descriptor.h"
#include "io/files/descriptor_cache.h"
#include "io/files/file_system.h"

namespace quire::io {

/// File::ReadAt and File::Size of the open file `fd` at `path`.
Status ReadExactly(int fd, const std::string& path, uint64_t offset, size_t size, char* to);
Result<uint64_t> SizeOf(int fd, const std::string& path);

class PosixFile : public File {
 public:
  PosixFile(FileDescriptor fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  Status ReadAt(uint64_t offset, size_t size, char* to) const override;
  Status WriteAt(uint64_t offset, Slice bytes) override;
  Status Allocate(uint64_t size) override { return AllocateRange(0, size); }
  Status Truncate(uint64_t size) override;
  Status Deallocate(uint64_t offset, uint64_t size) override;
  Status Sync() override;
  void StartWriteBack(uint64_t offset, uint64_t size) override;
  Result<uint64_t> Size() const override;
  const std::string& path() const override { return path_; }

  /// Allocates [offset, offset + size) only; no thread may store to it meanwhile.
  Status AllocateRange(uint64_t offset, uint64_t size);
  /// Allocates on file systems that cannot allocate space: writes the existing bytes again.
  Status AllocateByWriting(uint64_t offset, uint64_t size);

 private:
  void WriteInPlace();

  FileDescriptor fd_;
  std::string path_;
};

class PosixMappedFile : public MappedFile {
 public:
  /// Maps [0, size) of `fd`, which is not needed afterwards; kCorruption if the file is shorter.
  static Result<std::unique_ptr<MappedFile>> Map(const FileDescriptor& fd, std::string path,
                                                 uint64_t size, MapMode mode);
  ~PosixMappedFile() override;
  Status Sync(uint64_t offset, uint64_t size) override;
  Status MakeReadable(uint64_t offset, uint64_t size) override;
  void Prefault(uint64_t offset, uint64_t size) override;
  const std::string& path() const override { return path_; }

 protected:
  Status SetAside(uint64_t begin, uint64_t end) override;
  Status MakePresent(uint64_t offset, uint64_t size) override;

 private:
  Status TakeLastPage(const File& file, uint64_t end);
  Result<FileDescriptor> OpenAgain(int access) const;
  Status ReadIn(uint64_t offset, uint64_t size) const;
  int Populate(uint64_t offset, uint64_t size, int advice);
  Status BringIn(uint64_t offset, uint64_t size, int advice);
  PosixMappedFile(std::string path, MapMode mode, const FileIdentity& identity)
      : path_(std::move(path)), mode_(mode), identity_(identity) {}

  std::string path_;
  MapMode mode_;
  FileIdentity identity_;
};

}  // namespace quire::io
