// Behaviour of every storage engine.
#include <thread>

#include "base/text/coding.h"
#include "tests/scenarios/scenario.h"

namespace quire::scenarios::all_test {
namespace {

class EveryEngine : public OnEngine {};

INSTANTIATE_TEST_SUITE_P(Engines, EveryEngine, testing::ValuesIn(AllEngines()), NameOf);

TEST_P(EveryEngine, GivesTheNewestValueOfAKey) {
  EXPECT_EQ(Get(*engine_, "key"), std::nullopt);
  ASSERT_OK(engine_->Put("key", "1"));
  EXPECT_EQ(Get(*engine_, "key"), "1");
  ASSERT_OK(engine_->Put("key", "2"));
  EXPECT_EQ(Get(*engine_, "key"), "2");
  ASSERT_OK(engine_->Delete("key"));
  EXPECT_EQ(Get(*engine_, "key"), std::nullopt);
  ASSERT_OK(engine_->Delete("never there"));
  ASSERT_OK(engine_->Put("key", "3"));
  EXPECT_EQ(Get(*engine_, "key"), "3");
}

TEST_P(EveryEngine, TakesKeysAndValuesOfAllSizesAndBytes) {
  Pairs pairs;
  for (const size_t size : {size_t{1}, size_t{7}, size_t{255}, size_t{65536}}) {
    pairs[std::string(size, '\0')] = "";
    pairs[std::string(size, '\xff')] = std::string(1, '\0');
  }
  for (const size_t size : {size_t{255}, size_t{256}, size_t{257}, size_t{100'000}}) {
    pairs["value of " + std::to_string(size)] = std::string(size, 'v');
  }
  for (const auto& [key, value] : pairs) ASSERT_OK(engine_->Put(key, value));
  for (const auto& [key, value] : pairs) EXPECT_EQ(Get(*engine_, key), value);
  ASSERT_OK(engine_->Flush());
  for (const auto& [key, value] : pairs) EXPECT_EQ(Get(*engine_, key), value);
}

TEST_P(EveryEngine, RefusesKeysWithoutASize) {
  EXPECT_CODE(engine_->Put("", "value"), Code::kInvalidArgument);
  EXPECT_CODE(engine_->Put(std::string(65537, 'k'), "value"), Code::kInvalidArgument);
  EXPECT_CODE(engine_->Delete(""), Code::kInvalidArgument);
  std::string value;
  EXPECT_CODE(engine_->Get("", &value), Code::kInvalidArgument);
  EXPECT_CODE(engine_->Get(std::string(65537, 'k'), &value), Code::kInvalidArgument);
  EXPECT_EQ(AllOf(*engine_), Pairs());
}

TEST_P(EveryEngine, DeletesARangeOfKeys) {
  for (const char* key : {"a", "b", "ba", "c", "d"}) ASSERT_OK(engine_->Put(key, "x"));
  ASSERT_OK(engine_->DeleteRange("b", "c"));
  EXPECT_EQ(AllOf(*engine_), (Pairs{{"a", "x"}, {"c", "x"}, {"d", "x"}}));
  ASSERT_OK(engine_->Put("b", "again"));
  EXPECT_EQ(Get(*engine_, "b"), "again");
  ASSERT_OK(engine_->DeleteRange("c", "c"));
  EXPECT_EQ(Get(*engine_, "c"), "x");
  EXPECT_CODE(engine_->DeleteRange("d", "a"), Code::kInvalidArgument);
  EXPECT_EQ(Get(*engine_, "a"), "x");
}

TEST_P(EveryEngine, UpdatesAKeyInPlace) {
  const engine::UpdateFn append = [](Slice, const Slice* present, std::string* updated) {
    *updated = (present == nullptr ? "none" : std::string(*present)) + "+";
    return true;
  };
  ASSERT_OK(engine_->Update("key", append));
  ASSERT_OK(engine_->Update("key", append));
  EXPECT_EQ(Get(*engine_, "key"), "none++");
  const engine::UpdateFn leave = [](Slice, const Slice*, std::string* updated) {
    *updated = "not stored";
    return false;
  };
  ASSERT_OK(engine_->Update("key", leave));
  ASSERT_OK(engine_->Update("other", leave));
  EXPECT_EQ(AllOf(*engine_), (Pairs{{"key", "none++"}}));
}

TEST_P(EveryEngine, UpdatesOfOneKeyByManyThreadsLoseNone) {
  const engine::UpdateFn count = [](Slice, const Slice* present, std::string* updated) {
    *updated = std::to_string(present == nullptr ? 1 : std::stoi(std::string(*present)) + 1);
    return true;
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int update = 0; update < 200; ++update) ASSERT_OK(engine_->Update("counter", count));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Get(*engine_, "counter"), "800");
}

// As batches of other ranks come: one that is refused takes no other with it.
TEST_P(EveryEngine, AppliesOperationsOneAfterAnother) {
  engine::WriteBatch batch;
  batch.Put("a", "1");
  batch.Update("a", 7, "+2");
  batch.Update("a", 9, "");  // fails
  batch.Put("b", "3");
  batch.Delete("a");
  batch.Update("a", 7, "+4");
  engine::WriteProgress progress;
  const auto update = [](uint32_t function, Slice argument, Slice, const Slice* present,
                         std::string* updated, bool* write) {
    if (function != 7) return Status(Code::kInvalidArgument, "no such function");
    *updated = (present == nullptr ? "" : std::string(*present)) + std::string(argument);
    *write = true;
    return Status();
  };
  const Status refused = engine_->Apply(batch.bytes(), update, &progress);
  EXPECT_CODE(refused, Code::kInvalidArgument);
  EXPECT_EQ(progress.applied, 5u);
  EXPECT_EQ(AllOf(*engine_), (Pairs{{"a", "+4"}, {"b", "3"}}));
  EXPECT_CODE(engine_->Apply(batch.bytes().substr(1), update, &progress), Code::kCorruption);
  // Without functions, and where all is written or nothing, there is nothing to call.
  engine::WriteBatch alone;
  alone.Update("b", 7, "+");
  engine::WriteProgress refusal;
  EXPECT_CODE(engine_->Apply(alone.bytes(), {}, &refusal), Code::kInvalidArgument);
  EXPECT_CODE(engine_->Write(alone), Code::kInvalidArgument);
  EXPECT_EQ(Get(*engine_, "b"), "3");
}

TEST_P(EveryEngine, KeepsAllThroughFlushesAndCompactions) {
  Pairs model;
  for (int i = 0; i < 3000; ++i) {
    const std::string key = "key " + std::to_string(i % 700);
    if (i % 7 == 3) {
      ASSERT_OK(engine_->Delete(key));
      model.erase(key);
    } else {
      ASSERT_OK(engine_->Put(key, std::string(static_cast<size_t>(i % 400), 'a')));
      model[key] = std::string(static_cast<size_t>(i % 400), 'a');
    }
    if (i % 500 == 0) ASSERT_OK(engine_->Flush());
  }
  EXPECT_EQ(AllOf(*engine_), model);
  ASSERT_OK(engine_->Compact());
  ASSERT_OK(engine_->WaitIdle());
  EXPECT_EQ(AllOf(*engine_), model);
  ASSERT_OK(engine_->Verify());
  ASSERT_OK(engine_->SyncLog());
  EXPECT_OK(engine_->background_status());
}

TEST_P(EveryEngine, SaysWhatItCanDoByItsFaces) {
  const engine::Capabilities can = GetParam()->capabilities();
  EXPECT_EQ(can.neighbour_readable, engine_->neighbour_readable() != nullptr);
  EXPECT_EQ(can.capturable, engine_->capturable() != nullptr);
  EXPECT_EQ(can.backable, engine_->backable() != nullptr);
  EXPECT_EQ(can.persistent, GetParam()->stored_parts() != nullptr);
  quire::Statistics statistics;
  engine_->AddStatistics(&statistics);
  EXPECT_FALSE(statistics.empty());
}

// Pairs of older generations, one of which the engine's own deletion hides.
class OnePair final : public engine::BackingStore {
 public:
  Status Get(Slice key, const BufferAllocator& allocate) const override {
    if (key != "old") return Status(Code::kNotFound);
    *allocate(1) = 'v';
    return Status();
  }
  std::unique_ptr<table::EntryIterator> NewIterator() const override {
    return table::NewEmptyIterator();
  }
};

TEST_P(EveryEngine, ReadsWhatItsBaseHasOrRefusesToHaveOne) {
  engine_.Close();
  const Status opened = engine_.Open(engine::OpenFlags::kOpenOrCreate, std::make_shared<OnePair>());
  if (!GetParam()->capabilities().backable) {
    EXPECT_CODE(opened, Code::kUnsupported);
    return;
  }
  ASSERT_OK(opened);
  EXPECT_EQ(Get(*engine_, "old"), "v");
  engine::WriteBatch batch;
  batch.Put("old", "filled");
  batch.Put("new", "filled");
  ASSERT_OK(engine_->Put("new", "written"));
  engine::WriteProgress progress;
  ASSERT_OK(engine_->backable()->Fill(batch.bytes(), &progress));
  EXPECT_EQ(Get(*engine_, "old"), "filled");
  EXPECT_EQ(Get(*engine_, "new"), "written");
  engine_->backable()->DetachBackingStore();
  ASSERT_OK(engine_->Delete("old"));
  EXPECT_EQ(Get(*engine_, "old"), std::nullopt);
}

}  // namespace
}  // namespace quire::scenarios::all_test
