// One rank's storage, Quire's and others', under the same load.
#include <CLI/CLI.hpp>
#include <atomic>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "commands.h"
#include "engines/engine.h"
#include "keys.h"
#include "report.h"
#include "samples.h"
#include "workspace.h"

namespace quire::bench {
namespace {

constexpr size_t kKeyBytes = 16;

struct Settings {
  std::vector<std::string> engines;
  std::vector<std::string> ops;
  std::vector<uint64_t> value_bytes = {100, 4096, 1 << 20};
  uint64_t count = 0;
  uint64_t reads = 0;
  uint64_t volume_bytes = 512ull << 20;
  uint64_t writer_bytes_per_s = 16ull << 20;
  int repetitions = 3;
  std::string directory;
  EngineOptions engine;
};

// One operation on one engine, once.
struct Measurement {
  double ops = 0;
  double seconds = 0;
  Json details = Json::object();
};

// The load on one engine, in one pass over all operations.
class Load {
 public:
  Load(Engine& engine, std::string directory, const Settings& settings, uint64_t value_bytes)
      : engine_(engine),
        directory_(std::move(directory)),
        settings_(settings),
        value_bytes_(value_bytes),
        values_(value_bytes) {
    count_ = settings.count;
    if (count_ == 0) count_ = settings.volume_bytes / (kKeyBytes + value_bytes);
    reads_ = settings.reads != 0 ? settings.reads : std::min<uint64_t>(count_, 500'000);
  }

  uint64_t count() const { return count_; }

  Result<Measurement> Run(const std::string& op) {
    if (op == "fillrandom") return Write(1);
    if (op == "overwrite") return Write(2);
    if (op == "readrandom") return Read(true);
    if (op == "readmissing") return Read(false);
    if (op == "seekrandom") return Seek();
    return ReadWhileWriting();
  }

 private:
  double UserBytes() const {
    return static_cast<double>(count_) * static_cast<double>(kKeyBytes + value_bytes_);
  }

  // The keys are a permutation of themselves: filling in the order of i fills in a random order of
  // keys.
  Result<Measurement> Write(uint64_t round) {
    QUIRE_ASSIGN_OR_RETURN(const WrittenBytes before, ReadWrittenBytes());
    const uint64_t mapped_before = engine_.MappedBytes();
    KeyMaker keys(kKeyBytes);
    KeyRandom random(round);
    Measurement result;
    const Stopwatch watch;
    for (uint64_t i = 0; i < count_; ++i) {
      const uint64_t key = round == 1 ? i : random.Below(count_);
      QUIRE_RETURN_IF_ERROR(engine_.Put(keys(key), values_(key)));
    }
    result.ops = static_cast<double>(count_);
    result.seconds = watch.Seconds();
    QUIRE_RETURN_IF_ERROR(engine_.Settle());
    result.details["settle_seconds"] = Rounded(watch.Seconds() - result.seconds);
    QUIRE_ASSIGN_OR_RETURN(const WrittenBytes after, ReadWrittenBytes());
    const auto file_bytes =
        static_cast<double>(after.calls - before.calls + engine_.MappedBytes() - mapped_before);
    result.details["file_bytes_per_user_byte"] = Rounded(file_bytes / UserBytes());
    result.details["device_bytes_per_user_byte"] =
        Rounded(static_cast<double>(after.device - before.device) / UserBytes());
    result.details["space_bytes"] = DiskUsageBytes(directory_);
    if (engine_.RunCount() != 0) result.details["run_count"] = engine_.RunCount();
    QUIRE_RETURN_IF_ERROR(SyncFileSystem(directory_));
    return result;
  }

  Result<Measurement> Read(bool present) {
    KeyRandom random(3);
    Measurement result;
    const Stopwatch watch;
    QUIRE_RETURN_IF_ERROR(ReadMany(present, random, reads_));
    result.seconds = watch.Seconds();
    result.ops = static_cast<double>(reads_);
    return result;
  }

  Status ReadMany(bool present, KeyRandom& random, uint64_t reads) {
    const std::unique_ptr<EngineReader> reader = engine_.NewReader();
    KeyMaker keys(kKeyBytes);
    Slice value;
    for (uint64_t n = 0; n < reads; ++n) {
      const uint64_t key = random.Below(count_) + (present ? 0 : count_);
      const Status status = reader->Get(keys(key), &value);
      if (!present && status.code() == Code::kNotFound) continue;
      QUIRE_RETURN_IF_ERROR(status);
      if (!present || !values_.Matches(key, value)) {
        return Status(Code::kCorruption, "wrong value for key " + std::to_string(key));
      }
    }
    return Status();
  }

  Result<Measurement> Seek() {
    constexpr int kNexts = 50;
    const uint64_t seeks = std::max<uint64_t>(reads_ / 25, 20);
    const std::unique_ptr<EngineReader> reader = engine_.NewReader();
    KeyMaker keys(kKeyBytes);
    KeyRandom random(4);
    ScanTotals totals;
    Measurement result;
    const Stopwatch watch;
    for (uint64_t n = 0; n < seeks; ++n) {
      QUIRE_RETURN_IF_ERROR(reader->Scan(keys(random.Below(2 * count_)), kNexts, &totals));
    }
    result.seconds = watch.Seconds();
    result.ops = static_cast<double>(seeks);
    result.details["pairs_per_seek"] =
        Rounded(static_cast<double>(totals.pairs) / static_cast<double>(seeks));
    return result;
  }

  // One reader, and beside it a writer at the same pace for every engine.
  Result<Measurement> ReadWhileWriting() {
    std::atomic<bool> done{false};
    uint64_t written = 0;
    Status write_status;
    std::thread writer([&] { write_status = WriteAtPace(done, &written); });
    KeyRandom random(5);
    Measurement result;
    const Stopwatch watch;
    const Status read_status = ReadMany(true, random, reads_);
    result.seconds = watch.Seconds();
    done = true;
    writer.join();
    QUIRE_RETURN_IF_ERROR(read_status);
    QUIRE_RETURN_IF_ERROR(write_status);
    result.ops = static_cast<double>(reads_);
    result.details["writes_per_s"] = Rounded(static_cast<double>(written) / result.seconds);
    return result;
  }

  Status WriteAtPace(const std::atomic<bool>& done, uint64_t* written) {
    const double writes_per_s = static_cast<double>(settings_.writer_bytes_per_s) /
                                static_cast<double>(kKeyBytes + value_bytes_);
    KeyMaker keys(kKeyBytes);
    ValueMaker values(value_bytes_, 6);
    KeyRandom random(7);
    const Stopwatch watch;
    while (!done) {
      const auto due = static_cast<uint64_t>(watch.Seconds() * writes_per_s) + 1;
      for (; *written < due && !done; ++*written) {
        const uint64_t key = random.Below(count_);
        QUIRE_RETURN_IF_ERROR(engine_.Put(keys(key), values(key)));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return Status();
  }

  Engine& engine_;
  std::string directory_;
  const Settings& settings_;
  uint64_t value_bytes_;
  ValueMaker values_;
  uint64_t count_;
  uint64_t reads_;
};

using CaseKey = std::pair<std::string, std::string>;  // engine, op

const std::vector<std::string> kAllOps = {"fillrandom", "readrandom", "readmissing",
                                          "seekrandom", "overwrite",  "readwhilewriting"};

Status OnePass(const Settings& settings, const std::string& name, uint64_t value_bytes,
               std::map<CaseKey, std::vector<Measurement>>* measured) {
  QUIRE_ASSIGN_OR_RETURN(const TemporaryDirectory directory,
                         TemporaryDirectory::Make(settings.directory));
  EngineOptions options = settings.engine;
  options.directory = directory.path() + "/" + name;
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, OpenEngine(name, options));
  Load load(*engine, directory.path(), settings, value_bytes);
  for (const std::string& op : kAllOps) {
    // All other operations read what fillrandom wrote.
    if (op != "fillrandom" &&
        std::find(settings.ops.begin(), settings.ops.end(), op) == settings.ops.end()) {
      continue;
    }
    Result<Measurement> result = load.Run(op);
    if (!result.ok()) return result.status().WithContext(name + " " + op);
    Say(name + " " + op + " " + std::to_string(value_bytes) +
        " B: " + std::to_string(static_cast<uint64_t>(result->ops / result->seconds)) + "/s " +
        result->details.dump());
    (*measured)[{name, op}].push_back(std::move(*result));
  }
  return Status();
}

double MedianRate(const std::vector<Measurement>& runs) {
  std::vector<double> rates;
  for (const Measurement& run : runs) rates.push_back(run.ops / run.seconds);
  return Median(rates);
}

// The details of the run whose rate is nearest to the median.
const Measurement& MiddleRun(const std::vector<Measurement>& runs) {
  const double median = MedianRate(runs);
  return *std::min_element(runs.begin(), runs.end(), [&](const auto& a, const auto& b) {
    return std::abs(a.ops / a.seconds - median) < std::abs(b.ops / b.seconds - median);
  });
}

void PrintCases(const Settings& settings, uint64_t value_bytes, const std::string& storage,
                const std::map<CaseKey, std::vector<Measurement>>& measured) {
  for (const auto& [key, runs] : measured) {
    const auto& [engine, op] = key;
    const double rate = MedianRate(runs);
    const double pairs = op == "seekrandom" ? 51 : 1;
    Json results = {
        {"ops_per_s", Rounded(rate)},
        {"mb_per_s", Rounded(rate * pairs * static_cast<double>(kKeyBytes + value_bytes) / 1e6)}};
    results.update(MiddleRun(runs).details);
    double best_other = 0;
    for (const auto& [other, other_runs] : measured) {
      if (other.second == op && other.first != "lsm") {
        best_other = std::max(best_other, MedianRate(other_runs));
      }
    }
    if (engine == "lsm" && best_other > 0)
      results["ratio_to_best_other"] = Rounded(rate / best_other, 3);
    PrintCase("engine",
              {{"engine", engine},
               {"op", op},
               {"key_bytes", kKeyBytes},
               {"value_bytes", value_bytes},
               {"count", MiddleRun(runs).ops},
               {"ranks", 1},
               {"write_buffer_bytes", settings.engine.write_buffer_bytes},
               {"cache_bytes", settings.engine.cache_bytes},
               {"bloom_bits_per_key", settings.engine.bloom_bits_per_key},
               {"verify_checksums", settings.engine.verify_checksums},
               {"repetitions", settings.repetitions},
               {"storage", storage}},
              results);
  }
}

Status RunEngines(const Settings& settings) {
  QUIRE_ASSIGN_OR_RETURN(const TemporaryDirectory probe,
                         TemporaryDirectory::Make(settings.directory));
  const std::string storage = FileSystemName(probe.path());
  for (const uint64_t value_bytes : settings.value_bytes) {
    std::map<CaseKey, std::vector<Measurement>> measured;
    for (int repetition = 0; repetition < settings.repetitions; ++repetition) {
      for (const std::string& engine : settings.engines) {
        QUIRE_RETURN_IF_ERROR(OnePass(settings, engine, value_bytes, &measured));
      }
    }
    PrintCases(settings, value_bytes, storage, measured);
  }
  return Status();
}

}  // namespace

Command AddEngine(CLI::App& app) {
  auto settings = std::make_shared<Settings>();
  settings->engines = EngineNames();
  settings->ops = kAllOps;
  settings->directory = DefaultDirectory();
  CLI::App* sub =
      app.add_subcommand("engine",
                         "One rank's storage, of Quire (lsm) and of others, under the same load: "
                         "16 B keys, the same write buffer,\n"
                         "cache and filter bits; log on without sync; no compression. Engines take "
                         "turns; medians are told.\n"
                         "fillrandom: new keys in random order. readrandom, readmissing: gets of "
                         "keys that are there, that are not,\n"
                         "after background work has settled. seekrandom: a new iterator, a seek, "
                         "50 nexts, values read. overwrite: puts\n"
                         "of existing keys. readwhilewriting: gets beside one writer of fixed "
                         "pace. Told: operations and MB per second,\n"
                         "bytes that reached files and devices per byte the user wrote, space.");
  sub->add_option("--engine", settings->engines, "engines, in the order they take turns")
      ->delimiter(',')
      ->check(CLI::IsMember(EngineNames()))
      ->capture_default_str();
  sub->add_option("--op", settings->ops, "operations (fillrandom always runs)")
      ->delimiter(',')
      ->check(CLI::IsMember(kAllOps))
      ->capture_default_str();
  sub->add_option("--value-bytes", settings->value_bytes, "sizes of values")
      ->delimiter(',')
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 30))
      ->capture_default_str();
  sub->add_option("--count", settings->count, "keys; 0: as many as make --volume-bytes")
      ->capture_default_str();
  sub->add_option("--volume-bytes", settings->volume_bytes, "keys and values in all")
      ->capture_default_str();
  sub->add_option("--reads", settings->reads, "gets per operation; 0: one per key, at most 500000")
      ->capture_default_str();
  sub->add_option("--writer-bytes-per-s", settings->writer_bytes_per_s,
                  "pace of the writer in readwhilewriting")
      ->capture_default_str();
  sub->add_option("--write-buffer-bytes", settings->engine.write_buffer_bytes, "MemTable")
      ->capture_default_str();
  sub->add_option("--cache-bytes", settings->engine.cache_bytes, "block cache")
      ->capture_default_str();
  sub->add_option("--bloom-bits", settings->engine.bloom_bits_per_key, "filter bits per key")
      ->check(CLI::Range(0, 32))
      ->capture_default_str();
  sub->add_option("--verify-checksums", settings->engine.verify_checksums,
                  "of blocks read from files")
      ->capture_default_str();
  const std::map<std::string, CompactionPolicy> policies = {
      {"tiered", CompactionPolicy::kTiered}, {"every_nth", CompactionPolicy::kEveryNth}};
  sub->add_option("--compaction", settings->engine.compaction, "of lsm: the policy")
      ->transform(CLI::CheckedTransformer(policies));
  sub->add_option("--compaction-trigger", settings->engine.compaction_trigger,
                  "of lsm: runs of like size that are merged; N of every_nth")
      ->capture_default_str();
  sub->add_option("--dead-percent-max", settings->engine.dead_percent_max,
                  "of lsm: newer bytes against the oldest run's")
      ->capture_default_str();
  sub->add_option("--repetitions", settings->repetitions, "passes per engine")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  sub->add_option("--directory", settings->directory, "where to write")->capture_default_str();
  return {sub, [settings] { return RunEngines(*settings); }, false};
}

}  // namespace quire::bench
