// Measures the costs of messages: round trips through the handler, many requests in flight,
// bandwidth, and the processor time of waiting ranks; and the same with plain MPI.
//
//   scripts/mpirun -n 2 build/release/src/comm/comm_bench [auto|mpi] [SECONDS] [CASE]
//
// Prints one line of JSON per case, from rank 0. Times are medians over the round trips.
#include <mpi.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/core/random.h"
#include "comm/exchange/exchange.h"
#include "comm/mpi/transport_factory.h"
#include "io/files/machine.h"

namespace quire::comm {
namespace {

constexpr uint32_t kEcho = 1;
constexpr uint32_t kSwallow = 2;
constexpr int kDone = 1;

struct Bench {
  Exchange* exchange;
  uint64_t case_ns;

  int rank() const { return exchange->rank(); }
  int size() const { return exchange->size(); }
};

uint64_t NowNs() {
  return io::RealClock().NowNs();
}

uint64_t CpuNs() {
  struct timespec used;
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<uint64_t>(used.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(used.tv_nsec);
}

double Quantile(std::vector<uint64_t>& times_ns, double part) {
  if (times_ns.empty()) return 0;
  const auto place = static_cast<size_t>(part * static_cast<double>(times_ns.size() - 1));
  std::nth_element(times_ns.begin(), times_ns.begin() + static_cast<ptrdiff_t>(place),
                   times_ns.end());
  return static_cast<double>(times_ns[place]) / 1e3;
}

void Print(const Bench& bench, const char* name, std::vector<uint64_t> times_ns) {
  if (bench.rank() != 0) return;
  std::printf(
      "{\"bench\": \"comm\", \"params\": {\"case\": \"%s\", \"transport\": \"%s\", "
      "\"ranks\": %d}, \"results\": {\"median_us\": %.2f, \"p99_us\": %.2f, "
      "\"count\": %zu}}\n",
      name, bench.exchange->transport().Name().c_str(), bench.size(), Quantile(times_ns, 0.5),
      Quantile(times_ns, 0.99), times_ns.size());
  std::fflush(stdout);
}

void PrintRate(const Bench& bench, const char* name, const char* unit, double value) {
  if (bench.rank() != 0) return;
  std::printf(
      "{\"bench\": \"comm\", \"params\": {\"case\": \"%s\", \"transport\": \"%s\", "
      "\"ranks\": %d}, \"results\": {\"%s\": %.4g}}\n",
      name, bench.exchange->transport().Name().c_str(), bench.size(), unit, value);
  std::fflush(stdout);
}

// Run by ranks that take no part in a case.
void SleepUntilSignalled(const Bench& bench) {
  (void)bench.exchange->WaitSignal(kDone, {0});
}

void SignalOthers(const Bench& bench) {
  for (int rank = 1; rank < bench.size(); ++rank) (void)bench.exchange->Notify(kDone, {rank});
}

// The comparison: two ranks, blocking calls, the other ranks asleep.
void PlainPingPong(const Bench& bench) {
  std::vector<uint64_t> times_ns;
  char bytes[8] = "";
  if (bench.rank() == 0) {
    const uint64_t end_ns = NowNs() + bench.case_ns;
    for (uint64_t start_ns = NowNs(); start_ns < end_ns; start_ns = NowNs()) {
      MPI_Send(bytes, 8, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
      MPI_Recv(bytes, 8, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      times_ns.push_back(NowNs() - start_ns);
    }
    bytes[0] = 'q';
    MPI_Send(bytes, 8, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
    SignalOthers(bench);
  } else {
    while (bench.rank() == 1 && bytes[0] != 'q') {
      MPI_Recv(bytes, 8, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      if (bytes[0] != 'q') MPI_Send(bytes, 8, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    }
    SleepUntilSignalled(bench);
  }
  Print(bench, "plain_ping_pong", times_ns);
}

std::vector<uint64_t> AskFor(const Bench& bench, uint64_t end_ns, size_t bytes,
                             const std::function<int()>& next) {
  std::vector<uint64_t> times_ns;
  const std::string request(bytes, 'x');
  std::string answer;
  for (uint64_t start_ns = NowNs(); start_ns < end_ns; start_ns = NowNs()) {
    const Status status = bench.exchange->Ask(next(), kEcho, {}, request, &answer);
    if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
    times_ns.push_back(NowNs() - start_ns);
  }
  return times_ns;
}

enum class Owner { kWaits, kSleeps, kComputes };

// Rank 0 asks rank 1, whose thread waits in a call, sleeps elsewhere, or computes.
void RoundTrip(const Bench& bench, const char* name, Owner owner) {
  std::vector<uint64_t> times_ns;
  const uint64_t end_ns = NowNs() + bench.case_ns;
  if (bench.rank() == 0) {
    times_ns = AskFor(bench, end_ns, 8, [] { return 1; });
    SignalOthers(bench);
  } else {
    volatile uint64_t work = 0;
    while (bench.rank() == 1 && owner == Owner::kComputes && NowNs() < end_ns) {
      for (int i = 0; i < 1000; ++i) work = work + 1;
    }
    if (bench.rank() == 1 && owner == Owner::kSleeps) io::RealClock().SleepNs(bench.case_ns);
    SleepUntilSignalled(bench);
  }
  Print(bench, name, times_ns);
}

// All ranks ask random others at once.
void AllAsk(const Bench& bench, int threads) {
  std::vector<std::vector<uint64_t>> times_ns(static_cast<size_t>(threads));
  std::vector<std::thread> others;
  const uint64_t end_ns = NowNs() + bench.case_ns;
  auto run = [&](int thread) {
    base::Random random(static_cast<uint64_t>(bench.rank() * 100 + thread));
    times_ns[static_cast<size_t>(thread)] = AskFor(bench, end_ns, 8, [&] {
      const uint64_t step = 1 + random.Below(static_cast<uint64_t>(bench.size() - 1));
      return (bench.rank() + static_cast<int>(step)) % bench.size();
    });
  };
  for (int thread = 1; thread < threads; ++thread) others.emplace_back(run, thread);
  run(0);
  for (std::thread& thread : others) thread.join();
  (void)bench.exchange->Barrier();
  for (int thread = 1; thread < threads; ++thread) {
    const auto& more = times_ns[static_cast<size_t>(thread)];
    times_ns[0].insert(times_ns[0].end(), more.begin(), more.end());
  }
  const auto total = bench.exchange->Sum(times_ns[0].size());
  Print(bench, threads == 1 ? "all_ask" : "all_ask_4_threads", times_ns[0]);
  PrintRate(bench, threads == 1 ? "all_ask" : "all_ask_4_threads", "asks_per_s",
            static_cast<double>(*total) * 1e9 / static_cast<double>(bench.case_ns));
}

// Rank 0 sends requests of one size to rank 1, as many in flight as the window allows.
void Stream(const Bench& bench, const char* name, size_t bytes) {
  if (bench.rank() == 0) {
    const std::string body(bytes, 'x');
    std::atomic<uint64_t> answered{0};
    uint64_t sent = 0;
    const uint64_t start_ns = NowNs();
    while (NowNs() - start_ns < bench.case_ns) {
      const Status status =
          bench.exchange->StartThen(1, kSwallow, {}, body, [&](const Outcome&) { ++answered; });
      if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
      ++sent;
    }
    (void)bench.exchange->Ask(1, kSwallow, {}, {}, nullptr);
    const double seconds = static_cast<double>(NowNs() - start_ns) / 1e9;
    PrintRate(bench, name, "mb_per_s", static_cast<double>(sent * bytes) / 1e6 / seconds);
    PrintRate(bench, name, "requests_per_s", static_cast<double>(sent) / seconds);
    SignalOthers(bench);
  } else {
    SleepUntilSignalled(bench);
  }
}

// The comparison: a window of sends of the same size.
void PlainStream(const Bench& bench, size_t bytes) {
  constexpr int kWindow = 8;
  std::vector<std::vector<char>> buffers(kWindow, std::vector<char>(bytes));
  std::vector<MPI_Request> requests(kWindow, MPI_REQUEST_NULL);
  int go = 1;
  if (bench.rank() > 1) return SleepUntilSignalled(bench);
  const uint64_t start_ns = NowNs();
  uint64_t sent = 0;
  while (go != 0) {
    if (bench.rank() == 0) go = NowNs() - start_ns < bench.case_ns ? 1 : 0;
    for (int i = 0; i < kWindow; ++i) {
      auto& buffer = buffers[static_cast<size_t>(i)];
      if (bench.rank() == 0) {
        MPI_Isend(buffer.data(), static_cast<int>(bytes), MPI_BYTE, 1, 1, MPI_COMM_WORLD,
                  &requests[static_cast<size_t>(i)]);
      } else {
        MPI_Irecv(buffer.data(), static_cast<int>(bytes), MPI_BYTE, 0, 1, MPI_COMM_WORLD,
                  &requests[static_cast<size_t>(i)]);
      }
    }
    MPI_Waitall(kWindow, requests.data(), MPI_STATUSES_IGNORE);
    sent += kWindow;
    if (bench.rank() == 0) {
      MPI_Send(&go, 1, MPI_INT, 1, 2, MPI_COMM_WORLD);
    } else {
      MPI_Recv(&go, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
  }
  const double seconds = static_cast<double>(NowNs() - start_ns) / 1e9;
  PrintRate(bench, "plain_stream", "mb_per_s", static_cast<double>(sent * bytes) / 1e6 / seconds);
  if (bench.rank() == 0) return SignalOthers(bench);
  SleepUntilSignalled(bench);
}

// Processor time of all ranks together while nothing happens.
void Idle(const Bench& bench, const char* name, bool in_call) {
  (void)bench.exchange->Barrier();
  const uint64_t before_ns = CpuNs();
  const uint64_t start_ns = NowNs();
  if (bench.rank() == 0 || !in_call) {
    io::RealClock().SleepNs(10 * bench.case_ns);
    if (in_call) SignalOthers(bench);
  } else {
    SleepUntilSignalled(bench);
  }
  const auto wall_ns = static_cast<double>(NowNs() - start_ns);
  const auto used_ns = bench.exchange->Sum(CpuNs() - before_ns);
  PrintRate(bench, name, "percent_of_a_core", 100.0 * static_cast<double>(*used_ns) / wall_ns);
}

int Run(const std::string& kind, double seconds, const std::string& only) {
  TransportOptions options;
  options.kind = kind == "mpi" ? TransportKind::kMpi : TransportKind::kAuto;
  auto transport = NewTransport(MPI_Comm_c2f(MPI_COMM_WORLD), options);
  if (!transport.ok()) {
    std::fprintf(stderr, "%s\n", transport.status().ToString().c_str());
    return 1;
  }
  const auto exchange = Exchange::Create(std::move(*transport), ExchangeOptions());
  exchange->Serve(kEcho, [](int, Slice request, std::string* answer) {
    answer->assign(request);
    return Status();
  });
  exchange->Serve(kSwallow, [](int, Slice, std::string*) { return Status(); });
  const Bench bench{exchange.get(), static_cast<uint64_t>(seconds * 1e9)};
  if (bench.size() < 2) {
    std::fprintf(stderr, "comm_bench needs at least 2 ranks\n");
    return 1;
  }
  const std::vector<std::pair<const char*, std::function<void()>>> cases = {
      {"plain_ping_pong", [&] { PlainPingPong(bench); }},
      {"ask_owner_waits", [&] { RoundTrip(bench, "ask_owner_waits", Owner::kWaits); }},
      {"ask_owner_sleeps", [&] { RoundTrip(bench, "ask_owner_sleeps", Owner::kSleeps); }},
      {"ask_owner_computes", [&] { RoundTrip(bench, "ask_owner_computes", Owner::kComputes); }},
      {"all_ask", [&] { AllAsk(bench, 1); }},
      {"all_ask_4_threads", [&] { AllAsk(bench, 4); }},
      {"plain_stream", [&] { PlainStream(bench, 1 << 20); }},
      {"stream_1_mib", [&] { Stream(bench, "stream_1_mib", 1 << 20); }},
      {"stream_32_kib", [&] { Stream(bench, "stream_32_kib", 32 << 10); }},
      {"stream_100_b", [&] { Stream(bench, "stream_100_b", 100); }},
      {"idle_elsewhere", [&] { Idle(bench, "idle_elsewhere", false); }},
      {"idle_in_a_call", [&] { Idle(bench, "idle_in_a_call", true); }},
  };
  for (const auto& [name, run] : cases) {
    if (!only.empty() && only != name) continue;
    (void)exchange->Barrier();
    run();
  }
  return exchange->Barrier().ok() ? 0 : 1;
}

}  // namespace
}  // namespace quire::comm

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  const int result = quire::comm::Run(argc > 1 ? argv[1] : "auto",
                                      argc > 2 ? std::atof(argv[2]) : 0.5, argc > 3 ? argv[3] : "");
  MPI_Finalize();
  return result;
}
