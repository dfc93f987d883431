#include "kv/core.h"

#include <future>

namespace quire::kv {

void Core::EndTransfers() {
  errands->Drop();
  std::promise<void> ended;
  transfers->Schedule([&ended] { ended.set_value(); });
  while (transfers->RunOne()) {
  }
  ended.get_future().wait();
}

}  // namespace quire::kv
