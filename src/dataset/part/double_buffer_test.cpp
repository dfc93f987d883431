#include "dataset/part/double_buffer.h"

#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <vector>

#include "runtime/sim_ranks_testing.h"
#include "tests/support/status_asserts.h"

namespace quire::dataset::double_buffer_test {
namespace {

struct Numbers {
  std::vector<int> numbers;
  bool empty() const { return numbers.empty(); }
  void Clear() { numbers.clear(); }
};

TEST(DoubleBuffer, IsFreeAndEmptyAgainWhereWritingFindsNoMemory) {
  runtime::RunSimRanks(
      {.rank_count = 1}, [](const std::shared_ptr<runtime::ContextState>& context) {
        const auto queue = std::make_shared<SerialQueue>(nullptr, context->exchange.get());
        bool has_memory = false;
        std::vector<int> written;
        DoubleBuffer<Numbers> buffer(queue.get(), [&](Numbers* full, bool /*only*/) {
          if (!has_memory) throw std::bad_alloc();
          written.insert(written.end(), full->numbers.begin(), full->numbers.end());
          return Status();
        });
        buffer.filling().numbers = {1};
        buffer.Turn();
        EXPECT_TRUE(buffer.spare_free());
        EXPECT_CODE(queue->Drain(), Code::kOutOfMemory);
        buffer.Drop();
        queue->ClearError();
        has_memory = true;
        for (const int number : {2, 3}) {
          buffer.filling().numbers.push_back(number);
          buffer.Turn();
        }
        EXPECT_OK(queue->Drain());
        EXPECT_EQ(written, (std::vector<int>{2, 3}));
      });
}

}  // namespace
}  // namespace quire::dataset::double_buffer_test
