// Destroying a database: the descriptor says so first, and goes last.
#include "io/machine.h"
#include "kv/agreement.h"
#include "kv/database_open.h"
#include "kv/locked_database.h"
#include "kv/part_files.h"

namespace quire::kv {
namespace {

Status MarkDestroying(const Core& core, LockedDatabase* locked) {
  if (core.rank() != 0) return Status();
  locked->descriptor.state = DescriptorState::kDestroying;
  return WriteDescriptor(*core.fs, locked->directory, locked->descriptor);
}

Status RemoveDescriptor(const Core& core, const LockedDatabase& locked) {
  QUIRE_RETURN_IF_ERROR(RemoveEmptyGenerations(*core.fs, locked.directory));
  if (core.rank() != 0) return Status();
  QUIRE_RETURN_IF_ERROR(core.fs->Unlink(DescriptorPath(locked.directory)));
  return core.fs->Unlink(LockedDatabase::LockPath(locked.directory));
}

}  // namespace

Status DestroyDatabase(const std::shared_ptr<Core>& core, const std::string& name) {
  QUIRE_RETURN_IF_ERROR(AgreeOn(*core->exchange, io::CheckName(name), name, "the name to destroy"));
  QUIRE_ASSIGN_OR_RETURN(LockedDatabase locked, LockDatabase(*core, name, /*make=*/false));
  if (locked.descriptor.generations.empty()) {
    return Status(Code::kNotFound, "there is no database at " + locked.directory);
  }
  comm::Exchange& exchange = *core->exchange;
  QUIRE_RETURN_IF_ERROR(exchange.Agree(MarkDestroying(*core, &locked)));
  QUIRE_RETURN_IF_ERROR(RemoveParts(*core, locked.directory, {}));
  QUIRE_RETURN_IF_ERROR(exchange.Agree(RemoveDescriptor(*core, locked)));
  return exchange.Agree(RemoveIfEmpty(*core->fs, locked.directory));
}

}  // namespace quire::kv
