#include "kv/generations/locked_database.h"

#include <utility>
#include <vector>

#include "io/files/machine.h"
#include "kv/generations/part_files.h"
#include "runtime/agreement.h"
#include "runtime/repository.h"

namespace quire::kv {
namespace {

// On rank 0: locks the database and reads what it is.
Status LockAndRead(io::FileSystem& fs, LockedDatabase* locked) {
  QUIRE_ASSIGN_OR_RETURN(const bool dataset,
                         fs.Exists(locked->directory + "/" + runtime::kDatasetFile));
  if (dataset) {
    return Status(Code::kInvalidArgument, locked->directory + " is a dataset, not a database");
  }
  QUIRE_ASSIGN_OR_RETURN(
      locked->lock, locked->made.Lock(fs, LockedDatabase::LockPath(locked->directory),
                                      io::ProcessDescription()));
  Result<Descriptor> found = ReadDescriptor(fs, locked->directory);
  if (found.ok()) {
    locked->descriptor = std::move(*found);
  } else if (found.status().code() != Code::kNotFound) {
    return found.status();
  }
  return Status();
}

Status MakeDirectory(const runtime::Core& core, LockedDatabase* locked) {
  return io::AgainIfTakenBack([&] {
    const Status made = core.MakeDirectory(locked->directory);
    return made.ok() && core.rank() == 0 ? LockAndRead(*core.fs, locked) : made;
  });
}

// Makes none: it may be being removed at this moment.
Status FindDirectory(const runtime::Core& core, LockedDatabase* locked) {
  Status found = core.fs->CheckDirectory(locked->directory);
  if (found.ok() && core.rank() == 0) found = LockAndRead(*core.fs, locked);
  return found.code() == Code::kNotFound ? Status() : found;  // perhaps on this node only
}

}  // namespace

Result<LockedDatabase> LockDatabase(const runtime::Core& core, const std::string& name, bool make) {
  LockedDatabase locked;
  locked.directory = core.DirectoryOf(name);
  if (make) QUIRE_RETURN_IF_ERROR(core.LookForDirectory(locked.directory, &locked.made));
  Status taken = make ? MakeDirectory(core, &locked) : FindDirectory(core, &locked);
  if (taken.ok()) taken = CheckGenerations(*core.fs, locked.directory);
  const bool known = !locked.descriptor.generations.empty();
  QUIRE_ASSIGN_OR_RETURN(
      const std::vector<std::string> texts,
      runtime::GatherAgreed(*core.exchange, taken,
                            known ? EncodeDescriptor(locked.descriptor) : std::string()));
  if (texts[0].empty()) {
    QUIRE_RETURN_IF_ERROR(CheckNoParts(core, locked.directory));
    return locked;
  }
  QUIRE_ASSIGN_OR_RETURN(locked.descriptor,
                         DecodeDescriptor(texts[0], DescriptorPath(locked.directory)));
  return locked;
}

}  // namespace quire::kv
