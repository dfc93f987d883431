#include "kv/database/random_calls_testing.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

namespace quire::kv::model {
namespace {

constexpr uint32_t kAppend = 1;
constexpr uint32_t kAppendAndAnswer = 2;

testing::AssertionResult Fine(const Status& status) {
  return status.ok() ? testing::AssertionSuccess()
                     : testing::AssertionFailure() << status.ToString();
}

Value Got(const Status& status, const std::string& value) {
  if (status.code() == Code::kNotFound) return Value();
  EXPECT_TRUE(Fine(status));
  return Value(value);
}

Batch BatchOf(const Operation& operation) {
  Batch batch;
  batch.Put("key of another batch", "");
  batch.Clear();
  for (const auto& [key, value] : operation.pairs) {
    if (value) {
      batch.Put(key, *value);
    } else {
      batch.Delete(key);
    }
  }
  EXPECT_EQ(batch.count(), operation.pairs.size());
  return batch;
}

void ExpectAt(LocalIterator& walk, const Model& seen, Model::const_iterator at) {
  ASSERT_TRUE(Fine(walk.status()));
  ASSERT_EQ(walk.Valid(), at != seen.end());
  if (at == seen.end()) return;
  EXPECT_EQ(walk.key(), at->first);
  EXPECT_EQ(walk.value() == at->second, true) << at->first;
}

// Some moves, in both directions, and beyond the ends.
void CheckMoves(LocalIterator& walk, const Model& seen, base::Random& random) {
  walk.SeekToFirst();
  auto at = seen.begin();
  for (int left = 20; left > 0 && !testing::Test::HasFailure(); --left) {
    ExpectAt(walk, seen, at);
    const uint64_t move = random.Below(8);
    if (move == 0) {
      const std::string key = KeyOf(static_cast<int>(random.Below(kKeys))).substr(0, 6);
      walk.Seek(key);
      at = seen.lower_bound(key);
    } else if (move == 1) {
      const std::string key = KeyOf(static_cast<int>(random.Below(kKeys)));
      walk.Seek(key);
      at = seen.lower_bound(key);
    } else if (move == 2) {
      walk.SeekToLast();
      at = seen.empty() ? seen.end() : std::prev(seen.end());
    } else if (move < 5) {
      walk.Next();
      if (at != seen.end()) ++at;
    } else {
      walk.Prev();
      if (at != seen.end()) at = at == seen.begin() ? seen.end() : std::prev(at);
    }
  }
  ExpectAt(walk, seen, at);
}

}  // namespace

void RegisterUpdates(Database& db) {
  const auto value_of = [](const Slice* present) {
    return present == nullptr ? Value() : Value(std::string(*present));
  };
  ASSERT_TRUE(Fine(db.RegisterUpdate(
      kAppend, [value_of](Slice, const Slice* present, Slice argument, std::string* updated) {
        *updated = Appended(value_of(present), argument);
        return Status();
      })));
  ASSERT_TRUE(Fine(db.RegisterAnsweringUpdate(
      kAppendAndAnswer, [value_of](Slice, const Slice* present, Slice argument,
                                   std::string* updated, std::string* answer) {
        *updated = Appended(value_of(present), argument);
        *answer = AnswerTo(value_of(present));
        return Status();
      })));
}

Value GetNow(Database& db, const std::string& key) {
  std::string value;
  const Status status = db.Get(key, &value);
  return Got(status, value);
}

namespace {

void RunGet(Database& db, const Operation& operation) {
  if (operation.kind == Kind::kGetAsync) {
    const std::unique_ptr<PendingGet> pending = db.GetAsync(operation.key);
    const std::unique_ptr<PendingGet> absent = db.GetAsync("never there");
    EXPECT_EQ(absent->Take().status().code(), Code::kNotFound);
    pending->Ready();
    const Result<std::string> taken = pending->Take();
    EXPECT_EQ(Got(taken.status(), taken.ok() ? *taken : ""), operation.expected) << operation.key;
  } else if (operation.kind == Kind::kGetMany) {
    std::vector<std::string> values;
    std::vector<bool> found;
    ASSERT_TRUE(Fine(db.GetMany({operation.key, "never there"}, &values, &found)));
    EXPECT_EQ(found[0] ? Value(values[0]) : Value(), operation.expected) << operation.key;
    EXPECT_FALSE(found[1]);
  } else if (operation.kind == Kind::kOtherGet) {
    EXPECT_TRUE(operation.allowed.contains(GetNow(db, operation.key))) << operation.key;
  } else {
    EXPECT_EQ(GetNow(db, operation.key), operation.expected) << operation.key;
  }
}

}  // namespace

// Anything but a get.
Status RunCall(Database& db, const Operation& operation, std::string* answer) {
  std::vector<std::pair<Slice, Slice>> pairs;
  std::vector<Slice> keys;
  for (const auto& [key, value] : operation.pairs) {
    keys.push_back(key);
    pairs.emplace_back(key, value ? Slice(*value) : Slice());
  }
  switch (operation.kind) {
    case Kind::kPut: return db.Put(pairs[0].first, pairs[0].second);
    case Kind::kDelete: return db.Delete(keys[0]);
    case Kind::kPutMany: return db.PutMany(pairs);
    case Kind::kDeleteMany: return db.DeleteMany(keys);
    case Kind::kBatch: return db.Write(BatchOf(operation));
    case Kind::kUpdate: return db.Update(operation.key, kAppend, operation.argument);
    case Kind::kAnswer:
      return db.UpdateAndAnswer(operation.key, kAppendAndAnswer, operation.argument, answer);
    case Kind::kFence: return db.Fence();
    case Kind::kFlush: return db.Flush();
    default: return db.Compact();
  }
}

void RunOperation(Database& db, const Operation& operation) {
  if (Gets(operation.kind)) return RunGet(db, operation);
  std::string answer;
  ASSERT_TRUE(Fine(RunCall(db, operation, &answer)));
  if (operation.kind == Kind::kAnswer) {
    EXPECT_EQ(answer, operation.answer) << operation.key;
  }
}

Model Walked(LocalIterator& walk) {
  Model walked;
  for (walk.SeekToFirst(); walk.Valid(); walk.Next()) {
    walked[std::string(walk.key())] = std::string(walk.value());
  }
  return walked;
}

Status OpenAllFiles(DatabaseReader& reader) {
  constexpr int kTries = 1000;
  Status read;
  for (int left = kTries; left > 0; --left) {
    const std::unique_ptr<LocalIterator> walk = reader.NewIterator();
    Walked(*walk);
    read = walk->status();
    if (read.code() != Code::kBusy) break;
    const Status refreshed = reader.Refresh();
    if (!refreshed.ok() && refreshed.code() != Code::kBusy) return refreshed;
  }
  return read;
}

void CheckWalk(LocalIterator& walk, const Model& seen, base::Random& random) {
  EXPECT_EQ(Walked(walk), seen);
  Model backward;
  for (walk.SeekToLast(); walk.Valid(); walk.Prev()) {
    backward[std::string(walk.key())] = std::string(walk.value());
  }
  EXPECT_TRUE(Fine(walk.status()));
  EXPECT_EQ(backward, seen);
  CheckMoves(walk, seen, random);
}

// A reader that has all of `seen`, and nothing else.
void CheckReader(DatabaseReader& reader, const Model& seen, base::Random& random) {
  const std::unique_ptr<LocalIterator> walk = reader.NewIterator();
  CheckWalk(*walk, seen, random);
  for (int i = static_cast<int>(random.Below(5)); i < kKeys; i += 5) {
    std::string value;
    const Status got = reader.Get(KeyOf(i), &value);
    EXPECT_EQ(Got(got, value), Find(seen, KeyOf(i))) << KeyOf(i);
  }
}

}  // namespace quire::kv::model
