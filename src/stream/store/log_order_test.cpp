// Stores reach persistent memory in any order before a fence. This test tries every legal order of
// the commit protocol: any set of the lines stored since the last fence may be present, together
// with everything stored before the fence.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "base/core/random.h"
#include "stream/index/log_contents.h"
#include "stream/log/log_heap.h"
#include "stream/store/stream_testing.h"
#include "tests/support/status_asserts.h"

namespace quire::stream::log_order_test {
namespace {

constexpr uint64_t kCapacity = 64 << 10;
constexpr size_t kAllSubsetsMax = 10;  // lines; of larger sets a sample is tried
constexpr uint64_t kSampledSets = 300;

// The lines that were stored since the last fence, over the content before.
class Epochs final : public StoreObserver {
 public:
  explicit Epochs(LogHeap& heap) : memory_(heap.memory()) {
    image_.assign(memory_.data(), memory_.size());
    memory_.Observe(this);
  }
  ~Epochs() override { memory_.Observe(nullptr); }

  void OnStore(uint64_t offset, uint64_t size) override {
    for (uint64_t at = offset; at < offset + size; at += io::kLineBytes) {
      lines_[at] = std::string(memory_.data() + at, io::kLineBytes);
    }
  }
  void OnFence() override {
    epochs_.push_back(lines_);
    lines_.clear();
  }

  // Calls `judge` with each image that a loss of power may leave within the stores so far.
  template <typename Judge>
  void EachImage(const Judge& judge) {
    std::string image = image_;
    for (const auto& lines : epochs_) {
      EachSet(image, lines, judge);
      for (const auto& [at, bytes] : lines) bytes.copy(image.data() + at, bytes.size());
    }
    judge(image);
  }

 private:
  template <typename Judge>
  void EachSet(const std::string& before, const std::map<uint64_t, std::string>& lines,
               const Judge& judge) {
    const bool all = lines.size() <= kAllSubsetsMax;
    const uint64_t sets = all ? uint64_t{1} << lines.size() : kSampledSets;
    base::Random random(lines.size());
    for (uint64_t set = 0; set < sets; ++set) {
      std::string image = before;
      const uint64_t density = 1 + random.Below(7);
      size_t which = 0;
      for (const auto& [at, bytes] : lines) {
        const bool there = all ? (set >> which & 1) != 0 : random.Below(8) < density;
        if (there) bytes.copy(image.data() + at, bytes.size());
        ++which;
      }
      judge(image);
    }
  }

  LogMemory& memory_;
  std::string image_;
  std::map<uint64_t, std::string> lines_;
  std::vector<std::map<uint64_t, std::string>> epochs_;
};

class LogOrder : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(fs_->MakeDirectory("/log"));
    Identity identity;
    identity.log_id = 77;
    identity.capacity = kCapacity;
    identity.store = "store";
    Head head;
    head.sequence = 1;
    head.synced = 1;
    ASSERT_OK(LogHeap::Create(*fs_, "/log/log-0", identity, head));
    Result<std::unique_ptr<LogHeap>> heap =
        LogHeap::Open(*fs_, "/log/log-0", io::MapMode::kReadWrite);
    ASSERT_OK(heap.status());
    heap_ = *std::move(heap);
  }

  void Append(uint64_t version, uint64_t bytes, RecordKind kind = RecordKind::kCommit) {
    const std::string data = BytesOf("key", version, bytes);
    VersionEntry entry;
    entry.key = "key";
    entry.version = version;
    entry.snapshot = version;
    entry.bytes = bytes;
    entry.stored = bytes;
    ASSERT_OK(heap_->Begin(2 * kRecordBytes + EntryBytes(3, 0) + AlignUp(bytes, kRecordBytes)));
    entry.data = heap_->cursor();
    entry.checksum = heap_->Append(data, DataSeed());
    heap_->AppendEntry(entry);
    heap_->Commit(kind, kind == RecordKind::kCommit ? version : 0, 1);
  }

  // Returns the version numbers in a log of these bytes, after verifying the bytes of each version.
  std::vector<uint64_t> VersionsIn(const std::string& image) {
    EXPECT_OK(fs_->Unlink("/log/copy").code() == Code::kIo ? Status() : Status());
    EXPECT_OK(io::WriteFile(*fs_, "/log/copy", image));
    Result<std::unique_ptr<LogHeap>> heap =
        LogHeap::Open(*fs_, "/log/copy", io::MapMode::kReadWrite);
    EXPECT_OK(heap.status());
    std::vector<uint64_t> versions;
    if (!heap.ok()) return versions;
    const Result<WalkEnd> end =
        (*heap)->Walk(true, [&](Position, const Record&, const std::vector<VersionEntry>& entries) {
          for (const VersionEntry& entry : entries) {
            EXPECT_EQ(Slice((*heap)->At(entry.data), entry.stored),
                      BytesOf("key", entry.version, entry.bytes));
            versions.push_back(entry.version);
          }
          return Status();
        });
    EXPECT_OK(end.status());
    EXPECT_OK(end->status);  // a present record has all that belongs to it
    return versions;
  }

