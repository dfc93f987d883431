// Pairs: put, get, delete, and walks over what this rank owns.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "api/compat/papyruskv_session.h"
#include "api/malloc_place.h"
#include "base/core/own_buffer.h"

namespace quire::compat {
namespace {

// The handle of every position: positions are a hint, and the key alone finds a pair in two steps.
char found_somewhere;

Status CheckKey(const char* key) {
  return key == nullptr ? NullArgument("key") : Status();
}

// Reads the value into memory of the library first: the size of the program's buffer is unknown,
// and a read that is repeated because the value changes meanwhile may need more room.
Status GetValue(Database& database, Slice key, char** value, size_t* size) {
  api::MallocPlace place;
  QUIRE_RETURN_IF_ERROR(database.Get(key, base::OwnBuffer(place)));
  if (*value == nullptr) {
    *value = place.Release();
  } else if (place.size() > 0) {
    std::memcpy(*value, place.bytes(), place.size());
  }
  if (size != nullptr) *size = place.size();
  return Status();
}

// Shows the program the pair on which the walk stands. Returns false if there is none.
Result<bool> Show(Walk* walk) {
  LocalIterator& iterator = *walk->iterator;
  if (!iterator.Valid()) {
    QUIRE_RETURN_IF_ERROR(iterator.status());
    return false;
  }
  walk->key.assign(iterator.key());
  walk->value.assign(iterator.value());
  QUIRE_RETURN_IF_ERROR(iterator.status());
  walk->seen = {walk->key.data(), walk->key.size(), walk->value.data(), walk->value.size(), walk};
  return true;
}

Status BeginWalk(OpenDatabase* open, papyruskv_iter_t* iter) {
  if (iter == nullptr) return NullArgument("iter");
  *iter = nullptr;
  auto walk = std::make_unique<Walk>();
  walk->iterator = open->database->NewLocalIterator();
  walk->iterator->SeekToFirst();
  QUIRE_ASSIGN_OR_RETURN(const bool there, Show(walk.get()));
  if (!there) return Status();
  const std::lock_guard<std::mutex> lock(open->mutex);
  papyruskv_iter_t const seen = &walk->seen;
  open->walks.emplace(seen, std::move(walk));
  *iter = seen;
  return Status();
}

Status ContinueWalk(OpenDatabase* open, papyruskv_iter_t* iter) {
  if (iter == nullptr || *iter == nullptr) return NullArgument("iter");
  Walk* walk = nullptr;
  {
    const std::lock_guard<std::mutex> lock(open->mutex);
    const auto at = open->walks.find(*iter);
    if (at != open->walks.end()) walk = at->second.get();
  }
  if (walk == nullptr) {
    return Status(Code::kInvalidArgument, "this is no walk of the database, or it has ended");
  }
  walk->iterator->Next();
  const Result<bool> there = Show(walk);
  if (there.ok() && *there) return Status();
  const std::lock_guard<std::mutex> lock(open->mutex);
  open->walks.erase(*iter);
  *iter = nullptr;
  return there.status();
}

}  // namespace
}  // namespace quire::compat

using quire::Slice;
using quire::Status;
using quire::compat::CheckKey;
using quire::compat::NullArgument;
using quire::compat::OpenDatabase;
using quire::compat::WithDatabase;

extern "C" {

int papyruskv_put(int db, const char* key, size_t keylen, const char* val, size_t vallen) {
  return WithDatabase("papyruskv_put", db, [&](OpenDatabase& open) -> Status {
    QUIRE_RETURN_IF_ERROR(CheckKey(key));
    if (val == nullptr && vallen > 0) return NullArgument("val");
    return open.database->Put(Slice(key, keylen), Slice(val, vallen));
  });
}

int papyruskv_get(int db, const char* key, size_t keylen, char** val, size_t* vallen) {
  return papyruskv_get_pos(db, key, keylen, val, vallen, nullptr);
}

int papyruskv_get_pos(int db, const char* key, size_t keylen, char** val, size_t* vallen,
                      papyruskv_pos_t* pos) {
  return WithDatabase("papyruskv_get", db, [&](OpenDatabase& open) -> Status {
    if (vallen != nullptr) *vallen = 0;
    if (pos != nullptr) pos->handle = nullptr;
    QUIRE_RETURN_IF_ERROR(CheckKey(key));
    if (val == nullptr) return NullArgument("val");
    QUIRE_RETURN_IF_ERROR(quire::compat::GetValue(*open.database, Slice(key, keylen), val, vallen));
    if (pos != nullptr) pos->handle = &quire::compat::found_somewhere;
    return Status();
  });
}

int papyruskv_delete(int db, const char* key, size_t keylen) {
  return WithDatabase("papyruskv_delete", db, [&](OpenDatabase& open) -> Status {
    QUIRE_RETURN_IF_ERROR(CheckKey(key));
    return open.database->Delete(Slice(key, keylen));
  });
}

int papyruskv_free(char** val) {
  if (val == nullptr) return quire::compat::CodeOf("papyruskv_free", NullArgument("val"));
  std::free(std::exchange(*val, nullptr));
  return PAPYRUSKV_OK;
}

int papyruskv_iter_local(int db, papyruskv_iter_t* iter) {
  return WithDatabase("papyruskv_iter_local", db,
                      [iter](OpenDatabase& open) { return quire::compat::BeginWalk(&open, iter); });
}

int papyruskv_iter_next(int db, papyruskv_iter_t* iter) {
  return WithDatabase("papyruskv_iter_next", db, [iter](OpenDatabase& open) {
    return quire::compat::ContinueWalk(&open, iter);
  });
}

}  // extern "C"
