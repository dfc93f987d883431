// The subcommand "small" opens a database of four pairs again and again, and then puts large values
// with the log on and off.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "pairs.h"
#include "ranks.h"
#include "report.h"
#include "samples.h"
#include "workspace.h"

namespace quire::bench {
namespace {

constexpr uint64_t kPairs = 4;
constexpr size_t kSmallBytes = 5;
constexpr size_t kLargeBytes = size_t{1} << 20;

struct Settings {
  ParallelSettings parallel;
  int opens = 20;
  uint64_t volume_mib = 512;
};

Json Params(const char* part, const Settings& settings, const Ranks& ranks) {
  return {{"case", part},
          {"storage", ranks.storage()},
          {"transport", settings.parallel.transport},
          {"ranks", ranks.size()}};
}

// Opens, reads one pair, and closes, again and again.
Status RunOpens(const Settings& settings, Ranks& ranks) {
  Pairs pairs(16, kSmallBytes);
  std::vector<double> open_ms;
  std::vector<double> close_ms;
  for (int i = 0; i <= settings.opens; ++i) {
    QUIRE_RETURN_IF_ERROR(ranks.context().Barrier());
    const Stopwatch opening;
    QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Database> database,
                           ranks.context().Open("small", DatabaseOptions()));
    QUIRE_ASSIGN_OR_RETURN(const double open_seconds, ranks.Max(opening.Seconds()));
    if (i == 0 && ranks.IsFirst()) QUIRE_RETURN_IF_ERROR(pairs.PutAll(*database, 0, kPairs));
    QUIRE_RETURN_IF_ERROR(database->Barrier(Level::kMemTable));
    QUIRE_RETURN_IF_ERROR(pairs.Get(*database, 0));
    const Stopwatch closing;
    QUIRE_RETURN_IF_ERROR(database->Close());
    QUIRE_ASSIGN_OR_RETURN(const double close_seconds, ranks.Max(closing.Seconds()));
    if (i == 0) continue;  // made, not opened
    open_ms.push_back(1000 * open_seconds);
    close_ms.push_back(1000 * close_seconds);
  }
  if (!ranks.IsFirst()) return Status();
  Json params = Params("open", settings, ranks);
  params["opens"] = settings.opens;
  PrintCase("small", params,
            {{"open_ms", Rounded(Median(open_ms))},
             {"open_ms_max", Rounded(Percentile(open_ms, 1))},
             {"close_ms", Rounded(Median(close_ms))},
             {"space_bytes", DiskUsageBytes(ranks.folder())}});
  return Status();
}

struct Written {
  std::vector<double> puts_per_s;
  std::vector<double> device_bytes;
};

// One pass of large values with the log on or off, on each rank.
Status Write(const Settings& settings, Ranks& ranks, WalMode wal, Written* written) {
  DatabaseOptions options;
  options.storage.wal = wal;
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Database> database,
                         ranks.context().Open("large", options));
  QUIRE_ASSIGN_OR_RETURN(const WrittenBytes before, ReadWrittenBytes());
  const uint64_t count = settings.volume_mib;
  const auto first = static_cast<uint64_t>(ranks.rank()) * count;
  QUIRE_ASSIGN_OR_RETURN(const double seconds, ranks.Time([&] {
    return Pairs(16, kLargeBytes).PutAll(*database, first, count);
  }));
  QUIRE_RETURN_IF_ERROR(database->Close());
  QUIRE_ASSIGN_OR_RETURN(const WrittenBytes after, ReadWrittenBytes());
  QUIRE_ASSIGN_OR_RETURN(const double device,
                         ranks.Sum(static_cast<double>(after.device - before.device)));
  const double pairs = static_cast<double>(count) * ranks.size();
  written->puts_per_s.push_back(pairs / seconds);
  written->device_bytes.push_back(device / (pairs * (16 + kLargeBytes)));
  return ranks.context().Destroy("large");
}

Status RunLog(const Settings& settings, Ranks& ranks) {
  std::map<WalMode, Written> written;
  for (int pass = 0; pass < settings.parallel.repetitions; ++pass) {
    for (const WalMode wal : {WalMode::kOff, WalMode::kOn}) {
      QUIRE_RETURN_IF_ERROR(Write(settings, ranks, wal, &written[wal]));
    }
  }
  if (!ranks.IsFirst()) return Status();
  for (const auto& [wal, measured] : written) {
    Json params = Params("log", settings, ranks);
    params["log"] = wal == WalMode::kOff ? "off" : "on";
    params["volume_mib"] = settings.volume_mib;
    params["repetitions"] = settings.parallel.repetitions;
    PrintCase("small", params,
              {{"puts_per_s", Rounded(Median(measured.puts_per_s))},
               {"device_bytes_per_user_byte", Rounded(Median(measured.device_bytes), 5)}});
  }
  return Status();
}

Status RunSmall(const Settings& settings) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Ranks> ranks, Ranks::Open(settings.parallel));
  QUIRE_RETURN_IF_ERROR(RunOpens(settings, *ranks));
  return RunLog(settings, *ranks);
}

}  // namespace

Command AddSmall(CLI::App& app) {
  auto settings = std::make_shared<Settings>();
  CLI::App* sub = app.add_subcommand(
      "small",
      "What a database of four pairs costs: milliseconds to open and to close it, and the bytes "
      "that it takes on\nthe device. Then what the log costs at values of 1 MiB: puts per second "
      "and bytes on the device per byte\nput, with the log off and on in turn.");
  sub->add_option("--opens", settings->opens, "how often it is opened")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  sub->add_option("--volume-mib", settings->volume_mib, "MiB that each rank puts in a pass")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 20))
      ->capture_default_str();
  AddParallelOptions(*sub, &settings->parallel);
  return {sub, [settings] { return RunSmall(*settings); }, true};
}

}  // namespace quire::bench
