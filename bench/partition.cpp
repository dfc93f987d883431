#include "partition.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "commands.h"
#include "filter/rank_map/rank_map.h"

namespace quire::bench {
namespace {

const std::set<std::string> kMaps = {"pointer", "bloom", "cuckoo", "ribbon"};

void AddMapOptions(CLI::App& app, PartitionSettings* settings) {
  app.add_option("--keys", settings->keys, "figure 7: in the map")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 28))
      ->capture_default_str();
  app.add_option("--partitions", settings->partitions, "figure 7: ranks; comma-separated")
      ->delimiter(',')
      ->check(CLI::Range(2u, filter::kRankCountMax))
      ->capture_default_str();
  app.add_option("--questions", settings->questions,
                 "figure 7: at most; fewer of Bloom filters of many")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 32))
      ->capture_default_str();
}

void AddDataOptions(CLI::App& app, PartitionSettings* settings) {
  app.add_option("--pair-bytes", settings->pair_bytes,
                 "of key (8) and value; comma-separated; else 64, in figure 9 16 to 192")
      ->delimiter(',')
      ->check(CLI::Range(16, 1 << 20));
  app.add_option("--rank-bytes", settings->rank_bytes, "of pairs, of each rank in each epoch")
      ->check(CLI::Range(uint64_t{1} << 20, uint64_t{1} << 40))
      ->capture_default_str();
  app.add_option("--buffer-bytes", settings->buffer_bytes,
                 "pairs, or what came, in memory before it is written")
      ->check(CLI::Range(uint64_t{1} << 16, uint64_t{1} << 36))
      ->capture_default_str();
  app.add_option("--network-mb-per-s", settings->network_mb_per_s,
                 "figures 8, 9: what each node's link is limited to, by whoever starts this; the "
                 "storage is\nlimited here to what such a link would have for it. 0: no limits")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--residual", settings->residual_percent,
                 "figures 8, 9: percent of a link that the storage leaves; comma-separated")
      ->delimiter(',')
      ->check(CLI::Range(1, 99))
      ->capture_default_str();
  app.add_option("--epochs", settings->epochs, "figure 10")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--queries", settings->queries, "figure 10; scans at most 20")
      ->check(CLI::Range(1, 100'000'000))
      ->capture_default_str();
}

Status Run(const PartitionSettings& settings) {
  for (const std::string& format : settings.formats) {
    if (settings.figure != 7 || kMaps.count(format) == 1) continue;
    return Status(Code::kInvalidArgument,
                  "--formats " + format + ": figure 7 has pointer, bloom, cuckoo and ribbon");
  }
  if (settings.figure == 7) return RunMaps(settings);
  return settings.figure == 10 ? RunQueries(settings) : RunWrites(settings);
}

}  // namespace

Command AddPartition(CLI::App& app) {
  auto settings = std::make_shared<PartitionSettings>();
  settings->parallel.repetitions = 1;
  CLI::App* sub = app.add_subcommand(
      "partition",
      "What partitioning a simulation's output costs (FilterKV).\n"
      "Figure 7, on one rank: a partition's map from keys to ranks, by number of ranks: bits per "
      "key, also compressed\n(LZ4) and in theory; ranks to be asked per question; time to build "
      "and to ask, per key.\n"
      "Figures 8 (64 bytes) and 9 (by size of pairs): how much longer an epoch takes than files "
      "that the ranks write for\nthemselves (\"direct\"), in every format, and with an external "
      "sort after it (\"sorted\").\n"
      "Figure 10: how long one process looks for a key of one epoch, of a reader's first question "
      "and of the next ones;\n\"direct\" reads all files of the epoch, \"sorted\" halves a sorted "
      "one.");
  sub->add_option("--figure", settings->figure, "of the paper; of 10 the part c")
      ->check(CLI::IsMember({7, 8, 9, 10}))
      ->capture_default_str();
  sub->add_option("--formats", settings->formats, "comma-separated; else all of the figure")
      ->delimiter(',')
      ->check(CLI::IsMember({"direct", "base", "pointer", "bloom", "cuckoo", "ribbon", "sorted"}));
  AddMapOptions(*sub, settings.get());
  AddDataOptions(*sub, settings.get());
  AddParallelOptions(*sub, &settings->parallel);
  return {sub, [settings] { return Run(*settings); }, true};
}

}  // namespace quire::bench
