// What goes on in the background: checkpoints, restarts, destruction.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/compat/papyruskv_names.h"
#include "api/compat/papyruskv_session.h"
#include "base/out_of_memory.h"
#include "kv/database/context.h"

namespace quire::compat {
namespace {

Result<std::string> ExpandedPath(const char* path) {
  if (path == nullptr) return NullArgument("path");
  return runtime::ExpandRepository(path);
}

// Paths may begin with "$NAME", and where the program runs: either can be wrong on one node alone.
Result<std::string> CheckpointPath(Context& context, const char* path) {
  Result<std::string> expanded = ExpandedPath(path);
  QUIRE_RETURN_IF_ERROR(context.Agree(expanded.status()));
  return expanded;
}

// A program that takes no event waits here.
Status Deliver(Session& session, Pending pending, int* event) {
  const int handle = pending.handle;
  int number = 0;
  QUIRE_RETURN_IF_ERROR(session.context().Agree(base::OrOutOfMemory([&] {
    number = session.Add(std::move(pending));
    return Status();
  })));
  if (event == nullptr) return session.Wait(handle, number);
  *event = number;
  return Status();
}

Status Checkpoint(Session& session, OpenDatabase& open, const char* path, int* event) {
  if (event != nullptr) *event = -1;
  QUIRE_ASSIGN_OR_RETURN(const std::string absolute, CheckpointPath(session.context(), path));
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<Event> begun,
                         open.database->Checkpoint(absolute, CheckpointOptions()));
  return Deliver(session, {open.handle, false, std::move(begun)}, event);
}

Status Destroy(Session& session, OpenDatabase& open, int* event) {
  if (event != nullptr) *event = -1;
  const int handle = open.handle;
  const Status closed = session.Close(&open);
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<Event> begun, session.context().DestroyAsync(open.name));
  const Status delivered = Deliver(session, {handle, false, std::move(begun)}, event);
  return delivered.ok() ? closed : delivered;
}

struct RestartRequest {
  const char* path;
  const char* name;
  int flags;
  const papyruskv_option_t* option;
};

Status Restart(Session& session, const RestartRequest& request, int* db, int* event) {
  *db = -1;
  if (event != nullptr) *event = -1;
  if (request.name == nullptr) return NullArgument("name");
  QUIRE_ASSIGN_OR_RETURN(const std::string absolute,
                         CheckpointPath(session.context(), request.path));
  QUIRE_ASSIGN_OR_RETURN(const std::string mapped, NameInRepository(request.name));
  QUIRE_ASSIGN_OR_RETURN(DatabaseOptions options,
                         OptionsOf(session.settings(), request.flags, request.option));
  options.mode = OpenMode::kMustExist;
  options.force_redistribute = session.settings().redistribute;
  QUIRE_ASSIGN_OR_RETURN(const int handle, session.Reserve(mapped, options));
  // A closed database of the name makes room once the checkpoint is there in its place.
  auto begun = session.context().Restart(absolute, mapped, {.replace = true});
  if (!begun.ok()) {
    session.Free(session.Find(handle));
    return begun.status();
  }
  QUIRE_RETURN_IF_ERROR(Deliver(session, {handle, true, std::move(*begun)}, event));
  *db = handle;
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
