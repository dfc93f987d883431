#include "api/handles.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/core/out_of_memory.h"
#include "base/text/printable.h"

namespace quire::api {
namespace {

// Why the last call on this thread failed; empty if it succeeded.
thread_local std::string last_message;

}  // namespace

int CodeOf(const Status& status) {
  if (status.ok()) {
    last_message.clear();
  } else {
    base::SayWhy(status, &last_message);
  }
  return static_cast<int>(status.code());
}

Status NullArgument(const char* name) {
  return Status(Code::kInvalidArgument, std::string("the argument ") + name + " is null");
}

Status CopyText(const char* text, const char* name, std::string* to) {
  if (text == nullptr) return NullArgument(name);
  *to = text;
  return Status();
}

char* CopyOut(Slice bytes) {
  char* const copy = static_cast<char*>(std::malloc(bytes.size() + 1));
  if (copy == nullptr) return nullptr;
  if (!bytes.empty()) std::memcpy(copy, bytes.data(), bytes.size());
  copy[bytes.size()] = '\0';
  return copy;
}

Status GiveText(Slice bytes, char** text) {
  *text = CopyOut(bytes);
  return *text != nullptr ? Status() : Status(Code::kOutOfMemory, "no memory for a text");
}

Status GiveIterator(std::unique_ptr<LocalIterator> made, quire_iter** iter) {
  if (iter == nullptr) return NullArgument("iter");
  QUIRE_RETURN_IF_ERROR(made->status());
  *iter = new quire_iter{std::move(made)};
  return Status();
}

Result<Database*> DatabaseOf(const quire_db* db) {
  if (db == nullptr) return NullArgument("db");
  QUIRE_RETURN_IF_ERROR(db->process.Check("db"));
  if (db->database == nullptr) return Status(Code::kInvalidArgument, "the database is closed");
  return db->database.get();
}

}  // namespace quire::api

extern "C" {

const char* quire_error_message(void) {
  return quire::api::last_message.c_str();
}

const char* quire_code_name(int code) {
  return quire::CodeName(static_cast<quire::Code>(code));
}

void quire_free(void* pointer) {
  std::free(pointer);
}

}  // extern "C"
