// The n-th allocation of rank 1 fails, for n = 0, 1, ... or a sample of these: while a transport
// over MPI is opened, used or closed. All ranks come to an end with a status, and the next
// transport works: nothing that MPI still writes to was given back.
//
//   mpi_shortage_test [FIRST [LAST]]      of these numbers, of each phase
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/core/out_of_memory.h"
#include "comm/exchange/exchange.h"
#include "comm/mpi/transport_factory.h"
#include "tests/api/failing_allocations.h"
#include "tests/support/test_scale.h"

namespace quire::comm {
namespace {

constexpr int kVictim = 1;
constexpr uint64_t kTimeoutMs = 30'000;
constexpr uint64_t kStarvedTimeoutMs = 300;  // where a rank may wait in vain
constexpr double kSecondsMax = 60;  // of a turn; opening and closing wait for 2 s each
// A rank without memory for these does not duplicate the communicator, which the others do: by
// MPI's rules the program must not go on with it.
constexpr int64_t kBeforeDuplicate = 2;

enum class Phase { kOpen, kUse, kClose };

int own_rank = 0;
int failure_count = 0;

void Check(bool right, Phase phase, int64_t n, const std::string& what) {
  if (right) return;
  ++failure_count;
  std::fprintf(stderr, "rank %d, phase %d, allocation %d: %s\n", own_rank,
               static_cast<int>(phase), static_cast<int>(n), what.c_str());
}

bool IsExpected(const Status& status) {
  return status.ok() || status.code() == Code::kOutOfMemory || status.code() == Code::kTimedOut ||
         status.code() == Code::kPeerFailed;
}

Result<std::unique_ptr<Transport>> Open(uint64_t timeout_ms) {
  TransportOptions options;
  options.kind = TransportKind::kMpi;
  options.timeout_ms = timeout_ms;
  return NewTransport(MPI_Comm_c2f(MPI_COMM_WORLD), options);
}

std::unique_ptr<Exchange> ExchangeOver(std::unique_ptr<Transport> transport, uint64_t timeout_ms) {
  ExchangeOptions options;
  options.timeout_ms = timeout_ms;
  auto exchange = Exchange::Create(std::move(transport), options);
  exchange->Serve(1, [](int, Slice request, std::string* answer) {
    answer->assign(request);
    return Status();
  });
  return exchange;
}

// Whether `mine` is true on all ranks, or on none.
bool Alike(bool mine) {
  int count = mine ? 1 : 0;
  int size = 0;
  MPI_Allreduce(MPI_IN_PLACE, &count, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return count == 0 || count == size;
}

// Requests of one frame, and of many.
Status Use(Exchange& exchange) {
  const int next = (exchange.rank() + 1) % exchange.size();
  for (const size_t size : {size_t{10}, size_t{3'000'000}}) {
    const std::string request(size, 'x');
    std::string answer;
    QUIRE_RETURN_IF_ERROR(exchange.Ask(next, 1, request, {}, &answer));
    if (answer != request) return Status(Code::kCorruption, "a wrong answer");
  }
  return exchange.Barrier();
}

// One turn; whether the allocation was reached.
bool Turn(Phase phase, int64_t n) {
  const auto start = std::chrono::steady_clock::now();
  const uint64_t timeout_ms = n < 0 ? kTimeoutMs : kStarvedTimeoutMs;
  bool failed = false;
  const auto starve = [&](Phase now) {
    if (now == phase && own_rank == kVictim && n >= 0) test::FailAllocation(n);
  };
  const auto feed = [&](Phase now) {
    if (now == phase && own_rank == kVictim && n >= 0) failed = test::AllocationFailed();
  };
  starve(Phase::kOpen);
  auto opened = Open(timeout_ms);
  feed(Phase::kOpen);
  Check(IsExpected(opened.status()), phase, n, "opening: " + opened.status().ToString());
  Check(opened.ok() || n >= 0, phase, n, "opening after a shortage: " + opened.status().ToString());
  Check(Alike(opened.ok()), phase, n, "opening went well on some ranks only");
  if (opened.ok()) {
    std::unique_ptr<Exchange> exchange = ExchangeOver(*std::move(opened), timeout_ms);
    starve(Phase::kUse);
    const Status used = base::OrOutOfMemory([&] { return Use(*exchange); });
    feed(Phase::kUse);
    Check(n < 0 ? used.ok() : IsExpected(used), phase, n, "using: " + used.ToString());
    starve(Phase::kClose);
    exchange.reset();
    feed(Phase::kClose);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  Check(took.count() < kSecondsMax, phase, n, "took " + std::to_string(took.count()) + " s");
  int any = failed ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  return any != 0;
}

void RunPhase(Phase phase, int64_t first, int64_t last) {
  int64_t n = phase == Phase::kOpen ? std::max(first, kBeforeDuplicate) : first;
  int turns = 0;
  test::SweepSteps steps;  // the same on all ranks
  Turn(phase, -1);
  for (bool failed = true; failed && n <= last; n += steps.After(n)) {
    failed = Turn(phase, n);
    if (++turns % 16 == 0) Turn(phase, -1);
  }
  Turn(phase, -1);
  if (own_rank == 0) {
    std::printf("phase %d: %d of %d allocations\n", static_cast<int>(phase), turns,
                static_cast<int>(n));
  }
}

}  // namespace
}  // namespace quire::comm

int main(int argc, char** argv) {
  using namespace quire::comm;
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &own_rank);
  const int64_t first = argc > 1 ? std::atoi(argv[1]) : 0;
  const int64_t last = argc > 2 ? std::atoi(argv[2]) : INT32_MAX;
  for (const Phase phase : {Phase::kOpen, Phase::kUse, Phase::kClose}) RunPhase(phase, first, last);
  MPI_Finalize();
  return failure_count == 0 ? 0 : 1;
}
