// Buffer allocators that throw, call Quire or block, in readers that pin, in readers that only
// look, and in readers of a mirror. Only the get that called the allocator is affected.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <new>
#include <semaphore>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "io/files/machine.h"
#include "stream/log/delta.h"
#include "stream/store/local_reader.h"
#include "stream/store/mirror.h"
#include "stream/store/stream_testing.h"
#include "stream/store/writer.h"
#include "tests/support/status_asserts.h"

namespace quire::stream::buffer_allocators_test {
namespace {

using testing::HasSubstr;

constexpr uint64_t kBytes = 9000;

class BufferAllocators : public testing::Test {
 protected:
  void SetUp() override {
    auto writer = machine_.Write(SmallLog(1 << 20));
    ASSERT_OK(writer.status());
    writer_ = std::move(*writer);
    const auto memory = writer_->Create("key", kBytes);
    ASSERT_OK(memory.status());
    Compute(*memory, "key", 1, kBytes);
    ASSERT_OK(writer_->Put("key").status());
    Fetch();
    auto pins = OpenLocalReader(machine_.fs(), "/place", "store", 0);
    auto looks = OpenLocalReader(machine_.fs(), "/place", "store", 0, Access::kLook);
    auto of_mirror = OpenLocalReader(machine_.fs(), MirrorPlace("/place"), "store", 0);
    for (auto* reader : {&pins, &looks, &of_mirror}) {
      ASSERT_OK(reader->status());
      readers_.push_back(std::move(**reader));
    }
  }
  // Puts a version into the mirror, as a daemon does.
  void Fetch() {
    auto mirror = Mirror::Open(machine_.fs(), MirrorPlace("/place"), "store", 0,
                               SmallLog(1 << 20));
    ASSERT_OK(mirror.status());
    StreamVersion version;
    version.version = version.snapshot = 1;
    version.bytes = kBytes;
    const std::string bytes = BytesOf("key", 1, kBytes);
    const Result<Reservation> room = (*mirror)->Reserve("key", version);
    ASSERT_OK(room.status());
    bytes.copy(room->bytes, bytes.size());
    ASSERT_OK((*mirror)->Commit(DataHash(bytes)));
    mirror_ = std::move(*mirror);
  }
  static std::vector<Status> GetsInto(StreamReader& reader, const BufferAllocator& allocate) {
    return {reader.Get("key", 0, allocate), reader.Get("key", 1, allocate),
            reader.GetAt("key", 1, allocate)};
  }

  StreamMachine machine_;
  std::unique_ptr<StreamWriter> writer_;
  std::unique_ptr<Mirror> mirror_;
  std::vector<std::unique_ptr<StreamReader>> readers_;
};

TEST_F(BufferAllocators, AnExceptionFailsTheGetThatCalledIt) {
  for (const auto& reader : readers_) {
    for (const Status& status : GetsInto(
             *reader, [](size_t) -> char* { throw std::runtime_error("no room in the array"); })) {
      EXPECT_EQ(status.code(), Code::kInvalidArgument);
      EXPECT_THAT(status.message(), HasSubstr("the buffer allocator threw an exception: no room"));
    }
    for (const Status& status : GetsInto(*reader, [](size_t) -> char* { throw 7; })) {
      EXPECT_EQ(status.code(), Code::kInvalidArgument);
      EXPECT_THAT(status.message(), HasSubstr("the buffer allocator threw something"));
    }
    for (const Status& status :
         GetsInto(*reader, [](size_t) -> char* { throw std::bad_alloc(); })) {
      EXPECT_EQ(status.code(), Code::kOutOfMemory);
    }
    std::string bytes;
    EXPECT_OK(reader->Get("key", 0, &bytes));
    EXPECT_TRUE(bytes == BytesOf("key", 1, kBytes));
  }
}

// Makes every call that can fail, each of which must be refused.
std::vector<Status> CallAll(StreamReader& reader, StreamWriter& writer) {
  std::string bytes;
  char byte = 0;
  return {reader.Get("key", 0, &bytes),
          reader.GetAt("key", 1, &bytes),
          reader.View("key", 0).status(),
          reader.ViewAt("key", 1).status(),
          reader.Objects().status(),
          reader.Versions("key").status(),
          reader.LastSnapshot().status(),
          reader.Finished().status(),
          reader.Wait(0, 0).status(),
          writer.Create("other", 8).status(),
          writer.Attach("other", &byte, 1),
          writer.Free("key"),
          writer.Put("key").status(),
          writer.Snapshot().status(),
          writer.Snapshot({"key"}).status(),
          writer.MarkDirty("key", 0, 1),
          writer.Restore(0),
          writer.Sync(),
          writer.Keep(1),
          writer.Release(1),
          writer.Collect(),
          writer.Tracking("key").status(),
          writer.Finish()};
}

void ExpectRefused(const std::vector<Status>& calls) {
  EXPECT_FALSE(calls.empty()) << "they were not made";
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(calls[i].code(), Code::kInvalidArgument) << "call " << i;
    EXPECT_THAT(calls[i].message(), HasSubstr("called inside a function")) << "call " << i;
  }
}

TEST_F(BufferAllocators, CallsInsideThemAreRefused) {
  for (const auto& reader : readers_) {
    std::vector<Status> calls;
    std::string bytes;
    ASSERT_OK(reader->Get("key", 0, [&](size_t size) {
      calls = CallAll(*reader, *writer_);
      bytes.resize(size);
      return bytes.data();
    }));
    ExpectRefused(calls);
    EXPECT_TRUE(bytes == BytesOf("key", 1, kBytes));
  }
  EXPECT_EQ(writer_->LastSnapshot(), 1u);
  EXPECT_OK(writer_->Put("key").status());
}

// A get that does not return before it is released.
class BlockedGet {
 public:
  explicit BlockedGet(StreamReader& reader) {
    thread_ = std::thread([this, &reader] {
      status_ = reader.Get("key", 1, [this](size_t size) {
        entered_.release();
        go_on_.acquire();
        bytes_.resize(size);
        return bytes_.data();
      });
    });
    EXPECT_TRUE(entered_.try_acquire_for(std::chrono::seconds(60)));
  }
  ~BlockedGet() { Join(); }
  BlockedGet(const BlockedGet&) = delete;
  BlockedGet& operator=(const BlockedGet&) = delete;

