#include "kv/pending_get.h"

#include <utility>

#include "kv/wire.h"

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
    if (taken_) return TakenBefore();
    taken_ = true;
    if (!status_.ok()) return status_;
    return std::move(value_);
  }

 private:
  const Status status_;
  std::string value_;
  bool taken_ = false;
};

class WaitingGet final : public PendingGet {
 public:
  explicit WaitingGet(AskedGet asked) : asked_(std::move(asked)) {}

  bool Ready() override {
    if (asked_.call == nullptr || asked_.call->Done()) return true;
    if (asked_.core->exchange == nullptr) return true;
    if (!asked_.core->exchange->has_handler_thread()) asked_.core->exchange->Progress();
    return asked_.call->Done();
  }

  Result<std::string> Take() override {
    if (asked_.call == nullptr) return TakenBefore();
    if (asked_.core->exchange == nullptr) {
      return Status(Code::kInvalidArgument, "the context of this get is gone");
    }
    std::string answer;
    const Status status = asked_.core->exchange->Wait(asked_.call, &answer);
    asked_.call = nullptr;
    if (!status.ok()) return OwnerStatus(asked_.owner, status);
    QUIRE_ASSIGN_OR_RETURN(const Slice value, DecodeGetAnswer(answer));
    asked_.cache->Insert(asked_.key, value, asked_.hash, asked_.ticket);
    return std::string(value);
  }

 private:
  AskedGet asked_;
};

}  // namespace

std::unique_ptr<PendingGet> NewReadyGet(Status status, std::string value) {
  return std::make_unique<ReadyGet>(std::move(status), std::move(value));
}

std::unique_ptr<PendingGet> NewAskedGet(AskedGet asked) {
  return std::make_unique<WaitingGet>(std::move(asked));
}

}  // namespace quire::kv
