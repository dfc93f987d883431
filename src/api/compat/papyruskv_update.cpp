// Functions of the program that change a value at its owner.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "api/compat/papyruskv_session.h"
#include "base/text/coding.h"
#include "kv/database/together.h"

namespace quire::compat {
namespace {

// Room for a value that a function makes longer, and for the longest answer: PapyrusKV promises
// values of this length.
constexpr size_t kRoomBytes = 16ull << 20;
// Zeros after a value: a function may read the value of an absent key before it checks its length.
constexpr size_t kZeroBytes = 4096;

// Returns memory of this size. Pages that are never touched take no memory.
char* Room(size_t bytes, std::unique_ptr<char[]>* larger) {
  thread_local const std::unique_ptr<char[]> room(new char[kRoomBytes]);
  if (bytes <= kRoomBytes) return room.get();
  larger->reset(new char[bytes]);
  return larger->get();
}

// Encodes a request: the room for the answer, then the program's input for its function.
std::string EncodeRequest(size_t answer_bytes, Slice input) {
  std::string request;
  request.reserve(sizeof(uint64_t) + input.size());
  base::PutFixed(&request, uint64_t{answer_bytes});
  request.append(input);
  return request;
}

struct Request {
  uint64_t answer_bytes = 0;
  std::string input;  ///< a copy: the message is not aligned for the program's structs
};

Result<Request> DecodeRequest(Slice argument) {
  Request request;
  base::ByteReader reader(argument);
  if (!reader.Fixed(&request.answer_bytes) || request.answer_bytes > kRoomBytes) {
    return Status(Code::kCorruption, "an update of another rank is not papyruskv_update's");
  }
  request.input = std::string(reader.rest());
  return request;
}

// The value that a function receives and may change.
struct Value {
  char* room = nullptr;
  size_t room_bytes = 0;
  char* bytes = nullptr;
  size_t size = 0;
};

Value Offer(const Slice* present, std::unique_ptr<char[]>* larger) {
  Value value;
  const size_t size = present == nullptr ? 0 : present->size();
  value.room_bytes = std::max(size, kRoomBytes);
  value.room = Room(value.room_bytes, larger);
  if (size > 0) std::memcpy(value.room, present->data(), size);
  std::memset(value.room + size, 0, std::min(kZeroBytes, value.room_bytes - size));
  value.bytes = value.room;
  value.size = size;
  return value;
}

bool Unchanged(const Value& value, const Slice* present) {
  if (value.bytes != value.room) return false;
  if (present == nullptr) return value.size == 0;
  return Slice(value.bytes, value.size) == *present;
}

// Decides what happens to the pair: OK to store it, kNotFound to leave it.
Status Judge(int answer, const Value& value, const Slice* present) {
  if (answer < 0) {
    return Status(Code::kInvalidArgument, "the update function answered " + std::to_string(answer) +
                                              ": nothing was stored");
  }
  if (value.bytes == nullptr) return Status(Code::kNotFound);
  if (value.bytes == value.room && value.size > value.room_bytes) {
    return Status(Code::kInvalidArgument,
                  "the update function says that it wrote " + std::to_string(value.size) +
                      " bytes; there is room for " + std::to_string(value.room_bytes));
  }
  const bool nothing = present == nullptr && value.size == 0;
  if (nothing || (answer == 0 && Unchanged(value, present))) return Status(Code::kNotFound);
  return Status();
}

Status Run(papyruskv_update_fn_t function, Slice key, const Slice* present, Slice argument,
           std::string* updated, std::string* answer) {
  QUIRE_ASSIGN_OR_RETURN(Request request, DecodeRequest(argument));
  std::unique_ptr<char[]> larger;
  Value value = Offer(present, &larger);
  answer->assign(request.answer_bytes, '\0');
  const int code =
      function(key.data(), key.size(), &value.bytes, &value.size,
               request.input.empty() ? nullptr : request.input.data(), request.input.size(),
               answer->empty() ? nullptr : answer->data(), answer->size());
  const Status judged = Judge(code, value, present);
  if (judged.ok()) updated->assign(value.bytes, value.size);
  return judged;
}

Status Register(OpenDatabase& open, int id, papyruskv_update_fn_t function) {
  if (function == nullptr) return NullArgument("fn");
  const AnsweringUpdateFunction run = [function](Slice key, const Slice* present, Slice argument,
                                                 std::string* updated, std::string* answer) {
    return Run(function, key, present, argument, updated, answer);
  };
  const std::lock_guard<std::mutex> lock(open.mutex);
  open.updates.emplace_back(static_cast<uint32_t>(id), run);
  return open.database->RegisterAnsweringUpdate(static_cast<uint32_t>(id), run);
}

}  // namespace
}  // namespace quire::compat

using quire::Slice;
using quire::Status;
using quire::compat::NullArgument;
using quire::compat::OpenDatabase;
using quire::compat::Session;
using quire::compat::WithDatabase;

extern "C" {

int papyruskv_register_update(int db, int fnid, papyruskv_update_fn_t fn) {
  return WithDatabase("papyruskv_register_update", db, [&](OpenDatabase& open) {
    return quire::kv::PrepareTogether(Session::Current()->context(),
                                      [&] { return quire::compat::Register(open, fnid, fn); });
  });
}

int papyruskv_update(int db, const char* key, size_t keylen, papyruskv_pos_t* /*pos*/, int fnid,
                     void* userin, size_t userinlen, void* userout, size_t useroutlen) {
  return WithDatabase("papyruskv_update", db, [&](OpenDatabase& open) -> Status {
    if (key == nullptr) return NullArgument("key");
    if (userin == nullptr && userinlen > 0) return NullArgument("userin");
    const size_t wanted = userout == nullptr ? 0 : useroutlen;
    if (wanted > quire::compat::kRoomBytes) {
      return Status(quire::Code::kInvalidArgument,
                    "useroutlen is " + std::to_string(wanted) + "; answers have at most " +
                        std::to_string(quire::compat::kRoomBytes) + " bytes");
    }
    const std::string request =
        quire::compat::EncodeRequest(wanted, Slice(static_cast<const char*>(userin), userinlen));
    const Slice pair(key, keylen);
    const auto id = static_cast<uint32_t>(fnid);
    if (wanted == 0) return open.database->Update(pair, id, request);
    std::string answer;
    QUIRE_RETURN_IF_ERROR(open.database->UpdateAndAnswer(pair, id, request, &answer));
    std::memcpy(userout, answer.data(), std::min(wanted, answer.size()));
    return Status();
  });
}

}  // extern "C"
