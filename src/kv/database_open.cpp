#include "kv/database_open.h"

#include <algorithm>
#include <utility>

#include "io/machine.h"
#include "kv/agreement.h"
#include "kv/database_impl.h"
#include "kv/descriptor.h"
#include "quire/option_table.h"
#include "table/block_cache.h"

namespace quire::kv {
namespace {

constexpr char kLockName[] = "/LOCK";
constexpr char kRankPrefix[] = "rank-";

// What is known of a database while it is being opened.
struct Opening {
  std::shared_ptr<Core> core;
  std::string directory;
  DatabaseParts parts;
  std::string partitioner;
  Descriptor descriptor;
  bool creating = false;
};

std::string PartitionerName(const DatabaseOptions& options) {
  if (!options.partitioner_name.empty()) return options.partitioner_name;
  return options.partitioner ? "custom" : "hash";
}

// The name, then each option, one per line: what all ranks must give alike.
std::string Request(const std::string& name, const DatabaseOptions& options) {
  std::string text = "name = " + name + "\n";
  for (const OptionRow& row : OptionTable::Rows()) {
    if (row.group == OptionGroup::kContext) continue;
    const Result<std::string> value = OptionTable::Get(row.name, options);
    if (value.ok()) text += row.name + " = " + *value + "\n";
  }
  return text + "partitioner = " + (options.partitioner ? "function" : "none") + "\n";
}

// The first line in which two requests differ, of each.
Status CompareRequests(const std::string& first, const std::string& other, size_t rank) {
  const auto [a, b] = std::mismatch(first.begin(), first.end(), other.begin(), other.end());
  if (a == first.end() && b == other.end()) return Status();
  const auto line_of = [](const std::string& text, size_t at) {
    const size_t begin = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
    return text.substr(begin, text.find('\n', begin) - begin);
  };
  const auto at = static_cast<size_t>(a - first.begin());
  return Status(Code::kInvalidArgument,
                "options differ between ranks: rank 0 has \"" + line_of(first, at) + "\", rank " +
                    std::to_string(rank) + " has \"" + line_of(other, at) + "\"");
}

Status AgreeOnRequest(comm::Exchange& exchange, const Status& checked, const std::string& request) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<std::string> requests,
                         GatherAgreed(exchange, checked, request));
  for (size_t rank = 1; rank < requests.size(); ++rank) {
    QUIRE_RETURN_IF_ERROR(CompareRequests(requests[0], requests[rank], rank));
  }
  return Status();
}

Status CheckRequest(const std::string& name, DatabaseOptions* options) {
  QUIRE_RETURN_IF_ERROR(io::CheckName(name));
  QUIRE_RETURN_IF_ERROR(OptionTable::Check(*options));
  return OptionTable::ApplyEnvironment(options);
}

// On rank 0: locks the database and reads what it is. No descriptor: one with 0 ranks.
Status LockAndRead(Opening* opening) {
  io::FileSystem& fs = *opening->core->fs;
  QUIRE_ASSIGN_OR_RETURN(opening->parts.lock,
                         fs.Lock(opening->directory + kLockName, io::ProcessDescription()));
  Result<Descriptor> found = ReadDescriptor(fs, opening->directory);
  if (found.ok()) {
    opening->descriptor = std::move(*found);
  } else if (found.status().code() != Code::kNotFound) {
    return found.status();
  }
  return Status();
}

// Every rank makes the directory: it may be on a device of its own node.
Status MakeDirectories(Opening* opening, OpenMode mode) {
  io::FileSystem& fs = *opening->core->fs;
  if (mode == OpenMode::kMustExist) {
    QUIRE_ASSIGN_OR_RETURN(const bool exists, fs.Exists(opening->directory));
    // Whether there is a database is rank 0's to say: one that another rank lacks is a damaged one.
    if (!exists && opening->core->rank() != 0) return Status();
    if (!exists) {
      return Status(Code::kNotFound, "there is no database " + opening->parts.name + " in " +
                                         opening->core->repository);
    }
  }
  QUIRE_RETURN_IF_ERROR(io::MakeDurableDirectory(fs, opening->directory));
  return opening->core->rank() == 0 ? LockAndRead(opening) : Status();
}

// All ranks look at rank 0's descriptor, and conclude the same.
Status CheckDescriptor(const Opening& opening, OpenMode mode) {
  const std::string where = opening.directory;
  const bool exists =
      opening.descriptor.rank_count > 0 && opening.descriptor.state == DescriptorState::kReady;
  if (!exists) {
    if (mode != OpenMode::kMustExist) return Status();
    return Status(Code::kNotFound, "there is no database at " + where);
  }
  if (mode == OpenMode::kMustNotExist) {
    return Status(Code::kInvalidArgument,
                  "there is a database at " + where + " already; destroy it, or open it");
  }
  if (opening.descriptor.rank_count != opening.core->size()) {
    return Status(Code::kUnsupported, "the database at " + where + " was written by " +
                                          std::to_string(opening.descriptor.rank_count) +
                                          " ranks and these are " +
                                          std::to_string(opening.core->size()) +
                                          ": open it with as many ranks as it was written by");
  }
  if (opening.descriptor.partitioner != opening.partitioner) {
    return Status(Code::kInvalidArgument,
                  "the database at " + where + " was made with the partitioner \"" +
                      opening.descriptor.partitioner + "\", not \"" + opening.partitioner + "\"");
  }
  return Status();
}

