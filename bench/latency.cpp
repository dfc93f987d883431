// One remote get, one sequential put, beside a plain MPI ping-pong.
#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "commands.h"
#include "keys.h"
#include "ranks.h"
#include "samples.h"

namespace quire::bench {
namespace {

struct Settings {
  ParallelSettings parallel;
  size_t value_bytes = 8;
  uint64_t count = 5'000;
};

constexpr size_t kKeyBytes = 16;
constexpr uint64_t kKeyCount = 1000;
constexpr int kDoneSignal = 1;

// One case: what is measured, over which transport, with how many ranks at once.
using Case = std::tuple<std::string, std::string, std::string>;
using Samples = std::map<Case, std::vector<double>>;  // microseconds

// Times single operations between each active rank and the next one.
class Prober {
 public:
  Prober(Ranks& ranks, const Settings& settings, bool all_active)
      : ranks_(ranks),
        settings_(settings),
        active_(all_active || ranks.IsFirst()),
        all_active_(all_active) {}

  // Opens a database in which this rank knows keys that the next rank owns.
  Status Open(bool direct_reads, Consistency consistency) {
    DatabaseOptions options;
    options.mode = OpenMode::kMustNotExist;
    options.group_size = direct_reads ? 0 : 1;
    options.consistency = consistency;
    QUIRE_ASSIGN_OR_RETURN(database_, ranks_.context().Open("latency", options));
    const int target = (ranks_.rank() + 1) % ranks_.size();
    KeyMaker keys(kKeyBytes);
    ValueMaker values(settings_.value_bytes);
    keys_.clear();
    for (auto i = static_cast<uint64_t>(ranks_.rank()) << 32; keys_.size() < kKeyCount; ++i) {
      const Slice key = keys(i);
      if (database_->Owner(key) != target) continue;
      keys_.emplace_back(key);
      QUIRE_RETURN_IF_ERROR(database_->Put(key, values(i)));
    }
    return database_->Barrier(Level::kMemTable);
  }

  Status Close() {
    QUIRE_RETURN_IF_ERROR(database_->Close());
    database_.reset();
    return ranks_.context().Destroy("latency");
  }

  Status Gets(std::vector<double>* samples) {
    std::string value;
    return Measure(samples, [&](const std::string& key) { return database_->Get(key, &value); });
  }

  Status Puts(std::vector<double>* samples) {
    ValueMaker values(settings_.value_bytes);
    return Measure(samples, [&](const std::string& key) { return database_->Put(key, values(1)); });
  }

 private:
  // The others wait in Quire, asleep.
  Status Measure(std::vector<double>* samples,
                 const std::function<Status(const std::string&)>& operation) {
    std::vector<double> own;
    if (active_) {
      KeyRandom random(1);
      for (uint64_t n = 0; n < settings_.count; ++n) {
        const std::string& key = keys_[random.Below(kKeyCount)];
        const Stopwatch watch;
        QUIRE_RETURN_IF_ERROR(operation(key));
        own.push_back(watch.Seconds() * 1e6);
      }
    }
    if (!all_active_) QUIRE_RETURN_IF_ERROR(EndOfTurn());
    QUIRE_ASSIGN_OR_RETURN(const std::vector<double> all, ranks_.Gather(own));
    samples->insert(samples->end(), all.begin(), all.end());
    return Status();
  }

  Status EndOfTurn() {
    if (!active_) return ranks_.context().WaitSignal(kDoneSignal, {0});
    std::vector<int> others;
    for (int rank = 1; rank < ranks_.size(); ++rank) others.push_back(rank);
    return ranks_.context().Notify(kDoneSignal, others);
  }

