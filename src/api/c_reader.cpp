// Reading beside a writer, of the C interface.
#include "quire/reader.h"

#include <memory>
#include <utility>

#include "api/handles.h"
#include "api/value_forms.h"

using quire::DatabaseReader;
using quire::Status;
using quire::api::Bytes;
using quire::api::Guarded;
using quire::api::NullArgument;
using quire::api::With;

struct quire_reader {
  static constexpr const char* kName = "reader";
  std::unique_ptr<DatabaseReader> object;
  quire::base::OwnProcess process = {};
};

extern "C" {

int quire_reader_open(const char* directory, const quire_options* options, quire_reader** reader) {
  return Guarded([&]() -> Status {
    if (directory == nullptr || reader == nullptr) return NullArgument("directory or reader");
    quire::DatabaseReaderOptions chosen;
    if (options != nullptr) {
      chosen.partitioner = options->database.partitioner;
      chosen.cache_bytes = options->database.storage.cache_bytes;
    }
    QUIRE_ASSIGN_OR_RETURN(auto opened, DatabaseReader::Open(directory, chosen));
    *reader = new quire_reader{std::move(opened)};
    return Status();
  });
}

void quire_reader_destroy(quire_reader* reader) {
  delete reader;
}

int quire_reader_get(const quire_reader* reader, const void* key, size_t key_size, void** value,
                     size_t* value_size) {
  return With(reader, [&](const DatabaseReader& database) {
    return quire::api::GiveValue(database, Bytes(key, key_size), value, value_size);
  });
}

int quire_reader_get_into(const quire_reader* reader, const void* key, size_t key_size,
                          void* buffer, size_t capacity, size_t* value_size) {
  return With(reader, [&](const DatabaseReader& database) {
    return quire::api::FillBuffer(database, Bytes(key, key_size), buffer, capacity, value_size);
  });
}

int quire_reader_iter_create(const quire_reader* reader, quire_iter** iter) {
  return With(reader, [&](const DatabaseReader& database) {
    return quire::api::GiveIterator(database.NewIterator(), iter);
  });
}

int quire_reader_refresh(quire_reader* reader) {
  return With(reader, [](DatabaseReader& database) { return database.Refresh(); });
}

}  // extern "C"
