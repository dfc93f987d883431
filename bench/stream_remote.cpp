// Measures the share of the network's throughput that fetching another node's versions reaches: two
// daemons with a place each, over loopback, compared with TCP alone.
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "loopback.h"
#include "report.h"
#include "samples.h"
#include "store_ways.h"
#include "stream.h"

namespace quire::bench {
namespace {

constexpr char kStore[] = "remote";
constexpr char kKey[] = "object";

Result<std::string> DaemonProgram(const StreamSettings& settings) {
  if (!settings.daemon.empty()) return settings.daemon;
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path folder = self.parent_path();
  for (const auto& path : {folder / "quire-streamd", folder.parent_path() / "tools/quire-streamd",
                           folder.parent_path() / "tools/quire-streamd/quire-streamd"}) {
    if (std::filesystem::is_regular_file(path, error)) return path.string();
  }
  return Status(Code::kNotFound, "quire-streamd is not beside this program: --daemon names it");
}

// Returns the address at which a started daemon listens: the daemon writes it into its place.
Result<std::string> AddressOf(const std::string& place) {
  constexpr int kTriesMax = 1000;
  for (int i = 0; i < kTriesMax; ++i) {
    std::ifstream file(place + "/.daemon");
    std::string name;
    std::string address;
    if (file >> name >> address && name == "address") return address;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return Status(Code::kTimedOut, "the daemon of " + place + " does not listen");
}

// Two nodes: a writer's place, and a reader's that fetches from it.
class TwoNodes {
 public:
  Status Start(const StreamSettings& settings, const std::string& folder) {
    QUIRE_ASSIGN_OR_RETURN(const std::string program, DaemonProgram(settings));
    const std::string loopback = "127.0.0.1:0";
    writer_place_ = folder + "/writer";
    reader_place_ = folder + "/reader";
    for (const std::string& place : {writer_place_, reader_place_}) {
      std::error_code ignored;
      std::filesystem::create_directory(place, ignored);
      std::filesystem::permissions(place, std::filesystem::perms::owner_all, ignored);
    }
    QUIRE_RETURN_IF_ERROR(
        StartDaemon({program, "--place", writer_place_, "--listen", loopback, "--metadata-here"}));
    QUIRE_ASSIGN_OR_RETURN(const std::string address, AddressOf(writer_place_));
    QUIRE_RETURN_IF_ERROR(
        StartDaemon({program, "--place", reader_place_, "--listen", loopback, "--metadata", address,
                     "--token", writer_place_ + "/.token"}));
    return AddressOf(reader_place_).status();
  }
  const std::string& writer_place() const { return writer_place_; }
  const std::string& reader_place() const { return reader_place_; }

 private:
  Status StartDaemon(std::vector<std::string> arguments) {
    const std::string mirror_bytes = std::to_string(1ull << 30);
    arguments.insert(arguments.end(), {"--tend-ms", "1000", "--mirror-bytes", mirror_bytes});
    QUIRE_ASSIGN_OR_RETURN(Program program, Program::Start(arguments));
    programs_.push_back(std::make_unique<Program>(std::move(program)));
    return Status();
  }

  std::string writer_place_;
  std::string reader_place_;
  std::vector<std::unique_ptr<Program>> programs_;
};

// Every turn fetches a new version, which no daemon has yet.
class RemoteBench {
 public:
  RemoteBench(const TwoNodes& nodes, uint64_t bytes)
      : nodes_(nodes), object_(1, bytes), into_(1, bytes), tcp_(Slice(object_.at(0), bytes)) {}

  Status Open() {
    QUIRE_RETURN_IF_ERROR(tcp_.Open());
    StreamOptions options;
    options.log_bytes = 4 * object_.bytes() + (64 << 20);
    const std::string store = kStore + std::to_string(object_.bytes());
    QUIRE_ASSIGN_OR_RETURN(writer_, StreamWriter::Open(nodes_.writer_place(), store, 0, options));
    QUIRE_RETURN_IF_ERROR(writer_->Attach(kKey, object_.at(0), object_.bytes()));
    QUIRE_RETURN_IF_ERROR(writer_->Put(kKey).status());
    return OpenReader(store);
  }

  /// A get into memory, a view of what was fetched, TCP alone. [s]
  Result<double> Turn(const std::string& method) {
    object_.Change(++version_);
    QUIRE_RETURN_IF_ERROR(writer_->Put(kKey).status());
    const Stopwatch watch;
    QUIRE_RETURN_IF_ERROR(Fetch(method));
    const double seconds = watch.Seconds();
    const Slice expected(object_.at(0), object_.bytes());
    const Slice fetched = view_ ? view_->bytes() : Slice(into_.at(0), into_.bytes());
    if (fetched != expected) {
      return Status(Code::kCorruption, "not what was put, by " + method);
    }
    view_.reset();
    return seconds;
  }

 private:
  // The daemons notice a new store within seconds.
  Status OpenReader(const std::string& store) {
    constexpr int kTriesMax = 100;
    Status status;
    for (int i = 0; i < kTriesMax; ++i) {
      auto reader = StreamReader::Open(nodes_.reader_place(), store, 0);
      status = reader.status();
      if (reader.ok()) reader_ = std::move(*reader);
      if (status.code() != Code::kNotFound) return status;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return status;
  }

  Status Fetch(const std::string& method) {
    if (method == "tcp") return tcp_.Fetch(into_.at(0), into_.bytes());
    if (method == "remote") {
      return reader_->Get(kKey, 0, [this](size_t) { return into_.at(0); });
    }
    QUIRE_ASSIGN_OR_RETURN(view_, reader_->View(kKey, 0));
    return Status();
  }

  const TwoNodes& nodes_;
  Variables object_;
  Variables into_;
  TcpSource tcp_;
  std::unique_ptr<StreamWriter> writer_;
  std::unique_ptr<StreamReader> reader_;
  std::unique_ptr<StreamView> view_;
  uint64_t version_ = 0;
};

const std::vector<std::string> kMethods = {"tcp", "remote", "remote-view"};

Status Measure(const StreamSettings& settings, Ranks& ranks, const TwoNodes& nodes,
               uint64_t bytes) {
  RemoteBench bench(nodes, bytes);
  QUIRE_RETURN_IF_ERROR(bench.Open());
  std::map<std::string, std::vector<double>> samples;
  for (int i = 0; i <= settings.parallel.repetitions; ++i) {
    for (const std::string& method : kMethods) {
      QUIRE_ASSIGN_OR_RETURN(const double seconds, bench.Turn(method));
      if (i > 0) samples[method].push_back(seconds);
    }
  }
  for (const std::string& method : kMethods) {
    const double median = Median(samples[method]);
    PrintCase(ranks, "stream",
              {{"figure", settings.figure}, {"method", method}, {"object_bytes", bytes}},
              {{"mb_per_s", Rounded(static_cast<double>(bytes) / median / 1e6)},
               {"us", Rounded(median * 1e6)},
               {"speed_to_tcp", Rounded(MedianQuotient(samples["tcp"], samples[method]), 3)}});
  }
  TellAim("remote get of " + std::to_string(bytes) + " bytes / TCP", ">=", 0.8,
          MedianQuotient(samples["tcp"], samples["remote"]));
  return Status();
}

}  // namespace

Status RunStreamRemote(const StreamSettings& settings) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Ranks> ranks, Ranks::Open(settings.parallel));
  QUIRE_RETURN_IF_ERROR(settings.MethodsOf({}).status());
  if (ranks->size() != 1) return Status(Code::kInvalidArgument, "remote runs on one rank");
  QUIRE_ASSIGN_OR_RETURN(const TemporaryDirectory folder, TemporaryDirectory::Make(settings.place));
  TwoNodes nodes;
  QUIRE_RETURN_IF_ERROR(nodes.Start(settings, folder.path()));
  std::vector<uint64_t> sizes = settings.object_bytes;
  if (sizes.empty()) sizes = {64 << 10, 1 << 20, 16 << 20, 128 << 20};
  for (const uint64_t bytes : sizes) {
    QUIRE_RETURN_IF_ERROR(Measure(settings, *ranks, nodes, bytes));
  }
  return Status();
}

}  // namespace quire::bench
