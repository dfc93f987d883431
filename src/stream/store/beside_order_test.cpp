// Gets and puts that meet at chosen places: whole puts run between any two steps of a get, and
// whole gets between any two steps of a put. A get returns nothing older than what was committed at
// its call, nothing of another snapshot, and always something.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "base/threads/sync_point.h"
#include "stream/store/stream_testing.h"
#include "tests/support/status_asserts.h"
#include "tests/support/test_scale.h"

namespace quire::stream::beside_order_test {
namespace {

constexpr uint64_t kBytes = 4096;
constexpr const char* kPlacesOfAGet[] = {"stream.read.after_sight", "stream.read.before_index",
                                         "stream.read.after_index", "stream.read.before_pin",
                                         "stream.read.after_pin"};

// Runs some work once, when a thread reaches a place.
class AtPlace final : public base::SyncPointListener {
 public:
  AtPlace(std::string place, std::function<void()> work)
      : place_(std::move(place)), work_(std::move(work)), installed_(this) {}
  void Reach(const char* name) override {
    if (place_ != name || busy_ || done_) return;
    busy_ = true;
    work_();
    busy_ = false;
    done_ = true;
  }
  bool done() const { return done_; }

 private:
  const std::string place_;
  const std::function<void()> work_;
  bool busy_ = false;
  bool done_ = false;
  base::ScopedSyncPoints installed_;
};

class BesideOrder : public ::testing::Test {
 protected:
  // Makes an object of which snapshot n contains the number n, as version n.
  void Begin(bool keep_first) {
    reader_.reset();
    writer_.reset();
    machine_ = std::make_unique<StreamMachine>();
    StreamOptions options = SmallLog(1 << 20);
    options.collect_percent = 10;
    options.wait_ms = 60'000;  // a reader may pause while it holds something
    Result<std::unique_ptr<StreamWriter>> writer = machine_->Write(options);
    ASSERT_OK(writer.status());
    writer_ = *std::move(writer);
    const Result<char*> memory = writer_->Create("key", kBytes);
    ASSERT_OK(memory.status());
    memory_ = *memory;
    put_ = 0;
    Put(1);
    if (keep_first) ASSERT_OK(writer_->Keep(1));
    Result<std::unique_ptr<StreamReader>> reader = machine_->Read();
    ASSERT_OK(reader.status());
    reader_ = *std::move(reader);
  }
  void Put(int count) {
    for (int i = 0; i < count; ++i) {
      ++put_;
      std::memcpy(memory_, &put_, sizeof put_);
      EXPECT_OK(writer_->Put("key").status());
      // Unneeded versions go at once, not only above a threshold.
      EXPECT_OK(writer_->Collect());
    }
  }
  // Ends the writer, and puts more with a new one.
  void OpenAgain(int puts) {
    writer_.reset();
    Result<std::unique_ptr<StreamWriter>> writer = machine_->Write(SmallLog(1 << 20));
    ASSERT_OK(writer.status());
    writer_ = *std::move(writer);
    const Result<char*> memory = writer_->Create("key", kBytes);
    ASSERT_OK(memory.status());
    memory_ = *memory;
    Put(puts);
  }
  static uint64_t NumberIn(Slice bytes) {
    uint64_t number = 0;
    std::memcpy(&number, bytes.data(), sizeof number);
    return number;
  }
  void GetsNewest(const std::string& where) {
    SCOPED_TRACE(where);
    const uint64_t before = *reader_->LastSnapshot();
    std::string bytes;
    ASSERT_OK(reader_->Get("key", 0, &bytes));
    EXPECT_GE(NumberIn(bytes), before);
    EXPECT_LE(NumberIn(bytes), *reader_->LastSnapshot());
    const auto view = reader_->View("key", 0);
    ASSERT_OK(view.status());
    EXPECT_OK((*view)->Verify());
    EXPECT_GE(NumberIn((*view)->bytes()), before);
  }
  void GetsThatSnapshot(const std::string& where) {
    SCOPED_TRACE(where);
    const uint64_t snapshot = *reader_->LastSnapshot();
    std::string bytes;
    const Status got = reader_->GetAt("key", snapshot, &bytes);
    if (got.code() == Code::kNotFound) {
      EXPECT_GT(*reader_->LastSnapshot(), snapshot);
    } else {
      ASSERT_OK(got);
      EXPECT_EQ(NumberIn(bytes), snapshot);
    }
  }

