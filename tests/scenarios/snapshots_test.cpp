// Engines whose snapshots and iterators keep one moment.
#include "tests/scenarios/scenario.h"

namespace quire::scenarios::snapshots_test {
namespace {

class SnapshotEngine : public OnEngine {};

INSTANTIATE_TEST_SUITE_P(Engines, SnapshotEngine,
                         testing::ValuesIn(EnginesWith(&engine::Capabilities::snapshots)), NameOf);

TEST_P(SnapshotEngine, KeepsTheMomentOfASnapshot) {
  ASSERT_OK(engine_->Put("a", "1"));
  ASSERT_OK(engine_->Put("b", "1"));
  const std::unique_ptr<engine::Snapshot> before = engine_->NewSnapshot();
  ASSERT_OK(engine_->Put("a", "2"));
  ASSERT_OK(engine_->Delete("b"));
  ASSERT_OK(engine_->Put("c", "2"));
  const std::unique_ptr<engine::Snapshot> after = engine_->NewSnapshot();
  ASSERT_OK(engine_->DeleteRange("a", "z"));
  for (const bool compacted : {false, true}) {
    EXPECT_EQ(Get(*engine_, "a", before.get()), "1");
    EXPECT_EQ(Get(*engine_, "b", before.get()), "1");
    EXPECT_EQ(Get(*engine_, "c", before.get()), std::nullopt);
    EXPECT_EQ(Get(*engine_, "a", after.get()), "2");
    EXPECT_EQ(Get(*engine_, "b", after.get()), std::nullopt);
    EXPECT_EQ(Get(*engine_, "a"), std::nullopt);
    engine::IteratorOptions options;
    options.snapshot = before.get();
    EXPECT_EQ(AllOf(*engine_, options), (Pairs{{"a", "1"}, {"b", "1"}}));
    options.snapshot = after.get();
    EXPECT_EQ(AllOf(*engine_, options), (Pairs{{"a", "2"}, {"c", "2"}}));
    EXPECT_EQ(AllOf(*engine_), Pairs());
    if (!compacted) ASSERT_OK(engine_->Compact());
  }
}

TEST_P(SnapshotEngine, AnIteratorKeepsTheMomentAtWhichItWasMade) {
  for (int i = 0; i < 500; ++i) ASSERT_OK(engine_->Put("key " + std::to_string(1000 + i), "old"));
  const std::unique_ptr<engine::Iterator> walk = engine_->NewIterator({});
  walk->SeekToFirst();
  for (int i = 0; i < 500; ++i) ASSERT_OK(engine_->Put("key " + std::to_string(1000 + i), "new"));
  ASSERT_OK(engine_->Put("a new key", "new"));
  ASSERT_OK(engine_->Flush());
  ASSERT_OK(engine_->Compact());
  int seen = 0;
  for (; walk->Valid(); walk->Next(), ++seen) ASSERT_EQ(walk->value(), "old") << walk->key();
  EXPECT_OK(walk->status());
  EXPECT_EQ(seen, 500);
}

TEST_P(SnapshotEngine, DropsWhatNoSnapshotSees) {
  ASSERT_OK(engine_->Put("key", "1"));
  std::unique_ptr<engine::Snapshot> held = engine_->NewSnapshot();
  ASSERT_OK(engine_->Delete("key"));
  held.reset();
  ASSERT_OK(engine_->Compact());
  EXPECT_EQ(AllOf(*engine_), Pairs());
  EXPECT_EQ(Get(*engine_, "key"), std::nullopt);
}

}  // namespace
}  // namespace quire::scenarios::snapshots_test
