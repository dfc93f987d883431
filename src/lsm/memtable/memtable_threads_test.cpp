// MemTables under writers that overtake each other, and under many threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/core/random.h"
#include "engine/writer.h"
#include "lsm/memtable/memtable_testing.h"

namespace quire::lsm::memtable_threads_test {
namespace {

// --- writers that overtake each other ---------------------------------------------------------

// The first writer reserves and stores, then others reserve, store and index before it goes on.
TEST(MemTable, AVersionThatWasOvertakenGoesBehindTheNewerOnes) {
  for (int overtaking = 1; overtaking <= 4; ++overtaking) {
    for (const bool present : {false, true}) {
      StoreHook hook;
      Holder table(1 << 20, &hook);
      if (present) Put(*table, "key", "first");
      hook.on_stored = [&] {
        for (int i = 0; i < overtaking; ++i) Put(*table, "key", std::to_string(i));
      };
      const uint64_t lsn = Put(*table, "key", "overtaken");
      std::vector<std::string> wanted;
      for (int i = overtaking; i-- > 0;) wanted.push_back(std::to_string(i));
      wanted.push_back("overtaken");
      if (present) wanted.push_back("first");
      std::vector<std::string> got;
      for (const SeenEntry& entry : Forward(*table->NewView(kMaxLsn), false)) {
        got.push_back(entry.value);
      }
      EXPECT_EQ(got, wanted);
      EXPECT_EQ(Get(*table, "key").value, std::to_string(overtaking - 1));
      EXPECT_EQ(Get(*table, "key", lsn).value, "overtaken");
      EXPECT_EQ(table->key_count(), 1u);
    }
  }
}

TEST(MemTable, ARangeTombstoneThatWasOvertakenGoesBehindTheNewerOnes) {
  StoreHook hook;
  Holder table(1 << 20, &hook);
  uint64_t newer = 0;
  hook.on_stored = [&] {
    ASSERT_TRUE(table->Add({RecordType::kRangeDelete, "a", "c"}, &newer));
  };
  uint64_t older = 0;
  ASSERT_TRUE(table->Add({RecordType::kRangeDelete, "a", "d"}, &older));
  const auto tombstones = table->NewView(kMaxLsn)->RangeTombstones();
  ASSERT_EQ(tombstones.size(), 2u);
  EXPECT_EQ(tombstones[0].lsn, newer);
  EXPECT_EQ(tombstones[1].lsn, older);
  EXPECT_EQ(table->CoveringTombstone("b", kMaxLsn), newer);
  EXPECT_EQ(table->CoveringTombstone("c", kMaxLsn), older);
}

TEST(MemTable, ABatchUnderWayIsNotSeenAndDoesNotHideWhatIsThere) {
  StoreHook hook;
  Holder table(1 << 20, &hook);
  Put(*table, "key", "old");
  hook.on_stored = [&] {
    EXPECT_EQ(Get(*table, "key").value, "old");
    EXPECT_EQ(Get(*table, "other").state, State::kAbsent);
    EXPECT_EQ(log::CompleteMark(table.data(), kGeneration),
              log::kSegmentHeaderBytes + log::RecordSize(3, 3));
  };
  uint64_t last = 0;
  ASSERT_TRUE(table->AddBatch({{RecordType::kRangeDelete, "a", "z"},
                               {RecordType::kPut, "key", "new"},
                               {RecordType::kPut, "other", "v"}},
                              true, &last));
  // As it is between the linking of its members and the end.
  char* const member = table.data() + (last - kBaseLsn);
  char* const begin = member - uint64_t{log::HeaderAt(member)->batch} * 8;
  log::HeaderAt(begin)->prev = 0;
  EXPECT_EQ(Get(*table, "key").value, "old");
  EXPECT_EQ(Get(*table, "other").state, State::kAbsent);
  EXPECT_EQ(table->CoveringTombstone("key", kMaxLsn), 0u);
  log::HeaderAt(begin)->prev = 1;
  EXPECT_EQ(Get(*table, "key").value, "new");
  EXPECT_EQ(Get(*table, "other").value, "v");
  EXPECT_NE(table->CoveringTombstone("key", kMaxLsn), 0u);
}

// --- many threads -----------------------------------------------------------------------------

// Writers overwrite few keys; afterwards every key's chain must hold each of its versions once, in
// falling order of LSN, and the newest must be the one with the highest LSN.
TEST(MemTable, VersionsOfManyWritersStandInTheOrderOfTheirLsns) {
  constexpr uint64_t kKeys = 3;
  constexpr int kThreads = 4;
  Holder table(8 << 20);
  std::vector<std::vector<std::pair<uint64_t, uint64_t>>> wrote(kThreads);  // LSN, key
  std::vector<std::jthread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      base::Random random(t);
      for (int i = 0; i < 5000; ++i) {
        const uint64_t key = random.Below(kKeys);
        uint64_t lsn = 0;
        // Values of different sizes, so that threads finish in another order than they reserved.
        const std::string value(random.Below(8) * 64, static_cast<char>('0' + key));
        if (!table->Add({RecordType::kPut, std::to_string(key), value}, &lsn)) std::abort();
        wrote[t].push_back({lsn, key});
      }
    });
  }
  for (auto& thread : threads) thread.join();
  std::map<uint64_t, std::vector<uint64_t>> lsns;  // by key
  for (const auto& list : wrote) {
    for (const auto& [lsn, key] : list) lsns[key].push_back(lsn);
  }
  EXPECT_EQ(table->key_count(), kKeys);
  std::vector<SeenEntry> entries = Forward(*table->NewView(kMaxLsn), false);
  for (auto& [key, of_key] : lsns) {
    std::sort(of_key.rbegin(), of_key.rend());
    std::vector<uint64_t> got;
    for (const SeenEntry& entry : entries) {
      if (entry.key == std::to_string(key)) got.push_back(entry.lsn);
    }
    EXPECT_EQ(got, of_key);
    EXPECT_EQ(Get(*table, std::to_string(key)).lsn, of_key.front());
  }
}

