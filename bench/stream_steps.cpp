// Measures the steps of a simulation that stores itself after each of them, if most of it does not
// change from step to step (NVStream, figures 7 and 10).
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mesh_blocks.h"
#include "report.h"
#include "samples.h"
#include "store_ways.h"
#include "stream.h"

namespace quire::bench {
namespace {

const std::vector<std::string> kFigure7 = {"memcpy", "tmpfs", "full", "delta"};
const std::vector<std::string> kFigure10 = {"none", "full", "delta"};
// The first steps are not counted, nor what they store: in them the stream finds the best way to
// detect changes.
constexpr uint64_t kWarmUpSteps = 4;

// A simulation, and how it is stored.
struct Run {
  Run(const MeshShape& shape, StoreFolders folders, uint32_t rank, bool deltas)
      : mesh(shape), stores(mesh.variables(), std::move(folders), rank, Options(deltas)) {}

  static StreamOptions Options(bool deltas) {
    StreamOptions options;
    options.deltas = deltas ? StreamDeltas::kAuto : StreamDeltas::kOff;
    return options;
  }

  MeshBlocks mesh;
  StoreWays stores;
  StreamStatistics before;  // of what counts
  std::vector<double> step_s, snapshot_s;
};

std::string WayOf(const std::string& method) {
  return method == "full" || method == "delta" ? "stream-snapshot" : method;
}

class StepBench {
 public:
  StepBench(const StreamSettings& settings, Ranks& ranks) : settings_(settings), ranks_(ranks) {}

  Status ChooseMethods() {
    QUIRE_ASSIGN_OR_RETURN(
        methods_, settings_.figure == "7"
                      ? settings_.MethodsOf(kFigure7, {"none", "stream", "memcpy-flush", "file"})
                      : settings_.MethodsOf(kFigure10, kFigure7));
    return Status();
  }

  // Each step is made by all methods, one after another, each with a mesh of its own. In the steps
  // that are not counted `changed_before` percent change: if that is less, the first counted step
  // is a change-over.
  Status Measure(double changed_percent, double changed_before) {
    changed_before_ = changed_before;
    runs_.clear();
    std::vector<TemporaryDirectory> places;
    for (const std::string& method : methods_) {
      QUIRE_ASSIGN_OR_RETURN(TemporaryDirectory place, TemporaryDirectory::Make(settings_.place));
      const MeshShape shape = {settings_.blocks, settings_.edge, settings_.sweeps};
      runs_[method] =
          std::make_unique<Run>(shape, StoreFolders{place.path(), settings_.parallel.directory},
                                static_cast<uint32_t>(ranks_.rank()), method == "delta");
      QUIRE_RETURN_IF_ERROR(runs_[method]->stores.Prepare(WayOf(method)));
      places.push_back(std::move(place));
    }
    for (uint64_t step = 0; step < kWarmUpSteps + settings_.steps; ++step) {
      for (const std::string& method : methods_) {
        const bool counts = step >= kWarmUpSteps;
        QUIRE_RETURN_IF_ERROR(Step(method, step, counts ? changed_percent : changed_before));
      }
    }
    for (const std::string& method : methods_) {
      QUIRE_RETURN_IF_ERROR(runs_[method]->stores.Check(WayOf(method)));
      if (settings_.figure == "7") TellSteps(method, changed_percent);
      Tell(method, changed_percent);
    }
    if (ranks_.IsFirst()) TellAims(changed_percent);
    runs_.clear();
    return Status();
  }

 private:
  Status Step(const std::string& method, uint64_t step, double changed_percent) {
    Run& run = *runs_[method];
    double snapshot_s = 0;
    const auto work = [&]() -> Status {
      run.mesh.Step(step, changed_percent);
      if (method == "none") return Status();
      const Stopwatch watch;
      QUIRE_RETURN_IF_ERROR(run.stores.Store(WayOf(method)).status());
      snapshot_s = watch.Seconds();
      return Status();
    };
    QUIRE_ASSIGN_OR_RETURN(const double step_s, ranks_.Time(work));
    QUIRE_ASSIGN_OR_RETURN(snapshot_s, ranks_.Max(snapshot_s));
    QUIRE_RETURN_IF_ERROR(run.stores.Forget(WayOf(method)));
    if (step + 1 == kWarmUpSteps) run.before = run.stores.Statistics(WayOf(method));
    if (step < kWarmUpSteps) return Status();
    run.step_s.push_back(step_s);
    run.snapshot_s.push_back(snapshot_s);
    return Status();
  }

