/// The LSM-tree as a kind of storage engine: lsm::Db of parts that are open, and its readers,
/// removals and verifiers of those that are not.
///
/// Layer      lsm
/// Source     docs/decisions/0020-storage-engines.md
/// Threads    any
#pragma once

#include "engine/engine_kind.h"

namespace quire::lsm {

const engine::EngineKind& LsmEngine();

}  // namespace quire::lsm
