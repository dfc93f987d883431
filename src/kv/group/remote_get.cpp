#include "kv/group/remote_get.h"

#include <utility>

#include "base/forked_child.h"
#include "kv/protocol/wire.h"

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

class WaitingGet final : public PendingGet {
 public:
  explicit WaitingGet(RemoteGet asked) : asked_(std::move(asked)) {
    Ask(asked_.group != nullptr ? WireOperation::kGetInGroup : WireOperation::kGet);
  }
  ~WaitingGet() override {
    if (process_.forked()) base::LeaveInChild(asked_, call_);
  }

  bool Ready() override {
    if (!process_.MayCall()) return true;  // Take says why it fails
    if (call_ != nullptr && asked_.context->exchange != nullptr) {
      if (!asked_.context->exchange->has_handler_thread()) asked_.context->exchange->Progress();
      if (!call_->Done()) return false;
      TakeAnswer();
    }
    return call_ == nullptr || asked_.context->exchange == nullptr;
  }

  Result<std::string> Take() override {
    QUIRE_RETURN_IF_ERROR(process_.Check("a get under way"));
    while (call_ != nullptr) {
      if (asked_.context->exchange == nullptr) {
        return Status(Code::kInvalidArgument, "the context of this get is gone");
      }
      TakeAnswer();
    }
    if (taken_) return TakenBefore();
    taken_ = true;
    return std::move(outcome_);
  }

 private:
  void Ask(WireOperation operation) {
    auto call = asked_.context->exchange->Start(
        asked_.owner, Channel(asked_.database_number, operation), {}, asked_.key);
    if (call.ok()) {
      call_ = std::move(*call);
    } else {
      outcome_ = OwnerStatus(asked_.owner, call.status());
    }
  }

  // Afterwards it is decided, or the owner is asked for the value: what it named was not to be had.
  void TakeAnswer() {
    std::string answer;
    const Status status = asked_.context->exchange->Wait(std::exchange(call_, nullptr), &answer);
    NamedTables tables;
    if (status.ok() && asked_.group != nullptr && DecodeTablesAnswer(answer, &tables)) {
      if (!ReadTables(tables)) Ask(WireOperation::kGet);
      return;
    }
    asked_.counters->Add(DatabaseCounter::kGetsByMessage);
    outcome_ = status.ok() ? ValueOf(answer) : OwnerStatus(asked_.owner, status);
    if (outcome_.ok()) Cache();
  }

  // False: the owner has to be asked.
  bool ReadTables(const NamedTables& tables) {
    std::string value;
    const Status read = asked_.group->Get(asked_.owner, tables, asked_.key, Into(&value));
    asked_.group.reset();
    if (read.code() == Code::kBusy) return false;
    asked_.counters->Add(DatabaseCounter::kGetsInGroup);
    if (!read.ok()) {
      outcome_ = read;
      return true;
    }
    outcome_ = std::move(value);
    Cache();
    return true;
  }

  static Result<std::string> ValueOf(Slice answer) {
    QUIRE_ASSIGN_OR_RETURN(const Slice value, DecodeGetAnswer(answer));
    return std::string(value);
  }
  void Cache() { asked_.cache->Insert(asked_.key, *outcome_, asked_.hash, asked_.ticket); }

  const base::OwnProcess process_;
  RemoteGet asked_;
  std::shared_ptr<comm::Call> call_;  // null: it is decided
  Result<std::string> outcome_ = Status(Code::kInvalidArgument);
  bool taken_ = false;
};

}  // namespace

std::unique_ptr<PendingGet> NewReadyGet(Status status, std::string value) {
  return std::make_unique<ReadyGet>(std::move(status), std::move(value));
}

std::unique_ptr<PendingGet> NewRemoteGet(RemoteGet asked) {
  return std::make_unique<WaitingGet>(std::move(asked));
}

}  // namespace quire::kv
