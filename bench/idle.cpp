// Processor time of ranks that have nothing to do.
#include <CLI/CLI.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "commands.h"
#include "pairs.h"
#include "ranks.h"
#include "samples.h"

namespace quire::bench {
namespace {

struct Settings {
  ParallelSettings parallel;
  double seconds = 10;
};

constexpr int kSignal = 1;

// Gives all threads of the library some work, so that the measurement is of rest after work.
Status Work(Ranks& ranks, Database& database) {
  const auto first = static_cast<uint64_t>(ranks.rank()) * 1000;
  QUIRE_RETURN_IF_ERROR(Pairs(16, 100).PutAll(database, first, 1000));
  return database.Barrier(Level::kSsTable);
}

// Outside: the program sleeps by itself. Waiting: it waits in Quire for a signal of rank 0.
Status Rest(Ranks& ranks, bool waiting, double seconds) {
  const auto sleep = [&] { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); };
  if (!waiting) {
    sleep();
    return Status();
  }
  if (!ranks.IsFirst()) return ranks.context().WaitSignal(kSignal, {0});
  sleep();
  std::vector<int> others(static_cast<size_t>(ranks.size() - 1));
  std::iota(others.begin(), others.end(), 1);
  return ranks.context().Notify(kSignal, others);
}

Status RunIdle(const Settings& settings) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Ranks> ranks, Ranks::Open(settings.parallel));
  DatabaseOptions options;
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Database> database,
                         ranks->context().Open("idle", options));
  std::map<bool, std::vector<double>> percents;
  for (int repetition = 0; repetition < settings.parallel.repetitions; ++repetition) {
    for (const bool waiting : {false, true}) {
      QUIRE_RETURN_IF_ERROR(Work(*ranks, *database));
      // The rank that leaves the barrier first may still be spinning for the others.
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      const double before = ProcessCpuSeconds();
      QUIRE_RETURN_IF_ERROR(Rest(*ranks, waiting, settings.seconds));
      const double used = ProcessCpuSeconds() - before;
      QUIRE_ASSIGN_OR_RETURN(const double all, ranks->Sum(used));
      percents[waiting].push_back(100 * all / settings.seconds);
    }
  }
  QUIRE_RETURN_IF_ERROR(database->Close());
  if (!ranks->IsFirst()) return Status();
  for (const auto& [waiting, measured] : percents) {
    PrintCase("idle",
              {{"state", waiting ? "waiting" : "outside"},
               {"seconds", settings.seconds},
               {"transport", settings.parallel.transport},
               {"ranks", ranks->size()},
               {"repetitions", settings.parallel.repetitions}},
              {{"percent_of_one_core", Rounded(Median(measured), 3)}});
  }
  return Status();
}

}  // namespace

Command AddIdle(CLI::App& app) {
  auto settings = std::make_shared<Settings>();
  CLI::App* sub =
      app.add_subcommand("idle",
                         "Processor time of all ranks together (user and system, all threads) "
                         "while there is nothing to\n"
                         "do, after some work: with the program asleep by itself (outside), and "
                         "with all ranks but one\n"
                         "waiting in Quire for a signal (waiting). Told: per cent of one core.");
  sub->add_option("--seconds", settings->seconds, "how long")->capture_default_str();
  AddParallelOptions(*sub, &settings->parallel);
  return {sub, [settings] { return RunIdle(*settings); }, true};
}

}  // namespace quire::bench
