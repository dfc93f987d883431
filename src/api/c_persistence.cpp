// Checkpoints, restarts, destructions in the background, and their events, of the C interface.
#include <memory>
#include <string>
#include <utility>

#include "api/handles.h"
#include "kv/database/together.h"

using quire::Code;
using quire::Database;
using quire::Event;
using quire::Result;
using quire::Slice;
using quire::Status;
using quire::api::CopyText;
using quire::api::WithDatabase;

namespace quire::api {
namespace {

// Runs `prepare`, and gives the program the event of the operation that `begin` begins; if the
// program takes no event, waits for its end. If one rank has no memory for the event, nothing
// begins on any rank.
template <typename Prepare, typename Begin>
Status GiveEvent(Context& context, quire_event** event, const Prepare& prepare,
                 const Begin& begin) {
  std::unique_ptr<quire_event> handle;
  QUIRE_RETURN_IF_ERROR(kv::PrepareTogether(context, [&] {
    handle = std::make_unique<quire_event>();
    return prepare();
  }));
  QUIRE_ASSIGN_OR_RETURN(handle->object, begin());
  if (event == nullptr) return kv::WaitTogether(context, *handle->object);
  *event = handle.release();
  return Status();
}

}  // namespace
}  // namespace quire::api

using quire::api::GiveEvent;
using quire::api::With;

extern "C" {

int quire_db_checkpoint(quire_db* db, const char* path, int keep, quire_event** event) {
  return WithDatabase(db, [&](Database& database) -> Status {
    quire::CheckpointOptions options;
    options.keep = keep;
    std::string to;
    return GiveEvent(
        *db->context, event, [&] { return CopyText(path, "path", &to); },
        [&] { return database.Checkpoint(to, options); });
  });
}

int quire_context_restart(quire_context* context, const char* path, const char* name,
                          uint64_t number, int flags, quire_event** event) {
  return With(context, [&](quire::Context& runtime) -> Status {
    std::string from;
    std::string to;
    const auto prepare = [&]() -> Status {
      if ((flags & ~(QUIRE_RESTART_IN_PLACE | QUIRE_RESTART_REPLACE)) != 0) {
        return Status(Code::kInvalidArgument,
                      "flags of a restart are " + std::to_string(flags) +
                          "; give QUIRE_RESTART_IN_PLACE, QUIRE_RESTART_REPLACE, or 0");
      }
      QUIRE_RETURN_IF_ERROR(CopyText(path, "path", &from));
      return CopyText(name, "name", &to);
    };
    quire::RestartOptions options;
    options.number = number;
    options.in_place = (flags & QUIRE_RESTART_IN_PLACE) != 0;
    options.replace = (flags & QUIRE_RESTART_REPLACE) != 0;
    return GiveEvent(runtime, event, prepare, [&] { return runtime.Restart(from, to, options); });
  });
}

int quire_context_destroy_database_async(quire_context* context, const char* name,
                                         quire_event** event) {
  return With(context, [&](quire::Context& runtime) -> Status {
    std::string text;
    return GiveEvent(
        runtime, event, [&] { return CopyText(name, "name", &text); },
        [&] { return runtime.DestroyAsync(text); });
  });
}

int quire_event_ready(quire_event* event) {
  return event != nullptr && event->object->Ready() ? 1 : 0;
}

int quire_event_wait(quire_event* event) {
  return With(event, [](quire::Event& of) { return of.Wait(); });
}

int quire_event_progress(const quire_event* event, uint64_t* bytes_done, uint64_t* bytes_total) {
  return With(event, [&](const quire::Event& of) {
    const quire::EventProgress progress = of.Progress();
    if (bytes_done != nullptr) *bytes_done = progress.bytes_done;
    if (bytes_total != nullptr) *bytes_total = progress.bytes_total;
    return Status();
  });
}

void quire_event_destroy(quire_event* event) {
  delete event;
}

}  // extern "C"
