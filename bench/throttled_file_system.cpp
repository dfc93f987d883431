#include "throttled_file_system.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace quire::bench {
namespace {

class ThrottledFile final : public io::ForwardingFile {
 public:
  ThrottledFile(std::unique_ptr<io::File> base, std::shared_ptr<Rate> rate)
      : ForwardingFile(std::move(base)), rate_(std::move(rate)) {}

  Status ReadAt(uint64_t offset, size_t size, char* to) const override {
    rate_->Take(size, 0);
    return ForwardingFile::ReadAt(offset, size, to);
  }
  Status WriteAt(uint64_t offset, Slice bytes) override {
    rate_->Take(bytes.size(), ThrottledFileSystem::kBehindBytes);
    return ForwardingFile::WriteAt(offset, bytes);
  }
  Status Sync() override {
    rate_->Take(0, 0);
    return ForwardingFile::Sync();
  }

 private:
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
                                                            io::FileOpenMode mode) {
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<io::File> file, ForwardingFileSystem::Open(path, mode));
  return std::unique_ptr<io::File>(std::make_unique<ThrottledFile>(std::move(file), rate_));
}

}  // namespace quire::bench
