#include "io/paths/file_section.h"

#include <string>
#include <utility>

namespace quire::io {
namespace {

// The common part of both kinds: the beginning of the section, and its file.
class PartOfFile : public File {
 public:
  PartOfFile(std::shared_ptr<File> file, uint64_t begin)
      : file_(std::move(file)),
        begin_(begin),
        path_(file_->path() + " from " + std::to_string(begin)) {}

  void StartWriteBack(uint64_t offset, uint64_t size) override {
    file_->StartWriteBack(begin_ + offset, size);
  }
  const std::string& path() const override { return path_; }

 protected:
  const std::shared_ptr<File> file_;
  const uint64_t begin_;

 private:
  const std::string path_;
};

class Section final : public PartOfFile {
 public:
  Section(std::shared_ptr<File> file, uint64_t begin, uint64_t size)
      : PartOfFile(std::move(file), begin), size_(size) {}

  Status ReadAt(uint64_t offset, size_t size, char* to) const override {
    if (size <= size_ && offset <= size_ - size) return file_->ReadAt(begin_ + offset, size, to);
    return Status(Code::kCorruption, path() + " ends at " + std::to_string(size_) + ", not at " +
                                         std::to_string(offset + size) + " or behind");
  }
  Status WriteAt(uint64_t /*offset*/, Slice /*bytes*/) override { return ReadOnly(); }
  Status Allocate(uint64_t /*size*/) override { return ReadOnly(); }
  Status Truncate(uint64_t /*size*/) override { return ReadOnly(); }
  Status Deallocate(uint64_t /*offset*/, uint64_t /*size*/) override { return ReadOnly(); }
  Status Sync() override { return file_->Sync(); }
  Result<uint64_t> Size() const override { return size_; }

 private:
  Status ReadOnly() const { return Status(Code::kUnsupported, path() + " is read only"); }

  const uint64_t size_;
};

class Tail final : public PartOfFile {
 public:
  using PartOfFile::PartOfFile;

  Status ReadAt(uint64_t offset, size_t size, char* to) const override {
    return file_->ReadAt(begin_ + offset, size, to);
  }
  Status WriteAt(uint64_t offset, Slice bytes) override {
    return file_->WriteAt(begin_ + offset, bytes);
  }
  Status Allocate(uint64_t size) override { return file_->Allocate(begin_ + size); }
  Status Truncate(uint64_t size) override { return file_->Truncate(begin_ + size); }
  Status Deallocate(uint64_t offset, uint64_t size) override {
    return file_->Deallocate(begin_ + offset, size);
  }
  Status Sync() override {
    QUIRE_ASSIGN_OR_RETURN(const uint64_t size, Size());
    StartWriteBack(0, size);
    return Status();
  }
  Result<uint64_t> Size() const override {
    QUIRE_ASSIGN_OR_RETURN(const uint64_t size, file_->Size());
    return size > begin_ ? size - begin_ : 0;
  }
};

}  // namespace

std::unique_ptr<File> NewFileSection(std::shared_ptr<File> file, uint64_t begin, uint64_t size) {
  return std::make_unique<Section>(std::move(file), begin, size);
}

std::unique_ptr<File> NewFileTail(std::shared_ptr<File> file, uint64_t begin) {
  return std::make_unique<Tail>(std::move(file), begin);
}

}  // namespace quire::io
