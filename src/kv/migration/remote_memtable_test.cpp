#include "kv/migration/remote_memtable.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <random>
#include <string>
#include <thread>

#include "base/core/random.h"
#include "base/hash/hash.h"

namespace quire::kv::remote_memtable_test {
namespace {

using log::RecordType;

// Takes batches off the migration queue and keeps their records, as an owner would see them.
class FakeSender : public RemoteMemTable::Sender {
 public:
  void Ready(int owner) override { ready |= 1 << owner; }
  void Opened() override {}
  void MakeRoom() override {
    ++stalls;
    Deliver(memtable->LargestOwner(), true);
  }

  // Sends and, if wanted, acknowledges everything of `owner`.
  void Deliver(int owner, bool acknowledge) {
    memtable->Seal(owner);
    while (StagedBatchPtr batch = memtable->TakeSendable(owner)) {
      for (uint64_t at = 0; at < batch->size; at += log::SizeOf(batch->bytes.get() + at)) {
        const char* const record = batch->bytes.get() + at;
        delivered[owner].emplace_back(log::KeyOf(record), log::ValueOf(record));
      }
      if (acknowledge) {
        EXPECT_TRUE(memtable->Finish(owner, batch));
      } else {
        under_way.push_back(batch);
      }
    }
  }

  RemoteMemTable* memtable = nullptr;
  std::atomic<int> ready{0};  // a bit per owner
  int stalls = 0;
  std::map<int, std::vector<std::pair<std::string, std::string>>> delivered;
  std::vector<StagedBatchPtr> under_way;
};

struct Fixture {
  explicit Fixture(uint64_t batch_bytes = 1024, uint64_t bytes_max = 1 << 20,
                   size_t in_flight_max = 1000)
      : memtable({4, batch_bytes, bytes_max, in_flight_max}, &sender) {
    sender.memtable = &memtable;
  }
  Status Put(int owner, const std::string& key, const std::string& value) {
    return memtable.Add(owner, RecordType::kPut, key, value);
  }
  std::string Get(int owner, const std::string& key) {
    const StagedRead read = memtable.Find(owner, key, base::HashKey(key));
    switch (read.state) {
      case StagedRead::State::kNone:
        return "(none)";
      case StagedRead::State::kDelete:
        return "(deleted)";
      case StagedRead::State::kUpdate:
        return "(update)";
      case StagedRead::State::kPut:
        return std::string(read.value);
    }
    return "";
  }

