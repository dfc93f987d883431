/// The state between papyruskv_init and papyruskv_finalize: a Context, and the table of int
/// handles. Also the one place where outcomes become PapyrusKV's codes.
///
/// Layer      api
/// Threads    Find: any thread. The rest: as the collective calls that it serves.
/// Invariants a handle is the same number on all ranks, for they open and close in the same order;
///            what a handle stood for is kept until its slot is used again, so that a late call on
///            it is refused and does no harm
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "api/compat/papyruskv_settings.h"
#include "base/forked_child.h"
#include "base/program_call.h"
#include "papyrus/kv.h"
#include "quire/database.h"

namespace quire::compat {

/// A walk over the pairs of this rank, and what the program sees of it.
struct Walk {
  std::unique_ptr<LocalIterator> iterator;
  std::string key;
  std::string value;
  papyruskv_iter seen;
};

/// The object of a handle.
struct OpenDatabase {
  int handle = 0;
  std::string name;  ///< in the repository
  DatabaseOptions options;
  /// Null while a restart is under way: look at `ready` first.
  std::unique_ptr<Database> database;
  std::atomic<bool> ready{false};
  std::mutex mutex;  ///< guards what follows
  std::unordered_map<papyruskv_iter_t, std::unique_ptr<Walk>> walks;
  std::vector<std::pair<uint32_t, AnsweringUpdateFunction>> updates;
};

/// A background operation that papyruskv_wait waits for.
struct Pending {
  int handle = 0;  ///< of the database that it was begun with
  bool is_restart = false;
  std::unique_ptr<Event> event;
};

class Session {
 public:
  static constexpr size_t kDatabasesMax = 256;

  Session(const Settings& settings, bool started_mpi)
      : settings_(settings), started_mpi_(started_mpi) {}
  /// Before all other calls.
  void Begin(std::unique_ptr<Context> context) { context_ = std::move(context); }

  /// The one of this process, or null.
  static Session* Current();
  /// Null: there is none from now on. The caller gets the earlier one.
  static std::unique_ptr<Session> Exchange(std::unique_ptr<Session> next);

  Context& context() { return *context_; }
  const Settings& settings() const { return settings_; }
  bool started_mpi() const { return started_mpi_; }
  /// kInvalidArgument in a forked child, and inside a function that the library calls.
  Status CheckCaller() const { return process_.Check("the library of PapyrusKV"); }

  /// The open database with this handle, or null.
  OpenDatabase* Find(int handle) const;
  /// A new handle for a database that is to be opened, or that a restart will bring. kBusy: 256 are
  /// open.
  Result<OpenDatabase*> Reserve(const std::string& name, const DatabaseOptions& options);
  /// Opens the database of a new handle. Collective.
  Status Open(OpenDatabase* open);
  /// Takes back the handle of what is not open, or will not be. Null is allowed.
  void Free(OpenDatabase* open);
  /// The number of an event of the database with this handle, which is about to begin. On all
  /// ranks, also where it finds no memory.
  int Add(Pending pending);
  /// It has begun; it will not.
  void Begun(int event, std::unique_ptr<Event> begun);
  void Drop(int event) { pending_.erase(event); }
  /// Waits for an event, once, and opens the database that a restart has brought. Collective.
  /// kInvalidArgument: there is no such event of the handle, or it was waited for.
  Status Wait(int handle, int event);
  /// All operations that no call has waited for. Collective. The first failure, after all have
  /// ended.
  Status WaitForAll();
  /// Ends its walks, closes it, and frees its handle. Collective.
  Status Close(OpenDatabase* open);
  /// Every database that is open. Collective. The first failure, after all are closed.
  Status CloseAll();
  /// Opens it once more for a handle whose database has been closed, with the functions that it
  /// had. Collective.
  Status Reopen(OpenDatabase* open, DatabaseOptions options);

 private:
  Status FinishRestart(OpenDatabase* open);

  const base::OwnProcess process_;
  std::unique_ptr<Context> context_;
  const Settings settings_;
  const bool started_mpi_;
  std::array<std::atomic<OpenDatabase*>, kDatabasesMax> slots_{};
  std::array<std::unique_ptr<OpenDatabase>, kDatabasesMax> owned_;
  std::array<int, kDatabasesMax> generations_{};
  std::map<int, Pending> pending_;  ///< by number
  int last_event_ = 0;
};

/// PapyrusKV's code for the outcome of `call`. A failure is logged, with the call's name; a key
/// that is not there is none.
int CodeOf(const char* call, const Status& status);

Status NullArgument(const char* name);

/// Runs `body`, which returns a Status. No exception leaves the library.
template <typename Body>
int Guarded(const char* call, const Body& body) {
  try {
    return CodeOf(call, body());
  } catch (...) {
    return CodeOf(call, base::StatusOfException("the call"));
  }
}

/// Guarded, with the session; PAPYRUSKV_INVALID_ARGUMENT if there is none.
template <typename Body>
int WithSession(const char* call, const Body& body) {
  return Guarded(call, [&]() -> Status {
    Session* const session = Session::Current();
    if (session == nullptr) {
      return Status(Code::kInvalidArgument, "call papyruskv_init first, and not after finalize");
    }
    QUIRE_RETURN_IF_ERROR(session->CheckCaller());
    return body(*session);
  });
}

/// Guarded, with what `handle` stands for; PAPYRUSKV_INVALID_DB: the handle has no object.
template <typename Body>
int WithDatabase(const char* call, int handle, const Body& body) {
  bool known = true;
  const int code = WithSession(call, [&](Session& session) -> Status {
    OpenDatabase* const open = session.Find(handle);
    known = open != nullptr;
    if (known && open->ready.load(std::memory_order_acquire)) return body(*open);
    if (known) {
      return Status(Code::kBusy, "a restart is under way: wait for its event with papyruskv_wait");
    }
    return Status(Code::kInvalidArgument,
                  "no database is open under the handle " + std::to_string(handle));
  });
  return known ? code : PAPYRUSKV_INVALID_DB;
}

}  // namespace quire::compat
