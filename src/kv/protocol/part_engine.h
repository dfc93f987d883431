/// The storage engine of all databases' parts. The only place of this layer that names the engine.
///
/// Layer      kv
/// Source     docs/decisions/0020-storage-engines.md
/// Threads    any
#pragma once

#include "engine/engine_kind.h"

namespace quire::kv {

const engine::EngineKind& PartEngine();
/// Returns the engine's parts that this process does not have open.
const engine::StoredParts& PartsOnDisk();

}  // namespace quire::kv
