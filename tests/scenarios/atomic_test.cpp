// Engines whose batches are seen whole or not at all.
#include <atomic>
#include <thread>

#include "tests/scenarios/scenario.h"

namespace quire::scenarios::atomic_test {
namespace {

class AtomicEngine : public OnEngine {};

INSTANTIATE_TEST_SUITE_P(Engines, AtomicEngine,
                         testing::ValuesIn(EnginesWith(&engine::Capabilities::atomic_batches)),
                         NameOf);

TEST_P(AtomicEngine, WritesABatchInItsOrder) {
  ASSERT_OK(engine_->Put("old", "x"));
  engine::WriteBatch batch;
  batch.Put("key", "1");
  batch.Delete("key");
  batch.Put("key", "2");
  batch.DeleteRange("o", "p");
  batch.Put("other", "3");
  ASSERT_OK(engine_->Write(batch));
  EXPECT_EQ(AllOf(*engine_), (Pairs{{"key", "2"}, {"other", "3"}}));
  ASSERT_OK(engine_->Write(engine::WriteBatch()));
}

TEST_P(AtomicEngine, WritesNothingOfABatchThatItRefuses) {
  engine::WriteBatch batch;
  batch.Put("key", "1");
  batch.DeleteRange("a", std::string(65537, 'z'));
  EXPECT_CODE(engine_->Write(batch), Code::kInvalidArgument);
  EXPECT_EQ(AllOf(*engine_), Pairs());
}

TEST_P(AtomicEngine, ShowsNoReaderAPartOfABatch) {
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (int round = 1; round <= 300; ++round) {
      engine::WriteBatch batch;
      for (int key = 0; key < 8; ++key)
        batch.Put("key " + std::to_string(key), std::to_string(round));
      ASSERT_OK(engine_->Write(batch));
    }
    done.store(true);
  });
  int looks = 0;
  for (bool last = false; !last; ++looks) {
    last = done.load();
    const Pairs seen = AllOf(*engine_);
    if (seen.empty()) continue;
    EXPECT_EQ(seen.size(), 8u);
    for (const auto& [key, value] : seen) EXPECT_EQ(value, seen.begin()->second) << key;
  }
  writer.join();
  EXPECT_GT(looks, 0);
}

}  // namespace
}  // namespace quire::scenarios::atomic_test
