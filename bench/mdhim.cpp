// Quire beside range servers over LevelDB, MDHIM's design (SC17, figure 11).
#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "commands.h"
#include "pairs.h"
#include "range_server.h"
#include "ranks.h"
#include "samples.h"

namespace quire::bench {
namespace {

struct Settings {
  ParallelSettings parallel;
  size_t key_bytes = 16;
  std::vector<size_t> value_bytes = {8, 128 * 1024};
  uint64_t count = 10'000;
  int update_percent = 50;
};

// Operations per second over all ranks.
struct Rates {
  std::vector<double> put;
  std::vector<double> mix;
};

// The same operations on anything with Put and Get.
class Pass {
 public:
  Pass(Ranks& ranks, const Settings& settings, size_t value_bytes)
      : ranks_(ranks),
        count_(settings.count),
        update_percent_(settings.update_percent),
        first_key_(static_cast<uint64_t>(ranks.rank()) * settings.count),
        pairs_(settings.key_bytes, value_bytes) {}

  template <typename Store>
  Status Run(Store& store, Rates* rates) {
    QUIRE_RETURN_IF_ERROR(
        Measure([&] { return pairs_.PutAll(store, first_key_, count_); }, &rates->put));
    return Measure([&] { return pairs_.Mix(store, first_key_, count_, update_percent_); },
                   &rates->mix);
  }

 private:
  template <typename Work>
  Status Measure(const Work& work, std::vector<double>* rates) {
    QUIRE_ASSIGN_OR_RETURN(const double slowest, ranks_.Time(work));
    rates->push_back(static_cast<double>(count_) * ranks_.size() / slowest);
    return Status();
  }

  Ranks& ranks_;
  const uint64_t count_;
  const int update_percent_;
  const uint64_t first_key_;
  Pairs pairs_;
};

Status RunOnQuire(Ranks& ranks, const Settings& settings, size_t value_bytes, Rates* rates) {
  DatabaseOptions options;
  options.mode = OpenMode::kMustNotExist;
  options.consistency = Consistency::kSequential;
  {
    QUIRE_ASSIGN_OR_RETURN(const auto database, ranks.context().Open("mdhim", options));
    QUIRE_RETURN_IF_ERROR(Pass(ranks, settings, value_bytes).Run(*database, rates));
    QUIRE_RETURN_IF_ERROR(database->Close());
  }
  return ranks.context().Destroy("mdhim");
}

Status RunOnRangeServers(Ranks& ranks, const Settings& settings, size_t value_bytes, Rates* rates) {
  // Beside the repository, and removed at the end of the turn.
  QUIRE_ASSIGN_OR_RETURN(const TemporaryDirectory directory,
                         TemporaryDirectory::Make(settings.parallel.directory));
  QUIRE_ASSIGN_OR_RETURN(const auto servers, RangeServers::Open(directory.path() + "/db"));
  return Pass(ranks, settings, value_bytes).Run(*servers, rates);
}

using AllRates = std::map<std::pair<size_t, std::string>, Rates>;

void Tell(Ranks& ranks, const Settings& settings, AllRates& all) {
  for (const auto& [key, rates] : all) {
    const auto& [value_bytes, store] = key;
    const Rates& peer = all[{value_bytes, "range servers"}];
    PrintCase(ranks, "mdhim",
              {{"store", store},
               {"key_bytes", settings.key_bytes},
               {"value_bytes", value_bytes},
               {"count", settings.count},
               {"update_percent", settings.update_percent}},
              {{"put_ops_per_s", Rounded(Median(rates.put))},
               {"mix_ops_per_s", Rounded(Median(rates.mix))},
               {"put_ratio", Rounded(MedianQuotient(rates.put, peer.put), 3)},
               {"mix_ratio", Rounded(MedianQuotient(rates.mix, peer.mix), 3)}});
  }
}

Status RunMdhim(const Settings& settings) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Ranks> ranks, Ranks::Open(settings.parallel));
  AllRates rates;
  for (int repetition = 0; repetition < settings.parallel.repetitions; ++repetition) {
    for (const size_t bytes : settings.value_bytes) {
      QUIRE_RETURN_IF_ERROR(RunOnQuire(*ranks, settings, bytes, &rates[{bytes, "quire"}]));
      QUIRE_RETURN_IF_ERROR(
          RunOnRangeServers(*ranks, settings, bytes, &rates[{bytes, "range servers"}]));
    }
  }
  Tell(*ranks, settings, rates);
  return Status();
}

}  // namespace

Command AddMdhim(CLI::App& app) {
  auto settings = std::make_shared<Settings>();
  CLI::App* sub = app.add_subcommand(
      "mdhim",
      "Quire, in sequential consistency, beside MDHIM's design: a range server per rank that "
      "answers MPI\n"
      "messages out of LevelDB (written for this comparison; not MDHIM itself). Each rank puts "
      "--count\n"
      "pairs, then does --count operations on them, --update-percent of them puts, the rest gets, "
      "in\n"
      "turns. Told: operations per second over all ranks, and the ratio to the range servers.\n"
      "(SC17, figure 11.)");
  AddKeyBytes(*sub, &settings->key_bytes, 16);
  sub->add_option("--value-bytes", settings->value_bytes, "sizes of values")
      ->delimiter(',')
      ->capture_default_str();
  sub->add_option("--count", settings->count, "pairs, and operations, per rank")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  sub->add_option("--update-percent", settings->update_percent, "puts among 100 operations")
      ->check(CLI::Range(0, 100))
      ->capture_default_str();
  AddParallelOptions(*sub, &settings->parallel);
  return {sub, [settings] { return RunMdhim(*settings); }, true};
}

}  // namespace quire::bench
