#include "base/threads/forked_child.h"

#include <atomic>

namespace quire::base::internal {
namespace {

std::atomic<Left*> first{nullptr};

}  // namespace

void Leave(Left* part) {
  part->next = first.load();
  while (!first.compare_exchange_weak(part->next, part)) {
  }
}

}  // namespace quire::base::internal
