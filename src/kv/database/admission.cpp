#include "kv/database/admission.h"

#include "base/threads/sync_point.h"

namespace quire::kv {

Admission::Admission(comm::Exchange* exchange, const std::string& database_name, const Mode& mode)
    : exchange_(exchange),
      name_(database_name),
      any_thread_(exchange->has_handler_thread()),
      alone_(exchange->size() == 1),
      allowed_(AllowedIn(mode)),
      mode_(mode) {}

uint32_t Admission::AllowedIn(const Mode& mode) {
  uint32_t allowed = kOpen;
  switch (mode.protection) {
    case Protection::kReadWrite:
      allowed |= kPut | kUpdate | kGet;
      break;
    case Protection::kWriteOnly:
      allowed |= kPut | kUpdate;
      break;
    case Protection::kReadOnly:
      allowed |= kGet;
      break;
    case Protection::kUpdateOnly:
      allowed |= kUpdate | kGet;
      break;
  }
  if (mode.consistency == Consistency::kSequential) allowed |= kSequential;
  return allowed;
}

Admission::WriteCall::WriteCall(Admission& admission, Operation needed)
    : counts_(admission.alone_ ? nullptr : &admission) {
  if (counts_ != nullptr) side_ = counts_->writes_.Begin();
  admitted_ = admission.Admit(needed);
  base::SyncPoint("kv.write.admitted");
}

Admission::WriteCall::~WriteCall() {
  if (counts_ == nullptr) return;
  counts_->writes_.End(side_);
  if ((counts_->allowed_.load() & kChanging) != 0) counts_->exchange_->Nudge(&counts_->writes_);
}

void Admission::BeginChange(const Mode& next) {
  const uint32_t before = allowed_.load();
  allowed_.store((before & AllowedIn(next)) | (before & kSequential) | kChanging);
}

Status Admission::AwaitWrites() {
  if (alone_) return Status();
  const int rank = exchange_->rank();
  for (int turn = 0; turn < 2; ++turn) {
    const size_t side = writes_.Turn();
    QUIRE_RETURN_IF_ERROR(exchange_->Await(
        &writes_, "a write under way to end",
        [this, side, rank] { return writes_.None(side) ? comm::Exchange::kNobody : rank; }));
  }
  return Status();
}

void Admission::EndChange(const Mode& mode) {
  mode_ = mode;
  allowed_.store(AllowedIn(mode));
}

Status Admission::ClosedStatus() const {
  return Status(Code::kInvalidArgument, "database " + name_ + " is closed");
}

Status Admission::Refuse(Operation needed) const {
  QUIRE_RETURN_IF_ERROR(process_.Check(("database \"" + name_ + "\"").c_str()));
  const uint32_t allowed = allowed_.load();
  if ((allowed & kOpen) == 0) return ClosedStatus();
  QUIRE_RETURN_IF_ERROR(CheckThread());
  if ((needed & ~allowed & kGet) != 0) {
    return Status(Code::kInvalidArgument,
                  "database " + name_ + " is protected write-only: no gets before Protect says so");
  }
  const bool updates_only = (allowed & kUpdate) != 0;
  return Status(Code::kReadOnly,
                "database " + name_ + " is protected " +
                    (updates_only ? "update-only: only Update writes" : "read-only: no writes") +
                    " before Protect says so");
}

}  // namespace quire::kv
