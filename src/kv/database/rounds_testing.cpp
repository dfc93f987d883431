#include "kv/database/rounds_testing.h"

#include <gtest/gtest.h>

namespace quire::kv {
namespace {

constexpr int kKeys = 40;
constexpr int kNewKeys = 8;  // of the second round

std::string ValueIn(const Model& model, const std::string& key) {
  const auto found = model.find(key);
  return found == model.end() ? std::string("absent") : found->second;
}

}  // namespace

Model ModelOf(int round) {
  Model model;
  for (int i = 0; i < kKeys + (round == 1 ? kNewKeys : 0); ++i) {
    if (round == 1 && i % 7 == 0) continue;  // deleted, or never there
    const int written = round == 1 && i % 3 != 0 && i < kKeys ? 0 : round;
    model["key " + std::to_string(i)] =
        std::string(i % 8 == 0 ? 600 : 12, static_cast<char>('a' + written)) + std::to_string(i);
  }
  return model;
}

bool Write(Database& db, int rank, int size, int round) {
  const Model before = round == 0 ? Model() : ModelOf(round - 1);
  const Model model = ModelOf(round);
  bool all = true;
  for (int i = rank; i < kKeys + kNewKeys; i += size) {
    const std::string key = "key " + std::to_string(i);
    const auto found = model.find(key);
    const auto old = before.find(key);
    if (found == model.end() && old == before.end()) continue;
    if (found != model.end() && old != before.end() && *found == *old) continue;
    const Status done = found == model.end() ? db.Delete(key) : db.Put(key, found->second);
    all = all && done.ok();
  }
  return all;
}

void ExpectRoundOfEachKey(const Model& all, bool durable) {
  const Model old = ModelOf(0);
  const Model written = ModelOf(1);
  for (int i = 0; i < kKeys + kNewKeys; ++i) {
    const std::string key = "key " + std::to_string(i);
    const std::string value = ValueIn(all, key);
    const bool as_before = value == ValueIn(old, key) && !durable;
    EXPECT_TRUE(as_before || value == ValueIn(written, key))
        << key << " is " << value << (durable ? ", though the writes were durable" : "");
  }
  for (const auto& [key, value] : all) {
    EXPECT_TRUE(old.contains(key) || written.contains(key)) << key;
  }
}

}  // namespace quire::kv
