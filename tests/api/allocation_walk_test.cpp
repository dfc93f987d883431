// The n-th allocation of a walk over a database's pairs fails, for n = 0, 1, ...: the walk passes
// over no pair and gives no wrong value; or it ends, says why, and goes on after a seek.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "failing_allocations.h"
#include "quire/quire.h"
#include "quire/reader.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"

namespace quire {
namespace {

constexpr size_t kKeys = 300;

// By rising key. Every tenth value lies in a value segment; none becomes much smaller by
// compression.
std::vector<std::pair<std::string, std::string>> Pairs() {
  std::vector<std::pair<std::string, std::string>> pairs;
  std::mt19937_64 random(1);
  for (size_t i = 0; i < kKeys; ++i) {
    std::string value(i % 10 == 0 ? 3000 : 900, '\0');
    for (char& byte : value) byte = static_cast<char>(random());
    pairs.emplace_back("a key that is no short string " + std::to_string(1000 + i), value);
  }
  return pairs;
}

enum class Way { kForward, kBackward, kSeeks };

// A walk that a program takes up again where it ended.
class Walk {
 public:
  Walk(LocalIterator& iterator, Way way) : iterator_(iterator), way_(way) {}

  // Allocates nothing itself.
  void Run() {
    do {
      TakeUp();
      while (iterator_.Valid() && See()) Step();
    } while (Stopped());
  }
  size_t seen() const { return seen_; }
  size_t wrong() const { return wrong_; }
  size_t stops() const { return stops_; }

 private:
  const std::pair<std::string, std::string>& Expected(size_t seen) const {
    return pairs_[way_ == Way::kBackward ? kKeys - 1 - seen : seen];
  }
  void TakeUp() {
    if (way_ == Way::kSeeks) return Step();
    if (seen_ == 0) {
      return way_ == Way::kForward ? iterator_.SeekToFirst() : iterator_.SeekToLast();
    }
    iterator_.Seek(Expected(seen_ - 1).first);
    Step();
  }
  void Step() {
    switch (way_) {
      case Way::kForward: return iterator_.Next();
      case Way::kBackward: return iterator_.Prev();
      case Way::kSeeks:
        return iterator_.Seek(seen_ == kKeys ? Slice("b") : Slice(Expected(seen_).first));
    }
  }
  // False where the value found no memory, or is wrong.
  bool See() {
    const Slice value = iterator_.value();
    if (!iterator_.Valid()) return false;
    if (seen_ == kKeys || iterator_.key() != Slice(Expected(seen_).first) ||
        value != Slice(Expected(seen_).second)) {
      ++wrong_;
      return false;
    }
    ++seen_;
    return true;
  }
  // Whether memory was short, once more.
  bool Stopped() {
    const Status status = iterator_.status();
    if (status.code() != Code::kOutOfMemory) return false;
    return ++stops_ < 3;
  }

  LocalIterator& iterator_;
  const Way way_;
  const std::vector<std::pair<std::string, std::string>> pairs_ = Pairs();
  size_t seen_ = 0;
  size_t wrong_ = 0;
  size_t stops_ = 0;
};

// Pairs in two runs, one of several tables, whose files have not been opened yet.
class StarvedWalks : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override { Fill(); }

  // Each allocation of the walks over what `Make` opens fails once. Nothing that was read before
  // helps the next walk: what it walks over was opened for it.
  template <typename Opened>
  void Starve() {
    size_t stops = 0;
    bool failed = true;
    int64_t n = 0;
    for (; failed; ++n) {
      SCOPED_TRACE("allocation " + std::to_string(n));
      Opened opened(directory_.path());
      ASSERT_NE(opened.iterator(), nullptr);
      Walk walk(*opened.iterator(), GetParam());
      test::FailAllocationHere(n);
      walk.Run();
      failed = test::AllocationFailed();
      EXPECT_OK(opened.iterator()->status());
      EXPECT_EQ(walk.seen(), kKeys);
      EXPECT_EQ(walk.wrong(), 0u);
      stops += walk.stops();
      if (testing::Test::HasFailure()) return;
    }
    // Nearly all of them stop the walk: the others are of what may be done without.
    EXPECT_GT(stops, static_cast<size_t>(n) / 2) << n << " allocations";
    EXPECT_GT(n, 20);
  }

  static DatabaseOptions Options() {
    DatabaseOptions options;
    options.storage.compression = Compression::kLz4;
    options.storage.table_bytes_max = 64 << 10;
    options.storage.compaction_trigger = 8;
    return options;
  }

  const test::TempDirectory directory_{test::PlaceInMemory()};

 private:
  void Fill() {
    const auto context = Context::OpenSerial(directory_.path());
    ASSERT_OK(context.status());
    const auto db = (*context)->Open("db", Options());
    ASSERT_OK(db.status());
    const auto pairs = Pairs();
    for (size_t part = 0; part < 3; ++part) {
      for (size_t i = part; i < kKeys; i += 3) {
        ASSERT_OK((*db)->Put(pairs[i].first, pairs[i].second));
      }
      ASSERT_OK((*db)->Barrier(Level::kSsTable));
      if (part == 1) ASSERT_OK((*db)->Compact());  // into several tables
    }
    ASSERT_OK((*db)->Close());
  }
};

class OpenDatabase {
 public:
  explicit OpenDatabase(const std::string& repository) {
    auto context = Context::OpenSerial(repository);
    EXPECT_OK(context.status());
    context_ = std::move(*context);
    auto db = context_->Open("db", {});
    EXPECT_OK(db.status());
    db_ = std::move(*db);
    iterator_ = db_->NewLocalIterator();
  }
  LocalIterator* iterator() const { return iterator_.get(); }

 private:
  std::unique_ptr<Context> context_;
  std::unique_ptr<Database> db_;
  std::unique_ptr<LocalIterator> iterator_;
};

class OpenReader {
 public:
  explicit OpenReader(const std::string& repository) {
    auto reader = DatabaseReader::Open(repository + "/db");
    EXPECT_OK(reader.status());
    reader_ = std::move(*reader);
    iterator_ = reader_->NewIterator();
  }
  LocalIterator* iterator() const { return iterator_.get(); }

 private:
  std::unique_ptr<DatabaseReader> reader_;
  std::unique_ptr<LocalIterator> iterator_;
};

TEST_P(StarvedWalks, PassOverNoPairOfADatabase) { Starve<OpenDatabase>(); }

TEST_P(StarvedWalks, PassOverNoPairOfAReader) { Starve<OpenReader>(); }

INSTANTIATE_TEST_SUITE_P(Ways, StarvedWalks,
                         testing::Values(Way::kForward, Way::kBackward, Way::kSeeks));

}  // namespace
}  // namespace quire