  FakeSender sender;
  RemoteMemTable memtable;
};

TEST(RemoteMemTable, FindsTheNewestRecordOfAKeyUntilItIsAcknowledged) {
  Fixture test;
  ASSERT_TRUE(test.Put(1, "k", "old").ok());
  ASSERT_TRUE(test.Put(1, "k", "new").ok());
  EXPECT_EQ(test.Get(1, "k"), "new");
  EXPECT_EQ(test.Get(2, "k"), "(none)");
  EXPECT_EQ(test.Get(1, "other"), "(none)");
  test.sender.Deliver(1, false);
  EXPECT_EQ(test.Get(1, "k"), "new") << "under way";
  ASSERT_TRUE(test.Put(1, "k", "newest").ok());
  EXPECT_EQ(test.Get(1, "k"), "newest");
  ASSERT_TRUE(test.memtable.Finish(1, test.sender.under_way.at(0)));
  EXPECT_EQ(test.Get(1, "k"), "newest");
  test.sender.Deliver(1, true);
  EXPECT_EQ(test.Get(1, "k"), "(none)");
}

TEST(RemoteMemTable, FindsTheNewestRecordHoweverSeldomItIsAsked) {
  for (const uint64_t seed : {1, 2, 3}) {
    Fixture test(1024, 1 << 20);
    base::Random random(seed);
    std::map<std::string, std::string> staged;
    for (int i = 0; i < 20'000; ++i) {
      const std::string key = "k" + std::to_string(random.Below(300));
      const uint64_t dice = random.Below(1000);
      if (dice < 20) {
        const auto found = staged.find(key);
        ASSERT_EQ(test.Get(1, key), found == staged.end() ? "(none)" : found->second) << i;
      } else if (dice == 20) {
        test.sender.Deliver(1, true);
        staged.clear();
      } else {
        const std::string value(random.Below(300) == 0 ? 2000 : random.Below(20), 'v');
        staged[key] = std::to_string(i) + value;
        ASSERT_TRUE(test.Put(1, key, staged[key]).ok());
      }
    }
  }
}

TEST(RemoteMemTable, KnowsDeletesAndUpdates) {
  Fixture test;
  ASSERT_TRUE(test.Put(1, "k", "v").ok());
  ASSERT_TRUE(test.memtable.Add(1, RecordType::kDelete, "k", {}).ok());
  EXPECT_EQ(test.Get(1, "k"), "(deleted)");
  ASSERT_TRUE(test.memtable.Add(1, RecordType::kUpdate, "k", "0000").ok());
  EXPECT_EQ(test.Get(1, "k"), "(update)");
  ASSERT_TRUE(test.Put(1, "k", "again").ok());
  EXPECT_EQ(test.Get(1, "k"), "again");
}

TEST(RemoteMemTable, ClosesABatchWhenItIsFullAndKeepsTheOrder) {
  Fixture test;
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(test.Put(3, std::to_string(i), "0123456789").ok());
  EXPECT_EQ(test.sender.ready.load(), 1 << 3);
  test.sender.Deliver(3, true);
  ASSERT_EQ(test.sender.delivered[3].size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(test.sender.delivered[3][i].first, std::to_string(i));
}

TEST(RemoteMemTable, ALargeRecordTravelsAloneInItsPlace) {
  Fixture test;
  const std::string large(5000, 'x');
  ASSERT_TRUE(test.Put(1, "a", "1").ok());
  ASSERT_TRUE(test.Put(1, "b", large).ok());
  ASSERT_TRUE(test.Put(1, "c", "3").ok());
  EXPECT_EQ(test.Get(1, "b"), large);
  EXPECT_EQ(test.Get(1, "a"), "1");
  test.sender.Deliver(1, true);
  ASSERT_EQ(test.sender.delivered[1].size(), 3u);
  EXPECT_EQ(test.sender.delivered[1][1].second, large);
  EXPECT_EQ(test.sender.delivered[1][2].first, "c");
}

TEST(RemoteMemTable, ABoundMakesTheWriterMakeRoom) {
  Fixture test(1024, 64 * 1024);
  for (int i = 0; i < 5000; ++i) {
    ASSERT_TRUE(test.Put(i % 4, std::to_string(i), std::string(40, 'v')).ok());
    // One batch, and what an index grows by, may come on top.
    ASSERT_LE(test.memtable.staged_bytes(), 64u * 1024 + 1024 + 32 * 1024);
  }
  EXPECT_GT(test.sender.stalls, 0);
  uint64_t delivered = 0;
  for (int owner = 0; owner < 4; ++owner) {
    test.sender.Deliver(owner, true);
    delivered += test.sender.delivered[owner].size();
  }
  EXPECT_EQ(delivered, 5000u);
  for (int owner = 0; owner < 4; ++owner) EXPECT_TRUE(test.memtable.Empty(owner));
}

TEST(RemoteMemTable, LimitsTheBatchesUnderWay) {
  Fixture test(1024, 1 << 20, 2);
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(test.Put(1, std::to_string(i), "0123456789").ok());
  test.sender.Deliver(1, false);
  EXPECT_EQ(test.sender.under_way.size(), 2u);
  EXPECT_FALSE(test.memtable.HasSendable(1));
  EXPECT_TRUE(test.memtable.Finish(1, test.sender.under_way[0]));
  EXPECT_TRUE(test.memtable.HasSendable(1));
}

TEST(RemoteMemTable, AnswersOutOfOrderFreeBatchesInOrder) {
  Fixture test(1024, 1 << 20);
  for (int i = 0; i < 60; ++i) ASSERT_TRUE(test.Put(1, std::to_string(i), "0123456789").ok());
  test.sender.Deliver(1, false);
  ASSERT_GE(test.sender.under_way.size(), 2u);
  EXPECT_TRUE(test.memtable.Finish(1, test.sender.under_way[1]));
  EXPECT_EQ(test.Get(1, "0"), "0123456789");
  EXPECT_FALSE(test.memtable.Finish(1, test.sender.under_way[1])) << "only once";
  EXPECT_TRUE(test.memtable.Finish(1, test.sender.under_way[0]));
  EXPECT_EQ(test.Get(1, "0"), "(none)");
}

TEST(RemoteMemTable, GivingUpCountsWhatWasSentAndWhatWasNot) {
  Fixture test(1024, 1 << 20, 1);
  for (int i = 0; i < 60; ++i) ASSERT_TRUE(test.Put(1, std::to_string(i), "0123456789").ok());
  test.sender.Deliver(1, false);
  const uint64_t sent = test.sender.delivered[1].size();
  ASSERT_TRUE(test.Put(1, "open", "v").ok());
  RemoteMemTable::Dropped dropped =
      test.memtable.GiveUp(1, Status(Code::kTimedOut, "no answer"), /*for_good=*/false);
  EXPECT_EQ(dropped.in_flight_count, sent);
  EXPECT_EQ(dropped.unsent_count, 60 - sent);
  EXPECT_EQ(test.Get(1, "open"), "v");
  EXPECT_EQ(test.Get(1, "0"), "(none)");
  dropped = test.memtable.GiveUp(1, Status(Code::kPeerFailed, "dead"), /*for_good=*/true);
  EXPECT_EQ(dropped.unsent_count, 1u);
  EXPECT_EQ(test.Put(1, "k", "v").code(), Code::kPeerFailed);
  EXPECT_TRUE(test.Put(2, "k", "v").ok());
  EXPECT_TRUE(test.memtable.Empty(1));
}

TEST(RemoteMemTable, AValueBeingReadOutlivesItsBatch) {
  Fixture test;
  ASSERT_TRUE(test.Put(1, "k", "held").ok());
  const StagedRead read = test.memtable.Find(1, "k", base::HashKey("k"));
  test.sender.Deliver(1, true);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(test.Put(1, std::to_string(i), "overwrites").ok());
  EXPECT_EQ(read.value, "held");
}

TEST(RemoteMemTable, AgreesWithAModelOverManyRandomSteps) {
  const uint64_t seed = 20170;
  std::mt19937_64 random(seed);
  SCOPED_TRACE("seed " + std::to_string(seed));
  Fixture test(1024, 256 * 1024);
  // Per owner and key: what is staged, and how many batches it has to outlive.
  std::map<int, std::map<std::string, std::string>> applied, model;
  for (int step = 0; step < 100'000; ++step) {
    const int owner = static_cast<int>(random() % 4);
    const std::string key = "key" + std::to_string(random() % 300);
    const uint64_t action = random() % 100;
    if (action < 60) {
      const std::string value(random() % 100, static_cast<char>('a' + random() % 26));
      ASSERT_TRUE(test.Put(owner, key, value).ok());
      model[owner][key] = value;
    } else if (action < 99) {
      const std::string got = test.Get(owner, key);
      if (got != "(none)") {
        ASSERT_EQ(got, model[owner][key]) << step;
      } else if (model[owner].count(key) != 0) {
        // It must have left: then the owner has that very value.
        std::string last;
        for (const auto& [k, v] : test.sender.delivered[owner]) {
          if (k == key) last = v;
        }
        ASSERT_EQ(last, model[owner][key]) << step;
      }
    } else {
      test.sender.Deliver(owner, true);
      auto& records = test.sender.delivered[owner];
      for (const auto& [k, v] : records) applied[owner][k] = v;
      ASSERT_EQ(applied[owner], model[owner]) << step;
      records.assign(applied[owner].begin(), applied[owner].end());
    }
  }
}

TEST(RemoteMemTable, TakesWritesOfSeveralThreads) {
  Fixture test(4096, 1 << 30);
  constexpr int kThreads = 4;
  constexpr int kPuts = 5000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&test, t] {
      for (int i = 0; i < kPuts; ++i) {
        const std::string key = std::to_string(t) + "/" + std::to_string(i % 500);
        const std::string value = std::to_string(i);
        ASSERT_TRUE(test.memtable.Add(1, RecordType::kPut, key, value).ok());
        const StagedRead read = test.memtable.Find(1, key, base::HashKey(key));
        ASSERT_EQ(read.value, value);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  test.sender.Deliver(1, true);
  EXPECT_EQ(test.sender.delivered[1].size(), static_cast<size_t>(kThreads * kPuts));
  std::map<std::string, int> last;
  for (const auto& [key, value] : test.sender.delivered[1]) {
    const std::string thread = key.substr(0, 1);
    const int number = std::stoi(value);
    ASSERT_EQ(number, last.count(thread) != 0 ? last[thread] + 1 : 0) << "thread " << thread;
    last[thread] = number;
  }
}

}  // namespace
}  // namespace quire::kv::remote_memtable_test
