// Measures reads of a stream whose writer has it open and is idle: copies and views (NVStream,
// figure 8).
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "report.h"
#include "samples.h"
#include "store_ways.h"
#include "stream.h"

namespace quire::bench {
namespace {

// A turn reads at least this much, so it reads small objects again and again. It always makes many
// views: they must not pay for the caches that large copies emptied before them.
constexpr uint64_t kTurnBytes = 64 << 20;
constexpr uint64_t kTurnReadsMax = 2000;

// One object, stored in every form, and memory to read it into.
class ReadBench {
 public:
  ReadBench(const Variables& object, StoreFolders folders)
      : object_(object),
        folders_(std::move(folders)),
        stores_(object, folders_, 0),
        into_(1, object.bytes()) {}

  Status Open() {
    for (const char* way : {"stream", "tmpfs"}) {
      QUIRE_RETURN_IF_ERROR(stores_.Store(way).status());
    }
    QUIRE_ASSIGN_OR_RETURN(TouchedMap map, TouchedMap::Make(folders_.place, object_.bytes()));
    std::memcpy(map.data(), object_.at(0), object_.bytes());
    map_ = std::make_unique<TouchedMap>(std::move(map));
    StreamReaderOptions options;
    options.remote = false;
    QUIRE_ASSIGN_OR_RETURN(reader_, StreamReader::Open(folders_.place, "stream", 0, options));
    return Status();
  }

  Status Get() {
    return reader_->Get("v0", 0, [this](size_t) { return into_.at(0); });
  }
  Status View() {
    QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<StreamView> view, reader_->View("v0", 0));
    if (view->in_place() && view->bytes().size() == object_.bytes()) return Status();
    return Status(Code::kCorruption, "a view is not what was put, or not where it was put");
  }
  Status ViewVerified() {
    QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<StreamView> view, reader_->View("v0", 0));
    return view->Verify();
  }
  Status Copy() {
    std::memcpy(into_.at(0), map_->data(), object_.bytes());
    asm volatile("" : : "r"(into_.at(0)) : "memory");
    return Status();
  }
  Status File() {
    const std::string path = folders_.place + "/v0";
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    uint64_t done = 0;
    while (file >= 0 && done < object_.bytes()) {
      const ssize_t read = ::read(file, into_.at(0) + done, object_.bytes() - done);
      if (read <= 0) break;
      done += static_cast<uint64_t>(read);
    }
    const int error = errno;
    if (file >= 0) ::close(file);
    if (done == object_.bytes()) return Status();
    return Status(Code::kIo, path + ": " + std::strerror(error));
  }
  // Returns whether the last copy equals the object.
  bool Matches() const { return std::memcmp(into_.at(0), object_.at(0), object_.bytes()) == 0; }

 private:
  const Variables& object_;
  const StoreFolders folders_;
  StoreWays stores_;
  Variables into_;
  std::unique_ptr<TouchedMap> map_;
  std::unique_ptr<StreamReader> reader_;
};

struct Method {
  std::string name;
  bool copies;
  bool touches;  // whether it reads the object's bytes
  std::function<Status(ReadBench&)> read;
};

const std::vector<Method> kMethods = {
    {"get", true, true, [](ReadBench& bench) { return bench.Get(); }},
    {"memcpy", true, true, [](ReadBench& bench) { return bench.Copy(); }},
    {"tmpfs", true, true, [](ReadBench& bench) { return bench.File(); }},
    {"view", false, false, [](ReadBench& bench) { return bench.View(); }},
    {"view-verified", false, true, [](ReadBench& bench) { return bench.ViewVerified(); }},
};

uint64_t ReadsOf(const Method& method, uint64_t bytes) {
  return method.touches ? std::clamp<uint64_t>(kTurnBytes / bytes, 1, kTurnReadsMax)
                        : kTurnReadsMax;
}

using Samples = std::map<std::string, std::vector<double>>;  // seconds of one read

Status Measure(const StreamSettings& settings, uint64_t bytes, Samples* samples) {
  QUIRE_ASSIGN_OR_RETURN(const TemporaryDirectory place, TemporaryDirectory::Make(settings.place));
  const Variables object(1, bytes);
  ReadBench bench(object, {place.path(), place.path()});
  QUIRE_RETURN_IF_ERROR(bench.Open());
  for (int i = 0; i <= settings.parallel.repetitions; ++i) {
    for (const Method& method : kMethods) {
      const uint64_t reads = ReadsOf(method, bytes);
      const Stopwatch watch;
      for (uint64_t n = 0; n < reads; ++n) QUIRE_RETURN_IF_ERROR(method.read(bench));
      const double seconds = watch.Seconds() / static_cast<double>(reads);
      if (i > 0) (*samples)[method.name].push_back(seconds);
      if (method.copies && !bench.Matches()) {
        return Status(Code::kCorruption, "not what was stored, by " + method.name);
      }
    }
  }
  return Status();
}

}  // namespace

Status RunStreamReads(const StreamSettings& settings) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Ranks> ranks, Ranks::Open(settings.parallel));
  QUIRE_RETURN_IF_ERROR(settings.MethodsOf({}).status());
  if (ranks->size() != 1) return Status(Code::kInvalidArgument, "figure 8 runs on one rank");
  std::vector<uint64_t> sizes = settings.object_bytes;
  if (sizes.empty()) sizes = {4 << 10, 32 << 10, 1 << 20, 10 << 20, 100 << 20, 400 << 20};
  std::vector<double> views;
  for (const uint64_t bytes : sizes) {
    Samples samples;
    QUIRE_RETURN_IF_ERROR(Measure(settings, bytes, &samples));
    for (const Method& method : kMethods) {
      const double median = Median(samples[method.name]);
      Json results = {{"us", Rounded(median * 1e6)}};
      if (method.name != "view") {
        results["mb_per_s"] = Rounded(static_cast<double>(bytes) / median / 1e6);
        results["speed_to_memcpy"] =
            Rounded(MedianQuotient(samples["memcpy"], samples[method.name]), 3);
      }
      PrintCase(*ranks, "stream",
                {{"figure", settings.figure}, {"method", method.name}, {"object_bytes", bytes}},
                results);
    }
    views.push_back(Median(samples["view"]));
  }
  TellAim("a view of the largest / of the smallest object", "<=", 2, views.back() / views.front());
  return Status();
}

}  // namespace quire::bench
