/// The state between papyruskv_init and papyruskv_finalize: a Context, and the table of int
/// handles. Also the one place where outcomes become PapyrusKV's codes.
///
/// Layer      api
/// Threads    Find: any thread. The rest: as the collective calls that it serves.
/// Invariants a handle has the same number on all ranks, because they open and close in the same
///            order; the object of a closed handle is kept until its slot is reused, so that a late
///            call on it is refused and does no harm
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
#include "base/core/program_call.h"
#include "base/threads/forked_child.h"
#include "papyrus/kv.h"
#include "quire/database.h"

namespace quire::compat {

/// A walk over the pairs of this rank, and the state that the program sees.
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
  /// Null while a restart is in progress: check `ready` first.
  std::unique_ptr<Database> database;
  std::atomic<bool> ready{false};
  std::mutex mutex;  ///< guards the members below
  std::unordered_map<papyruskv_iter_t, std::unique_ptr<Walk>> walks;
  std::vector<std::pair<uint32_t, AnsweringUpdateFunction>> updates;
};

/// A background operation that papyruskv_wait waits for.
struct Pending {
  int handle = 0;  ///< of the database on which it was begun
  bool is_restart = false;
  std::unique_ptr<Event> event;
};

class Session {
 public:
  static constexpr size_t kDatabasesMax = 256;

  Session(const Settings& settings, bool started_mpi)
      : settings_(settings), started_mpi_(started_mpi) {}
  /// Begins the session; must precede all other calls.
  void Begin(std::unique_ptr<Context> context) { context_ = std::move(context); }

  /// Returns the session of this process, or null.
  static Session* Current();
  /// Replaces the session of this process (null: by none); returns the previous one.
  static std::unique_ptr<Session> Exchange(std::unique_ptr<Session> next);

  Context& context() { return *context_; }
  const Settings& settings() const { return settings_; }
  bool started_mpi() const { return started_mpi_; }
  /// Returns kInvalidArgument in a forked child, and inside a function that the library calls.
  Status CheckCaller() const { return process_.Check("the library of PapyrusKV"); }

  /// Returns the open database with this handle, or null.
  OpenDatabase* Find(int handle) const;
  /// Returns a new handle for a database that will be opened or restored by a restart. kBusy: 256
  /// are open.
  Result<OpenDatabase*> Reserve(const std::string& name, const DatabaseOptions& options);
  /// Opens the database of a new handle. Collective.
  Status Open(OpenDatabase* open);
  /// Frees the handle of a database that is not open, or will not be opened. Null is allowed.
  void Free(OpenDatabase* open);
  /// Returns the number of an event of this database that is about to begin. Must be called on all
  /// ranks, even on a rank that runs out of memory.
  int Add(Pending pending);
  /// Records that an event has begun; or that it will not begin.
  void Begun(int event, std::unique_ptr<Event> begun);
  void Drop(int event) { pending_.erase(event); }
  /// Waits for an event, once, and opens the database if a restart has restored it. Collective.
  /// kInvalidArgument: there is no such event of the handle, or it was waited for.
  Status Wait(int handle, int event);
  /// Waits for all operations for which no call has waited. Collective. Returns the first failure,
  /// after all have ended.
  Status WaitForAll();
  /// Ends its walks, closes it, and frees its handle. Collective.
  Status Close(OpenDatabase* open);
  /// Closes all open databases. Collective. Returns the first failure, after all are closed.
  Status CloseAll();
  /// Opens the database of a handle again after it was closed, with the same functions. Collective.
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

/// Returns PapyrusKV's code for the outcome of `call`. Logs a failure with the call's name; an
/// absent key is no failure.
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

/// Runs `body` as Guarded, with the session; PAPYRUSKV_INVALID_ARGUMENT if there is none.
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

/// Runs `body` as Guarded, with the database of `handle`; PAPYRUSKV_INVALID_DB: there is none.
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
