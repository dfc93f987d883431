/// What the ranks of a random job do until the next barrier, and what each call must give.
///
/// In a round each key has one rank that writes it: that rank knows its value at every moment, the
/// others know which values it may have; after the round's barrier all know it.
///
/// Layer      kv (tests only)
/// Threads    an object belongs to one thread
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/core/random.h"
#include "quire/database.h"

namespace quire::kv::model {

using Model = std::map<std::string, std::string>;
using Value = std::optional<std::string>;  ///< none: the key is absent

constexpr int kKeys = 36;
/// The number `i` of all keys, in [0, kKeys).
std::string KeyOf(int i);
Value Find(const Model& model, const std::string& key);
void Set(Model* model, const std::string& key, const Value& value);

/// What the registered updates make of a value, and what one of them answers.
std::string Appended(const Value& present, Slice argument);
std::string AnswerTo(const Value& present);

enum class Kind { kPut, kDelete, kUpdate, kAnswer, kPutMany, kDeleteMany, kBatch, kGet, kGetAsync,
                  kGetMany, kFence, kFlush, kCompact, kOtherGet, kCount };
bool Writes(Kind kind);
bool Updates(Kind kind);
bool Gets(Kind kind);

/// One operation of one rank, and what it must give.
struct Operation {
  Kind kind = Kind::kGet;
  std::vector<std::pair<std::string, Value>> pairs;  ///< written; an absent value: deleted
  std::string key;
  std::string argument;
  Value expected;           ///< of a get of a key of this rank's
  std::string answer;
  std::set<Value> allowed;  ///< of a get of another rank's key
};

struct Round {
  std::vector<std::vector<Operation>> ranks;
  Model after;
};

/// Draws a round, and follows it in the model.
class Planner {
 public:
  Planner(base::Random& random, const Model& before, int rank_count, int number);
  Round Draw(Protection protection);

 private:
  std::string OwnKey(int rank);
  std::string NewValue();
  void Write(Operation* drawn, const std::string& key, const Value& value);
  Operation DrawOne(Kind kind, int rank);
  void DrawWrites(Operation* drawn, int rank);

  base::Random& random_;
  const int rank_count_;
  const int number_;
  Round round_;
  std::map<std::string, std::set<Value>> allowed_;
};

}  // namespace quire::kv::model
