// Objects that share memory: a whole state and arrays in it, of one writer or of three. Each
// version equals its object at the put, whichever way changes are found.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/core/random.h"
#include "io/files/page_memory.h"
#include "io/watch/page_watch.h"
#include "stream/store/local_reader.h"
#include "stream/store/stream_testing.h"
#include "stream/store/writer.h"
#include "tests/support/status_asserts.h"

namespace quire::stream::shared_objects_test {
namespace {

const uint64_t kPage = io::PageBytes();

bool IsWatchable(StreamDeltas deltas) {
  if (deltas == StreamDeltas::kWatch) return io::FirstStoreNs(io::WatchKind::kKernel).ok();
  return deltas != StreamDeltas::kProtect || io::FirstStoreNs(io::WatchKind::kProtect).ok();
}

struct Attached {
  size_t writer;
  std::string key;
  uint64_t at;
  uint64_t bytes;
};

using ThreeDeltas = std::tuple<StreamDeltas, StreamDeltas, StreamDeltas>;

class SharedObjects : public ::testing::TestWithParam<ThreeDeltas> {
 protected:
  static constexpr uint64_t kBytes = 2 << 20;
  static constexpr uint64_t kArray = 100 * 4096;  // where an array begins, at a page

  void SetUp() override {
    const auto [first, second, third] = GetParam();
    for (const StreamDeltas deltas : {first, second, third}) {
      if (!IsWatchable(deltas)) GTEST_SKIP() << "pages cannot be watched on this machine";
      const std::string store = "store" + std::to_string(writers_.size());
      StreamOptions options = SmallLog(10 * kBytes);
      options.deltas = deltas;
      options.keep_versions = 2;
      auto writer = OpenWriter(machine_.fs(), "/place", store, 0, options);
      ASSERT_OK(writer.status());
      writers_.push_back(*std::move(writer));
      auto reader = OpenLocalReader(machine_.fs(), "/place", store, 0);
      ASSERT_OK(reader.status());
      readers_.push_back(*std::move(reader));
    }
  }

  void Attach(size_t writer, const std::string& key, uint64_t at, uint64_t bytes) {
    ASSERT_OK(writers_[writer]->Attach(key, memory_.data() + at, bytes));
    attached_.push_back({writer, key, at, bytes});
  }
  void Free(const std::string& key) {
    const auto is_it = [&](const Attached& object) { return object.key == key; };
    const auto object = std::find_if(attached_.begin(), attached_.end(), is_it);
    ASSERT_OK(writers_[object->writer]->Free(key));
    attached_.erase(object);
  }

  // Changes some bytes, lets one writer store, and compares what its readers get.
  void Step() {
    for (uint64_t changes = random_.Below(4); changes > 0; --changes) {
      volatile char* const byte = memory_.data() + kArray - kPage + random_.Below(20 * kPage);
      *byte = static_cast<char>(*byte + 1);
    }
    const size_t writer = random_.Below(writers_.size());
    const Result<uint64_t> snapshot = writers_[writer]->Snapshot();
    ASSERT_OK(snapshot.status());
    for (const Attached& object : attached_) {
      if (object.writer != writer) continue;
      std::string got;
      ASSERT_OK(readers_[writer]->GetAt(object.key, *snapshot, &got));
      ASSERT_EQ(got == Slice(memory_.data() + object.at, object.bytes), true)
          << object.key << " by " << *writers_[writer]->Tracking(object.key);
    }
  }
  void Steps(int count) {
    for (int step = 0; step < count && !HasFatalFailure(); ++step) {
      SCOPED_TRACE("step " + std::to_string(step));
      Step();
    }
  }

  io::PageMemory memory_ = std::move(*io::AllocatePages(kBytes));
  StreamMachine machine_;
  std::vector<std::unique_ptr<StreamWriter>> writers_;
  std::vector<std::unique_ptr<StreamReader>> readers_;
  std::vector<Attached> attached_;
  base::Random random_{7};
};

constexpr StreamDeltas kFound[] = {StreamDeltas::kAuto, StreamDeltas::kHash, StreamDeltas::kProtect,
                                   StreamDeltas::kWatch};
INSTANTIATE_TEST_SUITE_P(Of, SharedObjects,
                         ::testing::Combine(::testing::ValuesIn(kFound),
                                            ::testing::ValuesIn(kFound),
                                            ::testing::ValuesIn(kFound)));

TEST_P(SharedObjects, AreEachStoredAsTheyAre) {
  Attach(0, "whole", 0, kBytes);
  Attach(0, "array", kArray, 15 * kPage + 100);
  Attach(0, "within a page", kArray + 8, 10);
  Attach(1, "whole again", 0, kBytes);
  Attach(1, "askew", kArray + 8, 15 * kPage);
  Attach(2, "whole, too", 0, kBytes);
  Attach(2, "array, too", kArray, 15 * kPage);
  Steps(60);
  Free("whole");
  Attach(0, "whole later", 0, kBytes);
  Free("whole again");
  Steps(60);
  Free("whole, too");
  Steps(20);
}

TEST_P(SharedObjects, AreRestoredAsTheyWere) {
  Attach(0, "array", kArray, 15 * kPage);
  Attach(0, "whole", 0, kBytes);
  Attach(1, "whole again", 0, kBytes);
  Attach(2, "array again", kArray, 15 * kPage);
  Steps(30);
  const Result<uint64_t> snapshot = writers_[0]->Snapshot();
  ASSERT_OK(snapshot.status());
  const std::string then(memory_.data(), kBytes);
  memory_.data()[kArray + 5 * kPage] ^= 1;
  ASSERT_OK(writers_[1]->Snapshot().status());
  ASSERT_OK(writers_[2]->Snapshot().status());
  ASSERT_OK(writers_[0]->Restore(*snapshot));
  EXPECT_EQ(Slice(memory_.data(), kBytes) == then, true);
  Steps(30);
}

}  // namespace
}  // namespace quire::stream::shared_objects_test
