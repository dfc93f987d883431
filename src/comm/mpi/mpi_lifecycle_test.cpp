// MPI that is not there yet, or not any more: errors and a safe end, never a crash. A program of
// its own, because it calls MPI_Init and MPI_Finalize in the middle. Exit status 0 where all was
// right.
#include <mpi.h>
#include <time.h>

#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm/exchange/exchange.h"
#include "comm/mpi/transport_factory.h"
#include "io/files/machine.h"
#include "tests/support/outside_mpi.h"

namespace quire::comm {
namespace {

int failure_count = 0;

void Check(bool right, const char* what) {
  if (right) return;
  ++failure_count;
  std::fprintf(stderr, "wrong: %s\n", what);
}

Status Echo(int, Slice request, std::string* answer) {
  answer->assign(request);
  return Status();
}

std::unique_ptr<Exchange> Join(TransportKind kind) {
  TransportOptions options;
  options.kind = kind;
  auto transport = NewTransport(MPI_Comm_c2f(MPI_COMM_WORLD), options);
  Check(transport.ok(), "opening");
  auto exchange = Exchange::Create(std::move(*transport), ExchangeOptions());
  exchange->Serve(1, Echo);
  const int next = (exchange->rank() + 1) % exchange->size();
  Check(exchange->Ask(next, 1, "x", {}, nullptr).ok(), "a question");
  Check(exchange->Barrier().ok(), "a barrier");
  return exchange;
}

// A call that waits while another thread finalizes MPI ends soon, and no thread spins after that.
class WaitingCall {
 public:
  explicit WaitingCall(Exchange& exchange)
      : exchange_(exchange), thread_([this] {
          const uint64_t start_ns = io::RealClock().NowNs();
          const Status status = exchange_.Ask(Next(), kUnserved, "x", {}, nullptr);
          Check(status.code() == Code::kPeerFailed, status.ToString().c_str());
          Check(io::RealClock().NowNs() - start_ns < 20'000'000'000, "waiting in vain ends soon");
        }) {
    io::RealClock().SleepNs(100'000'000);
  }
  void Join() {
    thread_.join();
    Check(exchange_.PeerStatus(Next()).code() == Code::kPeerFailed, "no rank after the end");
    const clock_t before = ::clock();
    io::RealClock().SleepNs(500'000'000);
    Check(::clock() - before < CLOCKS_PER_SEC / 10, "no thread spins after the end");
  }

 private:
  static constexpr uint32_t kUnserved = 99;
  int Next() const { return (exchange_.rank() + 1) % exchange_.size(); }

  Exchange& exchange_;
  std::thread thread_;
};

void Run(int* argc, char*** argv) {
  TransportOptions options;
  const Status early = NewTransport(0, options).status();
  Check(early.code() == Code::kInvalidArgument, "opening before MPI_Init");
  Check(early.message().find("MPI_Init") != std::string::npos, "what the error says to do");
  Check(!MpiIsRunning(), "MPI does not run yet");

  int provided = 0;
  MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided);
  Check(MpiIsRunning(), "MPI runs");
  Check(std::string(MpiThreadLevelName()).starts_with("MPI_THREAD_"), "the level's name");
  const int world = MPI_Comm_c2f(MPI_COMM_WORLD);
  Join(TransportKind::kMpi).reset();
  // One that is still open at MPI_Finalize, with and without MPI behind it.
  std::vector<std::unique_ptr<Exchange>> open;
  open.push_back(Join(TransportKind::kMpi));
  open.push_back(Join(TransportKind::kAuto));
  std::unique_ptr<WaitingCall> waiting;
  if (open[0]->size() > 1 && open[0]->has_handler_thread()) {
    waiting = std::make_unique<WaitingCall>(*open[0]);
  }
  test::FinalizeWhileOthersWait();
  if (waiting != nullptr) waiting->Join();

  Check(!MpiIsRunning(), "MPI runs no more");
  Check(NewTransport(world, options).status().code() == Code::kInvalidArgument,
        "opening after MPI_Finalize");
  const int next = (open[0]->rank() + 1) % open[0]->size();
  if (next != open[0]->rank()) {
    Check(open[0]->Ask(next, 1, "x", {}, nullptr).code() == Code::kPeerFailed,
          "a question after MPI_Finalize");
  }
  open.clear();
}

}  // namespace
}  // namespace quire::comm

int main(int argc, char** argv) {
  quire::comm::Run(&argc, &argv);
  return quire::comm::failure_count == 0 ? 0 : 1;
}
