// Checkpoint, restart, redistribution, elastic open (SC17, figure 10), beside cp.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <vector>

#include "commands.h"
#include "cr_pass.h"
#include "file_copy.h"

namespace quire::bench {
namespace {

// Opens of databases of several sizes, one after the other.
class Opens {
 public:
  explicit Opens(CrBench& bench) : bench_(bench) {
    for (uint64_t part = 100; part >= 1; part /= 10) {
      const uint64_t count = std::max<uint64_t>(bench.settings().count / part, 1);
      sizes_.push_back({"open-" + std::to_string(100 / part), count});
    }
  }

  Status Fill() {
    for (const Size& size : sizes_) QUIRE_RETURN_IF_ERROR(bench_.Fill(size.name, size.count));
    return Status();
  }

  Status Run(CrSamples* samples) {
    DatabaseOptions options;
    options.mode = OpenMode::kMustExist;
    for (const Size& size : sizes_) {
      const std::string directory = bench_.DatabaseDirectory(size.name);
      QUIRE_RETURN_IF_ERROR(bench_.Settle(directory));
      QUIRE_ASSIGN_OR_RETURN(const FileBytes bytes, CountFileBytes(directory));
      std::unique_ptr<Database> database;
      const auto work = [&]() -> Status {
        QUIRE_ASSIGN_OR_RETURN(database, bench_.ranks().context().Open(size.name, options));
        return Status();
      };
      QUIRE_ASSIGN_OR_RETURN(const double seconds, bench_.ranks().Time(work));
      QUIRE_RETURN_IF_ERROR(database->Close());
      auto& quantities = (*samples)[size.name];
      quantities["count"].push_back(static_cast<double>(size.count));
      quantities["bytes"].push_back(static_cast<double>(bytes.all));
      quantities["seconds"].push_back(seconds);
    }
    return Status();
  }

 private:
  struct Size {
    std::string name;
    uint64_t count;
  };
  CrBench& bench_;
  std::vector<Size> sizes_;
};

// Adds the results beyond the medians: rates, and their ratios to cp's and to the first
// checkpoint's.
void AddComparisons(const std::string& what, CrSamples& samples, Json* results) {
  const std::vector<double>& seconds = samples[what]["seconds"];
  const std::vector<double>& bytes = samples["checkpoint"]["bytes"];
  if (what == "checkpoint_changed") {
    (*results)["ratio_to_first"] =
        Rounded(MedianQuotient(seconds, samples["checkpoint"]["seconds"]), 3);
    (*results)["copied_share"] = Rounded(MedianQuotient(samples[what]["copied_bytes"], bytes), 3);
    return;
  }
  if (seconds.empty() || what.rfind("open", 0) == 0) return;
  (*results)["mb_per_s"] = Rounded(MedianQuotient(bytes, seconds) / 1e6);
  if (what.rfind("cp", 0) == 0) return;
  const std::string of = what == "checkpoint" ? "" : "_checkpoint";
  for (const std::string peer : {"cp", "cp_sync"}) {
    (*results)["speed_to_" + peer] =
        Rounded(MedianQuotient(samples[peer + of]["seconds"], seconds), 3);
  }
}

void Tell(Ranks& ranks, const CrSettings& settings, CrSamples samples) {
  const CrSamples measured = samples;
  for (const auto& [what, quantities] : measured) {
    Json results;
    for (const auto& [quantity, numbers] : quantities) {
      results[quantity] = Rounded(Median(numbers));
    }
    AddComparisons(what, samples, &results);
    PrintCase(ranks, "cr",
              {{"what", what},
               {"key_bytes", settings.key_bytes},
               {"value_bytes", settings.value_bytes},
               {"count", settings.count},
               {"change_percent", settings.change_percent},
               {"elastic_ranks", settings.elastic_ranks},
               {"cache", settings.cache}},
              results);
  }
}

Status RunCr(CrSettings settings) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Ranks> ranks, Ranks::Open(settings.parallel));
  if (settings.elastic_ranks == 0) settings.elastic_ranks = std::max(1, ranks->size() / 2);
  if (settings.elastic_ranks > ranks->size()) {
    return Status(Code::kInvalidArgument,
                  "--elastic-ranks is " + std::to_string(settings.elastic_ranks) + "; there are " +
                      std::to_string(ranks->size()) + " ranks");
  }
  CrBench bench(*ranks, settings);
  CrSamples samples;
  Opens opens(bench);
  QUIRE_RETURN_IF_ERROR(opens.Fill());
  for (int repetition = 0; repetition < settings.parallel.repetitions; ++repetition) {
    QUIRE_RETURN_IF_ERROR(RunCrPass(bench, repetition, &samples));
    QUIRE_RETURN_IF_ERROR(opens.Run(&samples));
  }
  Tell(*ranks, settings, samples);
  return Status();
}

}  // namespace

Command AddCr(CLI::App& app) {
  auto settings = std::make_shared<CrSettings>();
  CLI::App* sub = app.add_subcommand(
      "cr",
      "Checkpoint and restart: all ranks fill a database, save it, copy the same files as cp does\n"
      "(without and with sync; what a restart reads as well), change --change-percent of the keys, "
      "save again beside the first,\n"
      "and bring the first one back: by as many ranks, by as many with all pairs moved, by "
      "--elastic-ranks\n"
      "of them where the checkpoint lies and where the repository lies; and all ranks open what "
      "--elastic-ranks\n"
      "of them wrote. Then databases of 1, 10 and\n"
      "100 % of --count are opened. Told: seconds on the slowest rank, MB per second over all, "
      "speed as\n"
      "a share of cp's in the same repetition. (SC17, figure 10.)");
  AddKeyBytes(*sub, &settings->key_bytes);
  sub->add_option("--value-bytes", settings->value_bytes, "size of values")->capture_default_str();
  sub->add_option("--count", settings->count, "pairs per rank")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  sub->add_option("--change-percent", settings->change_percent,
                  "of the keys, before the second checkpoint")
      ->check(CLI::Range(0, 100))
      ->capture_default_str();
  sub->add_option("--elastic-ranks", settings->elastic_ranks,
                  "ranks that open what all ranks wrote, and write what all open; 0: half of them")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  sub->add_option("--cache", settings->cache,
                  "what is read (database, checkpoint) is in the page cache, or is not")
      ->check(CLI::IsMember({"warm", "cold"}))
      ->capture_default_str();
  AddParallelOptions(*sub, &settings->parallel);
  return {sub, [settings] { return RunCr(*settings); }, true};
}

}  // namespace quire::bench
