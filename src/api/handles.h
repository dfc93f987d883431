/// The opaque handles of the C interface, and the one place that turns outcomes into codes.
///
/// Layer      api
/// Threads    as the C interface; the message is per thread
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/core/program_call.h"
#include "base/threads/forked_child.h"
#include "quire/database.h"
#include "quire/dataset.h"
#include "quire/quire.h"
#include "quire/stream.h"

struct quire_options {
  quire::ContextOptions context;
  quire::DatabaseOptions database;
  quire::DatasetOptions dataset;
  bool dataset_first_match = false;
  quire::StreamOptions stream;
};

struct quire_db {
  quire::base::OwnProcess process;
  quire::Context* context = nullptr;          ///< outlives the handle
  std::unique_ptr<quire::Database> database;  ///< empty: closed
};

// Handles of an object, for With(); kName is what an argument of the kind is called. In a forked
// child of `process`, and inside a function that Quire calls, their calls are refused.

struct quire_context {
  static constexpr const char* kName = "context";
  std::vector<std::unique_ptr<quire_db>> databases;  ///< closed ones, too: their handles stay valid
  std::unique_ptr<quire::Context> object;
  quire::base::OwnProcess process = {};
};

struct quire_iter {
  static constexpr const char* kName = "iter";
  std::unique_ptr<quire::LocalIterator> object;
  quire::base::OwnProcess process = {};
};

struct quire_event {
  static constexpr const char* kName = "event";
  std::unique_ptr<quire::Event> object;
  quire::base::OwnProcess process = {};
};

struct quire_batch {
  quire::Batch batch;
};

struct quire_pending {
  std::unique_ptr<quire::PendingGet> get;
};

struct quire_value {
  std::string* bytes;
};

namespace quire::api {

/// Returns the code of `status`; if it is a failure, its sentence becomes this thread's message.
int CodeOf(const Status& status);

/// Returns kInvalidArgument: the argument `name` is null.
Status NullArgument(const char* name);

/// Copies a text of the program; kInvalidArgument, with the argument's name, if it is null.
Status CopyText(const char* text, const char* name, std::string* to);

/// Returns a copy of `bytes` for the program, followed by a NUL; null if there is no memory.
char* CopyOut(Slice bytes);

/// Sets `*text` to CopyOut(bytes).
Status GiveText(Slice bytes, char** text);

/// Sets `*iter` to a handle of `made`, unless its creation failed.
Status GiveIterator(std::unique_ptr<LocalIterator> made, quire_iter** iter);

/// Returns bytes of the program as a Slice. A null pointer with size 0 is an empty slice.
inline Slice Bytes(const void* bytes, size_t size) {
  return Slice(static_cast<const char*>(bytes), bytes == nullptr ? 0 : size);
}

/// Runs `body`, which returns a Status. No exception leaves the library.
template <typename Body>
int Guarded(const Body& body) {
  try {
    return CodeOf(body());
  } catch (...) {
    return CodeOf(base::StatusOfException("the call"));
  }
}

/// Returns the database of a handle; kInvalidArgument: it is null or closed.
Result<Database*> DatabaseOf(const quire_db* db);

/// Runs `body` as Guarded, with the database of `db`.
template <typename Body>
int WithDatabase(const quire_db* db, const Body& body) {
  return Guarded([&]() -> Status {
    QUIRE_ASSIGN_OR_RETURN(Database * database, DatabaseOf(db));
    return body(*database);
  });
}

/// Runs `body` as Guarded, with the object of a handle.
template <typename Handle, typename Body>
int With(Handle* handle, const Body& body) {
  return Guarded([&]() -> Status {
    if (handle == nullptr) return NullArgument(Handle::kName);
    if constexpr (requires { handle->process; }) {
      QUIRE_RETURN_IF_ERROR(handle->process.Check(Handle::kName));
    }
    return body(*handle->object);
  });
}

}  // namespace quire::api
