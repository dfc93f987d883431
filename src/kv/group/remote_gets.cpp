#include "kv/group/remote_gets.h"

#include <cstring>

#include "base/core/out_of_memory.h"
#include "base/threads/forked_child.h"
#include "base/threads/sync_point.h"

namespace quire::kv {
namespace {

Status TakenBefore() {
  return Status(Code::kInvalidArgument, "the value of this get has been taken before");
}

class ReadyGet final : public PendingGet {
 public:
  ReadyGet(Status status, std::string value)
      : status_(std::move(status)), value_(std::move(value)) {}
  bool Ready() override { return true; }
  Result<std::string> Take() override {
    QUIRE_RETURN_IF_ERROR(process_.Check("a get"));
    if (taken_) return TakenBefore();
    taken_ = true;
    if (!status_.ok()) return status_;
    return std::move(value_);
  }

 private:
  const base::OwnProcess process_;
  const Status status_;
  std::string value_;
  bool taken_ = false;
};

}  // namespace

std::unique_ptr<PendingGet> NewReadyGet(Status status, std::string value) {
  return std::make_unique<ReadyGet>(std::move(status), std::move(value));
}

RemoteGets::RemoteGets(std::shared_ptr<runtime::ContextState> context, uint32_t database_number,
                       std::shared_ptr<FileGroupReader> group, uint64_t cache_bytes,
                       std::shared_ptr<DatabaseCounters> counters)
    : context_(std::move(context)),
      number_(database_number),
      group_(std::move(group)),
      cache_(cache_bytes),
      counters_(std::move(counters)) {}

WireOperation RemoteGets::FirstQuestion(int owner) const {
  const bool in_group = group_ != nullptr && group_->Reaches(owner);
  return in_group ? WireOperation::kGetInGroup : WireOperation::kGet;
}

Status RemoteGets::Get(const Wanted& wanted, const BufferAllocator& allocate) {
  WireOperation operation = FirstQuestion(wanted.owner);
  while (true) {
    Answer answer;
    answer.heard = context_->exchange->Ask(wanted.owner, Channel(number_, operation), {},
                                           wanted.key.key, &answer.bytes);
    Status outcome;
    if (TakeAnswer(wanted, operation, answer, allocate, &outcome)) return outcome;
    operation = WireOperation::kGet;
  }
}

bool RemoteGets::TakeAnswer(const Wanted& wanted, WireOperation operation, const Answer& answer,
                            const BufferAllocator& allocate, Status* outcome) {
  NamedTables tables;
  if (operation == WireOperation::kGetInGroup) {
    base::SyncPoint("kv.get.named");
    if (answer.heard.ok() && DecodeTablesAnswer(answer.bytes, &tables)) {
      *outcome = ReadTables(wanted, tables, allocate);
      return outcome->code() != Code::kBusy;
    }
  }
  *outcome = TakeValue(wanted, answer, allocate);
  return true;
}

Status RemoteGets::TakeValue(const Wanted& wanted, const Answer& answer,
                             const BufferAllocator& allocate) {
  counters_->Add(DatabaseCounter::kGetsByMessage);
  base::SyncPoint("kv.get.answered");
  if (!answer.heard.ok()) return OwnerStatus(wanted.owner, answer.heard);
  QUIRE_ASSIGN_OR_RETURN(const Slice value, DecodeGetAnswer(answer.bytes));
  return Deliver(wanted, value, allocate);
}

Status RemoteGets::Deliver(const Wanted& wanted, Slice value, const BufferAllocator& allocate) {
  char* const to = allocate(value.size());
  if (to == nullptr) return Status(Code::kOutOfMemory, "no memory for the value");
  if (!value.empty()) std::memcpy(to, value.data(), value.size());
  cache_.Insert(wanted.key.key, value, wanted.key.hash, wanted.ticket);
  return Status();
}

Status RemoteGets::ReadTables(const Wanted& wanted, const NamedTables& tables,
                              const BufferAllocator& allocate) {
  char* at = nullptr;
  size_t size = 0;
  const Status read = group_->Get(wanted.owner, tables, wanted.key.key, [&](size_t value_size) {
    size = value_size;
    return at = allocate(value_size);
  });
  if (read.code() == Code::kBusy) return read;
  counters_->Add(DatabaseCounter::kGetsInGroup);
  if (read.ok()) cache_.Insert(wanted.key.key, Slice(at, size), wanted.key.hash, wanted.ticket);
  return read;
}

// --- of a key under way --------------------------------------------------------------------------

class RemoteGets::UnderWay final : public PendingGet {
 public:
  UnderWay(std::shared_ptr<RemoteGets> gets, const Wanted& wanted, WireOperation operation)
      : gets_(std::move(gets)), key_(wanted.key.key), wanted_(wanted) {
    wanted_.key.key = key_;
    Ask(operation);
  }
  ~UnderWay() override {
    if (process_.forked()) base::LeaveInChild(gets_, call_);
  }

  bool Ready() override {
    if (!process_.MayCall()) return true;  // Take says why it fails
    if (call_ != nullptr && exchange() != nullptr) {
      if (!exchange()->has_handler_thread()) exchange()->Progress();
      if (!call_->Done()) return false;
      TakeAnswer();
    }
    return call_ == nullptr || exchange() == nullptr;
  }

  Result<std::string> Take() override {
    QUIRE_RETURN_IF_ERROR(process_.Check("a get under way"));
    while (call_ != nullptr) {
      if (exchange() == nullptr) {
        return Status(Code::kInvalidArgument, "the context of this get is gone");
      }
      TakeAnswer();
    }
    if (taken_) return TakenBefore();
    taken_ = true;
    if (!outcome_.ok()) return outcome_;
    return std::move(value_);
  }

