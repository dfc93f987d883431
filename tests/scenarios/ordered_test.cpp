// Engines whose iterators go by rising key.
#include "tests/scenarios/scenario.h"

namespace quire::scenarios::ordered_test {
namespace {

class OrderedEngine : public OnEngine {
 protected:
  // Puts half of the keys into files, if the engine has files, and deletes some.
  void Fill() {
    for (const char* key : {"b", "d", "f", "h", "gone"}) ASSERT_OK(engine_->Put(key, key));
    ASSERT_OK(engine_->Flush());
    for (const char* key : {"c", "g", "e"}) ASSERT_OK(engine_->Put(key, key));
    for (const char* key : {"gone", "e"}) ASSERT_OK(engine_->Delete(key));
  }
};

INSTANTIATE_TEST_SUITE_P(Engines, OrderedEngine,
                         testing::ValuesIn(EnginesWith(&engine::Capabilities::ordered)), NameOf);

std::string At(const engine::Iterator& walk) {
  return walk.Valid() ? std::string(walk.key()) : "nowhere";
}

TEST_P(OrderedEngine, SeeksToKeysThatAreThereAndThatAreNot) {
  Fill();
  const std::unique_ptr<engine::Iterator> walk = engine_->NewIterator({});
  const std::map<std::string, std::pair<std::string, std::string>> around = {
      {"a", {"b", "nowhere"}}, {"b", {"b", "b"}}, {"bb", {"c", "b"}},      {"e", {"f", "d"}},
      {"gone", {"h", "g"}},    {"h", {"h", "h"}}, {"i", {"nowhere", "h"}},
  };
  for (const auto& [key, expected] : around) {
    walk->Seek(key);
    EXPECT_EQ(At(*walk), expected.first) << key;
    walk->SeekForPrev(key);
    EXPECT_EQ(At(*walk), expected.second) << key;
  }
  EXPECT_OK(walk->status());
}

TEST_P(OrderedEngine, TurnsAround) {
  Fill();
  const std::unique_ptr<engine::Iterator> walk = engine_->NewIterator({});
  walk->Seek("d");
  walk->Next();
  EXPECT_EQ(At(*walk), "f");
  walk->Prev();
  EXPECT_EQ(At(*walk), "d");
  walk->Prev();
  EXPECT_EQ(At(*walk), "c");
  walk->Next();
  EXPECT_EQ(At(*walk), "d");
}

TEST_P(OrderedEngine, StaysWithinItsBounds) {
  Fill();
  engine::IteratorOptions options;
  options.lower_bound = "c";
  options.upper_bound = "g";
  EXPECT_EQ(AllOf(*engine_, options), (Pairs{{"c", "c"}, {"d", "d"}, {"f", "f"}}));
  const std::unique_ptr<engine::Iterator> walk = engine_->NewIterator(options);
  walk->Seek("a");
  EXPECT_EQ(At(*walk), "c");
  walk->SeekForPrev("z");
  EXPECT_EQ(At(*walk), "f");
  walk->Seek("g");
  EXPECT_EQ(At(*walk), "nowhere");
  walk->SeekForPrev("b");
  EXPECT_EQ(At(*walk), "nowhere");
}

}  // namespace
}  // namespace quire::scenarios::ordered_test
