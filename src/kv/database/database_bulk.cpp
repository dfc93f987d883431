// Many pairs in one call: one message per owner.
#include <utility>

#include "kv/database/database_impl.h"
#include "kv/migration/owner_batch_writer.h"
#include "kv/protocol/wire.h"

namespace quire::kv {

// The first failure of several operations, with their count. A part of DatabaseImpl::ManyGet, which
// a header names: no anonymous namespace.
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

template <typename WriteOne>
Status DatabaseImpl::WriteEach(size_t count, const WriteOne& write_one) {
  BulkOutcome outcome(count);
  for (size_t i = 0; i < count; ++i) outcome.Add(write_one(i));
  return outcome.Take();
}

Status DatabaseImpl::PutMany(const std::vector<std::pair<Slice, Slice>>& pairs) {
  const WriteCall call(*this, kOpen | kMayPut);
  QUIRE_RETURN_IF_ERROR(call.admitted());
  if (sequential() && size_ > 1) return WriteGrouped(pairs, log::RecordType::kPut);
  // Staged writes travel in messages of many anyway.
  return WriteEach(pairs.size(),
                   [&](size_t i) { return PutAdmitted(pairs[i].first, pairs[i].second); });
}

Status DatabaseImpl::DeleteMany(const std::vector<Slice>& keys) {
  const WriteCall call(*this, kOpen | kMayPut);
  QUIRE_RETURN_IF_ERROR(call.admitted());
  if (!sequential() || size_ == 1) {
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
      outcome.Add(type == log::RecordType::kPut ? store_->Put(key, value, place.hash)
                                                : store_->Delete(key, place.hash));
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
  const WriteCall call(*this, kOpen | kMayPut);
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

// The state of one GetMany.
struct DatabaseImpl::ManyGet {
  const std::vector<Slice>& keys;
  std::vector<std::string>* values;
  std::vector<bool>* found;
  std::vector<PairCache::Ticket> tickets;
  std::vector<uint64_t> hashes;
  std::map<Asked, std::vector<size_t>> far;  // keys to be asked for, the last one first
  // By owner: those whose tables it named, which were not to be had.
  std::vector<std::pair<int, size_t>> for_values;
  BulkOutcome outcome;

  BufferAllocator IntoValue(size_t i) { return Into(&(*values)[i]); }
};

Status DatabaseImpl::GetMany(const std::vector<Slice>& keys, std::vector<std::string>* values,
                             std::vector<bool>* found) {
  QUIRE_RETURN_IF_ERROR(Admit(kOpen | kMayGet));
  values->assign(keys.size(), std::string());
  found->assign(keys.size(), false);
  ManyGet many{keys, values, found, {}, {}, {}, {}, BulkOutcome(keys.size())};
  many.tickets.resize(keys.size());
  many.hashes.resize(keys.size());
  GetNear(&many);
  while (!many.far.empty()) GetFar(&many);
  return many.outcome.Take();
}

// All that needs no message; the rest by owner.
void DatabaseImpl::GetNear(ManyGet* many) {
  for (size_t i = many->keys.size(); i-- > 0;) {
    const Slice key = many->keys[i];
    const Status sizes = CheckSizes(key, {});
    if (!sizes.ok()) {
      many->outcome.Add(sizes);
      continue;
    }
    const Place place = Locate(key);
    many->hashes[i] = place.hash;
    const Status status = GetWithoutMessage(place, key, many->IntoValue(i), &many->tickets[i]);
    if (MustAsk(place, status)) {
      const bool in_group = InGroup(place.owner);
      many->far[{place.owner, in_group ? WireOperation::kGetManyInGroup : WireOperation::kGetMany}]
          .push_back(i);
    } else if (status.code() != Code::kNotFound) {
      (*many->found)[i] = status.ok();
      if (!status.ok()) (*many->values)[i].clear();  // what was read did not verify
      many->outcome.Add(status);
    }
  }
}

// One round: a message to every owner that has keys left, then all answers.
void DatabaseImpl::GetFar(ManyGet* many) {
  std::vector<std::pair<Asked, std::shared_ptr<comm::Call>>> calls;
  for (auto& [asked, left] : many->far) {
    const auto [owner, operation] = asked;
    std::string request;
    for (size_t n = left.size(); n-- > 0 && request.size() < kGetManyRequestBytes;) {
      AddKey(&request, many->keys[left[n]]);
    }
    auto call = context_->exchange->Start(owner, Channel(number_, operation), {}, request);
    if (call.ok()) {
      calls.emplace_back(asked, std::move(*call));
    } else {
      many->outcome.AddFailures(left.size(), OwnerStatus(owner, call.status()));
      left.clear();
    }
  }
  for (const auto& [asked, call] : calls) {
    std::string answer;
    Status status = context_->exchange->Wait(call, &answer);
    if (status.ok()) status = TakeMany(many, asked, answer);
    if (status.ok()) continue;
    many->outcome.AddFailures(many->far[asked].size(), OwnerStatus(asked.first, status));
    many->far[asked].clear();
  }
  for (const auto& [owner, i] : std::exchange(many->for_values, {})) {
    many->far[{owner, WireOperation::kGetMany}].push_back(i);
  }
  std::erase_if(many->far, [](const auto& entry) { return entry.second.empty(); });
}

Status DatabaseImpl::TakeMany(ManyGet* many, const Asked& asked, Slice answer) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<GetResult> results, DecodeResults(answer));
  std::vector<size_t>& left = many->far[asked];
  if (results.empty() || results.size() > left.size()) {
    return Status(Code::kCorruption, "an answer to " + std::to_string(left.size()) + " gets has " +
                                         std::to_string(results.size()) + " results");
  }
  for (const GetResult& result : results) {
    if (result.tables && asked.second != WireOperation::kGetManyInGroup) {
      return Status(Code::kCorruption, "an answer to gets names tables, which was not requested");
    }
    const size_t i = left.back();
    left.pop_back();
    if (result.tables) {
      TakeFromTables(many, asked.first, i, *result.tables);
      continue;
    }
    counters_.Add(DatabaseCounter::kGetsByMessage);
    if (result.status.ok()) {
      (*many->values)[i].assign(result.value);
      TakeFound(many, i);
    } else if (result.status.code() != Code::kNotFound) {
      many->outcome.Add(OwnerStatus(asked.first, result.status));
    }
  }
  return Status();
}

void DatabaseImpl::TakeFromTables(ManyGet* many, int owner, size_t i, const NamedTables& tables) {
  const Status read = group_->Get(owner, tables, many->keys[i], many->IntoValue(i));
  if (!read.ok()) (*many->values)[i].clear();  // what was read did not verify
  if (read.code() == Code::kBusy) {
    many->for_values.emplace_back(owner, i);
    return;
  }
  counters_.Add(DatabaseCounter::kGetsInGroup);
  if (read.ok()) TakeFound(many, i);
}

void DatabaseImpl::TakeFound(ManyGet* many, size_t i) {
  (*many->found)[i] = true;
  remote_cache_->Insert(many->keys[i], (*many->values)[i], many->hashes[i], many->tickets[i]);
}

}  // namespace quire::kv
