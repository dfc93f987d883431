// Measures the bytes per second of a simulation's variables that are stored (NVStream, figures 5
// and 6), and the cost of a snapshot of many small variables.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "report.h"
#include "samples.h"
#include "store_ways.h"
#include "stream.h"

namespace quire::bench {
namespace {

const std::vector<std::string> kWays = {
    "stream", "stream-snapshot", "memcpy", "memcpy-flush", "tmpfs", "file", "file-sync"};
const std::vector<std::string> kSmallWays = {"stream", "stream-snapshot", "memcpy", "memcpy-whole",
                                             "tmpfs"};

using Samples = std::map<std::string, std::vector<double>>;  // seconds per byte of all ranks

// One size of variables, all ways in turn.
class VolumeBench {
 public:
  VolumeBench(const StreamSettings& settings, Ranks& ranks) : settings_(settings), ranks_(ranks) {}

  // The first turn of each way, which makes files and memory, is not counted.
  Status Run(uint64_t count, uint64_t bytes, const std::vector<std::string>& ways) {
    QUIRE_ASSIGN_OR_RETURN(const TemporaryDirectory place,
                           TemporaryDirectory::Make(settings_.place));
    QUIRE_ASSIGN_OR_RETURN(const TemporaryDirectory directory,
                           TemporaryDirectory::Make(settings_.parallel.directory));
    Variables variables(count, bytes);
    StoreWays stores(variables, {place.path(), directory.path()},
                     static_cast<uint32_t>(ranks_.rank()));
    for (int i = 0; i <= settings_.parallel.repetitions; ++i) {
      for (const std::string& way : ways) {
        variables.Change(static_cast<uint64_t>(i));
        QUIRE_RETURN_IF_ERROR(Turn(way, i > 0, &stores));
        if (i == settings_.parallel.repetitions) QUIRE_RETURN_IF_ERROR(stores.Check(way));
      }
    }
    for (const std::string& way : ways) Tell(way, variables, FileSystemName(place.path()));
    return Status();
  }

  const Samples& samples() const { return samples_; }
  void Clear() { samples_.clear(); }
  // Returns how much faster `way` was than `other`, turn by turn; 0 if one was not measured.
  double Speed(const std::string& way, const std::string& other) const {
    const auto of = samples_.find(way);
    const auto to = samples_.find(other);
    if (of == samples_.end() || to == samples_.end()) return 0;
    return MedianQuotient(to->second, of->second);
  }

 private:
  Status Turn(const std::string& way, bool counts, StoreWays* stores) {
    QUIRE_RETURN_IF_ERROR(stores->Prepare(way));
    uint64_t stored = 0;
    const auto work = [&]() -> Status {
      QUIRE_ASSIGN_OR_RETURN(stored, stores->Store(way));
      return Status();
    };
    QUIRE_ASSIGN_OR_RETURN(const double seconds, ranks_.Time(work));
    if (counts) {
      samples_[way].push_back(seconds / static_cast<double>(stored) / ranks_.size());
    }
    return stores->Forget(way);
  }

  void Tell(const std::string& way, const Variables& variables, const std::string& place) {
    Json results = {{"mb_per_s", Rounded(1e-6 / Median(samples_[way]))}};
    for (const std::string other : {"memcpy", "memcpy-whole", "tmpfs"}) {
      const double speed = Speed(way, other);
      if (speed > 0) results["speed_to_" + other] = Rounded(speed, 3);
    }
    PrintCase(ranks_, "stream",
              {{"figure", settings_.figure},
               {"method", way},
               {"variable_bytes", variables.bytes()},
               {"variables", variables.count()},
               {"place", place}},
              results);
  }

  const StreamSettings& settings_;
  Ranks& ranks_;
  Samples samples_;
};

std::vector<uint64_t> SizesOf(const StreamSettings& settings) {
  if (!settings.variable_bytes.empty()) return settings.variable_bytes;
  if (settings.figure == "6") return {1 << 20};
  if (settings.figure == "small") return {1 << 10, 4 << 10, 32 << 10, 256 << 10};
  return {4 << 10, 32 << 10, 256 << 10, 1 << 20, 10 << 20};
}

void TellAims(const std::string& figure, uint64_t bytes, const VolumeBench& bench) {
  const std::string of = " of " + std::to_string(bytes) + " bytes";
  constexpr uint64_t kLargeBytes = 1 << 20;
  if (figure != "small" && bytes >= kLargeBytes) {
    TellAim("put" + of + " / memcpy", ">=", 0.9, bench.Speed("stream", "memcpy"));
  }
  if (figure == "5" && bytes == 32 << 10) {
    TellAim("put" + of + " / files on tmpfs", ">=", 2.6, bench.Speed("stream", "tmpfs"));
  }
  if (figure == "small") {
    TellAim("snapshot of many" + of + " / one memcpy", ">=", 0.8,
            bench.Speed("stream-snapshot", "memcpy-whole"));
  }
}

}  // namespace

Status RunStreamVolume(const StreamSettings& settings) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Ranks> ranks, Ranks::Open(settings.parallel));
  const bool small = settings.figure == "small";
  QUIRE_ASSIGN_OR_RETURN(const std::vector<std::string> ways,
                         small
                             ? settings.MethodsOf(kSmallWays, {"memcpy-flush", "file", "file-sync"})
                             : settings.MethodsOf(kWays, {"memcpy-whole"}));
  VolumeBench bench(settings, *ranks);
  for (const uint64_t bytes : SizesOf(settings)) {
    const uint64_t total_bytes = settings.total_mib << 20;
    const uint64_t count = small ? settings.variables : std::max<uint64_t>(total_bytes / bytes, 1);
    bench.Clear();
    QUIRE_RETURN_IF_ERROR(bench.Run(count, bytes, ways));
    if (ranks->IsFirst()) TellAims(settings.figure, bytes, bench);
  }
  return Status();
}

}  // namespace quire::bench
