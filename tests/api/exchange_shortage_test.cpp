// The n-th allocation fails while a rank's requests to itself wait and are handled, for n = 0, 1,
// ...: each is answered, and none waits for its deadline.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/out_of_memory.h"
#include "comm/exchange/exchange.h"
#include "comm/transport/transport.h"
#include "failing_allocations.h"

namespace quire::comm {
namespace {

constexpr uint32_t kChannel = 5;
constexpr int kCalls = 20;

Status Echo(int, Slice request, std::string* answer) {
  answer->assign(request);
  return Status();
}

// Whether the allocation was reached.
bool ServesWithout(int64_t n, bool handler_thread) {
  ExchangeOptions options;
  options.handler_thread = handler_thread;
  options.timeout_ms = 300;
  const auto exchange = Exchange::Create(NewSelfTransport(), options);
  const std::string request(100, 'x');
  std::vector<std::shared_ptr<Call>> calls;
  for (int i = 0; i < kCalls; ++i) {
    auto call = exchange->Start(0, kChannel, request, {});
    EXPECT_TRUE(call.ok()) << call.status().ToString();
    calls.push_back(*std::move(call));
  }
  exchange->Progress();
  test::FailAllocation(n);
  const Status served = base::OrOutOfMemory([&] {
    exchange->Serve(kChannel, Echo);
    return Status();
  });
  if (!served.ok()) exchange->Serve(kChannel, Echo);
  for (const std::shared_ptr<Call>& call : calls) {
    std::string answer;
    const Status status = base::OrOutOfMemory([&] { return exchange->Wait(call, &answer); });
    EXPECT_TRUE(status.ok() ? answer == request : status.code() == Code::kOutOfMemory)
        << status.ToString();
  }
  return test::AllocationFailed();
}

TEST(ExchangeShortage, ARequestToItselfIsAnswered) {
  for (const bool handler_thread : {false, true}) {
    int64_t n = 0;
    while (ServesWithout(n, handler_thread) && !testing::Test::HasFailure()) ++n;
    EXPECT_FALSE(testing::Test::HasFailure()) << "allocation " << n << ", " << handler_thread;
    EXPECT_GT(n, 5);
  }
}

}  // namespace
}  // namespace quire::comm
