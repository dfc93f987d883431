#include "kv/migration/owner_batch_writer.h"

#include <string>
#include <utility>

#include "kv/protocol/sent_write.h"

namespace quire::kv {
namespace {

// A group of single operations is sent when it has grown to this, so that copies stay small.
constexpr uint64_t kGroupBytesMax = 1ull << 20;

}  // namespace

void OwnerBatchWriter::Add(int owner, log::RecordType type, Slice key, Slice value) {
  engine::WriteBatch& group = groups_[owner];
  group.Add(type, key, value);
  if (operation_ != WireOperation::kApply || group.bytes().size() < kGroupBytesMax) return;
  Send(owner, group);
  group.Clear();
}

std::vector<int> OwnerBatchWriter::Owners() const {
  std::vector<int> owners;
  for (const auto& [owner, group] : groups_) {
    if (group.count() > 0) owners.push_back(owner);
  }
  return owners;
}

void OwnerBatchWriter::GiveUp(int owner, const Status& why) {
  const auto group = groups_.find(owner);
  if (group == groups_.end()) return;
  Fail(group->second.count(), why);
  groups_.erase(group);
}

void OwnerBatchWriter::Send(int owner, const engine::WriteBatch& group) {
  auto call = exchange_->Start(owner, Channel(database_number_, operation_), {}, group.bytes());
  if (call.ok()) {
    sent_.push_back({owner, group.count(), std::move(*call)});
  } else {
    Fail(group.count(), call.status());
  }
}

void OwnerBatchWriter::Finish() {
  for (const int owner : Owners()) Send(owner, groups_[owner]);
  groups_.clear();
  for (const Sent& sent : sent_) {
    std::string answer;
    const Status status = WaitForWrite(*exchange_, sent.call, &answer);
    if (!status.ok()) {
      Fail(sent.count, OwnerStatus(sent.owner, status));
      continue;
    }
    const Result<ApplyFailures> failures = DecodeApplyFailures(answer);
    if (!failures.ok()) {
      Fail(sent.count, OwnerStatus(sent.owner, failures.status()));
    } else if (failures->lost_count > 0) {
      Fail(failures->lost_count, OwnerStatus(sent.owner, failures->first));
    }
  }
  sent_.clear();
}

// Takes no memory.
void OwnerBatchWriter::Fail(uint64_t count, Status why) {
  failed_count_ += count;
  if (first_failure_.ok()) first_failure_ = std::move(why);
}

}  // namespace quire::kv
