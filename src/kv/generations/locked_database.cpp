#include "kv/generations/locked_database.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/text/coding.h"
#include "io/files/machine.h"
#include "kv/generations/part_files.h"
#include "runtime/agreement.h"
#include "runtime/repository.h"

namespace quire::kv {
namespace {

// Numbers that are drawn. As many as the last are left for what follows.
constexpr uint32_t kDrawnMin = 1U << 20;
constexpr uint32_t kDrawnMax = 1U << 29;

// On rank 0: locks the database and reads its descriptor.
Status LockAndRead(io::FileSystem& fs, LockedDatabase* locked) {
  QUIRE_ASSIGN_OR_RETURN(const bool dataset,
                         fs.Exists(locked->directory + "/" + runtime::kDatasetFile));
  if (dataset) {
    return Status(Code::kInvalidArgument, locked->directory + " is a dataset, not a database");
  }
  auto lock =
      locked->made.Lock(fs, LockedDatabase::LockPath(locked->directory), io::ProcessDescription());
  if (lock.status().code() == Code::kBusy) {
    return Status(Code::kBusy, lock.status().message() +
                                   "; to read meanwhile: DatabaseReader, or the command quire");
  }
  QUIRE_ASSIGN_OR_RETURN(locked->lock, std::move(lock));
  Result<DatabaseDescriptor> found = ReadDescriptor(fs, locked->directory);
  if (found.ok()) {
    locked->descriptor = std::move(*found);
  } else if (found.status().code() != Code::kNotFound) {
    return found.status();
  }
  return Status();
}

Status MakeDirectory(const runtime::ContextState& context, LockedDatabase* locked) {
  return io::AgainIfTakenBack([&] {
    const Status made = context.MakeDirectory(locked->directory);
    return made.ok() && context.rank() == 0 ? LockAndRead(*context.fs, locked) : made;
  });
}

// Does not create the directory, which may be being removed at this moment.
Status FindDirectory(const runtime::ContextState& context, LockedDatabase* locked) {
  Status found = context.fs->CheckDirectory(locked->directory);
  if (found.ok() && context.rank() == 0) found = LockAndRead(*context.fs, locked);
  return found.code() == Code::kNotFound ? Status() : found;  // perhaps on this node only
}

// Returns the number after which the numbers of the next generations begin; 0: as the descriptor
// says. If each machine has its own storage, parts of a destroyed database of this name may lie on
// machines that are not here: a random number distinguishes them from the parts of this one. One
// such number is enough, also for a database that was on one machine alone until now. A database
// that is older than ids may have parts with small numbers on any machine: its numbers stay near
// these.
uint32_t FirstTaken(const runtime::ContextState& context, const DatabaseDescriptor& descriptor) {
  if (context.rank() != 0 || NextNumber(descriptor) > kDrawnMin) return 0;
  if (!descriptor.generations.empty() && descriptor.id == 0) return 0;
  bool alone = true;
  for (int rank = 0; rank < context.size(); ++rank) alone = alone && context.OnThisMachine(rank);
  if (alone) return 0;
  return kDrawnMin + static_cast<uint32_t>(io::RandomU64() % (kDrawnMax - kDrawnMin));
}

// Rank 0's message to the others: which database there is, or the id of a new one, and the number
// after which its next generations begin.
std::string Told(const runtime::ContextState& context, const LockedDatabase& locked) {
  std::string told;
  base::PutFixed(&told, FirstTaken(context, locked.descriptor));
  base::PutFixed(&told, std::max<uint64_t>(io::RandomU64(), 1));
  if (!locked.descriptor.generations.empty()) told += EncodeDescriptor(locked.descriptor);
  return told;
}

}  // namespace

Result<LockedDatabase> LockDatabase(const runtime::ContextState& context, const std::string& name,
                                    bool make) {
  LockedDatabase locked;
  locked.directory = context.DirectoryOf(name);
  if (make) QUIRE_RETURN_IF_ERROR(context.LookForDirectory(locked.directory, &locked.made));
  Status taken = make ? MakeDirectory(context, &locked) : FindDirectory(context, &locked);
  if (taken.ok()) taken = CheckGenerations(*context.fs, locked.directory);
  QUIRE_ASSIGN_OR_RETURN(const std::vector<std::string> told,
                         runtime::GatherAgreed(*context.exchange, taken, Told(context, locked)));
  base::ByteReader reader(told[0]);
  uint32_t first_taken = 0;
  uint64_t new_id = 0;
  if (!reader.Fixed(&first_taken) || !reader.Fixed(&new_id)) {
    return Status(Code::kCorruption, "rank 0 does not say how databases are numbered");
  }
  if (reader.rest().empty()) {
    QUIRE_RETURN_IF_ERROR(CheckNoParts(context, locked.directory));
    locked.descriptor.taken = first_taken;
    locked.descriptor.id = new_id;
    return locked;
  }
  QUIRE_ASSIGN_OR_RETURN(locked.descriptor,
                         DecodeDescriptor(reader.rest(), DescriptorPath(locked.directory)));
  QUIRE_RETURN_IF_ERROR(CheckForeignParts(context, locked.directory, locked.descriptor));
  locked.descriptor.taken = std::max(locked.descriptor.taken, first_taken);
  return locked;
}

}  // namespace quire::kv
