#include "kv/owner/service.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/core/out_of_memory.h"
#include "base/threads/sync_point.h"
#include "kv/protocol/wire.h"

namespace quire::kv {
namespace {

// The operations that store, and the fence, which is answered after them: they run in the order of
// their arrival.
constexpr WireOperation kWrites[] = {WireOperation::kApply, WireOperation::kWrite,
                                     WireOperation::kFence, WireOperation::kFill,
                                     WireOperation::kUpdate};
constexpr WireOperation kReads[] = {WireOperation::kGet, WireOperation::kGetMany,
                                    WireOperation::kGetInGroup, WireOperation::kGetManyInGroup};

Status CheckKeySize(Slice key) {
  if (log::IsKeySize(key.size())) return Status();
  return Status(Code::kCorruption,
                "a request of another rank has a key of " + std::to_string(key.size()) + " bytes");
}

}  // namespace

// A write of another rank, from its arrival to its answer.
struct OwnerService::Write {
  explicit Write(WireOperation its_operation) : operation(its_operation) {
    progress.may_wait = false;
  }

  WireOperation operation;
  engine::WriteProgress progress;
  ApplyFailures failures;
  std::string answer;  // of an update function that ran
};

// A write that found no room.
class OwnerService::UnfinishedWrite final : public comm::UnfinishedRequest {
 public:
  UnfinishedWrite(OwnerService* service, Slice request) : service_(service), request_(request) {}
  void Take(Write write) { write_ = std::move(write); }
  bool GoOn(Status* status, std::string* answer) override {
    return service_->GoOn(write_, request_, status, answer);
  }

 private:
  OwnerService* const service_;
  const std::string request_;
  Write write_{WireOperation::kFence};
};

void OwnerService::Attach(comm::Exchange* exchange, uint32_t database_number) {
  AttachWrites(exchange, database_number);
  for (const WireOperation operation : kReads) {
    exchange->Serve(Channel(database_number, operation),
                    [this, operation](int /*source*/, Slice request, std::string* answer) {
                      counters_->Add(DatabaseCounter::kRequestsServed);
                      base::SyncPoint("kv.serve.asked");
                      switch (operation) {
                        case WireOperation::kGetMany:
                          return GetMany(request, false, answer);
                        case WireOperation::kGetInGroup:
                          return Get(request, true, answer);
                        case WireOperation::kGetManyInGroup:
                          return GetMany(request, true, answer);
                        default:
                          return Get(request, false, answer);
                      }
                    });
  }
}

void OwnerService::AttachWrites(comm::Exchange* exchange, uint32_t database_number) {
  for (const WireOperation operation : kWrites) {
    exchange->ServePatiently(
        Channel(database_number, operation), database_number,
        [this, operation](int /*source*/, Slice request, Status* status, std::string* answer) {
          counters_->Add(DatabaseCounter::kRequestsServed);
          return Begin(operation, request, status, answer);
        });
  }
}

void OwnerService::Detach(comm::Exchange* exchange, uint32_t database_number) {
  for (const WireOperation operation : kWrites) {
    exchange->Serve(Channel(database_number, operation), {});
  }
  for (const WireOperation operation : kReads) {
    exchange->Serve(Channel(database_number, operation), {});
  }
}

std::unique_ptr<comm::UnfinishedRequest> OwnerService::Begin(WireOperation operation, Slice request,
                                                             Status* status, std::string* answer) {
  Write begun(operation);
  if (GoOn(begun, request, status, answer)) return nullptr;
  std::unique_ptr<UnfinishedWrite> rest;
  *status = base::OrOutOfMemory([&] {
    rest = std::make_unique<UnfinishedWrite>(this, request);
    return Status();
  });
  if (!status->ok()) {
    *status = GiveUp(begun, request, answer);
    return nullptr;
  }
  rest->Take(std::move(begun));
  return rest;
}

bool OwnerService::GoOn(Write& write, Slice request, Status* status, std::string* answer) {
  base::SyncPoint("kv.serve.arrived");
  {
    const engine::WritesFor writes_for(&writer_);
    *status = Run(write, request);
  }
  base::SyncPoint("kv.serve.applied");
  if (write.progress.waits) return false;
  *answer = std::move(write.answer);
  return true;
}

// There is no memory to keep it in.
Status OwnerService::GiveUp(Write& write, Slice request, std::string* answer) {
  if (write.operation != WireOperation::kApply) return base::OutOfMemory();
  QUIRE_RETURN_IF_ERROR(
      store_->GiveUp(request, write.progress, base::OutOfMemory(), &write.failures));
  *answer = EncodeApplyFailures(write.failures);
  return Status();
}

Status OwnerService::Run(Write& write, Slice request) {
  switch (write.operation) {
    case WireOperation::kApply:
      return Apply(write, request);
    case WireOperation::kWrite:
      return store_->Write(request, &write.progress);
    case WireOperation::kFill:
      return store_->Fill(request, &write.progress);
    case WireOperation::kUpdate:
      return Update(write, request);
    default:
      return Status();  // a fence
  }
}

Status OwnerService::Apply(Write& write, Slice request) {
  QUIRE_RETURN_IF_ERROR(store_->Apply(request, &write.progress, &write.failures));
  write.answer = EncodeApplyFailures(write.failures);
  return Status();
}

Status OwnerService::Update(Write& write, Slice request) {
  QUIRE_ASSIGN_OR_RETURN(const UpdateRequest update, DecodeUpdate(request));
  QUIRE_RETURN_IF_ERROR(CheckKeySize(update.key));
  return store_->Update(update.key, update.id, update.argument, &write.answer, &write.progress);
}

Status OwnerService::GetOne(Slice key, bool in_group, const BufferAllocator& allocate,
                            std::optional<NamedTables>* tables) {
  return in_group ? store_->GetInGroup(key, allocate, tables) : store_->Get(key, allocate);
}

Status OwnerService::Get(Slice request, bool in_group, std::string* answer) {
  QUIRE_RETURN_IF_ERROR(CheckKeySize(request));
  answer->assign(1, kFoundByte);
  const auto place = [answer](size_t size) {
    answer->resize(1 + size);
    return answer->data() + 1;
  };
  std::optional<NamedTables> tables;
  const Status status = GetOne(request, in_group, place, &tables);
  if (tables.has_value()) {
    *answer = EncodeTablesAnswer(*tables);
    return Status();
  }
  if (status.code() != Code::kNotFound) return status;
  answer->assign(1, kAbsentByte);
  return Status();
}

Status OwnerService::GetMany(Slice request, bool in_group, std::string* answer) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<Slice> keys, DecodeKeys(request));
  std::string value;
  const Into into(&value);
  for (const Slice key : keys) {
    QUIRE_RETURN_IF_ERROR(CheckKeySize(key));
    std::optional<NamedTables> tables;
    const Status status = GetOne(key, in_group, into, &tables);
    if (tables.has_value()) {
      AddTables(answer, *tables);
    } else {
      AddResult(answer, status, value);
    }
    if (answer->size() >= kGetManyAnswerBytes) break;
  }
  return Status();
}

}  // namespace quire::kv
