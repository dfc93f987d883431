// A call of MPI fails on rank 1: it is reported to those who wait there, at once, and nothing that
// MPI may still use is given back. This program's functions stand before those of MPI.
#include <mpi.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/exchange/exchange.h"
#include "comm/mpi/transport_factory.h"

namespace {

enum class Call { kNone, kIsend, kIrecv, kTest, kTestsome };

std::atomic<Call> failing{Call::kNone};
std::atomic<int> countdown{0};  // calls until the one that fails
std::atomic<bool> has_failed{false};

bool Fails(Call call) {
  if (failing.load() != call || countdown.fetch_sub(1) != 0) return false;
  has_failed = true;
  return true;
}

}  // namespace

extern "C" {

int MPI_Isend(const void* bytes, int count, MPI_Datatype type, int destination, int tag,
              MPI_Comm comm, MPI_Request* request) {
  if (Fails(Call::kIsend)) return MPI_ERR_OTHER;
  return PMPI_Isend(bytes, count, type, destination, tag, comm, request);
}

int MPI_Irecv(void* bytes, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
              MPI_Request* request) {
  if (Fails(Call::kIrecv)) return MPI_ERR_OTHER;
  return PMPI_Irecv(bytes, count, type, source, tag, comm, request);
}

// A request that is complete has failed.
int MPI_Test(MPI_Request* request, int* done, MPI_Status* status) {
  const int error = PMPI_Test(request, done, status);
  return *done != 0 && Fails(Call::kTest) ? MPI_ERR_OTHER : error;
}

int MPI_Testsome(int count, MPI_Request* requests, int* done_count, int* indices,
                 MPI_Status* statuses) {
  const int error = PMPI_Testsome(count, requests, done_count, indices, statuses);
  if (*done_count == MPI_UNDEFINED || *done_count == 0 || statuses == MPI_STATUSES_IGNORE ||
      !Fails(Call::kTestsome)) {
    return error;
  }
  for (int i = 0; i < *done_count; ++i) statuses[i].MPI_ERROR = MPI_ERR_OTHER;
  return MPI_ERR_IN_STATUS;
}

}  // extern "C"

namespace quire::comm {
namespace {

constexpr int kFailing = 1;
constexpr uint64_t kTimeoutMs = 1500;

int own_rank = 0;
int failure_count = 0;

void Check(bool right, ::Call call, int n, const std::string& what) {
  if (right) return;
  ++failure_count;
  std::fprintf(stderr, "rank %d, call %d, number %d: %s\n", own_rank, static_cast<int>(call), n,
               what.c_str());
}

// Many messages each way, so that receives complete out of their order.
Status Use(Exchange& exchange) {
  const int next = (exchange.rank() + 1) % exchange.size();
  std::vector<std::shared_ptr<comm::Call>> calls;
  for (int i = 0; i < 40; ++i) {
    const std::string request(i % 8 == 0 ? 300'000 : 100, 'x');
    QUIRE_ASSIGN_OR_RETURN(std::shared_ptr<comm::Call> call, exchange.Start(next, 1, request, {}));
    calls.push_back(std::move(call));
  }
  for (const auto& call : calls) QUIRE_RETURN_IF_ERROR(exchange.Wait(call, nullptr));
  return Status();
}

void Turn(::Call call, int n) {
  TransportOptions options;
  options.kind = TransportKind::kMpi;
  auto transport = NewTransport(MPI_Comm_c2f(MPI_COMM_WORLD), options);
  Check(transport.ok(), call, n, "opening: " + transport.status().ToString());
  if (!transport.ok()) return;
  ExchangeOptions exchange_options;
  exchange_options.timeout_ms = kTimeoutMs;
  auto exchange = Exchange::Create(*std::move(transport), exchange_options);
  exchange->Serve(1, [](int, Slice request, std::string* answer) {
    answer->assign(request);
    return Status();
  });
  Check(exchange->Barrier().ok(), call, n, "a barrier");
  has_failed = false;
  if (own_rank == kFailing) {
    countdown = n;
    failing = call;
  }
  Status used;
  for (int i = 0; used.ok() && !has_failed && i < 50; ++i) used = Use(*exchange);
  if (used.ok()) used = exchange->Barrier();
  failing = ::Call::kNone;
  if (own_rank == kFailing && has_failed) {
    // At once: a rank that waited in vain would receive kTimedOut.
    Check(used.code() == Code::kPeerFailed, call, n, "using: " + used.ToString());
  } else {
    Check(used.ok() || used.code() == Code::kPeerFailed || used.code() == Code::kTimedOut, call, n,
          "using: " + used.ToString());
  }
  exchange.reset();
  int reached = has_failed ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &reached, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (own_rank == 0) {
    std::printf("call %d, number %d: %s\n", static_cast<int>(call), n,
                reached != 0 ? "failed" : "not reached");
  }
}

}  // namespace
}  // namespace quire::comm

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &quire::comm::own_rank);
  for (const Call call : {Call::kIsend, Call::kIrecv, Call::kTest, Call::kTestsome}) {
    for (const int n : {0, 7}) quire::comm::Turn(call, n);
  }
  MPI_Finalize();
  return quire::comm::failure_count == 0 ? 0 : 1;
}
