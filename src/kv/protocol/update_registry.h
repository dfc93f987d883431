/// The update functions that a rank has registered, by their numbers.
///
/// Layer      kv
/// Threads    any; Find takes no lock
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "quire/database.h"

namespace quire::kv {

class UpdateRegistry {
 public:
  /// Stores the function under `id`. kInvalidArgument: `function` is empty.
  Status Register(uint32_t id, AnsweringUpdateFunction function);
  /// Returns the function under `id`, or null. Valid as long as the registry.
  const AnsweringUpdateFunction* Find(uint32_t id) const;

 private:
  struct Entry {
    uint32_t id;
    const AnsweringUpdateFunction* function;
  };
  using Table = std::vector<Entry>;

  std::mutex mutex_;
  std::atomic<const Table*> table_{nullptr};
  // All functions ever registered: readers may still run one that was replaced.
  std::vector<std::unique_ptr<const AnsweringUpdateFunction>> functions_;
  std::vector<std::unique_ptr<const Table>> tables_;
};

}  // namespace quire::kv
