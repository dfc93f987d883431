// Random operations against a std::map, on a simulated machine, with MemTables so small that
// flushes, merges and value collection happen all the time.
#include <iterator>
#include <vector>

#include "lsm/db/db_testing.h"
#include "tests/support/test_scale.h"

namespace quire::lsm::db_model_test {
namespace {

struct Pinned {
  std::unique_ptr<engine::Snapshot> snapshot;
  Model model;
};

class ModelTest : public testing::TestWithParam<int> {
 protected:
  ModelTest() : test_(SmallOptions(), GetParam()), random_(20240610 + test::FirstSeed()) {
    for (int i = 0; i < 400; ++i) keys_.push_back(RandomKey());
  }

  uint64_t Below(uint64_t bound) { return random_.Below(bound); }
  std::string RandomKey() {
    std::string key = "k" + std::to_string(Below(40));
    const uint64_t more = Below(4) == 0 ? Below(60) : Below(5);
    for (uint64_t i = 0; i < more; ++i) key.push_back(static_cast<char>(Below(4) * 85));
    return key;
  }
  const std::string& SomeKey() { return keys_[Below(keys_.size())]; }
  std::string SomeValue(const std::string& key) {
    uint64_t size = Below(80);
    if (Below(6) == 0) size = 200 + Below(2000);
    if (Below(3000) == 0) size = 70'000;
    std::string value = key + "#" + std::to_string(++writes_) + "#";
    value.resize(std::max<size_t>(value.size(), size), static_cast<char>('a' + writes_ % 26));
    return value;
  }

  void Step();
  void Write();
  void WriteBatchOf();
  void ReadOne();
  void PinOrRelease();
  void Walk();
  void CheckAll();
  void Maintain();
  void CountWork();

