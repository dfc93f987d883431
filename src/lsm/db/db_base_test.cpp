// A database over a base: the base is asked for keys that the database does not know, and for no
// others (docs/decisions/0009-persistence.md).
#include <gmock/gmock.h>

#include <vector>

#include "lsm/db/backing_store_testing.h"
#include "lsm/peer/peer_reader.h"
#include "table/table.h"
#include "tests/support/status_asserts.h"

namespace quire::lsm::db_base_test {
namespace {

class DbOverBase : public testing::Test {
 protected:
  DbOverBase() : test_(SmallOptions()) {
    test_.environment().base = std::make_shared<ModelBase>(
        Model{{"b", "base b"}, {"c", "base c"}, {"d", "base d"}, {"f", "base f"}});
    EXPECT_OK(test_.Open());
  }
  std::string Get(const std::string& key) { return GetText(test_.db(), key); }
  Model All() { return AllOf(*test_->NewIterator({})); }
  // Everything through a flush and a merge of all runs, where tombstones would be dropped.
  void Settle() {
    ASSERT_OK(test_->Flush());
    ASSERT_OK(test_->Put("zz", "another run"));
    ASSERT_OK(test_->Compact());
    ASSERT_OK(test_->Delete("zz"));
    ASSERT_OK(test_->Compact());
  }
  uint64_t Fill(const engine::WriteBatch& batch) {
    engine::WriteProgress progress;
    EXPECT_OK(test_->Fill(batch.bytes(), &progress));
    return progress.applied;
  }

  TestDb test_;
};

TEST_F(DbOverBase, TheBaseAnswersForWhatIsKnownNowhere) {
  ASSERT_OK(test_->Put("c", "new c"));
  ASSERT_OK(test_->Put("e", "new e"));
  ASSERT_OK(test_->Delete("d"));
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(Get("a"), "<absent>");
    EXPECT_EQ(Get("b"), "base b");
    EXPECT_EQ(Get("c"), "new c");
    EXPECT_EQ(Get("d"), "<absent>");
    EXPECT_EQ(All(), (Model{{"b", "base b"}, {"c", "new c"}, {"e", "new e"}, {"f", "base f"}}));
    Settle();
  }
}

TEST_F(DbOverBase, IteratorsGoBothWaysOverItAndRangesHideIt) {
  ASSERT_OK(test_->DeleteRange("c", "e"));
  ASSERT_OK(test_->Put("g", "new g"));
  for (int round = 0; round < 2; ++round) {
    std::vector<std::string> keys;
    const auto iterator = test_->NewIterator({});
    for (iterator->SeekToLast(); iterator->Valid(); iterator->Prev()) {
      keys.emplace_back(iterator->key());
    }
    EXPECT_THAT(keys, testing::ElementsAre("g", "f", "b"));
    Settle();
  }
}

TEST_F(DbOverBase, UpdatesSeeIt) {
  const engine::UpdateFn append = [](Slice, const Slice* present, std::string* updated) {
    *updated = (present == nullptr ? "none" : std::string(*present)) + "+";
    return true;
  };
  for (const char* key : {"a", "b", "d"}) {
    if (std::string(key) == "d") {
      ASSERT_OK(test_->Delete("d"));
    }
    ASSERT_OK(test_->Update(key, append));
  }
  EXPECT_EQ(Get("a"), "none+");
  EXPECT_EQ(Get("b"), "base b+");
  EXPECT_EQ(Get("d"), "none+");
}

TEST_F(DbOverBase, FillsInWhatIsKnownNowhereAlone) {
  ASSERT_OK(test_->Put("c", "new c"));
  ASSERT_OK(test_->Delete("d"));
  ASSERT_OK(test_->Put("e", std::string(1000, 'e')));
  ASSERT_OK(test_->Flush());
  ASSERT_OK(test_->Delete("e"));
  engine::WriteBatch batch;
  for (const char* key : {"b", "c", "d", "e"}) batch.Put(key, std::string("moved ") + key);
  batch.Put("f", std::string(1000, 'f'));
  batch.Delete("g");
  EXPECT_EQ(Fill(batch), 6u);
  engine::WriteBatch older;
  older.Put("b", "oldest");
  older.Put("g", "oldest");
  Fill(older);
  test_->DetachBackingStore();
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(All(), (Model{{"b", "moved b"}, {"c", "new c"}, {"f", std::string(1000, 'f')}}));
    Settle();
  }
}

TEST_F(DbOverBase, WithoutItsBaseWhatWasNotMovedIsAbsent) {
  ASSERT_OK(test_->Delete("b"));
  ASSERT_OK(test_->Put("c", "new c"));
  test_->DetachBackingStore();
  EXPECT_EQ(Get("d"), "<absent>");
  EXPECT_EQ(All(), (Model{{"c", "new c"}}));
  Settle();
  EXPECT_EQ(test_->Statistics().table_count, 1u) << "tombstones go when there is no base";
}

TEST_F(DbOverBase, RefusesToFillInAnythingButPutsAndDeletes) {
  engine::WriteBatch batch;
  batch.Update("a", 1, "x");
  batch.Put("b", "moved");
  engine::WriteProgress progress;
  EXPECT_EQ(test_->Fill(batch.bytes(), &progress).code(), Code::kInvalidArgument);
  EXPECT_EQ(progress.applied, 1u);
  engine::WriteProgress garbage;
  EXPECT_EQ(test_->Fill("garbage", &garbage).code(), Code::kCorruption);
}

TEST(PeerOverBase, AsksTheOwnerForWhatItDoesNotKnow) {
  TestDb test(SmallOptions());
  test.environment().share_memory = true;
  test.environment().base = std::make_shared<ModelBase>(Model{{"b", "base b"}});
  ASSERT_OK(test.Open());
  ASSERT_OK(test->Put("a", "1"));
  ASSERT_OK(test->Delete("b"));
  auto peer = OpenPeerReader(test.fs(), {"/db", test->region_name(), test->region_bytes()},
                             {test.options(), table::NewBlockCache(1 << 20)});
  ASSERT_OK(peer.status());
  std::string value;
  const Into into(&value);
  EXPECT_OK((*peer)->Get("a", into));
  EXPECT_EQ((*peer)->Get("b", into).code(), Code::kNotFound);
  EXPECT_EQ((*peer)->Get("c", into).code(), Code::kBusy);
  test->DetachBackingStore();
  EXPECT_EQ((*peer)->Get("c", into).code(), Code::kNotFound);
}

}  // namespace
}  // namespace quire::lsm::db_base_test
