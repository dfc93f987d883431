// MemTables, their views, and write batches.
#include "lsm/memtable/memtable.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/core/random.h"
#include "base/text/coding.h"
#include "engine/write_batch.h"
#include "io/files/page_memory.h"
#include "lsm/memtable/memtable_testing.h"
#include "tests/support/status_asserts.h"

namespace quire::lsm::memtable_test {
namespace {

TEST(MemTable, FindsWhatWasPutAndNothingElse) {
  Holder table;
  const uint64_t lsn = Put(*table, "key", "value");
  EXPECT_EQ(lsn, kBaseLsn + log::kSegmentHeaderBytes);
  EXPECT_EQ(Get(*table, "key").state, State::kValue);
  EXPECT_EQ(Get(*table, "key").value, "value");
  EXPECT_EQ(Get(*table, "key").lsn, lsn);
  EXPECT_EQ(Get(*table, "ke").state, State::kAbsent);
  EXPECT_EQ(Get(*table, "key2").state, State::kAbsent);
  EXPECT_EQ(Get(*table, "key", lsn - 1).state, State::kAbsent);
  EXPECT_EQ(Get(*table, "key", kBaseLsn - 1).state, State::kAbsent);
  EXPECT_EQ(table->key_count(), 1u);
  EXPECT_EQ(table->data_bytes(), log::RecordSize(3, 5));
}

// The index of a closed database's log, which an opener looked into, is one without records.
TEST(MemTable, AnIndexThatHeldNoRecordIsNotZeroedAndAnyOtherIs) {
  Holder records;
  const io::PageMemory index = std::move(*io::AllocatePages(IndexBytes(records.bytes())));
  const auto over = [&](uint64_t generation) {
    return MemTable(index.data(), records.data(), records.bytes(), generation, kBaseLsn, nullptr);
  };
  char* const slots = index.data() + sizeof(IndexHeader);
  char* const last_slot = slots + (IndexSlots(records.bytes()) - 1) * sizeof(IndexSlot);
  { const MemTable empty = over(1); }
  *last_slot = 1;  // zeros would go over it
  { const MemTable empty = over(2); }
  EXPECT_EQ(*last_slot, 1);
  {
    MemTable used = over(3);
    EXPECT_EQ(*last_slot, 1);
    Put(used, "key", "value");
  }
  const MemTable next = over(4);
  EXPECT_EQ(*last_slot, 0);
  EXPECT_EQ(Get(next, "key").state, State::kAbsent);
}

TEST(MemTable, KeysAndValuesOfAnySizeAndByteAreKept) {
  Holder table(4 << 20);
  const std::string longest(log::kKeyBytesMax, 'k');
  const std::string zeros(3, '\0');
  const std::vector<std::string> keys = {std::string(1, '\0'), zeros, std::string(1, '\xFF'),
                                         longest, longest.substr(1)};
  for (const std::string& key : keys) Put(*table, key, key + "!");
  Put(*table, "empty", "");
  for (const std::string& key : keys) EXPECT_EQ(Get(*table, key).value, key + "!");
  EXPECT_EQ(Get(*table, "empty").state, State::kValue);
  EXPECT_EQ(Get(*table, "empty").value, "");
}

TEST(MemTable, ReferencesAndTombstonesAreReturned) {
  Holder table;
  ASSERT_TRUE(table->Add({RecordType::kValueRef, "ref", std::string(32, 'r')}, nullptr));
  ASSERT_TRUE(table->Add({RecordType::kDelete, "gone", {}}, nullptr));
  EXPECT_EQ(Get(*table, "ref").state, State::kValueRef);
  EXPECT_EQ(Get(*table, "ref").value, std::string(32, 'r'));
  EXPECT_EQ(Get(*table, "gone").state, State::kDeleted);
}

TEST(MemTable, ARangeTombstoneHidesWhatIsOlderInItsRangeAlsoWhatIsElsewhere) {
  Holder table;
  const uint64_t before = Put(*table, "b", "old");
  uint64_t lsn = 0;
  ASSERT_TRUE(table->Add({RecordType::kRangeDelete, "b", "d"}, &lsn));
  Put(*table, "c", "new");
  EXPECT_EQ(Get(*table, "a").state, State::kAbsent);
  EXPECT_EQ(Get(*table, "b").state, State::kDeleted);
  EXPECT_EQ(Get(*table, "b").lsn, lsn);
  EXPECT_EQ(Get(*table, "b", before).value, "old");
  EXPECT_EQ(Get(*table, "bb").state, State::kDeleted) << "an older source may have it";
  EXPECT_EQ(Get(*table, "c").value, "new");
  EXPECT_EQ(Get(*table, "d").state, State::kAbsent);
  EXPECT_EQ(table->CoveringTombstone("c", kMaxLsn), lsn);
  EXPECT_EQ(table->CoveringTombstone("c", lsn - 1), 0u);
}

TEST(MemTable, IsFullForAllWritersOnceARecordDidNotFit) {
  Holder table(1 << 16);
  const std::string big(10'000, 'v');
  int count = 0;
  while (table->Add({RecordType::kPut, "key" + std::to_string(count), big}, nullptr)) ++count;
  EXPECT_EQ(count, ((1 << 16) - 4096) / 10'032);
  EXPECT_FALSE(table->Add({RecordType::kPut, "k", ""}, nullptr)) << "though it would fit";
  EXPECT_TRUE(table->closed());
  EXPECT_EQ(table->Close(), 4096 + table->data_bytes());
  for (int i = 0; i < count; ++i) EXPECT_EQ(Get(*table, "key" + std::to_string(i)).value, big);
}

TEST(MemTable, IsFullAtFourFifthsOfItsSlots) {
  Holder table(1 << 20);
  const uint64_t slots = IndexSlots(1 << 20);
  char key[4];
  uint32_t count = 0;
  for (base::StoreLe(key, count); table->Add({RecordType::kPut, Slice(key, 4), ""}, nullptr);
       base::StoreLe(key, count)) {
    ++count;
  }
  EXPECT_EQ(table->key_count(), count);
  EXPECT_GE(count, slots / 5 * 4);
  EXPECT_LT(count, slots / 5 * 4 + 100);
  EXPECT_TRUE(table->closed());
  for (uint32_t i = 0; i < count; ++i) {
    base::StoreLe(key, i);
    ASSERT_EQ(Get(*table, Slice(key, 4)).state, State::kValue);
  }
}

// Each adds a few keys and makes room for the next: no thread alone ever sees many of its own.
TEST(MemTable, IsFullInTimeHoweverManyThreadsFillIt) {
  Holder table(1 << 20);
  const uint64_t slots = IndexSlots(1 << 20);
  std::atomic<uint32_t> next{0};
  std::atomic<bool> full{false};
  for (int round = 0; !full; ++round) {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 20; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 30 && !full; ++i) {
          char key[4];
          base::StoreLe(key, next.fetch_add(1));
          if (!table->Add({RecordType::kPut, Slice(key, 4), ""}, nullptr)) full = true;
        }
      });
    }
    for (auto& thread : threads) thread.join();
  }
  EXPECT_GE(table->key_count(), slots / 5 * 4);
  EXPECT_LT(table->key_count(), slots - 100);
}