 private:
  comm::Exchange* exchange() const { return gets_->context_->exchange.get(); }

  void Ask(WireOperation operation) {
    operation_ = operation;
    auto call = exchange()->Start(wanted_.owner, Channel(gets_->number_, operation), {}, key_);
    if (call.ok()) {
      call_ = std::move(*call);
    } else {
      outcome_ = OwnerStatus(wanted_.owner, call.status());
    }
  }

  // Afterwards the get is decided, or the owner is asked for the value.
  void TakeAnswer() {
    outcome_ = base::OutOfMemory();  // if an allocation below throws
    Answer answer;
    answer.heard = exchange()->Wait(std::exchange(call_, nullptr), &answer.bytes);
    if (!gets_->TakeAnswer(wanted_, operation_, answer, Into(&value_), &outcome_)) {
      Ask(WireOperation::kGet);
    }
    if (call_ == nullptr) gets_.reset();  // readers of tables are not kept for a decided get
  }

  const base::OwnProcess process_;
  std::shared_ptr<RemoteGets> gets_;
  const std::string key_;
  Wanted wanted_;
  WireOperation operation_ = WireOperation::kGet;
  std::shared_ptr<comm::Call> call_;  // null: it is decided
  Status outcome_;
  std::string value_;
  bool taken_ = false;
};

std::unique_ptr<PendingGet> RemoteGets::Begin(const Wanted& wanted) {
  // The owner may have closed by the time at which it would be asked for the value.
  const bool sees = group_ != nullptr && group_->Sees(wanted.owner);
  return std::make_unique<UnderWay>(shared_from_this(), wanted,
                                    sees ? WireOperation::kGetInGroup : WireOperation::kGet);
}

// --- of many keys --------------------------------------------------------------------------------

void RemoteGets::GetMany(std::vector<OneOfMany>* keys) {
  Left left;
  for (size_t i = keys->size(); i-- > 0;) {
    OneOfMany& one = (*keys)[i];
    const bool in_group = FirstQuestion(one.wanted.owner) == WireOperation::kGetInGroup;
    left[{one.wanted.owner, in_group ? WireOperation::kGetManyInGroup : WireOperation::kGetMany}]
        .push_back(&one);
  }
  while (!left.empty()) AskForMany(&left);
}

// One round: a message to every owner that has keys left, then all answers.
void RemoteGets::AskForMany(Left* left) {
  const auto fail = [left](const Asked& asked, const Status& why) {
    const Status status = OwnerStatus(asked.first, why);  // its text is one for all keys
    for (OneOfMany* const one : (*left)[asked]) *one->status = status;
    (*left)[asked].clear();
  };
  std::vector<std::pair<Asked, std::shared_ptr<comm::Call>>> calls;
  for (const auto& [asked, keys] : *left) {
    std::string request;
    for (size_t n = keys.size(); n-- > 0 && request.size() < kGetManyRequestBytes;) {
      AddKey(&request, keys[n]->wanted.key.key);
    }
    auto call = context_->exchange->Start(asked.first, Channel(number_, asked.second), {}, request);
    if (call.ok()) {
      calls.emplace_back(asked, std::move(*call));
    } else {
      fail(asked, call.status());
    }
  }
  for (const auto& [asked, call] : calls) {
    std::string answer;
    Status status = context_->exchange->Wait(call, &answer);
    if (status.ok()) status = TakeMany(left, asked, answer);
    if (!status.ok()) fail(asked, status);
  }
  std::erase_if(*left, [](const auto& entry) { return entry.second.empty(); });
}

Status RemoteGets::TakeMany(Left* left, const Asked& asked, Slice answer) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<GetResult> results, DecodeResults(answer));
  std::vector<OneOfMany*>& keys = (*left)[asked];
  if (results.empty() || results.size() > keys.size()) {
    return Status(Code::kCorruption, "an answer to " + std::to_string(keys.size()) + " gets has " +
                                         std::to_string(results.size()) + " results");
  }
  for (const GetResult& result : results) {
    if (result.tables && asked.second != WireOperation::kGetManyInGroup) {
      return Status(Code::kCorruption, "an answer to gets names tables, which was not requested");
    }
    OneOfMany* const one = keys.back();
    keys.pop_back();
    TakeOne(left, one, result);
  }
  return Status();
}

void RemoteGets::TakeOne(Left* left, OneOfMany* one, const GetResult& result) {
  const Wanted& wanted = one->wanted;
  if (!result.tables) {
    counters_->Add(DatabaseCounter::kGetsByMessage);
    *one->status = result.status;
    if (result.status.ok()) {
      one->value->assign(result.value);
      cache_.Insert(wanted.key.key, result.value, wanted.key.hash, wanted.ticket);
    } else if (result.status.code() != Code::kNotFound) {
      *one->status = OwnerStatus(wanted.owner, result.status);
    }
    return;
  }
  *one->status = ReadTables(wanted, *result.tables, Into(one->value));
  if (!one->status->ok()) one->value->clear();  // what was read did not verify
  // Its turn is in the next round: an owner's answers with values came before.
  static_assert(WireOperation::kGetMany < WireOperation::kGetManyInGroup);
  if (one->status->code() == Code::kBusy) {
    (*left)[{wanted.owner, WireOperation::kGetMany}].push_back(one);
  }
}

}  // namespace quire::kv
