#include "dataset/part/serial_queue.h"

#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <vector>

#include "runtime/sim_ranks_testing.h"
#include "tests/support/status_asserts.h"

namespace quire::dataset::serial_queue_test {
namespace {

class NoMemory final : public base::Executor {
 public:
  void Schedule(std::function<void()> /*job*/) override { throw std::bad_alloc(); }
  bool RunOne() override { return false; }
  void WaitIdle() override {}
  int thread_count() const override { return 0; }
};

TEST(SerialQueue, DoesItsWorkHereWhereThereIsNoMemoryToHandItOver) {
  runtime::RunSimRanks({.rank_count = 1}, [](const std::shared_ptr<runtime::ContextState>&
                                                 context) {
    NoMemory executor;
    const auto queue = std::make_shared<SerialQueue>(&executor, context->exchange.get());
    std::vector<int> done;
    queue->Run([&] {
      queue->Run([&] {  // behind this one
        done.push_back(2);
        return Status(Code::kIo);
      });
      done.push_back(1);
      return Status();
    });
    EXPECT_EQ(done, (std::vector<int>{1, 2}));
    EXPECT_CODE(queue->Drain(), Code::kIo);
  });
}

}  // namespace
}  // namespace quire::dataset::serial_queue_test