TEST(MemTable, IsFullAfterSoManyRangeTombstones) {
  Holder table;
  for (uint32_t i = 0; i < kRangeDeletesMax; ++i) {
    ASSERT_TRUE(table->Add({RecordType::kRangeDelete, "a", "b"}, nullptr));
  }
  EXPECT_FALSE(table->Add({RecordType::kRangeDelete, "a", "b"}, nullptr));
  EXPECT_TRUE(table->closed());
}

TEST(MemTable, ABatchThatFitsAnEmptyTableByItsBytesFitsIt) {
  Holder table(1 << 16);
  std::vector<engine::WriteOp> ops;
  std::vector<std::string> keys;
  const uint64_t room = (1 << 16) - log::kSegmentHeaderBytes;
  for (int i = 0; i < 5000; ++i) keys.push_back(std::to_string(i));
  for (const std::string& key : keys) {
    ops.push_back({RecordType::kPut, key, ""});
    if (MemTable::BatchBytes(ops, true) <= room) continue;
    ops.pop_back();
    break;
  }
  ASSERT_GT(ops.size(), 500u);
  uint64_t lsn = 0;
  EXPECT_TRUE(table->AddBatch(ops, true, &lsn));
  for (const engine::WriteOp& op : ops) ASSERT_EQ(Get(*table, op.key).state, State::kValue);
  EXPECT_EQ(Get(*table, ops.back().key).lsn, lsn);
  EXPECT_EQ(table->key_count(), ops.size());
}