// Each value begins with its key; a reader must never see another key's value, a torn one, or an
// older version than it saw before.
TEST(MemTable, ReadersBesideWritersSeeWholeValuesThatNeverGoBack) {
  constexpr int kWriters = 2;
  Holder table(16 << 20);
  std::atomic<bool> stop{false};
  std::vector<std::jthread> threads;
  for (uint64_t t = 0; t < kWriters; ++t) {
    threads.emplace_back([&, t] {
      base::Random random(t + 10);
      for (uint64_t i = 0; i < 20'000; ++i) {
        const std::string key = "key" + std::to_string(random.Below(500));
        const std::string value = key + std::string(random.Below(50), static_cast<char>('a' + t));
        if (!table->Add({RecordType::kPut, key, value}, nullptr)) std::abort();
      }
      stop = true;
    });
  }
  uint64_t hits = 0;
  threads.emplace_back([&] {
    base::Random random(1);
    std::map<std::string, uint64_t> seen;
    while (!stop || hits == 0) {
      const std::string key = "key" + std::to_string(random.Below(500));
      const table::LookupResult found = Get(*table, key);
      if (found.state != State::kValue) continue;
      ++hits;
      const Slice filler = found.value.substr(key.size());
      ASSERT_EQ(found.value.substr(0, key.size()), key);
      ASSERT_TRUE(filler.empty() ||
                  filler.find_first_not_of(filler[0]) == Slice::npos);
      ASSERT_GE(found.lsn, seen[key]);
      seen[key] = found.lsn;
    }
  });
  for (auto& thread : threads) thread.join();
  EXPECT_GT(hits, 0u);
}

