// How long it takes one process to find a pair of one step of a simulation (FilterKV, figure 10c).
#include <map>
#include <string>
#include <vector>

#include "partition.h"
#include "partition_data.h"
#include "report.h"
#include "samples.h"

namespace quire::bench {
namespace {

const std::vector<std::string> kWays = {"base",   "pointer", "bloom", "cuckoo",
                                        "ribbon", "direct",  "sorted"};

// The most questions to a way that reads everything for each.
constexpr uint64_t kScansMax = 20;

struct Latencies {
  std::vector<double> first_us;  // with a reader of its own each
  std::vector<double> next_us;
  DatasetReaderStatistics did;  // of the reader that asks all others
};

Status AskOne(const PartitionData& data, Asker* asker, uint32_t epoch, uint64_t number,
              double* microseconds) {
  const std::string key = PartitionData::KeyOf(number);
  std::string value;
  const Stopwatch watch;
  QUIRE_RETURN_IF_ERROR(asker->Ask(epoch, key, &value));
  *microseconds += watch.Seconds() * 1e6;
  if (data.Matches(epoch, number, value)) return Status();
  return Status(Code::kCorruption, "wrong value for key " + std::to_string(number));
}

Status Ask(const PartitionData& data, uint32_t epochs, uint64_t queries, Latencies* latencies) {
  KeyRandom random(1);
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Asker> held, data.NewAsker());
  for (uint64_t i = 0; i < queries; ++i) {
    const auto epoch = static_cast<uint32_t>(random.Below(epochs) + 1);
    const uint64_t number = random.Below(data.KeyCount());
    Stopwatch watch;
    QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Asker> fresh, data.NewAsker());
    double first = watch.Seconds() * 1e6;
    double next = 0;
    QUIRE_RETURN_IF_ERROR(AskOne(data, fresh.get(), epoch, number, &first));
    QUIRE_RETURN_IF_ERROR(AskOne(data, held.get(), epoch, number, &next));
    latencies->first_us.push_back(first);
    latencies->next_us.push_back(next);
  }
  latencies->did = held->Statistics();
  return Status();
}

void Tell(const PartitionSettings& settings, Ranks& ranks, const std::string& way,
          size_t pair_bytes, const Latencies& latencies) {
  Json results;
  for (const auto& [name, samples] :
       {std::pair{"first", &latencies.first_us}, std::pair{"next", &latencies.next_us}}) {
    for (const auto& [what, fraction] :
         {std::pair{"min", 0.0}, {"median", 0.5}, {"p95", 0.95}, {"max", 1.0}}) {
      results[std::string(name) + "_" + what + "_us"] = Rounded(Percentile(*samples, fraction));
    }
  }
  const DatasetReaderStatistics& did = latencies.did;
  if (did.queries > 0) {
    const auto each = [&](uint64_t sum) {
      return Rounded(static_cast<double>(sum) / static_cast<double>(did.queries));
    };
    results["partitions_per_query"] = each(did.partitions);
    results["false_candidates_per_query"] = each(did.false_candidates);
    results["reads_per_query"] = each(did.reads);
    results["read_bytes_per_query"] = each(did.bytes_read);
  }
  PrintCase(ranks, "partition",
            {{"figure", settings.figure},
             {"format", way},
             {"pair_bytes", pair_bytes},
             {"rank_bytes", settings.rank_bytes},
             {"buffer_bytes", settings.buffer_bytes},
             {"epochs", settings.epochs},
             {"queries", latencies.next_us.size()}},
            results);
}

Status RunWay(const PartitionSettings& settings, Ranks& ranks, io::FileSystem& fs,
              const std::string& way, size_t pair_bytes) {
  PartitionData data(ranks, fs, settings, way, pair_bytes);
  QUIRE_RETURN_IF_ERROR(data.Write(settings.epochs).status());
  Latencies latencies;
  const auto ask = [&]() -> Status {
    if (!ranks.IsFirst()) return Status();
    const uint64_t queries =
        way == "direct" ? std::min(settings.queries, kScansMax) : settings.queries;
    return Ask(data, settings.epochs, queries, &latencies);
  };
  QUIRE_RETURN_IF_ERROR(ranks.Time(ask).status());
  Tell(settings, ranks, way, pair_bytes, latencies);
  return data.Remove();
}

}  // namespace

Status RunQueries(const PartitionSettings& settings) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Ranks> ranks, Ranks::Open(settings.parallel));
  std::vector<size_t> sizes = settings.pair_bytes;
  if (sizes.empty()) sizes = {64};
  for (const size_t size : sizes) {
    for (const std::string& way : settings.FormatsOf(kWays)) {
      QUIRE_RETURN_IF_ERROR(RunWay(settings, *ranks, io::PosixFileSystem(), way, size));
    }
  }
  return Status();
}

}  // namespace quire::bench
