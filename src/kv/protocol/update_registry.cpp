#include "kv/protocol/update_registry.h"

#include <algorithm>
#include <string>
#include <utility>

namespace quire::kv {

Status UpdateRegistry::Register(uint32_t id, AnsweringUpdateFunction function) {
  if (!function) {
    return Status(Code::kInvalidArgument,
                  "the update function " + std::to_string(id) + " is empty");
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  functions_.push_back(std::make_unique<const AnsweringUpdateFunction>(std::move(function)));
  const Table* const present = table_.load(std::memory_order_relaxed);
  auto next = std::make_unique<Table>(present == nullptr ? Table() : *present);
  const auto at =
      std::find_if(next->begin(), next->end(), [id](const Entry& entry) { return entry.id == id; });
  if (at == next->end()) {
    next->push_back({id, functions_.back().get()});
  } else {
    at->function = functions_.back().get();
  }
  // Stored before any reader sees it.
  tables_.push_back(std::move(next));
  table_.store(tables_.back().get(), std::memory_order_release);
  return Status();
}

const AnsweringUpdateFunction* UpdateRegistry::Find(uint32_t id) const {
  const Table* const table = table_.load(std::memory_order_acquire);
  if (table == nullptr) return nullptr;
  for (const Entry& entry : *table) {
    if (entry.id == id) return entry.function;
  }
  return nullptr;
}

}  // namespace quire::kv
