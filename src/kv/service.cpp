#include "kv/service.h"

#include <vector>

#include "base/hash.h"
#include "kv/wire.h"

namespace quire::kv {
namespace {

constexpr Operation kOperations[] = {Operation::kApply,   Operation::kWrite,     Operation::kGet,
                                     Operation::kGetMany, Operation::kFence,     Operation::kFill,
                                     Operation::kUpdate,  Operation::kGetInGroup};

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
              return GetMany(request, answer);
            case Operation::kFence:
              return Status();
            case Operation::kFill:
              return Fill(request);
            case Operation::kJob:
              break;  // the job serves it
            case Operation::kGetInGroup:
              return GetInGroup(request, answer);
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

// The owner tells what its memory has; in its tables the other looks by itself.
Status Service::GetInGroup(Slice request, std::string* answer) {
  QUIRE_RETURN_IF_ERROR(CheckKeySize(request));
  lsm::TablesPosition tables;
  bool decided = false;
  answer->assign(1, kFoundByte);
  const auto place = [answer](size_t size) {
    answer->resize(1 + size);
    return answer->data() + 1;
  };
  const Status status = store_->db().GetFromMemory(request, place, &decided, &tables);
  if (!decided && status.code() == Code::kNotFound) {
    if (tables.has_base) return Get(request, answer);
    *answer = EncodeTablesAnswer(tables.store_id, tables.edition);
    return Status();
  }
  if (status.code() != Code::kNotFound) return status;
  answer->assign(1, kAbsentByte);
  return Status();
}

Status Service::GetMany(Slice request, std::string* answer) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<Slice> keys, DecodeKeys(request));
  std::string value;
  for (const Slice key : keys) {
    QUIRE_RETURN_IF_ERROR(CheckKeySize(key));
    const Status status = store_->Get(key, base::HashKey(key), [&value](size_t size) {
      value.resize(size);
      return value.data();
    });
    AddResult(answer, status, value);
    if (answer->size() >= kGetManyAnswerBytes) break;
  }
  return Status();
}

}  // namespace quire::kv
