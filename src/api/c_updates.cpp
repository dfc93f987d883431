// Updates of the C interface.
#include "api/handles.h"

using quire::Database;
using quire::Slice;
using quire::Status;
using quire::api::Bytes;
using quire::api::Guarded;
using quire::api::NullArgument;
using quire::api::WithDatabase;

namespace quire::api {
namespace {

quire_bytes ToC(Slice bytes) {
  return {bytes.data(), bytes.size()};
}

// Returns the status that a function of the program means by its result.
Status OutcomeOf(int code) {
  if (code == QUIRE_OK) return Status();
  if (code == QUIRE_NOT_FOUND) return Status(Code::kNotFound);
  const bool known = code > 0 && code <= QUIRE_UNSUPPORTED;
  return Status(known ? static_cast<Code>(code) : Code::kInvalidArgument,
                "the update function answered " + std::to_string(code));
}

}  // namespace
}  // namespace quire::api

using quire::api::OutcomeOf;
using quire::api::ToC;

extern "C" {

int quire_value_set(quire_value* value, const void* bytes, size_t size) {
  return Guarded([&]() -> Status {
    if (value == nullptr || (bytes == nullptr && size > 0)) return NullArgument("value or bytes");
    value->bytes->assign(Bytes(bytes, size));
    return Status();
  });
}

int quire_db_register_update(quire_db* db, uint32_t id, quire_update function, void* user) {
  return WithDatabase(db, [&](Database& database) -> Status {
    if (function == nullptr) return NullArgument("function");
    return database.RegisterUpdate(id, [function, user](Slice key, const Slice* present,
                                                        Slice argument, std::string* updated) {
      quire_value value{updated};
      const quire_bytes before = ToC(present == nullptr ? Slice() : *present);
      return OutcomeOf(
          function(ToC(key), present == nullptr ? nullptr : &before, ToC(argument), &value, user));
    });
  });
}

int quire_db_register_answering_update(quire_db* db, uint32_t id, quire_answering_update function,
                                       void* user) {
  return WithDatabase(db, [&](Database& database) -> Status {
    if (function == nullptr) return NullArgument("function");
    return database.RegisterAnsweringUpdate(
        id, [function, user](Slice key, const Slice* present, Slice argument, std::string* updated,
                             std::string* answer) {
          quire_value value{updated};
          quire_value answered{answer};
          const quire_bytes before = ToC(present == nullptr ? Slice() : *present);
          return OutcomeOf(function(ToC(key), present == nullptr ? nullptr : &before, ToC(argument),
                                    &value, &answered, user));
        });
  });
}

int quire_db_update(quire_db* db, const void* key, size_t key_size, uint32_t id,
                    const void* argument, size_t argument_size) {
  return WithDatabase(db, [&](Database& database) -> Status {
    if (argument == nullptr && argument_size > 0) return NullArgument("argument");
    return database.Update(Bytes(key, key_size), id, Bytes(argument, argument_size));
  });
}

int quire_db_update_and_answer(quire_db* db, quire_bytes key, uint32_t id, quire_bytes argument,
                               void** answer, size_t* answer_size) {
  return WithDatabase(db, [&](Database& database) -> Status {
    if (argument.data == nullptr && argument.size > 0) return NullArgument("argument");
    if (answer == nullptr || answer_size == nullptr) return NullArgument("answer or answer_size");
    std::string answered;
    QUIRE_RETURN_IF_ERROR(database.UpdateAndAnswer(Bytes(key.data, key.size), id,
                                                   Bytes(argument.data, argument.size), &answered));
    char* text = nullptr;
    QUIRE_RETURN_IF_ERROR(quire::api::GiveText(answered, &text));
    *answer = text;
    *answer_size = answered.size();
    return Status();
  });
}

}  // extern "C"
