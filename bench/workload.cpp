// The parallel database under a mix of gets and puts (SC17, figure 9).
#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <vector>

#include "commands.h"
#include "keys.h"
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
        keys_(settings.key_bytes),
        values_(settings.value_bytes) {}

  // Seconds of the mix, on the slowest rank.
  Result<double> Run(int update_percent) {
    DatabaseOptions options;
    options.mode = OpenMode::kMustNotExist;
    options.consistency = Consistency::kSequential;
    QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<Database> database,
                           ranks_.context().Open("workload", options));
    for (uint64_t i = first_key_; i < first_key_ + settings_.count; ++i) {
      QUIRE_RETURN_IF_ERROR(database->Put(keys_(i), values_(i)));
    }
    QUIRE_RETURN_IF_ERROR(database->Barrier(Level::kSsTable));
    const bool protect = settings_.protect && update_percent == 0;
    if (protect) QUIRE_RETURN_IF_ERROR(database->Protect(Protection::kReadOnly));
    QUIRE_RETURN_IF_ERROR(ranks_.context().Barrier());
    const Stopwatch watch;
    QUIRE_RETURN_IF_ERROR(Mix(*database, update_percent));
    const double seconds = watch.Seconds();
    QUIRE_ASSIGN_OR_RETURN(const double slowest, ranks_.Max(seconds));
    QUIRE_RETURN_IF_ERROR(database->Close());
    database.reset();
    QUIRE_RETURN_IF_ERROR(ranks_.context().Destroy("workload"));
    return slowest;
  }

 private:
  Status Mix(Database& database, int update_percent) {
    Random random(first_key_ + 1);
    std::string value;
    for (uint64_t n = 0; n < settings_.count; ++n) {
      const uint64_t i = first_key_ + random.Below(settings_.count);
      if (random.Below(100) < static_cast<uint64_t>(update_percent)) {
        QUIRE_RETURN_IF_ERROR(database.Put(keys_(i), values_(i)));
        continue;
      }
      QUIRE_RETURN_IF_ERROR(database.Get(keys_(i), &value));
      if (!values_.Matches(i, value)) {
        return Status(Code::kCorruption, "wrong value for key " + std::to_string(i));
      }
    }
    return Status();
  }

  Ranks& ranks_;
  const Settings& settings_;
  uint64_t first_key_;
  KeyMaker keys_;
  ValueMaker values_;
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
               {"count", settings.count},
               {"transport", settings.parallel.transport},
               {"ranks", ranks->size()},
               {"repetitions", settings.parallel.repetitions},
               {"storage", ranks->storage()}},
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
  sub->add_option("--key-bytes", settings->key_bytes, "size of keys")
      ->check(CLI::Range(4, 65536))
      ->capture_default_str();
  sub->add_option("--value-bytes", settings->value_bytes, "size of values")->capture_default_str();
  sub->add_option("--count", settings->count, "pairs, and operations, per rank")
      ->capture_default_str();
  AddParallelOptions(*sub, &settings->parallel);
  return {sub, [settings] { return RunWorkload(*settings); }, true};
}

}  // namespace quire::bench
