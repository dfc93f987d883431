// Reading and writing through the C interface.
#include <cstdlib>
#include <cstring>
#include <utility>

#include "api/handles.h"
#include "api/key_arrays.h"
#include "api/value_forms.h"
#include "base/core/out_of_memory.h"

using quire::Database;
using quire::Result;
using quire::Slice;
using quire::Status;
using quire::api::Bytes;
using quire::api::CheckArrays;
using quire::api::Guarded;
using quire::api::NullArgument;
using quire::api::SlicesOf;
using quire::api::WithDatabase;

extern "C" {

int quire_db_owner(const quire_db* db, const void* key, size_t key_size, int* owner) {
  return WithDatabase(db, [&](Database& database) -> Status {
    if (owner == nullptr) return NullArgument("owner");
    *owner = database.Owner(Bytes(key, key_size));
    return Status();
  });
}

int quire_db_put(quire_db* db, const void* key, size_t key_size, const void* value,
                 size_t value_size) {
  return WithDatabase(db, [&](Database& database) -> Status {
    if (value == nullptr && value_size > 0) return NullArgument("value");
    return database.Put(Bytes(key, key_size), Bytes(value, value_size));
  });
}

int quire_db_delete(quire_db* db, const void* key, size_t key_size) {
  return WithDatabase(db,
                      [&](Database& database) { return database.Delete(Bytes(key, key_size)); });
}

int quire_db_get(quire_db* db, const void* key, size_t key_size, void** value, size_t* value_size) {
  return WithDatabase(db, [&](Database& database) {
    return quire::api::GiveValue(database, Bytes(key, key_size), value, value_size);
  });
}

int quire_db_get_into(quire_db* db, const void* key, size_t key_size, void* buffer, size_t capacity,
                      size_t* value_size) {
  return WithDatabase(db, [&](Database& database) {
    return quire::api::FillBuffer(database, Bytes(key, key_size), buffer, capacity, value_size);
  });
}

int quire_db_get_async(quire_db* db, const void* key, size_t key_size, quire_pending** pending) {
  return WithDatabase(db, [&](Database& database) -> Status {
    if (pending == nullptr) return NullArgument("pending");
    auto handle = std::make_unique<quire_pending>();
    handle->get = database.GetAsync(Bytes(key, key_size));
    *pending = handle.release();
    return Status();
  });
}

int quire_pending_ready(quire_pending* pending) {
  return pending == nullptr || pending->get->Ready() ? 1 : 0;
}

int quire_pending_take(quire_pending* pending, void** value, size_t* value_size) {
  return Guarded([&]() -> Status {
    if (pending == nullptr || value == nullptr || value_size == nullptr) {
      return NullArgument("pending, value or value_size");
    }
    const std::unique_ptr<quire_pending> owned(pending);
    QUIRE_ASSIGN_OR_RETURN(const std::string bytes, owned->get->Take());
    char* text = nullptr;
    QUIRE_RETURN_IF_ERROR(quire::api::GiveText(bytes, &text));
    *value = text;
    *value_size = bytes.size();
    return Status();
  });
}

void quire_pending_destroy(quire_pending* pending) {
  delete pending;
}

int quire_db_put_many(quire_db* db, size_t count, const void* const* keys, const size_t* key_sizes,
                      const void* const* values, const size_t* value_sizes) {
  return WithDatabase(db, [&](Database& database) -> Status {
    QUIRE_RETURN_IF_ERROR(CheckArrays(count, keys, key_sizes));
    QUIRE_RETURN_IF_ERROR(CheckArrays(count, values, value_sizes));
    std::vector<std::pair<Slice, Slice>> pairs;
    pairs.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      if (values[i] == nullptr && value_sizes[i] > 0) return NullArgument("values");
      pairs.emplace_back(Bytes(keys[i], key_sizes[i]), Bytes(values[i], value_sizes[i]));
    }
    return database.PutMany(pairs);
  });
}

int quire_db_delete_many(quire_db* db, size_t count, const void* const* keys,
                         const size_t* key_sizes) {
  return WithDatabase(db, [&](Database& database) -> Status {
    QUIRE_RETURN_IF_ERROR(CheckArrays(count, keys, key_sizes));
    return database.DeleteMany(SlicesOf(count, keys, key_sizes));
  });
}

int quire_db_get_many(quire_db* db, size_t count, const void* const* keys, const size_t* key_sizes,
                      void** values, size_t* value_sizes) {
  return WithDatabase(db, [&](Database& database) -> Status {
    QUIRE_RETURN_IF_ERROR(CheckArrays(count, keys, key_sizes));
    if (count > 0 && (values == nullptr || value_sizes == nullptr)) return NullArgument("values");
    std::vector<std::string> got;
    std::vector<bool> found;
    QUIRE_RETURN_IF_ERROR(database.GetMany(SlicesOf(count, keys, key_sizes), &got, &found));
    for (size_t i = 0; i < count; ++i) {
      values[i] = found[i] ? quire::api::CopyOut(got[i]) : nullptr;
      value_sizes[i] = found[i] ? got[i].size() : 0;
      if (!found[i] || values[i] != nullptr) continue;
      for (size_t given = 0; given < i; ++given) quire_free(std::exchange(values[given], nullptr));
      return Status(quire::Code::kOutOfMemory, "no memory for the values");
    }
    return Status();
  });
}

int quire_batch_create(quire_batch** batch) {
  return Guarded([&]() -> Status {
    if (batch == nullptr) return NullArgument("batch");
    *batch = new quire_batch;
    return Status();
  });
}

int quire_batch_put(quire_batch* batch, const void* key, size_t key_size, const void* value,
                    size_t value_size) {
  return Guarded([&]() -> Status {
    if (batch == nullptr) return NullArgument("batch");
    if (value == nullptr && value_size > 0) return NullArgument("value");
    batch->batch.Put(Bytes(key, key_size), Bytes(value, value_size));
    return Status();
  });
}

int quire_batch_delete(quire_batch* batch, const void* key, size_t key_size) {
  return Guarded([&]() -> Status {
    if (batch == nullptr) return NullArgument("batch");
    batch->batch.Delete(Bytes(key, key_size));
    return Status();
  });
}

int quire_batch_clear(quire_batch* batch) {
  return Guarded([&]() -> Status {
    if (batch == nullptr) return NullArgument("batch");
    batch->batch.Clear();
    return Status();
  });
}

void quire_batch_destroy(quire_batch* batch) {
  delete batch;
}

int quire_db_write(quire_db* db, const quire_batch* batch) {
  return WithDatabase(db, [&](Database& database) -> Status {
    if (batch == nullptr) return NullArgument("batch");
    return database.Write(batch->batch);
  });
}

}  // extern "C"
