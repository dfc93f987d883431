/// The storage engine of all databases' parts. The one place of this floor that knows which it is.
///
/// Layer      kv
/// Source     docs/decisions/0020-storage-engines.md
/// Threads    any
#pragma once

#include "engine/engine_kind.h"

namespace quire::kv {

const engine::EngineKind& PartEngine();
/// Its parts that this process does not have open.
const engine::StoredParts& PartsOnDisk();

}  // namespace quire::kv
