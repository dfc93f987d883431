/// The calls of a random job, and what they must give.
///
/// Layer      kv (tests only)
/// Threads    as the objects that are called
#pragma once

#include <string>

#include "base/core/random.h"
#include "kv/database/random_plan_testing.h"
#include "quire/database.h"
#include "quire/reader.h"
#include "quire/status.h"

namespace quire::kv::model {

/// The functions that the updates of a plan run.
void RegisterUpdates(Database& db);
/// The value of a key now.
Value GetNow(Database& db, const std::string& key);
/// Runs an operation that is no get.
Status RunCall(Database& db, const Operation& operation, std::string* answer);
/// Runs any operation, which must give what was planned.
void RunOperation(Database& db, const Operation& operation);

/// All pairs, in order.
Model Walked(LocalIterator& walk);
/// Compares a walk with what it must see: forwards, backwards, and by chance.
void CheckWalk(LocalIterator& walk, const Model& seen, base::Random& random);
/// Opens all files that a reader needs, whatever a writer removes meanwhile: what it has seen by
/// then it can read for good.
Status OpenAllFiles(DatabaseReader& reader);
/// Compares a reader with what it must see: all of this, and nothing else.
void CheckReader(DatabaseReader& reader, const Model& seen, base::Random& random);

}  // namespace quire::kv::model
