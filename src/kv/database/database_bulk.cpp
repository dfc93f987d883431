// Many pairs in one call: one message per owner.
#include <utility>

#include "kv/database/database_impl.h"
#include "kv/group/remote_gets.h"
#include "kv/migration/owner_batch_writer.h"
#include "kv/protocol/wire.h"

namespace quire::kv {

namespace {

// The first failure of several operations, with their count.
class BulkOutcome {
 public:
  explicit BulkOutcome(size_t count) : count_(count) {}
  void Add(const Status& status) {
    if (!status.ok()) AddFailures(1, status);
  }
  void AddFailures(uint64_t failed_count, const Status& why) {
    if (failed_count == 0) return;
    if (failed_count_ == 0) first_ = why;
    failed_count_ += failed_count;
  }
  Status Take() const {
    if (failed_count_ == 0) return Status();
    const Code code = first_.code();
    const bool unknown = code == Code::kIo || code == Code::kTimedOut || code == Code::kPeerFailed;
    return first_.WithContext(std::to_string(failed_count_) + " of " + std::to_string(count_) +
                              " operations failed" +
                              (unknown ? " or have an unknown outcome" : "") + "; the first");
  }

 private:
  const size_t count_;
  uint64_t failed_count_ = 0;
  Status first_;
};

}  // namespace

template <typename WriteOne>
Status DatabaseImpl::WriteEach(size_t count, const WriteOne& write_one) {
  BulkOutcome outcome(count);
  for (size_t i = 0; i < count; ++i) outcome.Add(write_one(i));
  return outcome.Take();
}

Status DatabaseImpl::PutMany(const std::vector<std::pair<Slice, Slice>>& pairs) {
  const Admission::WriteCall call(admission_, Admission::kPut);
  QUIRE_RETURN_IF_ERROR(call.admitted());
  if (admission_.sequential() && size_ > 1) return WriteGrouped(pairs, log::RecordType::kPut);
  // Staged writes travel in messages of many anyway.
  return WriteEach(pairs.size(),
                   [&](size_t i) { return PutAdmitted(pairs[i].first, pairs[i].second); });
}

Status DatabaseImpl::DeleteMany(const std::vector<Slice>& keys) {
  const Admission::WriteCall call(admission_, Admission::kPut);
  QUIRE_RETURN_IF_ERROR(call.admitted());
  if (!admission_.sequential() || size_ == 1) {
    return WriteEach(keys.size(), [&](size_t i) { return DeleteAdmitted(keys[i]); });
  }
  std::vector<std::pair<Slice, Slice>> pairs;
  pairs.reserve(keys.size());
  for (const Slice key : keys) pairs.emplace_back(key, Slice());
  return WriteGrouped(pairs, log::RecordType::kDelete);
}

Status DatabaseImpl::WriteGrouped(const std::vector<std::pair<Slice, Slice>>& pairs,
                                  log::RecordType type) {
  // What was staged before the mode changed comes first.
  QUIRE_RETURN_IF_ERROR(dispatcher_->DrainAll());
  BulkOutcome outcome(pairs.size());
  OwnerBatchWriter writer(context_->exchange.get(), number_, WireOperation::kApply);
  for (const auto& [key, value] : pairs) {
    const Status sizes = CheckSizes(key, value);
    const Place place = Locate(key);
    if (!sizes.ok()) {
      outcome.Add(sizes);
    } else if (place.owner == rank_) {
      counters_.Add(DatabaseCounter::kPutsLocal);
      outcome.Add(type == log::RecordType::kPut ? store_->Put({key, place.hash}, value)
                                                : store_->Delete({key, place.hash}));
    } else if (place.owner < 0 || place.owner >= size_) {
      outcome.Add(BadOwner(place.owner));
    } else {
      counters_.Add(DatabaseCounter::kPutsSequential);
      writer.Add(place.owner, type, key, value);
    }
  }
  writer.Finish();
  outcome.AddFailures(writer.failed_count(), writer.first_failure());
  return outcome.Take();
}

Status DatabaseImpl::Write(const Batch& batch) {
  const Admission::WriteCall call(admission_, Admission::kPut);
  QUIRE_RETURN_IF_ERROR(call.admitted());
  engine::WriteBatch local;
  OwnerBatchWriter writer(context_->exchange.get(), number_, WireOperation::kWrite);
  for (const Batch::Operation& operation : batch.operations()) {
    QUIRE_RETURN_IF_ERROR(CheckSizes(operation.key, operation.value));
    const Place place = Locate(operation.key);
    if (place.owner < 0 || place.owner >= size_) return BadOwner(place.owner);
    const log::RecordType type =
        operation.is_delete ? log::RecordType::kDelete : log::RecordType::kPut;
    if (place.owner == rank_) {
      local.Add(type, operation.key, operation.value);
    } else {
      writer.Add(place.owner, type, operation.key, operation.value);
    }
  }
  // Behind what this rank has staged for these owners. One that does not answer does not keep the
  // others from their parts.
  for (const int owner : writer.Owners()) {
    const Status drained = dispatcher_->Drain(owner);
    if (!drained.ok()) writer.GiveUp(owner, drained);
  }
  BulkOutcome outcome(batch.count());
  if (local.count() > 0) {
    engine::WriteProgress progress;
    const Status written = store_->Write(local.bytes(), &progress);
    if (!written.ok()) outcome.AddFailures(local.count(), written);
  }
  writer.Finish();
  outcome.AddFailures(writer.failed_count(), writer.first_failure());
  return outcome.Take();
}

Status DatabaseImpl::GetMany(const std::vector<Slice>& keys, std::vector<std::string>* values,
                             std::vector<bool>* found) {
  QUIRE_RETURN_IF_ERROR(admission_.Admit(Admission::kGet));
  values->assign(keys.size(), std::string());
  found->assign(keys.size(), false);
  std::vector<Status> statuses(keys.size());
  std::vector<RemoteGets::OneOfMany> far;
  for (size_t i = 0; i < keys.size(); ++i) {
    statuses[i] = CheckSizes(keys[i], {});
    if (!statuses[i].ok()) continue;
    const Place place = Locate(keys[i]);
    RemoteGets::Wanted wanted{keys[i], place.owner, place.hash, {}};
    std::string* const value = &(*values)[i];
    statuses[i] = GetWithoutMessage(place, keys[i], Into(value), &wanted.ticket);
    if (MustAsk(place, statuses[i])) far.push_back({wanted, value, &statuses[i]});
  }
  remote_gets_->GetMany(&far);
  BulkOutcome outcome(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    (*found)[i] = statuses[i].ok();
    if (statuses[i].ok() || statuses[i].code() == Code::kNotFound) continue;
    (*values)[i].clear();  // what was read did not verify
    outcome.Add(statuses[i]);
  }
  return outcome.Take();
}

}  // namespace quire::kv
