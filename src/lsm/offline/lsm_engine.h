/// The LSM-tree as a kind of storage engine: lsm::Db for open parts, and readers, removals and
/// verifiers for parts that are not open.
///
/// Layer      lsm
/// Source     docs/decisions/0020-storage-engines.md
/// Threads    any
#pragma once

#include "engine/engine_kind.h"

namespace quire::lsm {

const engine::EngineKind& LsmEngine();

}  // namespace quire::lsm