// Removes what an interrupted creation or destruction has left of the ranks' directories that fall
// to this rank.
Status RemoveRanks(const Core& core, const std::string& directory, bool expected) {
  const Result<std::vector<io::FileInfo>> entries = core.fs->List(directory);
  if (entries.status().code() == Code::kNotFound) return Status();  // this node has nothing left
  if (!entries.ok()) return entries.status();
  bool removed = false;
  for (const io::FileInfo& entry : *entries) {
    if (!entry.is_directory || entry.name.rfind(kRankPrefix, 0) != 0) continue;
    const std::string digits = entry.name.substr(sizeof kRankPrefix - 1);
    if (digits.empty() || digits.size() > 9 ||
        !std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; })) {
      continue;
    }
    if (std::stoi(digits) % core.size() != core.rank()) continue;
    const std::string path = directory + "/" + entry.name;
    if (!expected) {
      return Status(Code::kCorruption, path + " is there, but " + DescriptorPath(directory) +
                                           " is not: restore it, or remove the directory " +
                                           directory);
    }
    QUIRE_RETURN_IF_ERROR(lsm::DestroyDb(*core.fs, path));
    removed = true;
  }
  // Rank 0 forgets them next, perhaps on another device: no power loss may bring them back.
  return removed ? core.fs->SyncDirectory(directory) : Status();
}

Descriptor NewDescriptor(const Opening& opening, DescriptorState state) {
  Descriptor descriptor;
  descriptor.state = state;
  descriptor.rank_count = opening.core->size();
  descriptor.partitioner = opening.partitioner;
  descriptor.options = ShapingOptions(opening.parts.options);
  return descriptor;
}

// Nothing of an earlier database is left when rank 0 writes that a new one begins.
Status BeginCreation(Opening* opening) {
  const bool interrupted = opening->descriptor.rank_count > 0;
  QUIRE_RETURN_IF_ERROR(
      opening->core->exchange->Agree(RemoveRanks(*opening->core, opening->directory, interrupted)));
  Status written;
  if (opening->core->rank() == 0) {
    written = WriteDescriptor(*opening->core->fs, opening->directory,
                              NewDescriptor(*opening, DescriptorState::kCreating));
  }
  return opening->core->exchange->Agree(written);
}

Status OpenOwnDb(Opening* opening, const std::shared_ptr<table::BlockCache>& cache, bool share) {
  Core& core = *opening->core;
  lsm::Environment environment;
  environment.fs = core.fs;
  environment.executor = core.executor.get();
  environment.cache = cache;
  environment.share_memory = share;
  // Before those give up that wait for this rank's answer meanwhile.
  environment.pinned_wait_ms_max = core.options.timeout_ms / 2;
  environment.holder = io::ProcessDescription() + " rank " + std::to_string(core.rank());
  const std::string directory = core.RankDirectoryOf(opening->parts.name, core.rank());
  auto db =
      lsm::Db::Open(environment, directory, opening->parts.options.storage,
                    opening->creating ? lsm::OpenFlags::kOpenOrCreate : lsm::OpenFlags::kMustExist);
  if (!db.ok()) {
    if (db.status().code() != Code::kNotFound) return db.status();
    return Status(Code::kCorruption, "this rank's part of the database, " + directory +
                                         ", is missing: restore it, or destroy the database");
  }
  opening->parts.db = std::move(*db);
  return Status();
}

// The descriptor says what the database is now: ready, and opened with these options.
Status FinishDescriptor(const Opening& opening) {
  if (opening.core->rank() != 0) return Status();
  const Descriptor ready = NewDescriptor(opening, DescriptorState::kReady);
  if (!opening.creating && ready.options == opening.descriptor.options) return Status();
  return WriteDescriptor(*opening.core->fs, opening.directory, ready);
}

Status AgreeOnDescriptor(Opening* opening, OpenMode mode) {
  const Status read = MakeDirectories(opening, mode);
  const bool known = opening->descriptor.rank_count > 0;
  QUIRE_ASSIGN_OR_RETURN(
      const std::vector<std::string> texts,
      GatherAgreed(*opening->core->exchange, read,
                   known ? EncodeDescriptor(opening->descriptor) : std::string()));
  if (!texts[0].empty()) {
    QUIRE_ASSIGN_OR_RETURN(opening->descriptor,
                           DecodeDescriptor(texts[0], DescriptorPath(opening->directory)));
  }
  QUIRE_RETURN_IF_ERROR(CheckDescriptor(*opening, mode));
  opening->creating =
      opening->descriptor.rank_count == 0 || opening->descriptor.state != DescriptorState::kReady;
  return Status();
}

