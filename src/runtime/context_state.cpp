#include "runtime/context_state.h"

#include <map>
#include <utility>

#include "base/core/out_of_memory.h"
#include "base/text/coding.h"
#include "io/files/machine.h"
#include "quire/option_table.h"
#include "runtime/agreement.h"
#include "runtime/job.h"
#include "runtime/options_text.h"
#include "runtime/repository.h"

namespace quire::runtime {
namespace {

// The data that each rank sends about itself when a Context is opened.
struct Introduction {
  std::string repository;
  uint64_t node_id = 0;
  uint64_t machine_id = 0;
  uint64_t machine_bytes = 0;
  std::string options;
};

std::string Encode(const Introduction& introduction) {
  std::string text;
  base::PutLengthPrefixed(&text, introduction.repository);
  base::PutFixed(&text, introduction.node_id);
  base::PutFixed(&text, introduction.machine_id);
  base::PutFixed(&text, introduction.machine_bytes);
  return text + introduction.options;
}

Result<std::vector<Introduction>> Introduce(comm::Exchange& exchange, const Status& mine,
                                            const Introduction& own) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                         GatherAgreed(exchange, mine, Encode(own)));
  std::vector<Introduction> all(texts.size());
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    base::ByteReader reader(texts[rank]);
    Slice repository;
    if (!reader.LengthPrefixed(&repository) || !reader.Fixed(&all[rank].node_id) ||
        !reader.Fixed(&all[rank].machine_id) || !reader.Fixed(&all[rank].machine_bytes)) {
      return Status(Code::kCorruption,
                    "rank " + std::to_string(rank) + " does not introduce itself as it should");
    }
    all[rank].repository = std::string(repository);
    all[rank].options = std::string(reader.rest());
    if (all[rank].options == all[0].options) continue;
    return Status(Code::kInvalidArgument, "options differ between ranks: rank 0 has " +
                                              all[0].options + "; rank " + std::to_string(rank) +
                                              " has " + all[rank].options +
                                              "; give the same on all ranks");
  }
  return all;
}

// Checks that all ranks of a node use the same directory. They see the same files: with different
// directories, each repository would contain a part of every database, and none would contain all
// parts. (Different nodes may use directories of different names.)
Status CheckRepositories(const std::vector<Introduction>& ranks) {
  std::map<uint64_t, size_t> first_of_node;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const size_t first = first_of_node.emplace(ranks[rank].node_id, rank).first->second;
    if (ranks[first].repository == ranks[rank].repository) continue;
    return Status(Code::kInvalidArgument,
                  "ranks of one node give different repositories: rank " + std::to_string(first) +
                      " gives " + ranks[first].repository + ", rank " + std::to_string(rank) +
                      " gives " + ranks[rank].repository +
                      "; give one directory on all ranks (a relative one is that of each rank's "
                      "working directory)");
  }
  return Status();
}

uint64_t MemoryLimit(const std::vector<Introduction>& ranks, uint64_t given) {
  std::vector<RankMemory> memories;
  for (const Introduction& rank : ranks) memories.push_back({rank.node_id, rank.machine_bytes});
  return MemoryBudget::LimitOver(memories, given);
}

// Refuses the directory of a database as a repository. Tools and readers take the path of a
// database, and a program that of its repository: if a program confuses the two, it must not create
// databases inside a database.
Status CheckIsNoDatabase(io::FileSystem& fs, const std::string& repository) {
  for (const auto& [file, what] :
       {std::pair(kDatabaseFile, "database"), std::pair(kDatasetFile, "dataset")}) {
    const std::string path = repository + "/" + file;
    QUIRE_ASSIGN_OR_RETURN(const bool there, fs.Exists(path));
    // A database may have the name of the file.
    if (!there || fs.CheckDirectory(path).ok()) continue;
    return Status(Code::kInvalidArgument,
                  repository + " is a " + what +
                      ", not a repository: give the directory it lies in, " +
                      io::DirectoryOf(repository));
  }
  return Status();
}

Status Prepare(const Status& before, ContextState* context, Slice repository,
               ContextOptions* options, io::MadePaths* made) {
  QUIRE_RETURN_IF_ERROR(before);
  QUIRE_RETURN_IF_ERROR(io::CheckMachine());
  QUIRE_RETURN_IF_ERROR(OptionTable::Check(*options));
  QUIRE_RETURN_IF_ERROR(OptionTable::ApplyEnvironment(options));
  QUIRE_ASSIGN_OR_RETURN(context->repository, ExpandRepository(std::string(repository)));
  QUIRE_RETURN_IF_ERROR(CheckIsNoDatabase(*context->fs, context->repository));
  return made->MakeDirectory(*context->fs, context->repository);
}

// Runs before the ranks exchange their data, so that all ranks learn if one cannot start its
// threads.
Status StartExecutor(const Environment& environment, ContextState* context) {
  if (!environment.background_threads) {
    context->executor = base::NewManualExecutor();
    context->blocking_executor = context->executor;
    return Status();
  }
  const int threads = context->options.background_threads;
  auto executor = base::NewThreadPool(threads, "quire-work");
  if (!executor.ok()) {
    return executor.status().WithContext(
        "cannot start background_threads = " + std::to_string(threads) + " threads");
  }
  context->executor = std::move(*executor);
  QUIRE_ASSIGN_OR_RETURN(context->blocking_executor, base::NewThreadPool(1, "quire-transfer"));
  return Status();
}

