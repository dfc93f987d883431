#include "kv/database/random_plan_testing.h"

#include <cstdint>
#include <iterator>

namespace quire::kv::model {
namespace {

constexpr size_t kAppendMax = 3000;

bool Allowed(Kind kind, Protection protection) {
  switch (protection) {
    case Protection::kReadWrite: return true;
    case Protection::kWriteOnly: return !Gets(kind);
    case Protection::kReadOnly: return !Writes(kind);
    case Protection::kUpdateOnly: return !Writes(kind) || Updates(kind);
  }
  return false;
}

}  // namespace

std::string KeyOf(int i) {
  return "key " + std::string(static_cast<size_t>(i % 3), 'k') + std::to_string(i);
}

Value Find(const Model& model, const std::string& key) {
  const auto found = model.find(key);
  return found == model.end() ? Value() : Value(found->second);
}

void Set(Model* model, const std::string& key, const Value& value) {
  if (value) {
    (*model)[key] = *value;
  } else {
    model->erase(key);
  }
}

std::string Appended(const Value& present, Slice argument) {
  const bool begins = !present || present->size() > kAppendMax;
  return (begins ? std::string() : *present) + std::string(argument);
}

std::string AnswerTo(const Value& present) {
  return present ? std::to_string(present->size()) : "absent";
}

bool Writes(Kind kind) {
  return kind <= Kind::kBatch;
}

bool Updates(Kind kind) {
  return kind == Kind::kUpdate || kind == Kind::kAnswer;
}

bool Gets(Kind kind) {
  return kind == Kind::kGet || kind == Kind::kGetAsync || kind == Kind::kGetMany ||
         kind == Kind::kOtherGet;
}

Planner::Planner(base::Random& random, const Model& before, int rank_count, int number)
    : random_(random), rank_count_(rank_count), number_(number) {
  round_.after = before;
  for (int i = 0; i < kKeys; ++i) allowed_[KeyOf(i)] = {Find(before, KeyOf(i))};
}

Round Planner::Draw(Protection protection) {
  round_.ranks.resize(static_cast<size_t>(rank_count_));
  for (int rank = 0; rank < rank_count_; ++rank) {
    for (uint64_t left = 3 + random_.Below(9); left > 0; --left) {
      const auto kind = static_cast<Kind>(random_.Below(static_cast<uint64_t>(Kind::kCount)));
      if (!Allowed(kind, protection)) continue;
      round_.ranks[static_cast<size_t>(rank)].push_back(DrawOne(kind, rank));
    }
  }
  for (auto& operations : round_.ranks) {
    for (Operation& operation : operations) {
      if (operation.kind == Kind::kOtherGet) operation.allowed = allowed_[operation.key];
    }
  }
  return std::move(round_);
}

// One of the keys that this rank writes in this round.
std::string Planner::OwnKey(int rank) {
  int i = 0;
  do {
    i = static_cast<int>(random_.Below(kKeys));
  } while ((i + number_) % rank_count_ != rank);
  return KeyOf(i);
}

std::string Planner::NewValue() {
  static constexpr size_t kSizes[] = {0, 1, 20, 70, 300, 700, 5000};
  const size_t size = kSizes[random_.Below(std::size(kSizes))];
  return std::string(size, static_cast<char>('a' + random_.Below(26))) +
         (size == 0 ? "" : std::to_string(random_.Below(1000)));
}

void Planner::Write(Operation* drawn, const std::string& key, const Value& value) {
  drawn->pairs.emplace_back(key, value);
  Set(&round_.after, key, value);
  allowed_[key].insert(value);
}

void Planner::DrawWrites(Operation* drawn, int rank) {
  const Kind kind = drawn->kind;
  const bool many = kind == Kind::kPutMany || kind == Kind::kDeleteMany || kind == Kind::kBatch;
  for (uint64_t left = many ? 1 + random_.Below(5) : 1; left > 0; --left) {
    const bool deletes = kind == Kind::kDelete || kind == Kind::kDeleteMany ||
                         (kind == Kind::kBatch && random_.OneIn(3));
    const std::string key = OwnKey(rank);
    Write(drawn, key, deletes ? Value() : Value(NewValue()));
  }
}

Operation Planner::DrawOne(Kind kind, int rank) {
  Operation drawn;
  drawn.kind = kind;
  drawn.key = OwnKey(rank);
  const Value present = Find(round_.after, drawn.key);
  if (kind == Kind::kOtherGet) {
    drawn.key = KeyOf(static_cast<int>(random_.Below(kKeys)));
  } else if (Updates(kind)) {
    drawn.argument = std::to_string(random_.Below(1000)) + ";";
    drawn.answer = AnswerTo(present);
    Write(&drawn, drawn.key, Appended(present, drawn.argument));
  } else if (Writes(kind)) {
    DrawWrites(&drawn, rank);
  } else {
    drawn.expected = present;
  }
  return drawn;
}

}  // namespace quire::kv::model