  Json ParamsOf(const std::string& method, double changed_percent) {
    return {{"figure", settings_.figure},
            {"method", method},
            {"changed_percent", changed_percent},
            {"changed_before_percent", changed_before_},
            {"blocks", settings_.blocks},
            {"block_bytes", runs_[method]->mesh.variables().bytes()},
            {"sweeps", settings_.sweeps},
            {"steps", settings_.steps},
            {"tracking", runs_[method]->stores.Tracking(WayOf(method))}};
  }

  void TellSteps(const std::string& method, double changed_percent) {
    const Run& run = *runs_[method];
    for (size_t i = 0; i < run.step_s.size(); ++i) {
      Json params = ParamsOf(method, changed_percent);
      params["step"] = i + 1;
      PrintCase(ranks_, "stream", params, {{"snapshot_s", Rounded(run.snapshot_s[i])}});
    }
  }

  void Tell(const std::string& method, double changed_percent) {
    const Run& run = *runs_[method];
    Json results = {{"step_s", Rounded(Median(run.step_s))},
                    {"snapshot_s", Rounded(Median(run.snapshot_s))},
                    {"snapshot_first_s", Rounded(run.snapshot_s.front())},
                    {"snapshot_max_s", Rounded(Percentile(run.snapshot_s, 1))}};
    if (runs_.count("none") == 1) results["times_none"] = Rounded(Times(method, "none"), 3);
    const StreamStatistics did = run.stores.Statistics(WayOf(method));
    if (did.object_bytes > run.before.object_bytes) {
      const auto stored = static_cast<double>(did.stored_bytes - run.before.stored_bytes);
      results["stored_share"] =
          Rounded(stored / static_cast<double>(did.object_bytes - run.before.object_bytes), 3);
    }
    PrintCase(ranks_, "stream", ParamsOf(method, changed_percent), results);
  }

  double Times(const std::string& method, const std::string& other) {
    if (runs_.count(method) == 0 || runs_.count(other) == 0) return 0;
    return MedianQuotient(runs_[method]->step_s, runs_[other]->step_s);
  }

  void TellAims(double changed_percent) {
    const std::string of = " (" + Json(changed_percent).dump() + " % changed)";
    if (changed_percent < 100) {
      TellAim("step with deltas / without storing" + of, "<=", 1.25, Times("delta", "none"));
    } else if (runs_.count("delta") == 1 && runs_.count("full") == 1 &&
               changed_before_ < changed_percent) {
      TellAim("first delta snapshot / full snapshot when all changes" + of, "<=", 1.1,
              runs_["delta"]->snapshot_s.front() / Median(runs_["full"]->snapshot_s));
    } else if (runs_.count("delta") == 1 && runs_.count("full") == 1) {
      TellAim("delta snapshot / full snapshot" + of, "<=", 1.1,
              MedianQuotient(runs_["delta"]->snapshot_s, runs_["full"]->snapshot_s));
    }
  }

  const StreamSettings& settings_;
  Ranks& ranks_;
  std::vector<std::string> methods_;
  double changed_before_ = 0;
  std::map<std::string, std::unique_ptr<Run>> runs_;
};

}  // namespace

Status RunStreamSteps(const StreamSettings& settings) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Ranks> ranks, Ranks::Open(settings.parallel));
  std::vector<double> shares = settings.changed_percent;
  if (shares.empty()) shares = {10, 100};
  StepBench bench(settings, *ranks);
  QUIRE_RETURN_IF_ERROR(bench.ChooseMethods());
  for (const double share : shares) QUIRE_RETURN_IF_ERROR(bench.Measure(share, share));
  // All blocks change after they have rested.
  if (settings.figure == "10") QUIRE_RETURN_IF_ERROR(bench.Measure(100, 0));
  return Status();
}

}  // namespace quire::bench
