#include "kv/database/database_open.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/core/log_sink.h"
#include "base/core/out_of_memory.h"
#include "base/text/coding.h"
#include "io/files/machine.h"
#include "kv/database/database_impl.h"
#include "kv/generations/locked_database.h"
#include "kv/generations/older_parts.h"
#include "kv/generations/part_files.h"
#include "kv/protocol/part_engine.h"
#include "quire/option_table.h"
#include "runtime/agreement.h"
#include "runtime/options_text.h"
#include "table/block_cache.h"

namespace quire::kv {
namespace {

// What is known of a database while it is being opened.
struct Opening {
  std::shared_ptr<runtime::ContextState> context;
  DatabaseParts parts;
  LockedDatabase locked;  // as it is on disk
  Generation generation;  // the one that these ranks write to
  bool creating = false;  // there is no database
  bool growing = false;   // there is none of these ranks
  bool at_once = false;   // what is old moves before the program goes on
  OlderParts old;         // of other ranks
  std::shared_ptr<table::BlockCache> cache;
  RedistributionRequest request;
  std::unique_ptr<DatabaseImpl> database;  // made of `parts`

  std::string own_directory() const {
    return PartDirectory(locked.directory, generation, context->rank());
  }
};

// The older generations with which Open returns at once; the pairs of more move first.
constexpr size_t kOlderGenerationsMax = 2;
constexpr char kUnnamedPartitioner[] = "custom";

// The properties that all ranks must pass alike, one per line.
std::string Request(const std::string& name, const DatabaseOptions& options) {
  return "name = " + name + "\n" + runtime::OptionsText(options, "\n") +
         "\npartitioner = " + (options.partitioner ? "function" : "none") + "\n";
}

// The most that any rank has set aside of its memory: a dataset's writer may have gone on some of
// them, and not on others.
Result<uint64_t> AgreeOnRequest(const runtime::ContextState& context, const Status& checked,
                                const std::string& request) {
  std::string mine;
  base::PutFixed(&mine, context.budget->planned_bytes());
  QUIRE_ASSIGN_OR_RETURN(std::vector<std::string> requests,
                         runtime::GatherAgreed(*context.exchange, checked, mine + request));
  uint64_t most = 0;
  const Status compared = base::OrOutOfMemory([&] {
    for (size_t rank = 0; rank < requests.size(); ++rank) {
      base::ByteReader reader(requests[rank]);
      uint64_t planned = 0;
      if (!reader.Fixed(&planned)) {
        return Status(Code::kCorruption, "a rank does not say what it opens");
      }
      most = std::max(most, planned);
      requests[rank] = std::string(reader.rest());
      QUIRE_RETURN_IF_ERROR(runtime::CompareRequests(requests[0], requests[rank], rank));
    }
    return Status();
  });
  QUIRE_RETURN_IF_ERROR(runtime::AgreeOnOutcome(*context.exchange, compared));
  return most;
}

Status CheckRequest(const std::string& name, DatabaseOptions* options,
                    runtime::Partitioning* partitioning) {
  QUIRE_RETURN_IF_ERROR(io::CheckName(name));
  QUIRE_RETURN_IF_ERROR(OptionTable::Check(*options));
  QUIRE_RETURN_IF_ERROR(OptionTable::ApplyEnvironment(options));
  const bool unnamed = options->partitioner && options->partitioner_name.empty();
  QUIRE_ASSIGN_OR_RETURN(
      *partitioning,
      runtime::Partitioning::Make(options->partitioner,
                                  unnamed ? kUnnamedPartitioner : options->partitioner_name));
  return Status();
}

// Checks rank 0's descriptor on all ranks, which conclude the same.
Status CheckDescriptor(const Opening& opening, OpenMode mode) {
  const std::string where = opening.locked.directory;
  if (!IsThere(opening.locked.descriptor)) {
    if (mode != OpenMode::kMustExist) return Status();
    return Status(Code::kNotFound, "there is no database at " + where);
  }
  if (mode == OpenMode::kMustNotExist) {
    return Status(Code::kInvalidArgument,
                  "there is a database at " + where + " already; destroy it, or open it");
  }
  const Generation& newest = opening.locked.descriptor.generations[0];
  if (newest.partitioner != opening.generation.partitioner) {
    return Status(Code::kInvalidArgument,
                  "the database at " + where + " was made with the partitioner \"" +
                      newest.partitioner + "\", not \"" + opening.generation.partitioner + "\"");
  }
  return Status();
}

DatabaseDescriptor NewDescriptor(const Opening& opening, DescriptorState state) {
  DatabaseDescriptor descriptor;
  descriptor.state = state;
  descriptor.id = opening.locked.descriptor.id;
  descriptor.generations = {opening.generation};
  if (opening.old.chain != nullptr) {
    const std::vector<Generation>& older = opening.old.chain->generations();
    descriptor.generations.insert(descriptor.generations.end(), older.begin(), older.end());
  }
  descriptor.taken = opening.locked.descriptor.taken;
  descriptor.options = ShapingOptions(opening.parts.options);
  return descriptor;
}

// When rank 0 writes that a new database begins, nothing of an earlier one is left, except on nodes
// that are not here: no part has the name of a part there.
Status BeginCreation(Opening* opening) {
  opening->generation.number = NextNumber(opening->locked.descriptor);
  if (!opening->locked.descriptor.generations.empty()) {  // it was interrupted
    QUIRE_RETURN_IF_ERROR(RemoveParts(*opening->context, opening->locked.directory, {}));
  }
  Status written;
  if (opening->context->rank() == 0) {
    written = WriteDescriptor(*opening->context->fs, opening->locked.directory,
                              NewDescriptor(*opening, DescriptorState::kCreating));
  }
  return opening->context->exchange->Agree(written);
}

// A failed attempt may leave parts on a node that is not here next time, also if all ranks see the
// older parts, for example those of a checkpoint. So no later generation gets its number.
Status TakeGenerationNumber(Opening* opening) {
  if (!opening->growing) return Status();
  DatabaseDescriptor& descriptor = opening->locked.descriptor;
  descriptor.state = DescriptorState::kReady;  // what was being filled has been removed
  descriptor.taken = opening->generation.number;
  const runtime::ContextState& context = *opening->context;
  return context.exchange->Agree(base::OrOutOfMemory([&] {
    if (context.rank() != 0) return Status();
    return WriteDescriptor(*context.fs, opening->locked.directory, descriptor);
  }));
}

Status MissingPart(const std::string& directory) {
  return Status(Code::kCorruption,
                "this rank's part of the database, " + directory +
                    ", is missing: start the ranks on the nodes that hold their parts, or restore "
                    "it, or destroy the database");
}

// Collective. If rank 0 has an old copy of the descriptor, it does not name the parts that the
// ranks have now: those are no remains.
Status CheckOwnParts(const Opening& opening) {
  const runtime::ContextState& context = *opening.context;
  return context.exchange->Agree(base::OrOutOfMemory([&]() -> Status {
    const std::string directory = opening.own_directory();
    QUIRE_ASSIGN_OR_RETURN(const bool there, context.fs->Exists(directory));
    return there ? Status() : MissingPart(directory);
  }));
}

Status OpenOwnDb(Opening* opening, const std::shared_ptr<table::BlockCache>& cache, bool share) {
  runtime::ContextState& context = *opening->context;
  engine::EngineEnvironment environment;
  environment.fs = context.fs;
  environment.executor = context.executor.get();
  environment.cache = cache;
  environment.share_memory = share;
  if (opening->old.shared) {
    environment.base = NewChainBackingStore(opening->old.chain, context.rank(), context.size());
  } else if (opening->old.chain != nullptr) {
    environment.base = NewEmptyBackingStore();
  }
  // Shorter than the time that other ranks wait for this rank's answer.
  environment.pinned_wait_ms_max = context.options.timeout_ms / 2;
  environment.holder = io::ProcessDescription() + " rank " + std::to_string(context.rank());
  const std::string directory = opening->own_directory();
  const bool fresh = opening->creating || opening->growing;
  if (fresh) {
    // On a node that is new to the database the directory does not exist yet. If the database is
    // new, every rank has made the directory, and its name durable, when the database was locked.
    if (opening->growing) {
      QUIRE_RETURN_IF_ERROR(context.MakeDirectory(opening->locked.directory));
    }
    QUIRE_RETURN_IF_ERROR(io::MakeDurableDirectory(
        *context.fs, GenerationDirectory(opening->locked.directory, opening->generation)));
  }
  auto opened =
      PartEngine().Open(environment, directory, opening->parts.options.storage,
                        fresh ? engine::OpenFlags::kOpenOrCreate : engine::OpenFlags::kMustExist);
  if (!opened.ok()) {
    return opened.status().code() == Code::kNotFound ? MissingPart(directory) : opened.status();
  }
  opening->parts.engine = std::move(*opened);
  return Status();
}

// The descriptor says what the database is now: ready, and opened with these options.
Status FinishDescriptor(const Opening& opening) {
  if (opening.context->rank() != 0) return Status();
  // If the storage is shared, new pairs come to it at once.
  const bool filling = opening.growing && !opening.old.shared;
  const DatabaseDescriptor now =
      NewDescriptor(opening, filling ? DescriptorState::kFilling : DescriptorState::kReady);
  const DatabaseDescriptor& stored = opening.locked.descriptor;
  const bool same = now.state == stored.state && now.options == stored.options;
  if (!opening.creating && !opening.growing && same) return Status();
  return WriteDescriptor(*opening.context->fs, opening.locked.directory, now);
}

// Which generation these ranks write to, and which are older.
Status ArrangeGenerations(Opening* opening) {
  std::vector<Generation>& stored = opening->locked.descriptor.generations;
  const runtime::ContextState& context = *opening->context;
  const uint32_t next = NextNumber(opening->locked.descriptor);
  const bool filling = opening->locked.descriptor.state == DescriptorState::kFilling;
  if (filling) stored.erase(stored.begin());
  const bool forced = opening->parts.options.force_redistribute && stored.size() == 1;
  opening->growing =
      forced || stored[0].rank_count != context.size() || !stored[0].location.empty();
  GenerationChain::Options chain;
  chain.fs = context.fs;
  chain.directory = opening->locked.directory;
  if (!opening->growing) {
    chain.generations = {stored[0]};
    QUIRE_ASSIGN_OR_RETURN(opening->growing, WasCopiedByFewerRanks(context, chain));
  }
  opening->generation.number = opening->growing ? next : stored[0].number;
  chain.generations.assign(stored.begin() + (opening->growing ? 0 : 1), stored.end());
  chain.partitioning = opening->parts.partitioning;
  chain.reader.storage = opening->parts.options.storage;
  chain.reader.cache = opening->cache;
  QUIRE_ASSIGN_OR_RETURN(opening->old, AssignOlderParts(context, std::move(chain)));
  if (!opening->growing) QUIRE_RETURN_IF_ERROR(CheckOwnParts(*opening));
  // An attempt to add a generation may have been cut off, or a redistribution could not remove the
  // last one. If the removal of what they left fails on one rank, all ranks go on.
  const Status removed = runtime::Together(*context.exchange, [&] {
    std::set<uint32_t> kept;
    for (const Generation& generation : stored) kept.insert(generation.number);
    return RemoveParts(context, opening->locked.directory, kept);
  });
  if (opening->growing || removed.ok()) return removed;
  if (context.rank() == 0 && base::LogEnabled()) {
    base::Log(LogLevel::kWarning,
              "what " + opening->locked.directory +
                  " has besides its generations cannot be removed: " + removed.ToString());
  }
  return Status();
}

Status LockAndCheck(Opening* opening) {
  const OpenMode mode = opening->parts.options.mode;
  QUIRE_ASSIGN_OR_RETURN(opening->locked, LockDatabase(*opening->context, opening->parts.name,
                                                       mode != OpenMode::kMustExist));
  const Status checked = base::OrOutOfMemory([&] { return CheckDescriptor(*opening, mode); });
  QUIRE_RETURN_IF_ERROR(runtime::AgreeOnOutcome(*opening->context->exchange, checked));
  const DatabaseDescriptor& descriptor = opening->locked.descriptor;
  opening->creating = !IsThere(descriptor);
  return opening->creating ? Status() : ArrangeGenerations(opening);
}

// Members whose memory is shared are read there, and of the others their tables. Collective.
Status JoinGroup(Opening* opening, bool share) {
  const runtime::ContextState& context = *opening->context;
  DatabaseParts& parts = opening->parts;
  const int group_size = parts.options.group_size;
  if (group_size == 1 || context.size() == 1) return Status();
  parts.direct = std::make_unique<SharedMemoryGroupReader>();
  QUIRE_RETURN_IF_ERROR(parts.direct->Attach(
      {context.fs, context.exchange.get(), opening->cache, parts.options.storage, group_size},
      share ? parts.engine->neighbour_readable() : nullptr, opening->own_directory()));
  FileGroupReader::Options group;
  for (int rank = 0; rank < context.size(); ++rank) {
    const bool member = SameGroup(rank, context.rank(), group_size, context.OnThisMachine(rank));
    if (member && rank != context.rank() && !parts.direct->Reaches(rank))
      group.members.push_back(rank);
  }
  if (group.members.empty()) return Status();
  group.fs = context.fs;
  group.directory = opening->locked.directory;
  group.generation = opening->generation;
  group.expected = group_size > 0;
  group.reader = {parts.options.storage, opening->cache};
  parts.group = std::make_shared<FileGroupReader>(std::move(group));
  return Status();
}

// The object that the program gets, with its thread. The lock stays with `opening`.
Status MakeDatabase(Opening* opening) {
  DatabaseParts& parts = opening->parts;
  parts.directory = opening->own_directory();
  RedistributionRequest& request = opening->request;
  request.chain = opening->old.chain;
  request.database = parts.name;
  request.directory = opening->locked.directory;
  request.number = parts.number;
  request.engine = parts.engine;
  request.readers = opening->old.readers;
  request.without = NewDescriptor(*opening, DescriptorState::kReady);
  request.without.generations.resize(1);
  opening->database = std::make_unique<DatabaseImpl>(opening->context, std::move(parts));
  return opening->database->Begin();
}

Status OpenParts(Opening* opening) {
  runtime::ContextState& context = *opening->context;
  DatabaseParts& parts = opening->parts;
  const auto cache = std::make_shared<table::BlockCache>(parts.options.storage.cache_bytes);
  opening->cache = cache;
  QUIRE_RETURN_IF_ERROR(LockAndCheck(opening));
  if (opening->creating) QUIRE_RETURN_IF_ERROR(BeginCreation(opening));
  QUIRE_RETURN_IF_ERROR(TakeGenerationNumber(opening));
  const bool share =
      parts.options.group_size != 1 && SharedMemoryGroupReader::Possible(*context.exchange);
  QUIRE_RETURN_IF_ERROR(context.exchange->Agree(
      base::OrOutOfMemory([&] { return OpenOwnDb(opening, cache, share); })));
  QUIRE_RETURN_IF_ERROR(
      context.exchange->Agree(base::OrOutOfMemory([&] { return FinishDescriptor(*opening); })));
  QUIRE_RETURN_IF_ERROR(JoinGroup(opening, share));
  // The steps that each rank does alone end in one more agreement: no rank has the database alone.
  return context.exchange->Agree(MakeDatabase(opening));
}

// Numbers that all ranks take alike, before anything can fail on one of them.
struct Numbers {
  uint32_t database;
  uint32_t redistribution;
};

Status OpenTogether(const std::shared_ptr<runtime::ContextState>& context, const std::string& name,
                    const DatabaseOptions& options, Opening* opening) {
  opening->context = context;
  opening->parts.name = name;
  opening->parts.options = options;
  const Status checked = CheckRequest(name, &opening->parts.options, &opening->parts.partitioning);
  const DatabaseOptions& asked = opening->parts.options;
  opening->at_once = asked.redistribute || asked.force_redistribute;
  opening->generation.rank_count = context->size();
  opening->generation.partitioner = opening->parts.partitioning.name();
  QUIRE_ASSIGN_OR_RETURN(const uint64_t planned,
                         AgreeOnRequest(*context, checked, Request(name, opening->parts.options)));
  // All ranks have the same limit, and so the same plan.
  QUIRE_ASSIGN_OR_RETURN(opening->parts.memory,
                         context->budget->Take(&opening->parts.options, context->size(), planned));
  return OpenParts(opening);
}

// Rank 0 releases the lock when the others have released their files. If a rank is dead, the others
// may already be somewhere else.
void GiveUpOpening(comm::Exchange& exchange, const Status& why, Opening* opening) {
  if (opening != nullptr) {
    opening->request = {};
    opening->database.reset();
    opening->parts.direct.reset();
    opening->parts.engine.reset();
  }
  if (!runtime::IsOfASilentRank(why)) static_cast<void>(exchange.Barrier());
}

// Each open by another number of ranks begins a generation, to which all pairs move. If a database
// is never open for long enough, the copies would pile up.
Redistribution::Wait WaitOf(const Opening& opening) {
  if (opening.at_once || !opening.old.shared) return Redistribution::Wait::kMoved;
  const bool many = opening.old.chain->generations().size() > kOlderGenerationsMax;
  return many ? Redistribution::Wait::kEnd : Redistribution::Wait::kNothing;
}

Result<std::unique_ptr<Database>> Open(const std::shared_ptr<runtime::ContextState>& context,
                                       const Numbers& numbers, const std::string& name,
                                       const DatabaseOptions& options) {
  std::unique_ptr<Opening> opening;
  const Status opened = runtime::Together(*context->exchange, [&] {
    opening = std::make_unique<Opening>();
    opening->parts.number = numbers.database;
    return OpenTogether(context, name, options, opening.get());
  });
  if (!opened.ok()) {
    GiveUpOpening(*context->exchange, opened, opening.get());
    return opened;
  }
  opening->locked.made.Keep();
  opening->database->Keep(std::move(opening->locked.lock));
  if (opening->request.chain != nullptr) {
    const Redistribution::Wait wait = WaitOf(*opening);
    opening->old.chain.reset();
    QUIRE_RETURN_IF_ERROR(opening->database->redistribution().Begin(
        numbers.redistribution, std::move(opening->request), wait));
  }
  return std::unique_ptr<Database>(std::move(opening->database));
}

}  // namespace

Result<std::unique_ptr<Database>> OpenDatabase(
    const std::shared_ptr<runtime::ContextState>& context, const std::string& name,
    const DatabaseOptions& options) {
  const Numbers numbers = {context->TakeNumber(), context->TakeNumber()};
  return runtime::Together(*context->exchange,
                           [&] { return Open(context, numbers, name, options); });
}

}  // namespace quire::kv
