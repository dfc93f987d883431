#include "tools/quire-streamd/tending_schedule.h"

#include <utility>

namespace quire::streamd {

std::vector<stream::StorePart> TendingSchedule::Due(
    const std::vector<stream::StorePart>& parts,
    const std::function<bool(const stream::StorePart&)>& written) {
  std::map<stream::StorePart, uint32_t> looks;  // of the parts that still exist
  std::vector<stream::StorePart> due;
  for (const stream::StorePart& part : parts) {
    if (written(part)) continue;
    const auto before = looks_.find(part);
    const uint32_t count = before == looks_.end() ? 0 : before->second;
    if (count % kLooksBetween == 1) due.push_back(part);
    looks[part] = count + 1;
  }
  looks_ = std::move(looks);
  return due;
}

}  // namespace quire::streamd
