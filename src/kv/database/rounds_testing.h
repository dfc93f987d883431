/// Pairs that are written in two rounds, and what may be there of them after a crash.
///
/// Layer      kv (tests only)
/// Threads    pure functions; Write: as the database
#pragma once

#include <map>
#include <string>

#include "quire/database.h"

namespace quire::kv {

using Model = std::map<std::string, std::string>;

/// What is there after round 0, or 1.
Model ModelOf(int round);
/// The share of `rank` in the puts and deletes that lead to the model of `round` from the one
/// before; other values stay. False: some failed.
bool Write(Database& db, int rank, int size, int round);
/// For each key the value of round 0 or of round 1; that of round 1 if all of it is `durable`.
void ExpectRoundOfEachKey(const Model& all, bool durable);

}  // namespace quire::kv
