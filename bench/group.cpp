// Gets from tables of other ranks, with and without a storage group (SC17, figure 8).
#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <utility>
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
  size_t value_bytes = 4096;
  uint64_t count = 20'000;
  uint64_t get_count = 50'000;
  std::vector<std::string> search = SearchNames();
};

constexpr char kName[] = "group";

class Group {
 public:
  Group(Ranks& ranks, const Settings& settings)
      : ranks_(ranks), settings_(settings), pairs_(settings.key_bytes, settings.value_bytes) {}

  Status Fill() {
    DatabaseOptions options;
    options.mode = OpenMode::kMustNotExist;
    QUIRE_ASSIGN_OR_RETURN(const auto database, ranks_.context().Open(kName, options));
    const uint64_t begin = settings_.count * static_cast<uint64_t>(ranks_.rank());
    QUIRE_RETURN_IF_ERROR(pairs_.PutAll(*database, begin, settings_.count));
    return database->Close();
  }

  // Returns gets per second over all ranks. A database that was just opened has nothing in memory;
  // one round of gets precedes the one that counts.
  Result<double> Run(const std::string& search, bool group) {
    DatabaseOptions options;
    options.mode = OpenMode::kMustExist;
    options.group_size = group ? 0 : 1;
    options.storage.search = SearchOf(search);
    QUIRE_ASSIGN_OR_RETURN(const auto database, ranks_.context().Open(kName, options));
    double slowest = 0;
    for (int round = 0; round < 2; ++round) {
      QUIRE_ASSIGN_OR_RETURN(slowest, ranks_.Time([&] { return Gets(*database); }));
    }
    QUIRE_RETURN_IF_ERROR(database->Close());
    return static_cast<double>(settings_.get_count) * ranks_.size() / slowest;
  }

 private:
  // Random keys that other ranks own.
  Status Gets(Database& database) {
    const uint64_t key_count = settings_.count * static_cast<uint64_t>(ranks_.size());
    KeyRandom random(static_cast<uint64_t>(ranks_.rank()));
    for (uint64_t done = 0; done < settings_.get_count;) {
      const uint64_t i = random.Below(key_count);
      if (database.Owner(pairs_.Key(i)) == ranks_.rank()) continue;
      QUIRE_RETURN_IF_ERROR(pairs_.Get(database, i));
      ++done;
    }
    return Status();
  }

  Ranks& ranks_;
  const Settings& settings_;
  Pairs pairs_;
};

using Rates = std::map<std::pair<std::string, bool>, std::vector<double>>;

void Tell(Ranks& ranks, const Settings& settings, Rates& rates) {
  for (const auto& [key, measured] : rates) {
    const auto& [search, group] = key;
    PrintCase(
        ranks, "group",
        {{"search", search},
         {"group", group},
         {"key_bytes", settings.key_bytes},
         {"value_bytes", settings.value_bytes},
         {"count", settings.count},
         {"gets", settings.get_count}},
        {{"get_ops_per_s", Rounded(Median(measured))},
         {"ratio_to_no_group", Rounded(MedianQuotient(measured, rates[{search, false}]), 3)}});
  }
}

Status RunGroup(const Settings& settings) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Ranks> ranks, Ranks::Open(settings.parallel));
  if (ranks->size() < 2) {
    return Status(Code::kInvalidArgument, "group needs two ranks: mpiexec -n 2 quire-bench group");
  }
  Group group(*ranks, settings);
  QUIRE_RETURN_IF_ERROR(group.Fill());
  Rates rates;
  for (int repetition = 0; repetition < settings.parallel.repetitions; ++repetition) {
    for (const std::string& search : settings.search) {
      for (const bool on : {false, true}) {
        QUIRE_ASSIGN_OR_RETURN(const double rate, group.Run(search, on));
        rates[{search, on}].push_back(rate);
      }
    }
  }
  Tell(*ranks, settings, rates);
  return Status();
}

}  // namespace

Command AddGroup(CLI::App& app) {
  auto settings = std::make_shared<Settings>();
  CLI::App* sub = app.add_subcommand(
      "group",
      "Gets of random keys that other ranks own, out of their tables: by message to the owner, "
      "and\n"
      "read by the ranks of a storage group themselves, for each way to search tables, in turns.\n"
      "Told: gets per second over all ranks, and the gain of the group. (SC17, figure 8.)");
  AddKeyBytes(*sub, &settings->key_bytes);
  sub->add_option("--value-bytes", settings->value_bytes, "size of values")->capture_default_str();
  sub->add_option("--count", settings->count, "pairs per rank")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  sub->add_option("--gets", settings->get_count, "per rank and turn")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  sub->add_option("--search", settings->search, "how tables are searched")
      ->delimiter(',')
      ->check(CLI::IsMember(SearchNames()))
      ->capture_default_str();
  AddParallelOptions(*sub, &settings->parallel);
  return {sub, [settings] { return RunGroup(*settings); }, true};
}

}  // namespace quire::bench
