/// A storage engine of one ordered map in memory, with all versions of each key: the oracle of the
/// scenarios, and the smallest example of an engine. Nothing outlives it.
///
/// Layer      engine (tests only)
/// Threads    any: one mutex for all
#pragma once

#include "engine/engine_kind.h"

namespace quire::engine {

const EngineKind& MemoryEngine();

}  // namespace quire::engine
