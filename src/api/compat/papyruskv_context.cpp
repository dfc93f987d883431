// Beginning and end, and what concerns whole databases.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/compat/papyruskv_names.h"
#include "api/compat/papyruskv_session.h"
#include "api/log_level.h"
#include "api/open_context.h"
#include "base/core/out_of_memory.h"
#include "comm/mpi/mpi_world.h"
#include "io/files/file_system.h"
#include "kv/database/together.h"

namespace quire::compat {
namespace {

Status Begin(int* argc, char*** argv, const char* repository) {
  // If this fails, opening the context reports it on all ranks.
  static_cast<void>(api::InstallLogSink());
  if (repository == nullptr) return NullArgument("repository");
  if (Session::Current() != nullptr) {
    return Status(Code::kBusy, "papyruskv_init was called already; call papyruskv_finalize first");
  }
  const auto settings = base::OrOutOfMemory([] { return ReadSettings(); });
  bool started = false;
  QUIRE_ASSIGN_OR_RETURN(const int world, comm::WorldCommunicator(argc, argv, &started));
  auto context = api::OpenTogether(world, repository, ContextOptions());
  std::unique_ptr<Session> session;
  // The environment may be invalid on one node alone.
  const auto make = [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(settings.status());
    session = std::make_unique<Session>(*settings, started);
    return Status();
  };
  const Status agreed = context.ok() ? kv::PrepareTogether(**context, make) : context.status();
  if (!agreed.ok()) {
    if (context.ok()) context->reset();
    if (started) comm::EndMpi();
    return agreed;
  }
  session->Begin(std::move(*context));
  static_cast<void>(Session::Exchange(std::move(session)));
  return Status();
}

// Removes the databases, and the directory if nothing else is in it: other files stay.
Status RemoveRepository(Context& context) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<std::string> names, context.ListDatabases());
  Status first;
  for (const std::string& name : names) {
    const Status removed = context.Destroy(name);
    if (first.ok()) first = removed;
  }
  io::FileSystem& fs = io::PosixFileSystem();
  const auto rest = fs.List(context.repository());
  if (rest.ok() && rest->empty()) {
    const Status removed = fs.RemoveDirectory(context.repository());
    // Another rank of this node may have removed it already.
    if (first.ok() && removed.code() != Code::kNotFound) first = removed;
  }
  return context.Agree(first);
}

Status End() {
  const std::unique_ptr<Session> session = Session::Exchange(nullptr);
  if (session == nullptr) {
    return Status(Code::kInvalidArgument, "papyruskv_init was not called, or finalize was already");
  }
  Status ended = session->WaitForAll();
  const Status closed = session->CloseAll();
  if (ended.ok()) ended = closed;
  if (session->settings().destroy_repository) {
    const Status removed = RemoveRepository(session->context());
    if (ended.ok()) ended = removed;
  }
  return ended;
}

// OK if this rank owns no pair. The puts of all ranks have arrived before.
Status CheckEmpty(OpenDatabase& open) {
  const auto iterator = open.database->NewLocalIterator();
  iterator->SeekToFirst();
  if (!iterator->Valid()) return iterator->status();
  return Status(Code::kInvalidArgument,
                "the database " + open.name +
                    " has pairs; give the hash function to papyruskv_open of an empty one");
}

// Returns the options with which the database is recreated, if it is empty. Collective.
Status PrepareHash(Session& session, OpenDatabase& open, papyruskv_hash_fn_t function,
                   DatabaseOptions* options) {
  QUIRE_RETURN_IF_ERROR(open.database->Protect(Protection::kReadWrite));
  QUIRE_RETURN_IF_ERROR(open.database->Barrier(Level::kMemTable));
  return kv::PrepareTogether(session.context(), [&] {
    *options = open.options;
    options->partitioner = PartitionerOf(function);
    options->mode = OpenMode::kMustNotExist;
    return CheckEmpty(open);
  });
}

// Recreates an empty database with the function, so that its descriptor records it.
Status SetHash(Session& session, OpenDatabase& open, papyruskv_hash_fn_t function) {
  DatabaseOptions options;
  const Status empty = PrepareHash(session, open, function, &options);
  if (!empty.ok()) {
    static_cast<void>(open.database->Protect(open.options.protection));
    return empty;
  }
  const std::lock_guard<std::mutex> lock(open.mutex);
  open.walks.clear();
  QUIRE_RETURN_IF_ERROR(open.database->Close());
  QUIRE_RETURN_IF_ERROR(session.context().Destroy(open.name));
  return session.Reopen(&open, std::move(options));
}

}  // namespace
}  // namespace quire::compat