Status OpenParts(Opening* opening) {
  Core& core = *opening->core;
  DatabaseParts& parts = opening->parts;
  QUIRE_RETURN_IF_ERROR(AgreeOnDescriptor(opening, parts.options.mode));
  if (opening->creating) QUIRE_RETURN_IF_ERROR(BeginCreation(opening));
  const auto cache = std::make_shared<table::BlockCache>(parts.options.storage.cache_bytes);
  const bool share = parts.options.direct_reads && DirectReader::Possible(*core.exchange);
  QUIRE_RETURN_IF_ERROR(core.exchange->Agree(OpenOwnDb(opening, cache, share)));
  QUIRE_RETURN_IF_ERROR(core.exchange->Agree(FinishDescriptor(*opening)));
  if (!parts.options.direct_reads || core.size() == 1) return Status();
  parts.direct = std::make_unique<DirectReader>();
  return parts.direct->Attach({core.fs, core.exchange.get(), cache, parts.options.storage},
                              share ? parts.db.get() : nullptr,
                              core.RankDirectoryOf(parts.name, core.rank()));
}

}  // namespace

Result<std::unique_ptr<Database>> OpenDatabase(const std::shared_ptr<Core>& core,
                                               const std::string& name,
                                               const DatabaseOptions& options) {
  Opening opening;
  opening.core = core;
  opening.directory = core->DirectoryOf(name);
  opening.parts.name = name;
  opening.parts.options = options;
  {
    const std::lock_guard<std::mutex> lock(core->mutex);
    opening.parts.number = ++core->last_database_number;
  }
  const Status checked = CheckRequest(name, &opening.parts.options);
  opening.partitioner = PartitionerName(opening.parts.options);
  QUIRE_RETURN_IF_ERROR(
      AgreeOnRequest(*core->exchange, checked, Request(name, opening.parts.options)));
  // All ranks have the same limit and the same databases open, and so the same plan.
  QUIRE_ASSIGN_OR_RETURN(opening.parts.plan,
                         core->budget->Take(&opening.parts.options, core->size()));
  const MemoryPlan plan = opening.parts.plan;
  const Status opened = OpenParts(&opening);
  if (!opened.ok()) {
    opening.parts.direct.reset();
    opening.parts.db.reset();
    core->budget->Give(plan);
    // Rank 0 lets go of the lock when the others have let go of their files. Where a rank is dead,
    // the others may already be somewhere else.
    const bool all_here = opened.code() != Code::kPeerFailed && opened.code() != Code::kTimedOut;
    if (all_here) static_cast<void>(core->exchange->Barrier());
    return opened;
  }
  auto database = std::make_unique<DatabaseImpl>(core, std::move(opening.parts));
  database->Begin();
  return std::unique_ptr<Database>(std::move(database));
}

namespace {

Status BeginDestruction(Opening* opening) {
  const Status locked = MakeDirectories(opening, OpenMode::kMustExist);
  const bool known = opening->descriptor.rank_count > 0;
  QUIRE_ASSIGN_OR_RETURN(
      const std::vector<std::string> texts,
      GatherAgreed(*opening->core->exchange, locked,
                   known ? EncodeDescriptor(opening->descriptor) : std::string()));
  if (texts[0].empty()) {
    return Status(Code::kNotFound, "there is no database at " + opening->directory);
  }
  Status written;
  if (opening->core->rank() == 0) {
    opening->descriptor.state = DescriptorState::kDestroying;
    written = WriteDescriptor(*opening->core->fs, opening->directory, opening->descriptor);
  }
  return opening->core->exchange->Agree(written);
}

Status RemoveDescriptor(const Opening& opening) {
  if (opening.core->rank() != 0) return Status();
  QUIRE_RETURN_IF_ERROR(opening.core->fs->Unlink(DescriptorPath(opening.directory)));
  return opening.core->fs->Unlink(opening.directory + kLockName);
}

// The directory, where nothing else is in it: files of somebody else stay.
Status RemoveEmptyDirectory(const Opening& opening) {
  io::FileSystem& fs = *opening.core->fs;
  const Result<std::vector<io::FileInfo>> rest = fs.List(opening.directory);
  // Another rank of this node may have been faster.
  if (rest.status().code() == Code::kNotFound) return Status();
  if (!rest.ok()) return rest.status();
  if (!rest->empty()) return Status();
  const Status removed = fs.RemoveDirectory(opening.directory);
  return removed.code() == Code::kNotFound ? Status() : removed;
}

}  // namespace

Status DestroyDatabase(const std::shared_ptr<Core>& core, const std::string& name) {
  Opening opening;
  opening.core = core;
  opening.directory = core->DirectoryOf(name);
  opening.parts.name = name;
  QUIRE_RETURN_IF_ERROR(AgreeOn(*core->exchange, io::CheckName(name), name, "the name to destroy"));
  QUIRE_RETURN_IF_ERROR(BeginDestruction(&opening));
  QUIRE_RETURN_IF_ERROR(
      core->exchange->Agree(RemoveRanks(*core, opening.directory, /*expected=*/true)));
  QUIRE_RETURN_IF_ERROR(core->exchange->Agree(RemoveDescriptor(opening)));
  return core->exchange->Agree(RemoveEmptyDirectory(opening));
}

}  // namespace quire::kv