  TestDb test_;
  base::Random random_;
  std::vector<std::string> keys_;
  Model model_;
  std::vector<Pinned> pinned_;
  uint64_t writes_ = 0;
  uint64_t flushes_ = 0;
  uint64_t compactions_ = 0;
};

void ModelTest::Write() {
  const std::string key = SomeKey();
  const uint64_t kind = Below(100);
  if (kind < 60) {
    const std::string value = SomeValue(key);
    ASSERT_TRUE(test_->Put(key, value).ok());
    model_[key] = value;
  } else if (kind < 78) {
    ASSERT_TRUE(test_->Delete(key).ok());
    model_.erase(key);
  } else if (kind < 97) {
    const auto present = model_.find(key);
    const std::string* expected = present == model_.end() ? nullptr : &present->second;
    const std::string value = SomeValue(key);
    const bool write = Below(5) != 0;
    const Status status = test_->Update(key, [&](Slice, const Slice* now, std::string* updated) {
      EXPECT_EQ(now != nullptr, expected != nullptr);
      if (now != nullptr && expected != nullptr) {
        EXPECT_EQ(std::string(*now), *expected);
      }
      *updated = value;
      return write;
    });
    ASSERT_TRUE(status.ok()) << status.ToString();
    if (write) model_[key] = value;
  } else {
    std::string begin = SomeKey();
    std::string end = SomeKey();
    if (end < begin) std::swap(begin, end);
    ASSERT_TRUE(test_->DeleteRange(begin, end).ok());
    model_.erase(model_.lower_bound(begin), model_.lower_bound(end));
  }
}

void ModelTest::WriteBatchOf() {
  engine::WriteBatch batch;
  const uint64_t count = 1 + Below(20);
  for (uint64_t i = 0; i < count; ++i) {
    const std::string key = SomeKey();
    if (Below(4) == 0) {
      batch.Delete(key);
      model_.erase(key);
    } else {
      const std::string value = SomeValue(key);
      batch.Put(key, value);
      model_[key] = value;
    }
  }
  if (Below(2) == 0) {
    const Status status = test_->Write(batch);
    ASSERT_TRUE(status.ok()) << status.ToString();
  } else {
    engine::WriteProgress progress;
    ASSERT_TRUE(test_->Apply(batch.bytes(), {}, &progress).ok());
    ASSERT_EQ(progress.applied, count);
  }
}

void ModelTest::ReadOne() {
  const std::string key = SomeKey();
  const auto expected = [&](const Model& model) {
    const auto found = model.find(key);
    return found == model.end() ? std::string("<absent>") : found->second;
  };
  ASSERT_EQ(GetText(test_.db(), key), expected(model_));
  if (pinned_.empty()) return;
  const Pinned& pinned = pinned_[Below(pinned_.size())];
  ASSERT_EQ(GetText(test_.db(), key, pinned.snapshot.get()), expected(pinned.model));
}

void ModelTest::PinOrRelease() {
  if (pinned_.size() < 3 && Below(2) == 0) {
    pinned_.push_back({test_->NewSnapshot(), model_});
  } else if (!pinned_.empty()) {
    pinned_.erase(pinned_.begin() + static_cast<std::ptrdiff_t>(Below(pinned_.size())));
  }
}

// Moves an iterator to and fro, sometimes with bounds, sometimes in the past.
void ModelTest::Walk() {
  engine::IteratorOptions options;
  const Model* model = &model_;
  if (!pinned_.empty() && Below(2) == 0) {
    const Pinned& pinned = pinned_[Below(pinned_.size())];
    options.snapshot = pinned.snapshot.get();
    model = &pinned.model;
  }
  if (Below(3) == 0) options.lower_bound = SomeKey();
  if (Below(3) == 0) options.upper_bound = SomeKey();
  Model visible(options.lower_bound.empty() ? model->begin()
                                            : model->lower_bound(options.lower_bound),
                model->end());
  if (!options.upper_bound.empty()) {
    visible.erase(visible.lower_bound(options.upper_bound), visible.end());
  }
  const std::unique_ptr<engine::Iterator> iterator = test_->NewIterator(options);
  Model::const_iterator place = visible.end();
  for (int i = 0; i < 30; ++i) {
    const std::string key = SomeKey();
    switch (place == visible.end() ? Below(4) : Below(12)) {
      case 0: iterator->SeekToFirst(); place = visible.begin(); break;
      case 1: iterator->SeekToLast();
        place = visible.empty() ? visible.end() : std::prev(visible.end());
        break;
      case 2: iterator->Seek(key); place = visible.lower_bound(key); break;
      case 3: iterator->SeekForPrev(key);
        place = visible.upper_bound(key);
        place = place == visible.begin() ? visible.end() : std::prev(place);
        break;
      case 4: case 5: case 6:
        iterator->Prev();
        place = place == visible.begin() ? visible.end() : std::prev(place);
        break;
      default: iterator->Next(); ++place; break;
    }
    ASSERT_TRUE(iterator->status().ok()) << iterator->status().ToString();
    ASSERT_EQ(iterator->Valid(), place != visible.end());
    if (place == visible.end()) continue;
    ASSERT_EQ(std::string(iterator->key()), place->first);
    if (Below(2) == 0) {
      ASSERT_EQ(std::string(iterator->value()), place->second);
    }
  }
}

void ModelTest::CheckAll() {
  ASSERT_EQ(AllOf(*test_->NewIterator({})), model_);
  for (const Pinned& pinned : pinned_) {
    engine::IteratorOptions options;
    options.snapshot = pinned.snapshot.get();
    ASSERT_EQ(AllOf(*test_->NewIterator(options)), pinned.model);
  }
}

void ModelTest::Maintain() {
  const uint64_t kind = Below(10);
  if (kind < 3) {
    ASSERT_TRUE(test_->Flush().ok());
  } else if (kind == 3) {
    ASSERT_TRUE(test_->Compact().ok());
  } else if (kind < 6) {
    ASSERT_TRUE(test_->WaitIdle().ok());
    ASSERT_TRUE(test_->Verify().ok());
  } else if (kind < 8) {
    ASSERT_NO_FATAL_FAILURE(CheckAll());
  } else {
    pinned_.clear();
    CountWork();
    const Status status = test_.Reopen();
    ASSERT_TRUE(status.ok()) << status.ToString();
    ASSERT_NO_FATAL_FAILURE(CheckAll());
  }
}

void ModelTest::CountWork() {
  const DbStatistics statistics = test_->Statistics();
  flushes_ += statistics.flush_count;
  compactions_ += statistics.compaction_count;
}

void ModelTest::Step() {
  const uint64_t kind = Below(1000);
  if (kind < 550) {
    Write();
  } else if (kind < 600) {
    WriteBatchOf();
  } else if (kind < 970) {
    ReadOne();
  } else if (kind < 980) {
    PinOrRelease();
  } else if (kind < 998) {
    Walk();
  } else {
    Maintain();
  }
  if (Below(3) == 0) test_.executor().RunOne();
}

TEST_P(ModelTest, AgreesWithAMap) {
  ASSERT_TRUE(test_.Open(engine::OpenFlags::kMustNotExist).ok());
  const int64_t steps = test::ScaledCount(100'000);
  for (int64_t i = 0; i < steps; ++i) {
    ASSERT_NO_FATAL_FAILURE(Step()) << "step " << i;
  }
  ASSERT_NO_FATAL_FAILURE(CheckAll());
  CountWork();
  EXPECT_GT(flushes_, test::ScaledLeast(100));
  EXPECT_GT(compactions_, test::ScaledLeast(50));
  pinned_.clear();
  ASSERT_TRUE(test_->Compact().ok());
  ASSERT_NO_FATAL_FAILURE(CheckAll());
  EXPECT_LE(test_->Statistics().run_count, 1u);
  EXPECT_TRUE(test_->background_status().ok());
}

INSTANTIATE_TEST_SUITE_P(Threads, ModelTest, testing::Values(0, 1, 2));

}  // namespace
}  // namespace quire::lsm::db_model_test