// Each batch writes the same number under all keys, one batch in three by way of a range tombstone.
// Within one snapshot all keys must agree, in gets and in views.
TEST(MemTable, ABatchIsSeenWholeAtEverySnapshot) {
  constexpr uint64_t kKeys = 8;
  Holder table(16 << 20);
  std::atomic<bool> stop{false};
  std::vector<std::jthread> threads;
  for (uint64_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < 4000; ++i) {
        const std::string value = std::to_string(i * 2 + t);
        std::vector<std::string> keys;
        for (uint64_t k = 0; k < kKeys; ++k) keys.push_back("k" + std::to_string(k));
        std::vector<engine::WriteOp> ops;
        if (i % 200 == 0) ops.push_back({RecordType::kRangeDelete, "k", "l"});
        for (const std::string& key : keys) ops.push_back({RecordType::kPut, key, value});
        if (!table->AddBatch(ops, true, nullptr)) std::abort();
      }
      stop = true;
    });
  }
  uint64_t rounds = 0;
  while (!stop || rounds == 0) {
    const uint64_t snapshot = table->QuiescedLsn();
    std::set<std::string> values;
    for (uint64_t k = 0; k < kKeys; ++k) {
      const table::LookupResult found = Get(*table, "k" + std::to_string(k), snapshot);
      values.insert(found.state == State::kValue ? std::string(found.value) : "absent");
    }
    EXPECT_EQ(values.size(), 1u);
    values.clear();
    const auto entries = Forward(*table->NewView(snapshot), true);
    for (const SeenEntry& entry : entries) values.insert(entry.value);
    EXPECT_LE(values.size(), 1u);
    EXPECT_TRUE(entries.empty() || entries.size() == kKeys);
    ++rounds;
  }
  for (auto& thread : threads) thread.join();
}

// Without a snapshot, too: once a key of a batch was seen, the others are there; and a batch that
// deletes a range and fills it again never shows it empty.
TEST(MemTable, ABatchIsSeenWholeByPlainGets) {
  for (int round = 0; round < 40; ++round) {
    Holder table;
    ASSERT_TRUE(table->AddBatch({{RecordType::kPut, "a", "000"}, {RecordType::kPut, "b", "000"}},
                                true, nullptr));
    std::atomic<bool> stop{false};
    const std::jthread writer([&] {
      for (uint32_t i = 1; i < kRangeDeletesMax; ++i) {
        char value[8];
        std::snprintf(value, sizeof value, "%03u", i);
        if (!table->AddBatch({{RecordType::kRangeDelete, "a", "c"},
                              {RecordType::kPut, "a", value},
                              {RecordType::kPut, "b", value}},
                             true, nullptr)) {
          std::abort();
        }
      }
      stop = true;
    });
    while (!stop) {
      const table::LookupResult b = Get(*table, "b");
      const table::LookupResult a = Get(*table, "a");
      ASSERT_EQ(b.state, State::kValue);
      ASSERT_EQ(a.state, State::kValue);
      ASSERT_GE(a.value, b.value);  // "a" was read later
    }
  }
}

TEST(MemTable, ManyThreadsFillItToItsLimitWithoutAHole) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    Holder table(1 << 18);
    std::atomic<uint64_t> added{0};
    std::vector<std::jthread> threads;
    for (uint64_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        base::Random random(seed * 100 + t);
        for (uint64_t i = 0;; ++i) {
          const std::string key = std::to_string(t) + "-" + std::to_string(i);
          const std::string value(random.Below(300), 'v');
          const bool batch = random.OneIn(8);
          const engine::WriteOp op = {RecordType::kPut, key, value};
          if (batch ? !table->AddBatch({op}, true, nullptr) : !table->Add(op, nullptr)) return;
          added.fetch_add(1);
        }
      });
    }
    for (auto& thread : threads) thread.join();
    const uint64_t end = table->Close();
    EXPECT_EQ(log::CompleteMark(table.data(), kGeneration), end);
    EXPECT_EQ(table->key_count(), added.load());
    log::SegmentHeader header;
    header.generation = kGeneration;
    header.capacity = table.bytes();
    uint64_t records = 0;
    const auto report = log::Replay({table.data()}, header, header.boot_id, "log",
                                    [&](uint64_t, const char* record) {
                                      records += log::HeaderAt(record)->type == RecordType::kPut;
                                      return Status();
                                    });
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    EXPECT_EQ(report->holes, 0u);
    EXPECT_EQ(report->end, end);
    EXPECT_EQ(records, added.load());
    EXPECT_EQ(table->NewView(kMaxLsn)->key_count(), added.load());
  }
}

