#include "tools/quire-streamd/part_timestamps.h"

#include <algorithm>
#include <utility>

#include "stream/index/gate.h"
#include "stream/store/local_reader.h"

namespace quire::streamd {

using stream::StorePart;

std::vector<stream::RegisteredPart> PartTimestamps::Of(const std::vector<StorePart>& parts) {
  std::map<StorePart, Known> known;  // of the parts that still exist
  std::vector<stream::RegisteredPart> told;
  for (const StorePart& part : parts) {
    const auto found = known_.find(part);
    const Known before = found == known_.end() ? Known() : found->second;
    const Result<Known> now = Look(part, before);
    known[part] = now.ok() ? *now : Known{before.newest_ns, std::nullopt};
    told.push_back({part, known[part].newest_ns});
  }
  known_ = std::move(known);
  return told;
}

Result<PartTimestamps::Known> PartTimestamps::Look(const StorePart& part,
                                                   const Known& before) const {
  const stream::PartName name{place_, part.store, part.rank};
  QUIRE_ASSIGN_OR_RETURN(const std::string holder, fs_.LockHolder(name.path("log") + ".lock"));
  // A tending program changes no date, but perhaps the files that show it.
  if (stream::OnlyTends(holder)) return Known{before.newest_ns, std::nullopt};
  if (!holder.empty()) return Known{stream::kWrittenNow, std::nullopt};
  QUIRE_ASSIGN_OR_RETURN(const Numbers numbers, NumbersOf(name));
  if (before.of == numbers) return before;
  QUIRE_ASSIGN_OR_RETURN(const uint64_t newest_ns, NewestIn(part));
  return Known{newest_ns, numbers};
}

// Without a gate, or with a damaged one, all numbers are 0.
Result<PartTimestamps::Numbers> PartTimestamps::NumbersOf(const stream::PartName& name) const {
  const auto gate = stream::Gate::Open(fs_, name.path("gate"), io::MapMode::kRead);
  if (gate.ok()) return Numbers{(*gate)->index_number(), (*gate)->snapshot()};
  const Code code = gate.status().code();
  if (code == Code::kNotFound || code == Code::kCorruption) return Numbers();
  return gate.status();
}

// A damaged log counts as known, because each later look would read all of it again.
Result<uint64_t> PartTimestamps::NewestIn(const StorePart& part) const {
  const auto reader =
      stream::OpenLocalReader(fs_, place_, part.store, part.rank, stream::Access::kLook);
  if (reader.status().code() == Code::kCorruption) return 0;
  QUIRE_RETURN_IF_ERROR(reader.status());
  uint64_t newest_ns = 0;
  QUIRE_ASSIGN_OR_RETURN(const std::vector<std::string> keys, (*reader)->Objects());
  for (const std::string& key : keys) {
    const auto versions = (*reader)->Versions(key);
    const Code code = versions.status().code();
    if (code == Code::kNotFound || code == Code::kCorruption) continue;
    QUIRE_RETURN_IF_ERROR(versions.status());
    if (!versions->empty()) newest_ns = std::max(newest_ns, versions->front().unix_time_ns);
  }
  return newest_ns;
}

}  // namespace quire::streamd
