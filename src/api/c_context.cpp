// Options and contexts of the C interface.
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/handles.h"
#include "api/open_context.h"
#include "base/core/out_of_memory.h"
#include "base/core/program_call.h"
#include "kv/database/together.h"
#include "quire/log.h"
#include "quire/option_table.h"
#include "quire/version.h"

namespace quire::api {
namespace {

// Returns the kind of an option. No two kinds have an option of the same name, so the name
// identifies the kind. An unknown name counts as a database option.
OptionGroup GroupOf(const std::string& name) {
  for (const OptionRow& row : OptionTable::Rows()) {
    if (row.name == name) return row.group;
  }
  return OptionGroup::kDatabase;
}

// Calls `body` with the struct that has the option.
template <typename Options, typename Body>
auto WithOption(Options* options, const std::string& name, const Body& body) {
  switch (GroupOf(name)) {
    case OptionGroup::kContext:
      return body(&options->context);
    case OptionGroup::kDataset:
      return body(&options->dataset);
    case OptionGroup::kStream:
      return body(&options->stream);
    default:
      return body(&options->database);
  }
}

// Gives the context to the program. If one rank has no memory for its handle, no rank has a
// context.
Status GiveContext(Result<std::unique_ptr<Context>> made, quire_context** context) {
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<Context> opened, std::move(made));
  std::unique_ptr<quire_context> handle;
  QUIRE_RETURN_IF_ERROR(kv::PrepareTogether(*opened, [&] {
    handle = std::make_unique<quire_context>();
    return Status();
  }));
  handle->object = std::move(opened);
  *context = handle.release();
  return Status();
}

Result<std::vector<int>> Ranks(const int* ranks, int count) {
  if (count < 0 || (ranks == nullptr && count > 0)) return NullArgument("ranks");
  return std::vector<int>(ranks, ranks + count);
}

ContextOptions OptionsOf(const quire_options* options) {
  return options == nullptr ? ContextOptions() : options->context;
}

}  // namespace
}  // namespace quire::api

using quire::Result;
using quire::Slice;
using quire::Status;
using quire::api::CopyText;
using quire::api::Guarded;
using quire::api::NullArgument;
using quire::api::With;
using quire::kv::PrepareTogether;

extern "C" {

int quire_set_log(quire_log_function function, void* user) {
  return Guarded([&]() -> Status {
    quire::LogSink sink;
    if (function != nullptr) {
      sink = [function, user](quire::LogLevel level, const std::string& text) {
        function(static_cast<int>(level), text.c_str(), user);
      };
    }
    quire::SetLogSink(std::move(sink));
    return Status();
  });
}

const char* quire_version(void) {
  return quire::Version();
}

int quire_options_create(quire_options** options) {
  return Guarded([&]() -> Status {
    if (options == nullptr) return NullArgument("options");
    *options = new quire_options;
    return Status();
  });
}

void quire_options_destroy(quire_options* options) {
  delete options;
}

int quire_options_set(quire_options* options, const char* name, const char* value) {
  return Guarded([&]() -> Status {
    if (options == nullptr || name == nullptr || value == nullptr) {
      return NullArgument("options, name or value");
    }
    return quire::api::WithOption(
        options, name, [&](auto* having) { return quire::OptionTable::Set(name, value, having); });
  });
}

int quire_options_get(const quire_options* options, const char* name, char** value) {
  return Guarded([&]() -> Status {
    if (options == nullptr || name == nullptr || value == nullptr) {
      return NullArgument("options, name or value");
    }
    const Result<std::string> text = quire::api::WithOption(
        options, name, [&](const auto* having) { return quire::OptionTable::Get(name, *having); });
    return text.ok() ? quire::api::GiveText(*text, value) : text.status();
  });
}

int quire_options_explain(const quire_options* options, char** text) {
  return Guarded([&]() -> Status {
    if (options == nullptr || text == nullptr) return NullArgument("options or text");
    return quire::api::GiveText(quire::OptionTable::Explain(options->context, options->database,
                                                            options->dataset, options->stream),
                                text);
  });
}

int quire_options_set_partitioner(quire_options* options, const char* name,
                                  quire_partitioner function, void* user) {
  return Guarded([&]() -> Status {
    if (options == nullptr || name == nullptr || function == nullptr) {
      return NullArgument("options, name or function");
    }
    options->database.partitioner_name = name;
    options->database.partitioner = [function, user](Slice key, int rank_count) {
      return function(key.data(), key.size(), rank_count, user);
    };
    return Status();
  });
}

int quire_context_open(const char* repository, const quire_options* options,
                       quire_context** context) {
  return Guarded([&]() -> Status {
    if (repository == nullptr || context == nullptr) return NullArgument("repository or context");
    return quire::api::GiveContext(
        quire::api::OpenAlone(repository, quire::api::OptionsOf(options)), context);
  });
}

int quire_context_open_fortran(int communicator, const char* repository,
                               const quire_options* options, quire_context** context) {
  return Guarded([&]() -> Status {
    if (repository == nullptr || context == nullptr) return NullArgument("repository or context");
    return quire::api::GiveContext(
        quire::api::OpenTogether(communicator, repository, quire::api::OptionsOf(options)),
        context);
  });
}

int quire_context_close(quire_context* context) {
  return Guarded([&]() -> Status {
    if (context == nullptr) return Status();
    QUIRE_RETURN_IF_ERROR(quire::base::CheckNoProgramCall("quire_context_close"));
    context->databases.clear();
    delete context;
    return Status();
  });
}

int quire_context_rank(const quire_context* context) {
  return context == nullptr ? -1 : context->object->rank();
}

int quire_context_size(const quire_context* context) {
  return context == nullptr ? -1 : context->object->size();
}

int quire_context_describe(const quire_context* context, char** text) {
  return With(context, [&](const quire::Context& of) -> Status {
    if (text == nullptr) return NullArgument("text");
    return quire::api::GiveText(of.Description(), text);
  });
}

int quire_context_barrier(quire_context* context) {
  return With(context, [](quire::Context& of) { return of.Barrier(); });
}

int quire_context_notify(quire_context* context, int signal, const int* ranks, int count) {
  return With(context, [&](quire::Context& of) -> Status {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<int> list, quire::api::Ranks(ranks, count));
    return of.Notify(signal, list);
  });
}

