// The parts of the public classes that are the same for every implementation.
#include "base/own_place.h"
#include "quire/database.h"

namespace quire {

Status Database::Get(Slice key, std::string* value) {
  auto into_value = [value](size_t size) {
    value->resize(size);
    return value->data();
  };
  return Get(key, base::OwnPlace(into_value));
}

void Batch::Put(Slice key, Slice value) {
  operations_.push_back({false, std::string(key), std::string(value)});
}

void Batch::Delete(Slice key) {
  operations_.push_back({true, std::string(key), {}});
}

void Batch::Clear() {
  operations_.clear();
}

}  // namespace quire