// Draws a rank's conclusions from the data of all ranks: either all ranks have a context, or none.
Status Conclude(const std::vector<Introduction>& ranks, ContextState* context) {
  for (const Introduction& rank : ranks) context->machine_ids.push_back(rank.machine_id);
  const uint64_t limit = MemoryLimit(ranks, context->options.memory_bytes);
  const uint64_t messages = MemoryBudget::MessagesShare(limit, context->size());
  context->budget = std::make_unique<MemoryBudget>(limit, messages);
  context->exchange->LimitAnswers(messages);
  if (context->size() > 1) {
    context->description +=
        context->exchange->has_handler_thread() ? ", handler thread" : ", progress inside calls";
  }
  return Status();
}

Status Join(const Environment& environment, const Status& prepared, ContextState* context) {
  Introduction own;
  own.repository = context->repository;
  own.node_id = io::NodeId();
  own.machine_id = environment.machine_id != 0 ? environment.machine_id : io::MachineId();
  own.machine_bytes =
      environment.machine_bytes != 0 ? environment.machine_bytes : io::MemoryLimitBytes();
  own.options = OptionsText(context->options, ", ");
  QUIRE_ASSIGN_OR_RETURN(const std::vector<Introduction> ranks,
                         Introduce(*context->exchange, prepared, own));
  QUIRE_RETURN_IF_ERROR(CheckRepositories(ranks));
  return context->exchange->Agree(base::OrOutOfMemory([&] { return Conclude(ranks, context); }));
}

}  // namespace

uint32_t ContextState::TakeNumber() {
  const std::lock_guard<std::mutex> lock(mutex);
  return ++last_number;
}

void ContextState::Progress() {
  if (!exchange->CheckThread().ok()) return;
  exchange->Progress();
  if (exchange->has_handler_thread()) return;
  progress_queue->RunPending();
  std::vector<ProgressClient*> all;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    all = progress_clients;
  }
  for (ProgressClient* const client : all) client->Progress();
}

Status ContextState::LookForDirectory(const std::string& directory, io::MadePaths* made) const {
  const Result<bool> there = fs->Exists(directory);
  QUIRE_RETURN_IF_ERROR(exchange->Agree(there.status()));
  if (!*there) made->AddDirectory(*fs, directory);
  return Status();
}

Status ContextState::MakeDirectory(const std::string& directory) const {
  const Status made = io::MakeDurableDirectory(*fs, directory);
  if (made.code() != Code::kNotFound) return made;
  QUIRE_RETURN_IF_ERROR(io::MakeDurableDirectory(*fs, repository));
  return io::MakeDurableDirectory(*fs, directory);
}

// Allocates no memory: a context must end even if there is none.
void ContextState::End() {
  std::vector<std::shared_ptr<Job>> ended;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    ended = std::exchange(jobs, {});
  }
  for (const std::shared_ptr<Job>& job : ended) job->Stop();
  EndBackground();  // after this, no background work sends
  while (ProgressClient* const client = TakeProgressClient()) client->Shutdown();
  // Destroys the exchange here, and not with the last reference to the context, which a pending get
  // may hold: MPI may be finalized by then.
  exchange.reset();
  EndBackground();
}

ProgressClient* ContextState::TakeProgressClient() {
  const std::lock_guard<std::mutex> lock(mutex);
  if (progress_clients.empty()) return nullptr;
  ProgressClient* const first = progress_clients.front();
  progress_clients.erase(progress_clients.begin());
  return first;
}

void ContextState::EndBackground() {
  progress_queue->Drop();
  blocking_executor->WaitIdle();
}

Result<std::string> ExpandRepository(const std::string& repository) {
  std::string path = repository;
  if (!path.empty() && path[0] == '$') {
    const size_t end = std::min(path.find('/'), path.size());
    const std::string name = path.substr(1, end - 1);
    const auto value = io::Environment(name.c_str());
    if (!value || value->empty()) {
      return Status(Code::kInvalidArgument, "the repository is " + repository +
                                                ", but the environment variable " + name +
                                                " is not set");
    }
    path = *value + path.substr(end);
  }
  return io::AbsolutePath(path);
}

Result<std::shared_ptr<ContextState>> NewContextState(const Environment& environment,
                                                      std::unique_ptr<comm::Transport> transport,
                                                      Slice repository,
                                                      const ContextOptions& given) {
  auto context = std::make_shared<ContextState>();
  context->fs = environment.fs != nullptr ? environment.fs : &io::PosixFileSystem();
  context->options = given;
  const std::string transport_name = transport->Name();
  io::MadePaths made;
  Status prepared = base::OrOutOfMemory([&] {
    return Prepare(environment.prepared, context.get(), repository, &context->options, &made);
  });
  if (prepared.ok()) {
    prepared = base::OrOutOfMemory([&] { return StartExecutor(environment, context.get()); });
  }
  comm::ExchangeOptions exchange_options;
  if (prepared.ok()) exchange_options.timeout_ms = context->options.timeout_ms;
  context->exchange = comm::Exchange::Create(std::move(transport), exchange_options);
  QUIRE_RETURN_IF_ERROR(Together(*context->exchange, [&] {
    if (prepared.ok()) prepared = context->exchange->HandlerStatus();
    context->exchange->Serve(kPingChannel, [](int, Slice, std::string*) { return Status(); });
    context->progress_queue =
        std::make_unique<ProgressQueue>(context->exchange.get(), context->blocking_executor);
    context->manual_background = !environment.background_threads;
    context->description = transport_name;
    if (!environment.thread_level.empty()) context->description += ", " + environment.thread_level;
    return Join(environment, prepared, context.get());
  }));
  made.Keep();
  return context;
}

}  // namespace quire::runtime
