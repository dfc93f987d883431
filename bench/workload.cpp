// The parallel database under a mix of gets and puts (SC17, figure 9).
#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <vector>

#include "commands.h"
#include "pairs.h"
#include "ranks.h"
#include "samples.h"

namespace quire::bench {
namespace {

struct Settings {
  ParallelSettings parallel;
  size_t key_bytes = 16;
  size_t value_bytes = 128 * 1024;
  uint64_t count = 1'000;
  std::vector<int> update_percent = {50, 5, 0};
  bool protect = false;
};

class Pass {
 public:
  Pass(Ranks& ranks, const Settings& settings)
      : ranks_(ranks),
        settings_(settings),
        first_key_(static_cast<uint64_t>(ranks.rank()) * settings.count),
        pairs_(settings.key_bytes, settings.value_bytes) {}

  // Seconds of the mix, on the slowest rank.
  Result<double> Run(int update_percent) {
    DatabaseOptions options;
    options.mode = OpenMode::kMustNotExist;
    options.consistency = Consistency::kSequential;
    QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<Database> database,
                           ranks_.context().Open("workload", options));
    QUIRE_RETURN_IF_ERROR(pairs_.PutAll(*database, first_key_, settings_.count));
    QUIRE_RETURN_IF_ERROR(database->Barrier(Level::kSsTable));
    const bool protect = settings_.protect && update_percent == 0;
    if (protect) QUIRE_RETURN_IF_ERROR(database->Protect(Protection::kReadOnly));
    const auto mix = [&] {
      return pairs_.Mix(*database, first_key_, settings_.count, update_percent);
    };
    QUIRE_ASSIGN_OR_RETURN(const double slowest, ranks_.Time(mix));
    QUIRE_RETURN_IF_ERROR(database->Close());
    database.reset();
    QUIRE_RETURN_IF_ERROR(ranks_.context().Destroy("workload"));
    return slowest;
  }

 private:
  Ranks& ranks_;
  const Settings& settings_;
  uint64_t first_key_;
  Pairs pairs_;
};

Status RunWorkload(const Settings& settings) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Ranks> ranks, Ranks::Open(settings.parallel));
  std::map<int, std::vector<double>> rates;
  const double count = static_cast<double>(settings.count) * ranks->size();
  for (int repetition = 0; repetition < settings.parallel.repetitions; ++repetition) {
    for (const int percent : settings.update_percent) {
      QUIRE_ASSIGN_OR_RETURN(const double seconds, Pass(*ranks, settings).Run(percent));
      rates[percent].push_back(count / seconds);
    }
  }
  for (const auto& [percent, measured] : rates) {
    const double rate = Median(measured);
    const auto pair_bytes = static_cast<double>(settings.key_bytes + settings.value_bytes);
    PrintCase(*ranks, "workload",
              {{"update_percent", percent},
               {"protect", settings.protect && percent == 0},
               {"key_bytes", settings.key_bytes},
               {"value_bytes", settings.value_bytes},
               {"count", settings.count}},
              {{"ops_per_s", Rounded(rate)}, {"mb_per_s", Rounded(rate * pair_bytes / 1e6)}});
  }
  return Status();
}

}  // namespace

Command AddWorkload(CLI::App& app) {
  auto settings = std::make_shared<Settings>();
  CLI::App* sub = app.add_subcommand(
      "workload",
      "The parallel database under a mix: each rank puts --count pairs, a barrier brings them "
      "into\n"
      "tables, then each does --count operations on keys of its own, --update-percent of them "
      "puts,\n"
      "the rest gets, with sequential consistency. Told: operations and MB per second of the mix\n"
      "over all ranks. (SC17, figure 9.)");
  sub->add_option("--update-percent", settings->update_percent, "puts among 100 operations")
      ->delimiter(',')
      ->check(CLI::Range(0, 100))
      ->capture_default_str();
  sub->add_flag("--protect", settings->protect,
                "where nothing is updated: write-protect first, which turns the remote cache on");
  AddKeyBytes(*sub, &settings->key_bytes);
  sub->add_option("--value-bytes", settings->value_bytes, "size of values")->capture_default_str();
  sub->add_option("--count", settings->count, "pairs, and operations, per rank")
      ->capture_default_str();
  AddParallelOptions(*sub, &settings->parallel);
  return {sub, [settings] { return RunWorkload(*settings); }, true};
}

}  // namespace quire::bench
