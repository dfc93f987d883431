// Every engine against the one that is simple enough to be right by reading: the same operations,
// drawn at random, on both, and the same answers.
#include "base/core/random.h"
#include "engine/memory_engine_testing.h"
#include "tests/scenarios/scenario.h"
#include "tests/support/model_seeds.h"

namespace quire::scenarios::oracle_test {
namespace {

class Oracle : public testing::TestWithParam<const engine::EngineKind*> {};

INSTANTIATE_TEST_SUITE_P(Engines, Oracle, testing::ValuesIn(AllEngines()), NameOf);

// A few keys that share prefixes, so that ranges and seeks meet them.
std::string DrawKey(base::Random& random) {
  const std::string letters = "abc";
  std::string key(1, letters[random.Below(3)]);
  while (key.size() < 5 && !random.OneIn(3)) key += letters[random.Below(3)];
  return key;
}

std::string DrawValue(base::Random& random) {
  const size_t sizes[] = {0, 1, 40, 300, 5000};
  return std::string(sizes[random.Below(5)], static_cast<char>('a' + random.Below(26)));
}

// The same calls on both; their answers are compared by those who ask.
class Both {
 public:
  explicit Both(const engine::EngineKind& kind) : subject_(kind), oracle_(engine::MemoryEngine()) {}

  void Step(base::Random& random) {
    switch (random.Below(10)) {
      case 0:
        return Same([key = DrawKey(random)](engine::StorageEngine& e) { return e.Delete(key); });
      case 1:
        return Same([a = DrawKey(random), b = DrawKey(random)](engine::StorageEngine& e) {
          return e.DeleteRange(a, b);
        });
      case 2:
        return Write(random, true);
      case 3:
        return Write(random, false);
      case 4:
        return Update(random);
      case 5:
        return MoveOn(random);
      default:
        return Same([key = DrawKey(random), value = DrawValue(random)](engine::StorageEngine& e) {
          return e.Put(key, value);
        });
    }
  }

  void Compare(base::Random& random) {
    const std::string key = DrawKey(random);
    EXPECT_EQ(Get(*subject_, key), Get(*oracle_, key)) << key;
    engine::IteratorOptions options;
    if (random.OneIn(2)) options.lower_bound = DrawKey(random);
    if (random.OneIn(2)) options.upper_bound = DrawKey(random);
    EXPECT_EQ(AllOf(*subject_, options), AllOf(*oracle_, options));
    if (subject_moment_ == nullptr) return;
    EXPECT_EQ(Get(*subject_, key, subject_moment_.get()), Get(*oracle_, key, oracle_moment_.get()));
    engine::IteratorOptions of_oracle = options;
    options.snapshot = subject_moment_.get();
    of_oracle.snapshot = oracle_moment_.get();
    EXPECT_EQ(AllOf(*subject_, options), AllOf(*oracle_, of_oracle));
  }
  // The steps of two walks, wherever they lead.
  void Wander(base::Random& random) {
    const auto subject = subject_->NewIterator({});
    const auto oracle = oracle_->NewIterator({});
    for (int step = 0; step < 30; ++step) {
      const uint64_t what = random.Below(oracle->Valid() ? 6 : 4);
      const std::string key = DrawKey(random);
      for (engine::Iterator* const walk : {subject.get(), oracle.get()}) {
        if (what == 0) walk->SeekToFirst();
        if (what == 1) walk->SeekToLast();
        if (what == 2) walk->Seek(key);
        if (what == 3) walk->SeekForPrev(key);
        if (what == 4) walk->Next();
        if (what == 5) walk->Prev();
      }
      ASSERT_EQ(subject->Valid(), oracle->Valid()) << what << " " << key;
      if (!oracle->Valid()) continue;
      ASSERT_EQ(subject->key(), oracle->key()) << what << " " << key;
      ASSERT_EQ(subject->value(), oracle->value());
    }
  }

 private:
  template <typename Call>
  void Same(const Call& call) {
    const Status of_oracle = call(*oracle_);
    const Status of_subject = call(*subject_);
    EXPECT_EQ(of_subject.code(), of_oracle.code())
        << of_subject.ToString() << " against " << of_oracle.ToString();
  }
  void Write(base::Random& random, bool atomic) {
    engine::WriteBatch batch;
    for (uint64_t left = 1 + random.Below(6); left > 0; --left) {
      const std::string key = DrawKey(random);
      switch (random.Below(atomic ? 4 : 5)) {
        case 0:
          batch.Delete(key);
          break;
        case 1:
          batch.DeleteRange(key, DrawKey(random));
          break;
        case 4:
          batch.Update(key, static_cast<uint32_t>(random.Below(2)), "+");
          break;
        default:
          batch.Put(key, DrawValue(random));
      }
    }
    const auto append = [](uint32_t function, Slice argument, Slice, const Slice* present,
                           std::string* updated, bool* write) {
      *updated = (present == nullptr ? "" : std::string(*present)) + std::string(argument);
      *write = function == 0;
      return Status();
    };
    Same([&](engine::StorageEngine& e) {
      engine::WriteProgress progress;
      return atomic ? e.Write(batch, &progress) : e.Apply(batch.bytes(), append, &progress);
    });
  }
  void Update(base::Random& random) {
    const bool write = !random.OneIn(4);
    Same([&, key = DrawKey(random)](engine::StorageEngine& e) {
      return e.Update(key, [&](Slice, const Slice* present, std::string* updated) {
        *updated = present == nullptr ? "made" : std::string(*present) + "!";
        return write;
      });
    });
  }
  void MoveOn(base::Random& random) {
    switch (random.Below(5)) {
      case 0:
        return Same([](engine::StorageEngine& e) { return e.Flush(); });
      case 1:
        return Same([](engine::StorageEngine& e) { return e.Compact(); });
      case 2:
        return subject_.RunBackground();
      default:
        subject_moment_ = random.OneIn(3) ? nullptr : subject_->NewSnapshot();
        oracle_moment_ = subject_moment_ == nullptr ? nullptr : oracle_->NewSnapshot();
    }
  }

  Machine subject_;
  Machine oracle_;
  std::unique_ptr<engine::Snapshot> subject_moment_;
  std::unique_ptr<engine::Snapshot> oracle_moment_;
};

TEST_P(Oracle, AnswersAsTheMapDoes) {
  test::ForEachModelSeed([&](uint64_t seed) {
    base::Random random(seed);
    Both both(*GetParam());
    for (int i = 0; i < 250 && !HasFailure(); ++i) {
      both.Step(random);
      if (random.OneIn(8)) both.Compare(random);
      if (random.OneIn(16)) both.Wander(random);
    }
  });
}

}  // namespace
}  // namespace quire::scenarios::oracle_test
