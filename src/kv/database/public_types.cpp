// The parts of the public classes that are the same for every implementation.
#include "quire/database.h"

namespace quire {

Status Database::Get(Slice key, std::string* value) {
  return Get(key, Into(value));
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
