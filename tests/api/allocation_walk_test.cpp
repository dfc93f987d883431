// The n-th allocation of a walk over a database's pairs fails, for n = 0, 1, ...: the walk passes
// over no pair and gives no wrong value; or it ends, says why, and goes on after a seek.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
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

constexpr size_t kKeys = 60;

// By rising key. Every third value lies in a value segment.
std::vector<std::pair<std::string, std::string>> Pairs() {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (size_t i = 0; i < kKeys; ++i) {
    pairs.emplace_back("a key that is no short string " + std::to_string(100 + i),
                       std::string(i % 3 == 0 ? 3000 : 200, static_cast<char>('a' + i % 26)));
  }
  return pairs;
}

// A walk that a program takes up again behind the last pair that it saw.
class Walk {
 public:
  Walk(LocalIterator& iterator, bool forward) : iterator_(iterator), forward_(forward) {}

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
    return pairs_[forward_ ? seen : kKeys - 1 - seen];
  }
  void TakeUp() {
    if (seen_ == 0) return forward_ ? iterator_.SeekToFirst() : iterator_.SeekToLast();
    iterator_.Seek(Expected(seen_ - 1).first);
    Step();
  }
  void Step() { forward_ ? iterator_.Next() : iterator_.Prev(); }
  bool See() {
    Slice value = iterator_.value();
    if (Stopped()) value = iterator_.value();
    if (!iterator_.status().ok()) return false;
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
  const bool forward_;
  const std::vector<std::pair<std::string, std::string>> pairs_ = Pairs();
  size_t seen_ = 0;
  size_t wrong_ = 0;
  size_t stops_ = 0;
};

// Each allocation of the walks over what `iterator` returns fails once, in both directions. Nothing
// that was read before helps the next: each walk has an iterator of its own.
template <typename NewIterator>
void StarveWalks(const NewIterator& new_iterator) {
  size_t stops = 0;
  for (const bool forward : {true, false}) {
    bool failed = true;
    for (int64_t n = 0; failed; ++n) {
      SCOPED_TRACE((forward ? "forward, allocation " : "backward, allocation ") +
                   std::to_string(n));
      const std::unique_ptr<LocalIterator> iterator = new_iterator();
      Walk walk(*iterator, forward);
      test::FailAllocationHere(n);
      walk.Run();
      failed = test::AllocationFailed();
      EXPECT_OK(iterator->status());
      EXPECT_EQ(walk.seen(), kKeys);
      EXPECT_EQ(walk.wrong(), 0u);
      stops += walk.stops();
      if (testing::Test::HasFailure()) return;
    }
  }
  EXPECT_GT(stops, 0u) << "no walk was stopped";
}

// Some pairs in memory, some in tables, of several runs.
class StarvedWalks : public testing::Test {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<Context>> context = Context::OpenSerial(directory_.path());
    ASSERT_OK(context.status());
    context_ = std::move(*context);
    DatabaseOptions database;
    database.storage.compression = Compression::kLz4;
    Result<std::unique_ptr<Database>> db = context_->Open("db", database);
    ASSERT_OK(db.status());
    db_ = std::move(*db);
    const auto pairs = Pairs();
    for (size_t part = 0; part < 3; ++part) {
      for (size_t i = part; i < kKeys; i += 3) ASSERT_OK(db_->Put(pairs[i].first, pairs[i].second));
      if (part < 2) ASSERT_OK(db_->Barrier(Level::kSsTable));
    }
  }
  void TearDown() override {
    if (db_ != nullptr) EXPECT_OK(db_->Close());
  }

  const test::TempDirectory directory_{test::PlaceInMemory()};
  std::unique_ptr<Context> context_;
  std::unique_ptr<Database> db_;
};

TEST_F(StarvedWalks, PassOverNoPairOfADatabase) {
  StarveWalks([this] { return db_->NewLocalIterator(); });
}

TEST_F(StarvedWalks, PassOverNoPairOfAReader) {
  ASSERT_OK(db_->Barrier(Level::kSsTable));  // a reader sees tables only
  const auto reader = DatabaseReader::Open(directory_.path() + "/db");
  ASSERT_OK(reader.status());
  StarveWalks([&] { return (*reader)->NewIterator(); });
}

}  // namespace
}  // namespace quire