using quire::Result;
using quire::Status;
using quire::compat::Guarded;
using quire::compat::NullArgument;
using quire::compat::OpenDatabase;
using quire::compat::Session;
using quire::compat::WithDatabase;
using quire::compat::WithSession;
using quire::kv::PrepareTogether;

extern "C" {

int papyruskv_init(int* argc, char*** argv, const char* repository) {
  return Guarded("papyruskv_init", [&] { return quire::compat::Begin(argc, argv, repository); });
}

int papyruskv_finalize(void) {
  const Session* const session = Session::Current();
  const Status may_call = session == nullptr ? Status() : session->CheckCaller();
  if (!may_call.ok()) return quire::compat::CodeOf("papyruskv_finalize", may_call);
  const bool end_mpi = session != nullptr && session->started_mpi();
  const int code = Guarded("papyruskv_finalize", [] { return quire::compat::End(); });
  if (end_mpi) quire::comm::EndMpi();
  return code;
}

int papyruskv_open(const char* name, int flags, papyruskv_option_t* opt, int* db) {
  return WithSession("papyruskv_open", [&](Session& session) -> Status {
    if (name != nullptr && db != nullptr) *db = -1;
    OpenDatabase* open = nullptr;
    const Status prepared = PrepareTogether(session.context(), [&]() -> Status {
      if (name == nullptr || db == nullptr) return NullArgument("name or db");
      QUIRE_ASSIGN_OR_RETURN(const std::string mapped, quire::compat::NameInRepository(name));
      QUIRE_ASSIGN_OR_RETURN(const quire::DatabaseOptions options,
                             quire::compat::OptionsOf(session.settings(), flags, opt));
      QUIRE_ASSIGN_OR_RETURN(open, session.Reserve(mapped, options));
      return Status();
    });
    const Status opened = prepared.ok() ? session.Open(open) : prepared;
    if (opened.ok()) {
      *db = open->handle;
    } else {
      session.Free(open);
    }
    return opened;
  });
}

int papyruskv_close(int db) {
  return WithDatabase("papyruskv_close", db,
                      [](OpenDatabase& open) { return Session::Current()->Close(&open); });
}

int papyruskv_hash(int db, papyruskv_hash_fn_t fn) {
  return WithDatabase("papyruskv_hash", db, [fn](OpenDatabase& open) {
    return quire::compat::SetHash(*Session::Current(), open, fn);
  });
}

int papyruskv_fence(int db, int level) {
  return WithDatabase("papyruskv_fence", db, [level](OpenDatabase& open) -> Status {
    QUIRE_ASSIGN_OR_RETURN(const quire::Level to, quire::compat::LevelOf(level));
    QUIRE_RETURN_IF_ERROR(open.database->Fence());
    return to == quire::Level::kSsTable ? open.database->Flush() : Status();
  });
}

int papyruskv_barrier(int db, int level) {
  return WithDatabase("papyruskv_barrier", db, [level](OpenDatabase& open) -> Status {
    QUIRE_ASSIGN_OR_RETURN(const quire::Level to, quire::compat::LevelOf(level));
    return open.database->Barrier(to);
  });
}

int papyruskv_consistency(int db, int consistency) {
  return WithDatabase("papyruskv_consistency", db, [consistency](OpenDatabase& open) -> Status {
    QUIRE_ASSIGN_OR_RETURN(const quire::Consistency to, quire::compat::ConsistencyOf(consistency));
    QUIRE_RETURN_IF_ERROR(open.database->SetConsistency(to));
    open.options.consistency = to;
    return Status();
  });
}

int papyruskv_protect(int db, int prot) {
  return WithDatabase("papyruskv_protect", db, [prot](OpenDatabase& open) -> Status {
    QUIRE_ASSIGN_OR_RETURN(const quire::Protection to, quire::compat::ProtectionOf(prot));
    QUIRE_RETURN_IF_ERROR(open.database->Protect(to));
    open.options.protection = to;
    return Status();
  });
}

int papyruskv_signal_notify(int signum, int* ranks, int count) {
  return WithSession("papyruskv_signal_notify", [&](Session& session) -> Status {
    if (count < 0 || (ranks == nullptr && count > 0)) return NullArgument("ranks");
    return session.context().Notify(signum, std::vector<int>(ranks, ranks + count));
  });
}

int papyruskv_signal_wait(int signum, int* ranks, int count) {
  return WithSession("papyruskv_signal_wait", [&](Session& session) -> Status {
    if (count < 0 || (ranks == nullptr && count > 0)) return NullArgument("ranks");
    return session.context().WaitSignal(signum, std::vector<int>(ranks, ranks + count));
  });
}

}  // extern "C"
