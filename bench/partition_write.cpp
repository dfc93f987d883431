// Measures how much slower a rank is that partitions its output than one that writes a file of its
// own, if the network between nodes has little bandwidth to spare (FilterKV, figures 8 and 9).
#include <mpi.h>

#include <map>
#include <string>
#include <vector>

#include "partition.h"
#include "partition_data.h"
#include "report.h"
#include "samples.h"

namespace quire::bench {
namespace {

const std::vector<std::string> kWays = {"direct", "base",   "pointer", "bloom",
                                        "cuckoo", "ribbon", "sorted"};

// Ranks on this rank's node.
int RanksOfThisNode() {
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  int size = 1;
  MPI_Comm_size(node, &size);
  MPI_Comm_free(&node);
  return size;
}

// Returns the bandwidth of the storage that belongs to a limited network: the network has the part
// of a link that the storage's traffic leaves. [MB/s of each node]
double StorageMbPerS(const PartitionSettings& settings, int residual_percent) {
  return settings.network_mb_per_s * (100 - residual_percent) / residual_percent;
}

using Samples = std::map<std::string, std::vector<double>>;

void AddSamples(const WriteCost& cost, Samples* samples) {
  (*samples)["seconds"].push_back(cost.seconds);
  (*samples)["put_seconds"].push_back(cost.put_seconds);
  (*samples)["stored"].push_back(cost.stored_bytes);
  (*samples)["sent"].push_back(cost.sent_bytes);
}

class WriteBench {
 public:
  WriteBench(const PartitionSettings& settings, Ranks& ranks, ThrottledFileSystem& fs)
      : settings_(settings), ranks_(ranks), fs_(fs), ranks_of_node_(RanksOfThisNode()) {}

  // All ways take turns. A `residual_percent` of 0 means no limit.
  Status Run(size_t pair_bytes, int residual_percent) {
    const double storage = residual_percent == 0 ? 0 : StorageMbPerS(settings_, residual_percent);
    fs_.SetRate(storage * 1e6 / ranks_of_node_);
    std::map<std::string, Samples> samples;
    for (int i = 0; i < settings_.parallel.repetitions; ++i) {
      for (const std::string& way : settings_.FormatsOf(kWays)) {
        PartitionData data(ranks_, fs_, settings_, way, pair_bytes);
        QUIRE_ASSIGN_OR_RETURN(const WriteCost cost, data.Write(1));
        QUIRE_RETURN_IF_ERROR(data.Remove());
        AddSamples(cost, &samples[way]);
      }
    }
    const Json params = {{"figure", settings_.figure},
                         {"pair_bytes", pair_bytes},
                         {"rank_bytes", settings_.rank_bytes},
                         {"buffer_bytes", settings_.buffer_bytes},
                         {"ranks_per_node", ranks_of_node_},
                         {"residual_percent", residual_percent},
                         {"network_mb_per_s", settings_.network_mb_per_s},
                         {"storage_mb_per_s", Rounded(storage)}};
    const auto direct = samples.find("direct");
    for (auto& [way, of_way] : samples) {
      Tell(way, pair_bytes, params, of_way, direct == samples.end() ? nullptr : &direct->second);
    }
    return Status();
  }

 private:
  void Tell(const std::string& way, size_t pair_bytes, Json params, Samples& samples,
            Samples* direct) {
    const uint64_t count = settings_.rank_bytes / pair_bytes;
    const auto of_rank = static_cast<double>(count);
    const double of_all = of_rank * ranks_.size();
    params["format"] = way;
    Json results = {{"seconds", Rounded(Median(samples["seconds"]))},
                    {"stored_bytes_per_pair", Rounded(Median(samples["stored"]) / of_all)},
                    {"sent_bytes_per_pair", Rounded(Median(samples["sent"]) / of_all)},
                    {"put_ops_per_s", Rounded(of_rank / Median(samples["put_seconds"]))},
                    {"epoch_ops_per_s", Rounded(of_rank / Median(samples["seconds"]))}};
    if (direct != nullptr) {
      const double times = MedianQuotient(samples["seconds"], (*direct)["seconds"]);
      results["slowdown_percent"] = Rounded((times - 1) * 100);
    }
    PrintCase(ranks_, "partition", params, results);
  }

  const PartitionSettings& settings_;
  Ranks& ranks_;
  ThrottledFileSystem& fs_;
  const int ranks_of_node_;
};

}  // namespace

Status RunWrites(const PartitionSettings& settings) {
  ThrottledFileSystem fs(io::PosixFileSystem());
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Ranks> ranks, Ranks::Open(settings.parallel, &fs));
  std::vector<size_t> sizes = settings.pair_bytes;
  if (sizes.empty()) {
    sizes = settings.figure == 8 ? std::vector<size_t>{64}
                                 : std::vector<size_t>{16, 32, 64, 96, 128, 192};
  }
  std::vector<int> residuals = settings.residual_percent;
  if (settings.network_mb_per_s == 0) residuals = {0};
  WriteBench bench(settings, *ranks, fs);
  for (const int residual : residuals) {
    for (const size_t size : sizes) QUIRE_RETURN_IF_ERROR(bench.Run(size, residual));
  }
  return Status();
}

}  // namespace quire::bench