TEST(MemTable, ABatchThatDoesNotFitStoresNothing) {
  Holder table(1 << 16);
  Put(*table, "first", std::string(50'000, 'v'));
  const std::string value(6'000, 'v');
  EXPECT_FALSE(table->AddBatch({{RecordType::kPut, "a", value}, {RecordType::kPut, "b", value}},
                               true, nullptr));
  EXPECT_EQ(Get(*table, "a").state, State::kAbsent);
  EXPECT_EQ(table->key_count(), 1u);
}

TEST(MemTable, InABatchTheLastOperationOnAKeyCounts) {
  for (const bool atomic : {false, true}) {
    Holder table;
    Put(*table, "b", "0");
    ASSERT_TRUE(table->AddBatch({{RecordType::kPut, "a", "1"},
                                 {RecordType::kRangeDelete, "a", "c"},
                                 {RecordType::kPut, "a", "2"},
                                 {RecordType::kPut, "a", "3"},
                                 {RecordType::kDelete, "c", ""}},
                                atomic, nullptr));
    EXPECT_EQ(Get(*table, "a").value, "3");
    EXPECT_EQ(Get(*table, "b").state, State::kDeleted);
    EXPECT_EQ(Get(*table, "c").state, State::kDeleted);
    EXPECT_EQ(table->key_count(), 3u);
  }
}

TEST(MemTable, AnEmptyViewIsEmpty) {
  Holder table;
  for (const uint64_t lsn : {uint64_t{0}, kMaxLsn, table->QuiescedLsn()}) {
    const auto view = table->NewView(lsn);
    EXPECT_EQ(view->key_count(), 0u);
    EXPECT_TRUE(Forward(*view, true).empty());
    EXPECT_TRUE(Backward(*view, false).empty());
  }
}

TEST(MemTable, AViewKeepsItsContentsWhileWritersGoOn) {
  Holder table;
  const uint64_t a = Put(*table, "a", "1");
  const uint64_t c = Put(*table, "c", "1");
  const auto view = table->NewView(table->QuiescedLsn());
  const auto it = view->NewIterator(true);
  it->SeekToFirst();
  Put(*table, "a", "2");
  Put(*table, "b", "2");
  Put(*table, "c", "2");
  EXPECT_EQ(table->NewView(table->QuiescedLsn())->key_count(), 3u);
  EXPECT_EQ(At(*it), (SeenEntry{"a", "1", RecordType::kPut, a}));
  it->Next();
  EXPECT_EQ(At(*it), (SeenEntry{"c", "1", RecordType::kPut, c}));
  it->Next();
  EXPECT_FALSE(it->Valid());
  EXPECT_EQ(view->key_count(), 2u);
  EXPECT_EQ(Forward(*view, false).size(), 2u);
}

// --- sorted runs ------------------------------------------------------------------------------

// Sorts `keys` by MakeRun and by std::set, and compares.
void ExpectSorted(const std::set<std::string>& keys) {
  uint64_t bytes = log::kSegmentHeaderBytes + (1 << 16);
  for (const std::string& key : keys) bytes += log::RecordSize(key.size(), 0);
  Holder table(bytes);
  std::vector<std::string> shuffled(keys.begin(), keys.end());
  base::Random random(keys.size());
  for (size_t i = shuffled.size(); i > 1; --i) {
    std::swap(shuffled[i - 1], shuffled[random.Below(i)]);
  }
  for (size_t i = 0; i < shuffled.size() / 2; ++i) Put(*table, shuffled[i], "");
  const auto half = table->NewView(table->QuiescedLsn());  // so that runs are merged, too
  for (size_t i = shuffled.size() / 2; i < shuffled.size(); ++i) Put(*table, shuffled[i], "");
  const auto view = table->NewView(kMaxLsn);
  std::vector<std::string> got;
  for (const SeenEntry& entry : Forward(*view, true)) got.push_back(entry.key);
  EXPECT_EQ(got, std::vector<std::string>(keys.begin(), keys.end()));
  const auto it = view->NewIterator(true);
  for (size_t i = 0; i < 200 && i < got.size(); ++i) {
    const std::string& key = got[random.Below(got.size())];
    it->Seek(key);
    ASSERT_TRUE(it->Valid());
    EXPECT_EQ(it->key(), key);
    it->Seek(key + std::string(1, '\0'));
    const auto next = keys.lower_bound(key + std::string(1, '\0'));
    ASSERT_EQ(it->Valid(), next != keys.end());
    EXPECT_TRUE(!it->Valid() || it->key() == *next);
    it->SeekBefore(key);
    ASSERT_EQ(it->Valid(), key != *keys.begin());
    EXPECT_TRUE(!it->Valid() || it->key() == *std::prev(keys.find(key)));
  }
}

TEST(SortedKeys, SortsKeysWhoseDifferenceLiesAnywhere) {
  base::Random random(3);
  std::set<std::string> decimal, random_bytes, short_keys, nested, zeros, deep;
  for (int i = 0; i < 5000; ++i) {
    char text[32];
    std::snprintf(text, sizeof text, "user%016d", static_cast<int>(random.Below(1'000'000)));
    decimal.insert(text);
    std::string bytes;
    for (int b = 0; b < 16; ++b) bytes += static_cast<char>(random.Next());
    random_bytes.insert(bytes);
    short_keys.insert(bytes.substr(0, 1 + random.Below(3)));
    zeros.insert(std::string(1 + random.Below(300), '\0'));
    deep.insert(std::string(40 * random.Below(4), 'p') + bytes.substr(0, 1 + random.Below(2)) +
                std::string(100, 'q') + bytes.substr(2, random.Below(3)));
  }
  std::string grown;
  for (int i = 0; i < 600; ++i) nested.insert(grown += static_cast<char>('a' + random.Below(2)));
  for (const auto& keys : {decimal, random_bytes, short_keys, nested, zeros, deep}) {
    ExpectSorted(keys);
  }
}

// --- against a model --------------------------------------------------------------------------

// All that was ever written, searched in the most obvious way.
class Model {
 public:
  struct Write {
    engine::WriteOp op;
    uint64_t lsn;
  };
  void Add(const engine::WriteOp& op, uint64_t lsn) {
    // The slices of the op point into strings that the model keeps.
    keep_.push_back(std::make_unique<std::pair<std::string, std::string>>(op.key, op.value));
    writes_.push_back({{op.type, keep_.back()->first, keep_.back()->second}, lsn});
  }
  uint64_t Tombstone(Slice key, uint64_t snapshot) const {
    uint64_t newest = 0;
    for (const Write& write : writes_) {
      if (write.lsn <= snapshot && write.op.type == RecordType::kRangeDelete &&
          write.op.key <= key && key < write.op.value) {
        newest = write.lsn;
      }
    }
    return newest;
  }
  std::optional<Write> Newest(Slice key, uint64_t snapshot) const {
    std::optional<Write> newest;
    for (const Write& write : writes_) {
      if (write.lsn <= snapshot && write.op.type != RecordType::kRangeDelete &&
          write.op.key == key) {
        newest = write;
      }
    }
    return newest;
  }
  std::vector<SeenEntry> Entries(uint64_t snapshot, bool newest_only) const {
    std::map<std::string, std::vector<SeenEntry>> by_key;
    for (const Write& write : writes_) {
      if (write.lsn > snapshot || write.op.type == RecordType::kRangeDelete) continue;
      auto& versions = by_key[std::string(write.op.key)];
      if (newest_only) versions.clear();
      versions.insert(versions.begin(), {std::string(write.op.key), std::string(write.op.value),
                                         write.op.type, write.lsn});
    }
    std::vector<SeenEntry> entries;
    for (const auto& [key, versions] : by_key) {
      entries.insert(entries.end(), versions.begin(), versions.end());
    }
    return entries;
  }
  std::vector<uint64_t> Tombstones(uint64_t snapshot) const {
    std::vector<uint64_t> lsns;
    for (const Write& write : writes_) {
      if (write.lsn <= snapshot && write.op.type == RecordType::kRangeDelete) {
        lsns.insert(lsns.begin(), write.lsn);
      }
    }
    return lsns;
  }

 private:
  std::vector<std::unique_ptr<std::pair<std::string, std::string>>> keep_;
  std::vector<Write> writes_;
};

std::string RandomKey(base::Random& random) {
  return "k" + std::to_string(random.Below(60)) + std::string(random.Below(3), 'x');
}

engine::WriteOp RandomOp(base::Random& random, std::vector<std::string>* keep) {
  keep->reserve(1000);  // the slices must stay valid
  keep->push_back(RandomKey(random));
  const Slice key = keep->back();
  const uint64_t kind = random.Below(20);
  if (kind == 0) {
    keep->push_back(RandomKey(random));
    return {RecordType::kRangeDelete, std::min(key, Slice(keep->back())),
            std::max(key, Slice(keep->back()))};
  }
  if (kind < 4) return {RecordType::kDelete, key, {}};
  keep->push_back(std::string(random.Below(40), static_cast<char>('a' + random.Below(26))));
  return {RecordType::kPut, key, keep->back()};
}

void ExpectLikeModel(const MemTable& table, const Model& model, uint64_t snapshot) {
  for (int i = 0; i < 60; ++i) {
    for (const char* end : {"", "x", "xx"}) {
      const std::string key = "k" + std::to_string(i) + end;
      const table::LookupResult got = Get(table, key, snapshot);
      const uint64_t tombstone = model.Tombstone(key, snapshot);
      const auto newest = model.Newest(key, snapshot);
      ASSERT_EQ(table.CoveringTombstone(key, snapshot), tombstone);
      if (tombstone > (newest ? newest->lsn : 0)) {
        ASSERT_EQ(got.state, State::kDeleted);
        ASSERT_EQ(got.lsn, tombstone);
      } else if (!newest) {
        ASSERT_EQ(got.state, State::kAbsent);
      } else {
        const bool deleted = newest->op.type == RecordType::kDelete;
        ASSERT_EQ(got.state, deleted ? State::kDeleted : State::kValue);
        ASSERT_EQ(got.lsn, newest->lsn);
        ASSERT_EQ(got.value, newest->op.value);
      }
    }
  }
}

// Keys of which many share the bytes that a run compares as a number, and some end within them: so
// that equal prefixes reach over several of the steps that a seek searches first.
std::set<std::string> KeysWithEqualPrefixes(base::Random& random, size_t count) {
  std::set<std::string> keys;
  while (keys.size() < count) {
    std::string key = "common/";
    key += random.OneIn(10) ? std::string(random.Below(8), 'a')
                            : std::string(8, static_cast<char>('a' + random.Below(3)));
    if (!random.OneIn(50)) key += std::to_string(random.Below(10'000));
    keys.insert(std::move(key));
  }
  return keys;
}

TEST(MemTable, AViewFindsTheFirstKeyAtOrAboveAnyKeyAndTheLastBelow) {
  base::Random random(12);
  for (const size_t count : {1, 63, 64, 65, 128, 5000}) {
    Holder table(1 << 20);
    const std::set<std::string> keys = KeysWithEqualPrefixes(random, count);
    for (const std::string& key : keys) Put(*table, key, "");
    const auto view = table->NewView(kMaxLsn);
    const auto it = view->NewIterator(true);
    std::set<std::string> asked = KeysWithEqualPrefixes(random, 500);
    asked.insert(keys.begin(), keys.end());
    asked.insert({"", "a", "common", "common/", "common0", "z"});
    for (const std::string& key : asked) {
      const auto wanted = keys.lower_bound(key);
      it->Seek(key);
      ASSERT_EQ(it->Valid(), wanted != keys.end());
      if (it->Valid()) {
        ASSERT_EQ(it->key(), *wanted);
      }
      it->SeekBefore(key);
      ASSERT_EQ(it->Valid(), wanted != keys.begin());
      if (it->Valid()) {
        ASSERT_EQ(it->key(), *std::prev(wanted));
      }
    }
  }
}

void ExpectViewLikeModel(const SortedView& view, const Model& model, uint64_t snapshot,
                         base::Random& random) {
  for (const bool newest_only : {true, false}) {
    const auto wanted = model.Entries(snapshot, newest_only);
    ASSERT_EQ(Forward(view, newest_only), wanted);
    ASSERT_EQ(Backward(view, newest_only), wanted);
    // A walk that turns round.
    const auto it = view.NewIterator(newest_only);
    for (int i = 0; i < 10; ++i) {
      const std::string key = RandomKey(random);
      const bool before = random.OneIn(2);
      before ? it->SeekBefore(key) : it->Seek(key);
      auto at = std::find_if(wanted.begin(), wanted.end(),
                             [&key](const SeenEntry& entry) { return entry.key >= key; });
      ptrdiff_t place = at - wanted.begin() - (before ? 1 : 0);
      for (int step = 0; step < 20; ++step) {
        const bool inside = place >= 0 && place < std::ssize(wanted);
        ASSERT_EQ(it->Valid(), inside);
        if (!inside) break;
        ASSERT_EQ(At(*it), wanted[static_cast<size_t>(place)]);
        if (random.OneIn(2)) {
          it->Next();
          ++place;
        } else {
          it->Prev();
          --place;
        }
      }
    }
  }
  ASSERT_EQ(view.key_count(), model.Entries(snapshot, true).size());
  std::vector<uint64_t> lsns;
  for (const auto& tombstone : view.RangeTombstones()) lsns.push_back(tombstone.lsn);
  ASSERT_EQ(lsns, model.Tombstones(snapshot));
}

TEST(MemTable, AnswersLikeAModelAtEverySnapshotAndInEveryView) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    base::Random random(seed);
    Holder table;
    Model model;
    std::vector<std::pair<uint64_t, std::shared_ptr<const SortedView>>> views;
    for (int round = 0; round < 8; ++round) {
      for (uint64_t i = random.Below(200); i > 0; --i) {
        std::vector<std::string> keep;
        uint64_t lsn = 0;
        if (!random.OneIn(10)) {
          const engine::WriteOp op = RandomOp(random, &keep);
          ASSERT_TRUE(table->Add(op, &lsn));
          model.Add(op, lsn);
          continue;
        }
        std::vector<engine::WriteOp> ops;
        for (uint64_t n = 1 + random.Below(20); n > 0; --n) ops.push_back(RandomOp(random, &keep));
        ASSERT_TRUE(table->AddBatch(ops, random.OneIn(2), &lsn));
        // The last LSN is known; the first follows from the sizes.
        uint64_t first = lsn;
        for (size_t j = 0; j + 1 < ops.size(); ++j) {
          first -= log::RecordSize(ops[j].key.size(), ops[j].value.size());
        }
        for (const engine::WriteOp& op : ops) {
          model.Add(op, first);
          first += log::RecordSize(op.key.size(), op.value.size());
        }
      }
      const uint64_t lsn = table->QuiescedLsn();
      views.push_back({lsn, table->NewView(lsn)});
      // A view of the past, made after a later one.
      const auto& [past, past_view] = views[random.Below(views.size())];
      views.push_back({past, table->NewView(past)});
    }
    for (const auto& [lsn, view] : views) {
      ExpectLikeModel(*table, model, lsn);
      ExpectViewLikeModel(*view, model, lsn, random);
      if (::testing::Test::HasFatalFailure()) return;
    }
    table->Close();
    ExpectLikeModel(*table, model, kMaxLsn);
    ExpectViewLikeModel(*table->NewView(kMaxLsn), model, kMaxLsn, random);
  }
}

TEST(MemTable, AdoptedFromTheLogItAnswersTheSame) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    base::Random random(seed);
    Holder first;
    Model model;
    for (int i = 0; i < 500; ++i) {
      std::vector<std::string> keep;
      uint64_t lsn = 0;
      const engine::WriteOp op = RandomOp(random, &keep);
      ASSERT_TRUE(first->AddBatch({op}, random.OneIn(2), &lsn));
      model.Add(op, lsn);
    }
    Holder second;
    std::memcpy(second.data(), first.data(), first.bytes());
    log::SegmentHeader header;
    header.generation = kGeneration;
    header.capacity = first.bytes();
    const auto report =
        log::Replay({second.data()}, header, header.boot_id, "log",
                    [&](uint64_t offset, const char*) { return second->Adopt(offset); });
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    EXPECT_EQ(report->records, 500u);
    second->FinishAdoption(report->end);
    EXPECT_TRUE(second->closed());
    EXPECT_EQ(second->data_bytes(), first->data_bytes());
    EXPECT_EQ(second->key_count(), first->key_count());
    EXPECT_FALSE(second->Add({RecordType::kPut, "k", "v"}, nullptr));
    ExpectLikeModel(*second, model, kMaxLsn);
    ExpectViewLikeModel(*second->NewView(kMaxLsn), model, kMaxLsn, random);
  }
}

TEST(MemTable, AdoptedItAnswersTheSameFromAnIndexForItsKeys) {
  for (const int count : {0, 1, 60, 2000}) {
    SCOPED_TRACE(count);
    base::Random random(static_cast<uint64_t>(count));
    Holder table;
    Model model;
    uint64_t end = log::kSegmentHeaderBytes;
    for (int i = 0; i < count; ++i) {
      std::vector<std::string> keep;
      const engine::WriteOp op = RandomOp(random, &keep);
      log::EncodeRecord(table.data() + end, op.type, op.key, op.value, 0);
      ASSERT_OK(table->Adopt(end));
      model.Add(op, kBaseLsn + end);
      end += log::RecordSize(op.key.size(), op.value.size());
    }
    table->FinishAdoption(end);
    const uint64_t keys = table->key_count();
    ASSERT_LE(table->AdoptedIndexBytes(), 4096 + 20 * keys) << keys;
    const io::PageMemory index = std::move(*io::AllocatePages(table->AdoptedIndexBytes()));
    table->MoveIndex(index.data());
    table.SpoilIndex();
    std::memset(table.data() + end, 0xA5, table.bytes() - end);
    EXPECT_TRUE(table->closed());
    EXPECT_EQ(table->key_count(), keys);
    EXPECT_EQ(table->data_bytes(), end - log::kSegmentHeaderBytes);
    EXPECT_EQ(table->segment_bytes(), end);
    EXPECT_EQ(table->Close(), end);
    ExpectLikeModel(*table, model, kMaxLsn);
    ExpectViewLikeModel(*table->NewView(table->QuiescedLsn()), model, kMaxLsn, random);
  }
}

TEST(MemTable, AdoptedWithHolesItHasWhatIsLeftAndItsMarkStaysBelowThem) {
  Holder first;
  Put(*first, "a", "1");
  const uint64_t b = Put(*first, "b", "2") - kBaseLsn;
  Put(*first, "c", "3");
  first.data()[b] ^= 1;
  log::MarkComplete(first.data(), kGeneration, b);
  log::SegmentHeader header;
  header.generation = kGeneration;
  header.capacity = first.bytes();
  for (int recovery = 0; recovery < 2; ++recovery) {  // again, after it was not flushed
    Holder second;
    std::memcpy(second.data(), first.data(), first.bytes());
    const auto report =
        log::Replay({second.data()}, header, header.boot_id, "log",
                    [&](uint64_t offset, const char*) { return second->Adopt(offset); });
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    second->FinishAdoption(report->end);
    second->Close();
    const auto entries = Forward(*second->NewView(kMaxLsn), true);
    ASSERT_EQ(entries.size(), 2u);
    EXPECT_EQ(entries[0].key, "a");
    EXPECT_EQ(entries[1].key, "c");
    std::memcpy(first.data(), second.data(), first.bytes());
  }
}

TEST(MemTable, ASegmentWithMoreKeysThanAnyMemTableTakesIsCorruption) {
  Holder table(1 << 20);
  uint64_t at = log::kSegmentHeaderBytes;
  Status status;
  for (uint32_t i = 0; status.ok() && at + 32 <= table.bytes(); ++i, at += 32) {
    char key[4];
    base::StoreLe(key, i);
    log::EncodeRecord(table.data() + at, RecordType::kPut, Slice(key, 4), "", 0);
    status = table->Adopt(at);
  }
  EXPECT_EQ(status.code(), Code::kCorruption);
}

}  // namespace
}  // namespace quire::lsm::memtable_test
