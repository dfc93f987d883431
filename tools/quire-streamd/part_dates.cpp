#include "tools/quire-streamd/part_dates.h"

#include <algorithm>
#include <utility>

#include "stream/index/gate.h"
#include "stream/store/part.h"
#include "stream/store/streams.h"

namespace quire::streamd {

using stream::StorePart;

std::vector<stream::ToldPart> PartDates::Of(const std::vector<StorePart>& parts) {
  std::map<StorePart, Known> known;  // of those that are still there
  std::vector<stream::ToldPart> told;
  for (const StorePart& part : parts) {
    if (Written(part)) {
      told.push_back({part, stream::kWrittenNow});
      continue;
    }
    Known now = Look(part);
    const auto before = known_.find(part);
    const bool same = before != known_.end() && before->second.index_number == now.index_number &&
                      before->second.snapshot == now.snapshot;
    now.newest_ns = same ? before->second.newest_ns : NewestIn(part);
    known[part] = now;
    told.push_back({part, now.newest_ns});
  }
  known_ = std::move(known);
  return told;
}

bool PartDates::Written(const StorePart& part) const {
  const stream::PartName name{place_, part.store, part.rank};
  const auto holder = fs_.LockHolder(name.path("log") + ".lock");
  return !holder.ok() || !holder->empty();
}

PartDates::Known PartDates::Look(const StorePart& part) const {
  const stream::PartName name{place_, part.store, part.rank};
  const auto gate = stream::Gate::Open(fs_, name.path("gate"), io::MapMode::kRead);
  return gate.ok() ? Known{(*gate)->index_number(), (*gate)->snapshot(), 0} : Known();
}

uint64_t PartDates::NewestIn(const StorePart& part) const {
  const auto reader =
      stream::OpenLocalReader(fs_, place_, part.store, part.rank, stream::Access::kLook);
  if (!reader.ok()) return 0;
  uint64_t newest_ns = 0;
  const auto keys = (*reader)->Objects();
  for (size_t i = 0; keys.ok() && i < keys->size(); ++i) {
    const auto versions = (*reader)->Versions((*keys)[i]);
    if (versions.ok() && !versions->empty()) {
      newest_ns = std::max(newest_ns, versions->front().unix_time_ns);
    }
  }
  return newest_ns;
}

}  // namespace quire::streamd
