#include "kv/protocol/part_engine.h"

#include "lsm/offline/lsm_engine.h"

namespace quire::kv {

const engine::EngineKind& PartEngine() {
  return lsm::LsmEngine();
}

const engine::StoredParts& PartsOnDisk() {
  return *PartEngine().stored_parts();
}

}  // namespace quire::kv
