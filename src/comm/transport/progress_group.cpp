#include "comm/transport/progress_group.h"

#include <utility>

#include "comm/transport/in_service.h"

namespace quire::comm {

ProgressGroup& ProgressGroup::OfMpi() {
  static auto* const group = new ProgressGroup;
  return *group;
}

void ProgressGroup::Join(const void* member, std::function<void()> poll) {
  const std::lock_guard<std::mutex> lock(mutex_);
  entries_.push_back({member, std::move(poll)});
}

void ProgressGroup::Leave(const void* member) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::erase_if(entries_, [member](const Entry& entry) { return entry.member == member; });
}

void ProgressGroup::PollOthers(const void* member) {
  if (InService()) return;  // this thread may already poll in here
  const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  for (const Entry& entry : entries_) {
    if (entry.member != member) entry.poll();
  }
}

}  // namespace quire::comm
