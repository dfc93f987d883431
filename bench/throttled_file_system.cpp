#include "throttled_file_system.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace quire::bench {
namespace {

class ThrottledFile final : public io::File {
 public:
  ThrottledFile(std::unique_ptr<io::File> base, std::shared_ptr<Rate> rate)
      : base_(std::move(base)), rate_(std::move(rate)) {}

  Status ReadAt(uint64_t offset, size_t size, char* to) const override {
    rate_->Take(size, 0);
    return base_->ReadAt(offset, size, to);
  }
  Status WriteAt(uint64_t offset, Slice bytes) override {
    rate_->Take(bytes.size(), ThrottledFileSystem::kBehindBytes);
    return base_->WriteAt(offset, bytes);
  }
  Status Allocate(uint64_t size) override { return base_->Allocate(size); }
  Status Truncate(uint64_t size) override { return base_->Truncate(size); }
  Status Sync() override {
    rate_->Take(0, 0);
    return base_->Sync();
  }
  void StartWriteBack(uint64_t offset, uint64_t size) override {
    base_->StartWriteBack(offset, size);
  }
  Result<uint64_t> Size() const override { return base_->Size(); }
  const std::string& path() const override { return base_->path(); }

 private:
  const std::unique_ptr<io::File> base_;
  const std::shared_ptr<Rate> rate_;
};

}  // namespace

Rate::Clock::duration Rate::TimeOf(uint64_t bytes) const {
  const std::chrono::duration<double> time(static_cast<double>(bytes) / bytes_per_s_);
  return std::chrono::duration_cast<Clock::duration>(time);
}

void Rate::Take(uint64_t bytes, uint64_t behind) {
  if (bytes_per_s_ == 0) return;
  Clock::time_point until;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    free_at_ = std::max(free_at_, Clock::now()) + TimeOf(bytes);
    until = free_at_ - TimeOf(behind);
  }
  std::this_thread::sleep_until(until);
}

Result<std::unique_ptr<io::File>> ThrottledFileSystem::Open(const std::string& path,
                                                            io::OpenMode mode) {
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<io::File> file, base_.Open(path, mode));
  return std::unique_ptr<io::File>(std::make_unique<ThrottledFile>(std::move(file), rate_));
}

}  // namespace quire::bench
