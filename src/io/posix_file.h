/// The real File and MappedFile: thin owners of a descriptor and of a mapping.
///
/// Layer      io (internal)
/// Threads    as File and MappedFile
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "io/descriptor.h"
#include "io/file_system.h"
#include "io/read_map.h"

namespace quire::io {

class PosixFile : public File {
 public:
  /// Small reads are copied out of `map`, where there is one.
  PosixFile(Descriptor fd, std::string path, std::unique_ptr<ReadMap> map = nullptr)
      : fd_(std::move(fd)), path_(std::move(path)), map_(std::move(map)) {}
  Status ReadAt(uint64_t offset, size_t size, char* to) const override;
  Status WriteAt(uint64_t offset, Slice bytes) override;
  Status Allocate(uint64_t size) override;
  Status Truncate(uint64_t size) override;
  Status Deallocate(uint64_t offset, uint64_t size) override;
  Status Sync() override;
  void StartWriteBack(uint64_t offset, uint64_t size) override;
  Result<uint64_t> Size() const override;
  const std::string& path() const override { return path_; }

  /// Allocate() for file systems that cannot set room aside: writes what is there already.
  Status AllocateByWriting(uint64_t size);

 private:
  void WriteInPlace();

  Descriptor fd_;
  std::string path_;
  std::unique_ptr<ReadMap> map_;
};

class PosixMappedFile : public MappedFile {
 public:
  /// Maps [0, size) of `fd`, which is not needed afterwards; kCorruption if the file is shorter.
  static Result<std::unique_ptr<MappedFile>> Map(const Descriptor& fd, std::string path,
                                                 uint64_t size, MapMode mode);
  ~PosixMappedFile() override;
  Status Sync(uint64_t offset, uint64_t size) override;
  void Prefault(uint64_t offset, uint64_t size) override;
  const std::string& path() const override { return path_; }

 private:
  PosixMappedFile(std::string path, MapMode mode) : path_(std::move(path)), mode_(mode) {}

  std::string path_;
  MapMode mode_;
};

}  // namespace quire::io
