#include "stream/changes/tracker.h"

#include <string>

#include "base/core/log_sink.h"
#include "base/core/out_of_memory.h"
#include "io/files/page_memory.h"
#include "stream/changes/object_tracker.h"

namespace quire::stream {
namespace {

// Returns the time [ns] of a first store to a watched page, 0 if the object is smaller than a page,
// or the reason why its pages cannot be watched.
Result<uint64_t> PagesPossible(const char* memory, uint64_t bytes, io::WatchKind kind) {
  if (bytes < io::PageBytes()) return uint64_t{0};
  if (reinterpret_cast<uintptr_t>(memory) % io::PageBytes() != 0) {
    return Status(Code::kUnsupported, "its memory does not begin at a page");
  }
  return io::FirstStoreNs(kind);
}

void LogFallBack(uint64_t bytes, StreamDeltas deltas, const Status& why) {
  if (!base::LogEnabled()) return;
  // A caller that left the choice to kAuto loses nothing.
  const LogLevel level = deltas == StreamDeltas::kAuto ? LogLevel::kInfo : LogLevel::kWarning;
  base::Log(level, "the pages of an object of " + std::to_string(bytes) +
                       " bytes cannot be watched, its blocks are hashed: " + why.ToString());
}

}  // namespace

Result<std::unique_ptr<Tracker>> Tracker::New(char* memory, uint64_t bytes, StreamDeltas deltas,
                                              bool audited) {
  TrackingPlan plan;
  plan.audited = audited;
  plan.choose = deltas == StreamDeltas::kAuto;
  if (deltas == StreamDeltas::kProtect) plan.kind = io::WatchKind::kProtect;
  if (deltas != StreamDeltas::kHash) {
    const Result<uint64_t> first_store_ns = PagesPossible(memory, bytes, plan.kind);
    if (!first_store_ns.ok()) {
      LogFallBack(bytes, deltas, first_store_ns.status());
    } else if (*first_store_ns != 0) {
      plan.first_store_ns = *first_store_ns;
      plan.method = Method::kPages;
    }
  }
  return base::OrOutOfMemory([&]() -> Result<std::unique_ptr<Tracker>> {
    return std::unique_ptr<Tracker>(std::make_unique<ObjectTracker>(memory, bytes, plan));
  });
}

}  // namespace quire::stream
