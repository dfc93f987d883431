#include <algorithm>

#include "io/machine.h"
#include "stream/log_contents.h"
#include "stream/pins.h"
#include "stream/sight.h"
#include "stream/streams.h"

namespace quire::stream {
namespace {

constexpr int kAttempts = 1000;
constexpr uint64_t kPauseNs = 1'000'000;

}  // namespace

// The gate knows how far the log goes, and where it begins; a log that ends before that has lost
// commits, whatever its index says. What a writer appends meanwhile lies behind that end, and what
// he would take away is held.
Status CheckLog(io::FileSystem& fs, const std::string& place, const std::string& name,
                uint32_t rank, bool check_data) {
  const PartName part{place, name, rank};
  QUIRE_ASSIGN_OR_RETURN(const std::shared_ptr<const Sight> sight, OpenSight(fs, part));
  if (!sight->shared()) return Status();  // it was walked, with all its bytes, to be opened
  Pins pins(fs, part, sight->gate().get(), true);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    QUIRE_ASSIGN_OR_RETURN(const auto heap,
                           LogHeap::Open(fs, part.path("log"), io::MapMode::kRead));
    QUIRE_ASSIGN_OR_RETURN(const bool held, pins.Hold(heap->head().head));
    if (!held) {  // the writer moves the head this moment
      io::RealClock().SleepNs(kPauseNs);
      continue;
    }
    const Position trusted = std::max(heap->head().durable, sight->gate()->tail());
    WalkEnd end;
    QUIRE_RETURN_IF_ERROR(ReadContents(heap.get(), check_data, &end).status());
    pins.Release(heap->head().head);
    if (end.at >= trusted) return Status();
    return Status(Code::kCorruption,
                  heap->path() + " is damaged at position " + std::to_string(end.at) + " of " +
                      std::to_string(trusted) + ": " +
                      (end.status.ok() ? "a commit is missing" : end.status.message()));
  }
  return Status(Code::kCorruption, "the newest head of " + part.path("log") + " is damaged");
}

}  // namespace quire::stream