// The keys that are recovered in another boot, after the device lost the record at `lost`.
std::vector<std::string> KeysWithout(Holder& table, uint64_t lost) {
  table.data()[lost] ^= 1;
  log::SegmentHeader header;
  header.generation = kGeneration;
  header.capacity = table.bytes();
  header.boot_id = 1;
  std::vector<std::string> keys;
  const auto report = log::Replay({table.data()}, header, 2, "log",
                                  [&](uint64_t, const char* record) {
                                    keys.emplace_back(log::KeyOf(record));
                                    return Status();
                                  });
  EXPECT_TRUE(report.ok()) << report.status().ToString();
  return keys;
}

// A thread names the record that it finished last, even if another one began before that and
// finished after it. With so many threads, some share everything that is not a thread's own.
TEST(MemTable, AThreadNamesItsOwnLastRecordHoweverManyThreadsThereAre) {
  for (int round = 0; round < 20; ++round) {
    StoreHook hook;
    Holder table(1 << 20, &hook);
    // No thread is the only writer. There are three threads in a round: the writer comes to share
    // with each other one.
    for (const char* key : {"a", "b"}) std::thread([&] { Put(*table, key, ""); }).join();
    std::atomic<bool> wrote_first{false}, may_write_second{false};
    uint64_t first = 0;
    std::thread writer;
    hook.on_stored = [&] {
      writer = std::thread([&] {
        first = Put(*table, "first", "") - kBaseLsn;
        wrote_first = true;
        wrote_first.notify_one();
        may_write_second.wait(false);
        Put(*table, "second", "");
      });
      wrote_first.wait(false);
    };
    Put(*table, "other", "");
    may_write_second = true;
    may_write_second.notify_one();
    writer.join();
    EXPECT_EQ(KeysWithout(table, first), (std::vector<std::string>{"a", "b", "other"}));
  }
}

// Two threads by turns, each of which also writes for itself.
TEST(MemTable, ARecordForAnotherWriterNamesThatWritersLastRecord) {
  for (const bool mine : {false, true}) {
    Holder table;
    engine::Writer other;
    std::thread([&] { Put(*table, "a", ""); }).join();  // no thread is the only writer
    const uint64_t own = Put(*table, "my first", "") - kBaseLsn;
    uint64_t first = 0;
    std::thread([&] {
      const engine::WritesFor writes_for(&other);
      first = Put(*table, "its first", "") - kBaseLsn;
    }).join();
    {
      const engine::WritesFor writes_for(&other);
      Put(*table, "its second", "");
    }
    Put(*table, "my second", "");
    EXPECT_EQ(KeysWithout(table, mine ? own : first),
              mine ? (std::vector<std::string>{"a"})
                   : (std::vector<std::string>{"a", "my first"}));
  }
}

// Views made while writers go on: each has exactly what its LSN says, and later ones have more.
TEST(MemTable, ViewsOfManyMomentsAreEachConsistent) {
  Holder table(16 << 20);
  std::atomic<bool> stop{false};
  std::vector<std::jthread> threads;
  for (uint64_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      // Key number i of a thread is written after key number i - 1.
      for (uint64_t i = 0; i < 20'000; ++i) {
        char key[16];
        std::snprintf(key, sizeof key, "%d-%06d", static_cast<int>(t), static_cast<int>(i));
        if (!table->Add({RecordType::kPut, key, key}, nullptr)) std::abort();
      }
      stop = true;
    });
  }
  uint64_t last_count = 0;
  while (!stop || last_count == 0) {
    const uint64_t lsn = table->QuiescedLsn();
    const auto view = table->NewView(lsn);
    uint64_t count[2] = {0, 0};
    const auto it = view->NewIterator(true);
    for (it->SeekToFirst(); it->Valid(); it->Next()) {
      ASSERT_LE(it->lsn(), lsn);
      const int thread = it->key()[0] - '0';
      ASSERT_EQ(std::stoull(std::string(it->key().substr(2))), count[thread]) << "a gap";
      ++count[thread];
    }
    ASSERT_EQ(view->key_count(), count[0] + count[1]);
    ASSERT_GE(count[0] + count[1], last_count);
    last_count = count[0] + count[1];
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace quire::lsm::memtable_threads_test
