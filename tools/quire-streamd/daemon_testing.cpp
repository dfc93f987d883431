#include "tools/quire-streamd/daemon_testing.h"

#include <algorithm>
#include <chrono>

namespace quire::streamd {
namespace {

class FakeView : public stream::HashedView {
 public:
  explicit FakeView(FakePart::Stored stored) : stored_(std::move(stored)) {}
  std::optional<uint64_t> hash() const override { return stored_.hash; }
  Slice bytes() const override { return stored_.bytes; }
  const StreamVersion& version() const override { return stored_.version; }
  bool in_place() const override { return true; }
  Status Verify() const override { return Status(); }

 private:
  const FakePart::Stored stored_;
};

class FakeReader : public StreamReader {
 public:
  explicit FakeReader(std::shared_ptr<FakePart> part) : part_(std::move(part)) {}

  Result<std::vector<std::string>> Objects() override {
    const std::lock_guard<std::mutex> lock(part_->mutex);
    ++part_->listed;
    std::vector<std::string> keys;
    for (const auto& object : part_->objects) keys.push_back(object.first);
    return keys;
  }
  Result<std::vector<StreamVersion>> Versions(Slice key) override {
    const std::lock_guard<std::mutex> lock(part_->mutex);
    ++part_->listed;
    const auto found = part_->objects.find(std::string(key));
    if (found == part_->objects.end()) return Status(Code::kNotFound);
    std::vector<StreamVersion> versions;
    for (const auto& stored : found->second) versions.push_back(stored.version);
    std::reverse(versions.begin(), versions.end());
    return versions;
  }
  Result<uint64_t> LastSnapshot() override {
    const std::lock_guard<std::mutex> lock(part_->mutex);
    return part_->snapshot;
  }
  Status Get(Slice, uint64_t, const BufferAllocator&) override {
    return Status(Code::kUnsupported);
  }
  Status GetAt(Slice, uint64_t, const BufferAllocator&) override {
    return Status(Code::kUnsupported);
  }
  Result<std::unique_ptr<StreamView>> View(Slice key, uint64_t version) override {
    return Find(key, [version](const StreamVersion& one) {
      return version == 0 || one.version == version;
    });
  }
  Result<std::unique_ptr<StreamView>> ViewAt(Slice key, uint64_t snapshot) override {
    return Find(key, [snapshot](const StreamVersion& one) {
      return snapshot == 0 || one.snapshot <= snapshot;
    });
  }
  Result<uint64_t> Wait(uint64_t after, uint64_t timeout_ms) override {
    std::unique_lock<std::mutex> lock(part_->mutex);
    part_->committed.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                              [&] { return part_->snapshot > after || part_->finished; });
    if (part_->snapshot > after) return part_->snapshot;
    return Status(part_->finished ? Code::kNotFound : Code::kTimedOut);
  }
  Result<bool> Finished() override {
    const std::lock_guard<std::mutex> lock(part_->mutex);
    return part_->finished;
  }

 private:
  template <typename Wanted>
  Result<std::unique_ptr<StreamView>> Find(Slice key, const Wanted& wanted) {
    const std::lock_guard<std::mutex> lock(part_->mutex);
    const auto found = part_->objects.find(std::string(key));
    if (found == part_->objects.end()) return Status(Code::kNotFound);
    for (auto one = found->second.rbegin(); one != found->second.rend(); ++one) {
      if (wanted(one->version)) return std::unique_ptr<StreamView>(new FakeView(*one));
    }
    return Status(Code::kNotFound);
  }

  const std::shared_ptr<FakePart> part_;
};

class FakeMirror : public stream::Mirror {
 public:
  explicit FakeMirror(std::shared_ptr<FakePart> part) : part_(std::move(part)) {}

  Result<stream::Reservation> Reserve(Slice key, const StreamVersion& version) override {
    const std::lock_guard<std::mutex> lock(part_->mutex);
    if (version.bytes > part_->room) return Status(Code::kNoSpace, "the mirror is full");
    ++part_->reserved;
    key_ = key;
    stored_ = {version, std::string(version.bytes, '\0'), std::nullopt};
    return stream::Reservation{stored_.bytes.data(), 0};
  }
  Status Commit(uint64_t hash) override {
    const std::lock_guard<std::mutex> lock(part_->mutex);
    stored_.hash = hash;
    auto& versions = part_->objects[key_];
    std::erase_if(versions, [this](const FakePart::Stored& one) {
      return one.version.version == stored_.version.version;
    });
    versions.push_back(std::move(stored_));
    return Status();
  }
  Result<bool> Removed() const override { return false; }

 private:
  const std::shared_ptr<FakePart> part_;
  std::string key_;
  FakePart::Stored stored_;
};

}  // namespace

void FakePart::Put(const std::string& key, const std::string& bytes, uint64_t time_ns) {
  const std::lock_guard<std::mutex> lock(mutex);
  Stored stored;
  stored.version.version = objects[key].size() + 1;
  stored.version.snapshot = ++snapshot;
  stored.version.bytes = bytes.size();
  stored.version.unix_time_ns = time_ns;
  stored.bytes = bytes;
  objects[key].push_back(std::move(stored));
  committed.notify_all();
}

std::unique_ptr<StreamReader> NewFakeReader(std::shared_ptr<FakePart> part) {
  return std::make_unique<FakeReader>(std::move(part));
}
std::unique_ptr<stream::Mirror> NewFakeMirror(std::shared_ptr<FakePart> part) {
  return std::make_unique<FakeMirror>(std::move(part));
}

}  // namespace quire::streamd