int quire_context_wait_signal(quire_context* context, int signal, const int* ranks, int count) {
  return With(context, [&](quire::Context& of) -> Status {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<int> list, quire::api::Ranks(ranks, count));
    return of.WaitSignal(signal, list);
  });
}

int quire_context_progress(quire_context* context) {
  return With(context, [](quire::Context& of) {
    of.Progress();
    return Status();
  });
}

int quire_context_destroy_database(quire_context* context, const char* name) {
  return With(context, [&](quire::Context& of) -> Status {
    std::string text;
    QUIRE_RETURN_IF_ERROR(PrepareTogether(of, [&] { return CopyText(name, "name", &text); }));
    return of.Destroy(text);
  });
}

int quire_context_list_databases(quire_context* context, char** names) {
  return With(context, [&](quire::Context& of) -> Status {
    if (names == nullptr) return NullArgument("names");
    QUIRE_ASSIGN_OR_RETURN(const std::vector<std::string> databases, of.ListDatabases());
    char* given = nullptr;
    const Status listed = PrepareTogether(of, [&] {
      std::string lines;
      for (const std::string& database : databases) lines += database + "\n";
      return quire::api::GiveText(lines, &given);
    });
    if (listed.ok()) {
      *names = given;
    } else {
      std::free(given);
    }
    return listed;
  });
}

int quire_context_agree(quire_context* context, int code, const char* text) {
  return With(context, [&](quire::Context& of) -> Status {
    return PrepareTogether(of, [&]() -> Status {
      if (code < 0 || code > QUIRE_UNSUPPORTED) {
        return Status(quire::Code::kInvalidArgument, "there is no code " + std::to_string(code));
      }
      if (code == QUIRE_OK) return Status();
      return Status(static_cast<quire::Code>(code), text == nullptr ? "" : text);
    });
  });
}

int quire_db_open(quire_context* context, const char* name, const quire_options* options,
                  quire_db** db) {
  return With(context, [&](quire::Context& of) -> Status {
    const quire::DatabaseOptions defaults;
    auto& databases = context->databases;
    std::unique_ptr<quire_db> handle;
    std::string text;
    QUIRE_RETURN_IF_ERROR(PrepareTogether(of, [&]() -> Status {
      if (name == nullptr || db == nullptr) return NullArgument("name or db");
      text = name;
      handle = std::make_unique<quire_db>();
      if (databases.size() == databases.capacity()) databases.reserve(2 * databases.size() + 1);
      return Status();
    }));
    QUIRE_ASSIGN_OR_RETURN(handle->database,
                           of.Open(text, options == nullptr ? defaults : options->database));
    handle->context = &of;
    *db = handle.get();
    databases.push_back(std::move(handle));
    return Status();
  });
}

int quire_db_close(quire_db* db) {
  return quire::api::WithDatabase(db, [db](quire::Database& database) {
    // A function of the program that runs inside a call of the library must not close a database.
    QUIRE_RETURN_IF_ERROR(quire::base::CheckNoProgramCall("quire_db_close"));
    const Status closed = database.Close();
    db->database.reset();
    return closed;
  });
}

}  // extern "C"