  Status End() {
    Join();
    return status_;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  static constexpr int kAttempts = 2000;  // the copy is not repeated more often

  void Join() {
    if (!thread_.joinable()) return;
    go_on_.release(kAttempts);
    thread_.join();
  }

  std::counting_semaphore<> entered_{0};
  std::counting_semaphore<> go_on_{0};
  std::string bytes_;
  Status status_;
  std::thread thread_;
};

// If the log is full, the writer waits for wait_ms, and no longer.
TEST_F(BufferAllocators, OneThatBlocksHoldsItsVersionAndNothingElse) {
  constexpr uint64_t kWaitMs = 50;
  writer_.reset();
  StreamOptions options = SmallLog(64 << 10);
  options.wait_ms = kWaitMs;
  auto writer = OpenWriter(machine_.fs(), "/place", "small", 0, options);
  ASSERT_OK(writer.status());
  ASSERT_OK((*writer)->Create("key", kBytes).status());
  ASSERT_OK((*writer)->Put("key").status());
  const auto reader = OpenLocalReader(machine_.fs(), "/place", "small", 0);
  ASSERT_OK(reader.status());
  std::string first;
  ASSERT_OK((*reader)->Get("key", 1, &first));
  BlockedGet blocked(**reader);
  EXPECT_OK((*writer)->Put("key").status());  // there is room
  Status full;
  const uint64_t begin_ns = io::RealClock().NowNs();
  for (int i = 0; i < 20 && full.ok(); ++i) full = (*writer)->Put("key").status();
  EXPECT_CODE(full, Code::kNoSpace);
  EXPECT_GE(io::RealClock().NowNs() - begin_ns, kWaitMs * 1'000'000);
  std::string bytes;
  EXPECT_OK((*reader)->Get("key", 0, &bytes));  // another get of the same reader
  EXPECT_OK(blocked.End());
  EXPECT_TRUE(blocked.bytes() == first);
  for (int i = 0; i < 20; ++i) EXPECT_OK((*writer)->Put("key").status());
}

// The reader holds nothing, so the writer does not wait for it. The reader copies again, or reports
// that its version is gone.
TEST_F(BufferAllocators, OneOfAReaderThatOnlyLooksHoldsUpNoWriter) {
  BlockedGet blocked(*readers_[1]);
  for (uint64_t i = 0; i < 300; ++i) EXPECT_OK(writer_->Put("key").status());
  const Status ended = blocked.End();
  EXPECT_TRUE(ended.ok() || ended.code() == Code::kNotFound) << ended.ToString();
  if (ended.ok()) {
    EXPECT_TRUE(blocked.bytes() == BytesOf("key", 1, kBytes));
  }
}

}  // namespace
}  // namespace quire::stream::buffer_allocators_test