  std::unique_ptr<StreamMachine> machine_;
  std::unique_ptr<StreamWriter> writer_;
  std::unique_ptr<StreamReader> reader_;
  char* memory_ = nullptr;
  uint64_t put_ = 0;
};

TEST_F(BesideOrder, PutsBetweenTheStepsOfAGetTakeNothingFromIt) {
  for (const bool keep_first : {false, true}) {
    for (const char* place : kPlacesOfAGet) {
      for (int puts = 1; puts <= 3; ++puts) {
        const std::string where = std::string(place) + " kept " + std::to_string(keep_first) +
                                  " puts " + std::to_string(puts);
        ASSERT_NO_FATAL_FAILURE(Begin(keep_first));
        Put(3);
        {
          const AtPlace at(place, [&] { Put(puts); });
          GetsNewest(where);
          EXPECT_TRUE(at.done()) << where;
        }
        const AtPlace at(place, [&] { Put(puts); });
        GetsThatSnapshot(where);
        EXPECT_TRUE(at.done()) << where;
      }
    }
  }
}

TEST_F(BesideOrder, GetsBetweenTheStepsOfAPutAreRight) {
  for (const char* place :
       {"stream.commit.before_record", "stream.commit.before_index", "stream.commit.before_publish",
        "stream.commit.after_publish", "stream.collect.before_head", "stream.collect.after_head",
        "stream.collect.after_pins", "stream.collect.before_write", "stream.relocate.before_index",
        "stream.relocate.after_index"}) {
    ASSERT_NO_FATAL_FAILURE(Begin(true));
    Put(3);
    for (int round = 0; round < 3; ++round) {
      const AtPlace at(place, [&] {
        GetsNewest(place);
        GetsThatSnapshot(place);
      });
      // Enough puts for the kept snapshot to come to the head and be moved.
      for (int i = 0; i < 300 && !at.done(); ++i) Put(1);
      EXPECT_TRUE(at.done()) << place;
    }
  }
}

// A writer that opens during a get makes its own index, which contains more.
TEST_F(BesideOrder, AWriterThatOpensAmidAGetTakesNothingFromIt) {
  for (const char* place : kPlacesOfAGet) {
    ASSERT_NO_FATAL_FAILURE(Begin(true));
    Put(3);
    {
      const AtPlace at(place, [&] { OpenAgain(2); });
      GetsNewest(place);
      EXPECT_TRUE(at.done()) << place;
    }
    const AtPlace at(place, [&] { OpenAgain(2); });
    GetsThatSnapshot(place);
    EXPECT_TRUE(at.done()) << place;
  }
}

TEST_F(BesideOrder, ASnapshotThatComesAmidItsGetIsItOrNone) {
  for (const bool opens : {false, true}) {
    ASSERT_NO_FATAL_FAILURE(Begin(true));
    Put(3);
    const uint64_t next = put_ + 1;
    const AtPlace at("stream.read.after_sight", [&] { opens ? OpenAgain(1) : Put(1); });
    std::string bytes;
    const Status got = reader_->GetAt("key", next, &bytes);
    EXPECT_TRUE(at.done());
    if (got.ok()) {
      EXPECT_EQ(NumberIn(bytes), next) << opens;
    } else {
      EXPECT_CODE(got, Code::kNotFound);
    }
    ASSERT_OK(reader_->GetAt("key", next, &bytes));
    EXPECT_EQ(NumberIn(bytes), next) << opens;
  }
}

TEST_F(BesideOrder, ReadersRaceWithTheirWriter) {
  const int64_t puts = test::ScaledCount(10'000);
  ASSERT_NO_FATAL_FAILURE(Begin(true));
  std::atomic<bool> end = false;
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      const Result<std::unique_ptr<StreamReader>> reader = machine_->Read();
      ASSERT_OK(reader.status());
      uint64_t newest = 0;
      std::string bytes;
      while (!end) {
        ASSERT_OK((*reader)->Get("key", 0, &bytes));
        ASSERT_GE(NumberIn(bytes), newest);
        newest = NumberIn(bytes);
        const uint64_t snapshot = *(*reader)->LastSnapshot();
        const Status got = (*reader)->GetAt("key", snapshot, &bytes);
        if (got.code() == Code::kNotFound) continue;  // collected meanwhile
        ASSERT_OK(got);
        ASSERT_EQ(NumberIn(bytes), snapshot);
      }
    });
  }
  Put(static_cast<int>(puts));
  end = true;
  for (std::thread& reader : readers) reader.join();
}

}  // namespace
}  // namespace quire::stream::beside_order_test