  std::unique_ptr<io::SimFileSystem> fs_ = io::NewSimFileSystem();
  std::unique_ptr<LogHeap> heap_;
};

TEST_F(LogOrder, ACommitIsWholeOrNotThereInEveryOrderOfItsStores) {
  Append(1, 100);
  Append(2, 200);
  Epochs epochs(*heap_);
  Append(3, 300);
  uint64_t without = 0;
  uint64_t with = 0;
  epochs.EachImage([&](const std::string& image) {
    const std::vector<uint64_t> versions = VersionsIn(image);
    ASSERT_GE(versions.size(), 2u);
    EXPECT_EQ(versions[0], 1u);
    EXPECT_EQ(versions[1], 2u);
    (versions.size() == 3 ? with : without) += 1;
  });
  EXPECT_GT(without, 100u);
  EXPECT_GT(with, 0u);
}

TEST_F(LogOrder, ALapThatIsOverwrittenNeverComesBack) {
  uint64_t version = 0;
  while (heap_->Needs(3000) + 3000 <= heap_->free_bytes()) Append(++version, 2500);
  const uint64_t last_before = version;
  Head head = heap_->head();
  head.head = heap_->tail();
  ASSERT_OK(heap_->WriteHead(head));
  Epochs epochs(*heap_);
  Append(++version, 2500);  // beyond the end of the file, over the first lap
  Append(++version, 2500);
  epochs.EachImage([&](const std::string& image) {
    const std::vector<uint64_t> versions = VersionsIn(image);
    for (size_t i = 0; i < versions.size(); ++i) ASSERT_EQ(versions[i], last_before + 1 + i);
  });
}

// Does what a part does with a kept version at the head: appends it again, moves the head over its
// old place, and overwrites that.
TEST_F(LogOrder, AKeptVersionSurvivesEveryOrderOfStoresWhileItMoves) {
  constexpr uint64_t kKept = 1;
  Append(kKept, 2500);
  uint64_t version = kKept;
  while (heap_->Needs(3000) + 6000 <= heap_->free_bytes()) Append(++version, 2500);
  Epochs epochs(*heap_);
  Head head = heap_->head();
  head.head = heap_->tail();
  Append(kKept, 2500, RecordKind::kRelocation);
  ASSERT_OK(heap_->WriteHead(head));
  const uint64_t before = version;
  Append(++version, 2500);
  Append(++version, 2500);
  uint64_t written_over = 0;
  epochs.EachImage([&](const std::string& image) {
    const std::vector<uint64_t> versions = VersionsIn(image);
    ASSERT_EQ(std::count(versions.begin(), versions.end(), kKept) > 0, true);
    written_over += versions.back() > before ? 1 : 0;
  });
  EXPECT_GT(written_over, 0u);
}

TEST_F(LogOrder, AHeadIsTheOldOneOrTheNewOneInEveryOrderOfItsStores) {
  Append(1, 100);
  Append(2, 200);
  const Result<Record> first = heap_->RecordAt(0);
  ASSERT_OK(first.status());
  Epochs epochs(*heap_);
  Head head = heap_->head();
  head.head = first->bytes;
  ASSERT_OK(heap_->WriteHead(head));
  ASSERT_OK(heap_->WriteHead(head));
  epochs.EachImage([&](const std::string& image) {
    const std::vector<uint64_t> versions = VersionsIn(image);
    const std::vector<uint64_t> both = {1, 2};
    const std::vector<uint64_t> second = {2};
    ASSERT_TRUE(versions == both || versions == second);
  });
}

TEST_F(LogOrder, AHeadThatIsWholeStaysUntilTheNextOneIs) {
  Append(1, 100);
  Append(2, 200);
  const Result<Record> first = heap_->RecordAt(0);
  ASSERT_OK(first.status());
  Head head = heap_->head();
  head.head = first->bytes;
  ASSERT_OK(heap_->WriteHead(head));
  Epochs epochs(*heap_);
  ASSERT_OK(heap_->WriteHead(head));
  ASSERT_OK(heap_->WriteHead(head));
  epochs.EachImage(
      [&](const std::string& image) { ASSERT_EQ(VersionsIn(image), std::vector<uint64_t>{2}); });
}

}  // namespace
}  // namespace quire::stream::log_order_test
