#include "kv/service.h"

#include <vector>

#include "base/hash.h"
#include "kv/wire.h"

namespace quire::kv {
namespace {

constexpr Operation kOperations[] = {
    Operation::kApply,   Operation::kWrite,      Operation::kGet,
    Operation::kGetMany, Operation::kFence,      Operation::kFill,
    Operation::kUpdate,  Operation::kGetInGroup, Operation::kGetManyInGroup};

Status CheckKeySize(Slice key) {
  if (!key.empty() && key.size() <= log::kKeyBytesMax) return Status();
  return Status(Code::kCorruption,
                "a request of another rank has a key of " + std::to_string(key.size()) + " bytes");
}

}  // namespace

void Service::Attach(comm::Exchange* exchange, uint32_t database_number) {
  for (const Operation operation : kOperations) {
    exchange->Serve(
        Channel(database_number, operation),
        [this, operation](int /*source*/, Slice request, std::string* answer) -> Status {
          counters_->Add(Counter::kRequestsServed);
          switch (operation) {
            case Operation::kApply:
              return Apply(request, answer);
            case Operation::kWrite:
              return Write(request);
            case Operation::kGet:
              return Get(request, answer);
            case Operation::kGetMany:
              return GetMany(request, false, answer);
            case Operation::kFence:
              return Status();
            case Operation::kFill:
              return Fill(request);
            case Operation::kGetInGroup:
              return GetInGroup(request, answer);
            case Operation::kGetManyInGroup:
              return GetMany(request, true, answer);
            case Operation::kUpdate:
              return Update(request, answer);
          }
          return Status(Code::kUnsupported, "unknown operation");
        });
  }
}

void Service::Detach(comm::Exchange* exchange, uint32_t database_number) {
  for (const Operation operation : kOperations) {
    exchange->Serve(Channel(database_number, operation), {});
  }
}

Status Service::Apply(Slice request, std::string* answer) {
  Damage damage;
  QUIRE_RETURN_IF_ERROR(store_->Apply(request, &damage));
  *answer = EncodeDamage(damage);
  return Status();
}

Status Service::Write(Slice request) {
  return store_->Write(request);
}

Status Service::Fill(Slice request) {
  return store_->Fill(request);
}

Status Service::Update(Slice request, std::string* answer) {
  QUIRE_ASSIGN_OR_RETURN(const UpdateRequest update, DecodeUpdate(request));
  QUIRE_RETURN_IF_ERROR(CheckKeySize(update.key));
  return store_->Update(update.key, update.id, update.argument, base::HashKey(update.key), answer);
}

Status Service::Get(Slice request, std::string* answer) {
  QUIRE_RETURN_IF_ERROR(CheckKeySize(request));
  answer->assign(1, kFoundByte);
  const Status status = store_->Get(request, base::HashKey(request), [answer](size_t size) {
    answer->resize(1 + size);
    return answer->data() + 1;
  });
  if (status.code() != Code::kNotFound) return status;
  answer->assign(1, kAbsentByte);
  return Status();
}

// The owner tells what its memory has; in its tables the other looks by itself. True: those of
// `tables`, and the status is nothing.
bool Service::NamesTables(Slice key, const lsm::AllocateFn& place, Status* status,
                          NamedTables* tables) {
  lsm::TablesPosition position;
  bool decided = false;
  *status = store_->db().GetFromMemory(key, place, &decided, &position);
  if (decided || status->code() != Code::kNotFound) return false;
  *tables = {position.store_id, position.edition};
  if (!position.has_base) return true;
  *status = store_->Get(key, base::HashKey(key), place);
  return false;
}

Status Service::GetInGroup(Slice request, std::string* answer) {
  QUIRE_RETURN_IF_ERROR(CheckKeySize(request));
  answer->assign(1, kFoundByte);
  const auto place = [answer](size_t size) {
    answer->resize(1 + size);
    return answer->data() + 1;
  };
  Status status;
  NamedTables tables;
  if (NamesTables(request, place, &status, &tables)) {
    *answer = EncodeTablesAnswer(tables);
    return Status();
  }
  if (status.code() != Code::kNotFound) return status;
  answer->assign(1, kAbsentByte);
  return Status();
}

Status Service::GetMany(Slice request, bool in_group, std::string* answer) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<Slice> keys, DecodeKeys(request));
  std::string value;
  const auto place = [&value](size_t size) {
    value.resize(size);
    return value.data();
  };
  for (const Slice key : keys) {
    QUIRE_RETURN_IF_ERROR(CheckKeySize(key));
    Status status;
    NamedTables tables;
    if (in_group && NamesTables(key, place, &status, &tables)) {
      AddTables(answer, tables);
    } else {
      if (!in_group) status = store_->Get(key, base::HashKey(key), place);
      AddResult(answer, status, value);
    }
    if (answer->size() >= kGetManyAnswerBytes) break;
  }
  return Status();
}

}  // namespace quire::kv
