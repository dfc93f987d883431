// Operations in the background: checkpoints, restarts, destruction.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/compat/papyruskv_names.h"
#include "api/compat/papyruskv_session.h"
#include "base/core/out_of_memory.h"
#include "kv/database/together.h"
#include "runtime/context_state.h"

namespace quire::compat {
namespace {

Result<std::string> ExpandedPath(const char* path) {
  if (path == nullptr) return NullArgument("path");
  return runtime::ExpandRepository(path);
}

// Expands a path. It may begin with "$NAME", or be relative to the working directory: either can be
// wrong on one node alone.
Status Expand(const char* path, std::string* to) {
  QUIRE_ASSIGN_OR_RETURN(*to, ExpandedPath(path));
  return Status();
}

// Gives a number to the event of the operation that `begin` begins. If the program takes no number,
// waits for its end. If one rank has no memory for the number, nothing begins on any rank.
template <typename Begin>
Status Deliver(Session& session, Pending pending, int* event, const Begin& begin) {
  const int handle = pending.handle;
  int number = 0;
  const Status numbered = kv::PrepareTogether(session.context(), [&] {
    number = session.Add(std::move(pending));
    return Status();
  });
  auto begun = numbered.ok() ? base::OrOutOfMemory(begin) : numbered;  // none is left half begun
  if (!begun.ok()) {
    session.Drop(number);
    return begun.status();
  }
  session.Begun(number, std::move(*begun));
  if (event == nullptr) return session.Wait(handle, number);
  *event = number;
  return Status();
}

Status Checkpoint(Session& session, OpenDatabase& open, const char* path, int* event) {
  if (event != nullptr) *event = -1;
  std::string absolute;
  QUIRE_RETURN_IF_ERROR(
      kv::PrepareTogether(session.context(), [&] { return Expand(path, &absolute); }));
  return Deliver(session, {open.handle, false, nullptr}, event,
                 [&] { return open.database->Checkpoint(absolute, CheckpointOptions()); });
}

Status Destroy(Session& session, OpenDatabase& open, int* event) {
  if (event != nullptr) *event = -1;
  const int handle = open.handle;
  const Status closed = session.Close(&open);
  const Status delivered = Deliver(session, {handle, false, nullptr}, event,
                                   [&] { return session.context().DestroyAsync(open.name); });
  return delivered.ok() ? closed : delivered;
}

struct RestartRequest {
  const char* path;
  const char* name;
  int flags;
  const papyruskv_option_t* option;
};

Status ReserveForRestart(Session& session, const RestartRequest& request, OpenDatabase** open) {
  if (request.name == nullptr) return NullArgument("name");
  QUIRE_ASSIGN_OR_RETURN(const std::string mapped, NameInRepository(request.name));
  QUIRE_ASSIGN_OR_RETURN(DatabaseOptions options,
                         OptionsOf(session.settings(), request.flags, request.option));
  options.mode = OpenMode::kMustExist;
  options.force_redistribute = session.settings().redistribute;
  QUIRE_ASSIGN_OR_RETURN(*open, session.Reserve(mapped, options));
  return Status();
}

// Begins a restart. A closed database of the same name is replaced when the checkpoint is complete
// in its place.
Status BeginRestart(Session& session, const std::string& path, const OpenDatabase& open,
                    int* event) {
  return Deliver(session, {open.handle, true, nullptr}, event, [&] {
    return session.context().Restart(path, open.name, {.replace = true});
  });
}

Status Restart(Session& session, const RestartRequest& request, int* db, int* event) {
  *db = -1;
  if (event != nullptr) *event = -1;
  std::string absolute;
  OpenDatabase* open = nullptr;
  const Status prepared = kv::PrepareTogether(session.context(), [&] {
    QUIRE_RETURN_IF_ERROR(Expand(request.path, &absolute));
    return ReserveForRestart(session, request, &open);
  });
  const Status begun = prepared.ok() ? BeginRestart(session, absolute, *open, event) : prepared;
  if (!begun.ok()) {
    session.Free(open);
    return begun;
  }
  *db = open->handle;
  return Status();
}

}  // namespace
}  // namespace quire::compat

using quire::Status;
using quire::compat::NullArgument;
using quire::compat::OpenDatabase;
using quire::compat::Session;
using quire::compat::WithDatabase;
using quire::compat::WithSession;

extern "C" {

int papyruskv_checkpoint(int db, const char* path, int* event) {
  return WithDatabase("papyruskv_checkpoint", db, [&](OpenDatabase& open) {
    return quire::compat::Checkpoint(*Session::Current(), open, path, event);
  });
}

int papyruskv_destroy(int db, int* event) {
  return WithDatabase("papyruskv_destroy", db, [event](OpenDatabase& open) {
    return quire::compat::Destroy(*Session::Current(), open, event);
  });
}

int papyruskv_restart(const char* path, const char* name, int flags, papyruskv_option_t* opt,
                      int* db, int* event) {
  return WithSession("papyruskv_restart", [&](Session& session) -> Status {
    if (db == nullptr) return NullArgument("db");
    return quire::compat::Restart(session, {path, name, flags, opt}, db, event);
  });
}

int papyruskv_wait(int db, int event) {
  return WithSession("papyruskv_wait", [&](Session& session) { return session.Wait(db, event); });
}

}  // extern "C"