  Ranks& ranks_;
  const Settings& settings_;
  bool active_;
  bool all_active_;
  std::unique_ptr<Database> database_;
  std::vector<std::string> keys_;
};

// There and back between neighbours, a key out and a value home, by MPI alone. Pairs (0, 1), (2,
// 3), ...: the first alone, or all at once.
Status PingPong(Ranks& ranks, const Settings& settings, bool all_active,
                std::vector<double>* samples) {
  std::vector<double> own;
  std::vector<char> out(kKeyBytes), home(settings.value_bytes);
  const int partner = ranks.rank() ^ 1;
  const bool takes_part = partner < ranks.size() && (all_active || ranks.rank() < 2);
  const auto out_bytes = static_cast<int>(out.size());
  const auto home_bytes = static_cast<int>(home.size());
  for (uint64_t n = 0; takes_part && n < settings.count; ++n) {
    if (ranks.rank() % 2 == 1) {
      MPI_Recv(out.data(), out_bytes, MPI_CHAR, partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(home.data(), home_bytes, MPI_CHAR, partner, 0, MPI_COMM_WORLD);
      continue;
    }
    const Stopwatch watch;
    MPI_Send(out.data(), out_bytes, MPI_CHAR, partner, 0, MPI_COMM_WORLD);
    MPI_Recv(home.data(), home_bytes, MPI_CHAR, partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    own.push_back(watch.Seconds() * 1e6);
  }
  QUIRE_ASSIGN_OR_RETURN(const std::vector<double> all, ranks.Gather(own));
  samples->insert(samples->end(), all.begin(), all.end());
  return Status();
}

Status OneTurn(const Settings& settings, const std::string& transport, Samples* samples) {
  ParallelSettings parallel = settings.parallel;
  parallel.transport = transport;
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Ranks> ranks, Ranks::Open(parallel));
  if (ranks->size() < 2) {
    return Status(Code::kInvalidArgument,
                  "latency needs two ranks: mpiexec -n 2 quire-bench latency");
  }
  for (const bool all_active : {false, true}) {
    const std::string active = all_active ? "all" : "one";
    QUIRE_RETURN_IF_ERROR(
        PingPong(*ranks, settings, all_active, &(*samples)[{"pingpong", "mpi alone", active}]));
    Prober prober(*ranks, settings, all_active);
    if (transport == "auto") {
      QUIRE_RETURN_IF_ERROR(prober.Open(true, Consistency::kSequential));
      QUIRE_RETURN_IF_ERROR(prober.Gets(&(*samples)[{"get direct", transport, active}]));
      QUIRE_RETURN_IF_ERROR(prober.Close());
    }
    QUIRE_RETURN_IF_ERROR(prober.Open(false, Consistency::kSequential));
    QUIRE_RETURN_IF_ERROR(prober.Gets(&(*samples)[{"get handler", transport, active}]));
    QUIRE_RETURN_IF_ERROR(prober.Puts(&(*samples)[{"put sequential", transport, active}]));
    QUIRE_RETURN_IF_ERROR(prober.Close());
  }
  return Status();
}

Status RunLatency(const Settings& settings) {
  Samples samples;
  for (int repetition = 0; repetition < settings.parallel.repetitions; ++repetition) {
    for (const std::string transport : {"auto", "mpi"}) {
      QUIRE_RETURN_IF_ERROR(OneTurn(settings, transport, &samples));
    }
  }
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank != 0) return Status();
  for (const auto& [key, times] : samples) {
    const auto& [op, transport, active] = key;
    const double pingpong = Median(samples[{"pingpong", "mpi alone", active}]);
    const double median = Median(times);
    PrintCase("latency",
              {{"op", op},
               {"transport", transport},
               {"active", active},
               {"value_bytes", settings.value_bytes},
               {"count", settings.count},
               {"ranks", size},
               {"repetitions", settings.parallel.repetitions}},
              {{"median_us", Rounded(median)},
               {"p99_us", Rounded(Percentile(times, 0.99))},
               {"ratio_to_pingpong", Rounded(median / pingpong, 3)}});
  }
  return Status();
}

}  // namespace

Command AddLatency(CLI::App& app) {
  auto settings = std::make_shared<Settings>();
  CLI::App* sub = app.add_subcommand(
      "latency",
      "Single operations from one rank to the next, each timed. get direct: out of the owner's\n"
      "MemTable, without a message. get handler: by a message to the owner, and back. put "
      "sequential:\n"
      "by a message, answered when it is stored. pingpong: as many bytes there and back by "
      "MPI_Send\n"
      "and MPI_Recv. Over shared memory and with MPI forced; with one rank active and the others\n"
      "waiting, and with all at once. Told: median and 99th percentile in microseconds.");
  sub->add_option("--value-bytes", settings->value_bytes, "size of values")->capture_default_str();
  sub->add_option("--count", settings->count, "operations per rank and turn")
      ->capture_default_str();
  AddParallelOptions(*sub, &settings->parallel);
  sub->remove_option(sub->get_option("--transport"));  // both are measured
  return {sub, [settings] { return RunLatency(*settings); }, true};
}

}  // namespace quire::bench
