#include "engine/storage_engine.h"

#include "engine/engine_kind.h"

namespace quire::engine {

Status StorageEngine::Write(const WriteBatch& batch) {
  WriteProgress progress;
  return Write(batch, &progress);
}

Status StorageEngine::Update(const base::HashedKey& key, const UpdateFn& update) {
  WriteProgress progress;
  return Update(key, update, &progress);
}

Status StorageEngine::Get(const base::HashedKey& key, std::string* value,
                          const Snapshot* snapshot) const {
  return Get(key, snapshot, Into(value));
}

Status PartRemoval::Run() {
  while (true) {
    QUIRE_ASSIGN_OR_RETURN(const bool gone, Advance());
    if (gone) return Status();
  }
}

}  // namespace quire::engine
