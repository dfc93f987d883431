// Measures what deltas save, by the share of an object that changes between versions (NVStream,
// figure 9).
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "keys.h"
#include "report.h"
#include "samples.h"
#include "store_ways.h"
#include "stream.h"

namespace quire::bench {
namespace {

const std::map<std::string, StreamDeltas> kMethods = {{"full", StreamDeltas::kOff},
                                                      {"delta", StreamDeltas::kAuto},
                                                      {"hash", StreamDeltas::kHash},
                                                      {"protect", StreamDeltas::kProtect},
                                                      {"watch", StreamDeltas::kWatch}};
constexpr uint32_t kVersions = 12;
// The first versions are not counted: in them the stream finds the best way to detect changes.
constexpr uint32_t kWarmUpVersions = 4;
// Sizes of scattered changes: words, and pages.
constexpr uint64_t kPieceBytes[] = {8, 4096};

// Changes `percent` of the object, in different pieces anywhere in it.
void Change(const Variables& object, double percent, uint64_t piece_bytes, uint64_t version) {
  const uint64_t pieces = object.total_bytes() / piece_bytes;
  const auto changed =
      static_cast<uint64_t>(std::ceil(static_cast<double>(pieces) * percent / 100));
  const uint64_t first = Mix64(version);
  for (uint64_t i = 0; i < changed; ++i) {
    // The number of pieces is a power of two, so that an odd factor meets each once.
    const uint64_t piece = (first + i * 0x9E3779B97F4A7C15) % pieces;
    char* at = object.at(0) + piece * piece_bytes;
    for (uint64_t word = 0; word < piece_bytes; word += 8) {
      const uint64_t value = Mix64(version * pieces + piece + word);
      std::memcpy(at + word, &value, 8);
    }
  }
}

struct Case {
  std::string method;
  double changed_percent;
  uint64_t piece_bytes;
};

Status Measure(const StreamSettings& settings, Ranks& ranks, const Case& of) {
  QUIRE_ASSIGN_OR_RETURN(const TemporaryDirectory place, TemporaryDirectory::Make(settings.place));
  const Variables object(1, settings.object_mib << 20);
  StreamOptions options;
  options.deltas = kMethods.at(of.method);
  options.full_every = 1024;
  StoreWays stores(object, {place.path(), settings.parallel.directory}, 0, options);
  StreamStatistics before;
  std::vector<double> seconds;
  for (uint32_t version = 0; version < kWarmUpVersions + kVersions; ++version) {
    if (version == kWarmUpVersions) before = stores.Statistics("stream");
    Change(object, of.changed_percent, of.piece_bytes, version);
    const Stopwatch watch;
    QUIRE_RETURN_IF_ERROR(stores.Store("stream").status());
    if (version >= kWarmUpVersions) seconds.push_back(watch.Seconds());
  }
  QUIRE_RETURN_IF_ERROR(stores.Check("stream"));
  const StreamStatistics after = stores.Statistics("stream");
  const auto stored = static_cast<double>(after.stored_bytes - before.stored_bytes);
  const double share = stored / static_cast<double>(after.object_bytes - before.object_bytes);
  PrintCase(ranks, "stream",
            {{"figure", settings.figure},
             {"method", of.method},
             {"changed_percent", of.changed_percent},
             {"piece_bytes", of.piece_bytes},
             {"object_bytes", object.total_bytes()},
             {"versions", kVersions},
             {"tracking", stores.Tracking("stream")}},
            {{"stored_percent", Rounded(share * 100)},
             {"saved_percent", Rounded((1 - share) * 100)},
             {"deltas", after.deltas - before.deltas},
             {"put_s", Rounded(Median(seconds))}});
  return Status();
}

}  // namespace

Status RunStreamDeltas(const StreamSettings& settings) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Ranks> ranks, Ranks::Open(settings.parallel));
  if ((settings.object_mib & (settings.object_mib - 1)) != 0 || ranks->size() != 1) {
    return Status(Code::kInvalidArgument,
                  "figure 9 runs on one rank, and --object-mib is a power of two");
  }
  QUIRE_ASSIGN_OR_RETURN(const std::vector<std::string> methods,
                         settings.MethodsOf({"full", "delta", "hash"}, {"protect", "watch"}));
  std::vector<double> shares = settings.changed_percent;
  if (shares.empty()) shares = {0.1, 0.5, 1, 2, 5, 10, 20, 50, 100};
  for (const double share : shares) {
    for (const uint64_t piece_bytes : kPieceBytes) {
      for (const std::string& method : methods) {
        QUIRE_RETURN_IF_ERROR(Measure(settings, *ranks, {method, share, piece_bytes}));
      }
    }
  }
  return Status();
}

}  // namespace quire::bench
