// Fences, modes, statistics and iterators of the C interface.
#include "api/handles.h"

using quire::Database;
using quire::Slice;
using quire::Status;
using quire::api::Bytes;
using quire::api::NullArgument;
using quire::api::With;
using quire::api::WithDatabase;

namespace quire::api {
namespace {

// Returns the error of an iterator that stands on no pair.
Status OffTheEnd(const LocalIterator& iterator) {
  QUIRE_RETURN_IF_ERROR(iterator.status());
  return Status(Code::kInvalidArgument, "the iterator stands on no pair");
}

}  // namespace
}  // namespace quire::api

extern "C" {

int quire_db_fence(quire_db* db) {
  return WithDatabase(db, [](Database& database) { return database.Fence(); });
}

int quire_db_flush(quire_db* db) {
  return WithDatabase(db, [](Database& database) { return database.Flush(); });
}

int quire_db_barrier(quire_db* db, int level) {
  return WithDatabase(db, [level](Database& database) {
    return database.Barrier(static_cast<quire::Level>(level));
  });
}

int quire_db_set_consistency(quire_db* db, int consistency) {
  return WithDatabase(db, [consistency](Database& database) {
    return database.SetConsistency(static_cast<quire::Consistency>(consistency));
  });
}

int quire_db_protect(quire_db* db, int protection) {
  return WithDatabase(db, [protection](Database& database) {
    return database.Protect(static_cast<quire::Protection>(protection));
  });
}

int quire_db_compact(quire_db* db) {
  return WithDatabase(db, [](Database& database) { return database.Compact(); });
}

int quire_db_statistic(quire_db* db, const char* name, uint64_t* value) {
  return WithDatabase(db, [&](Database& database) -> Status {
    if (name == nullptr || value == nullptr) return NullArgument("name or value");
    const quire::Statistics statistics = database.GetStatistics();
    const auto found = statistics.find(name);
    if (found == statistics.end()) return Status(quire::Code::kNotFound);
    *value = found->second;
    return Status();
  });
}

int quire_db_statistics(quire_db* db, char** text) {
  return WithDatabase(db, [&](Database& database) -> Status {
    if (text == nullptr) return NullArgument("text");
    std::string lines;
    for (const auto& [name, value] : database.GetStatistics()) {
      lines += name + " " + std::to_string(value) + "\n";
    }
    return quire::api::GiveText(lines, text);
  });
}

int quire_iter_create(quire_db* db, quire_iter** iter) {
  return WithDatabase(db, [&](Database& database) {
    return quire::api::GiveIterator(database.NewLocalIterator(), iter);
  });
}

void quire_iter_destroy(quire_iter* iter) {
  delete iter;
}

int quire_iter_seek_to_first(quire_iter* iter) {
  return With(iter, [](quire::LocalIterator& iterator) {
    iterator.SeekToFirst();
    return iterator.status();
  });
}

int quire_iter_seek_to_last(quire_iter* iter) {
  return With(iter, [](quire::LocalIterator& iterator) {
    iterator.SeekToLast();
    return iterator.status();
  });
}

int quire_iter_seek(quire_iter* iter, const void* key, size_t key_size) {
  return With(iter, [&](quire::LocalIterator& iterator) {
    iterator.Seek(Bytes(key, key_size));
    return iterator.status();
  });
}

int quire_iter_next(quire_iter* iter) {
  return With(iter, [](quire::LocalIterator& iterator) -> Status {
    if (!iterator.Valid()) return quire::api::OffTheEnd(iterator);
    iterator.Next();
    return iterator.status();
  });
}

int quire_iter_prev(quire_iter* iter) {
  return With(iter, [](quire::LocalIterator& iterator) -> Status {
    if (!iterator.Valid()) return quire::api::OffTheEnd(iterator);
    iterator.Prev();
    return iterator.status();
  });
}

int quire_iter_valid(const quire_iter* iter) {
  return iter != nullptr && iter->object->Valid() ? 1 : 0;
}

int quire_iter_status(const quire_iter* iter) {
  return With(iter, [](const quire::LocalIterator& iterator) { return iterator.status(); });
}

int quire_iter_key(const quire_iter* iter, const void** key, size_t* key_size) {
  return With(iter, [&](const quire::LocalIterator& iterator) -> Status {
    if (key == nullptr || key_size == nullptr) return NullArgument("key or key_size");
    if (!iterator.Valid()) return quire::api::OffTheEnd(iterator);
    *key = iterator.key().data();
    *key_size = iterator.key().size();
    return Status();
  });
}

int quire_iter_value(quire_iter* iter, const void** value, size_t* value_size) {
  return With(iter, [&](quire::LocalIterator& iterator) -> Status {
    if (value == nullptr || value_size == nullptr) return NullArgument("value or value_size");
    if (!iterator.Valid()) return quire::api::OffTheEnd(iterator);
    const Slice bytes = iterator.value();
    QUIRE_RETURN_IF_ERROR(iterator.status());
    *value = bytes.data();
    *value_size = bytes.size();
    return Status();
  });
}

}  // extern "C"
