#include "stream/remote/request.h"

#include <algorithm>

#include "base/text/coding.h"
#include "io/files/file_system.h"

namespace quire::stream {
namespace {

constexpr uint32_t kAddressBytesMax = 300;
constexpr uint32_t kTextBytesMax = 1000;
// Leaves room for the other fields of an answer.
constexpr uint64_t kListBytesMax = kAnswerBytesMax - kTextBytesMax - 64;
constexpr int kCodeMax = static_cast<int>(Code::kUnsupported);

Status DamagedRequest(const char* what) {
  return Status(Code::kCorruption, std::string("a message about streams has no right ") + what);
}

// A reader of fields in their order; after one failure all reads fail.
class Fields {
 public:
  explicit Fields(Slice bytes) : reader_(bytes) {}

  uint64_t Number() {
    uint64_t number = 0;
    ok_ = reader_.Varint(&number) && ok_;
    return ok_ ? number : 0;
  }
  uint8_t Byte() {
    uint8_t byte = 0;
    ok_ = reader_.Fixed(&byte) && ok_;
    return byte;
  }
  uint64_t Fixed() {
    uint64_t number = 0;
    ok_ = reader_.Fixed(&number) && ok_;
    return number;
  }
  bool Flag() {
    const uint8_t byte = Byte();
    ok_ = ok_ && byte <= 1;
    return byte == 1;
  }
  std::string Text(uint64_t size_max) {
    Slice text;
    ok_ = reader_.LengthPrefixed(&text) && text.size() <= size_max && ok_;
    return ok_ ? std::string(text) : std::string();
  }
  uint32_t Rank() {
    const uint64_t rank = Number();
    ok_ = ok_ && rank <= UINT32_MAX;
    return static_cast<uint32_t>(rank);
  }
  bool ok() const { return ok_; }
  bool AtEnd() const { return ok_ && reader_.rest().empty(); }
  Slice rest() const { return reader_.rest(); }

 private:
  base::ByteReader reader_;
  bool ok_ = true;
};

void PutPart(std::string* to, const StorePart& part) {
  base::PutLengthPrefixed(to, part.store);
  base::PutVarint(to, part.rank);
}

StorePart TakePart(Fields* fields) {
  StorePart part;
  part.store = fields->Text(255);
  part.rank = fields->Rank();
  return part;
}

Status CheckRequest(const Request& request) {
  if (request.operation == RequestOperation::kRegister) {
    for (const RegisteredPart& told : request.parts) {
      if (!io::CheckName(told.part.store).ok()) return DamagedRequest("name of a store");
    }
    return Status();
  }
  if (!io::CheckName(request.part.store).ok()) return DamagedRequest("name of a store");
  const bool keyed = request.operation == RequestOperation::kVersions ||
                     request.operation == RequestOperation::kFetch;
  if (keyed && request.key.empty()) return DamagedRequest("key");
  return Status();
}

void PutVersion(std::string* to, const StreamVersion& version) {
  base::PutVarint(to, version.version);
  base::PutVarint(to, version.snapshot);
  base::PutVarint(to, version.bytes);
  base::PutVarint(to, version.stored_bytes);
  base::PutVarint(to, version.unix_time_ns);
  base::PutFixed(to, static_cast<uint8_t>(version.whole ? 1 : 0));
  base::PutFixed(to, static_cast<uint8_t>(version.shape.element));
  base::PutVarint(to, version.shape.extents.size());
  for (const uint64_t extent : version.shape.extents) base::PutVarint(to, extent);
}

bool TakeVersion(Fields* fields, StreamVersion* version) {
  version->version = fields->Number();
  version->snapshot = fields->Number();
  version->bytes = fields->Number();
  version->stored_bytes = fields->Number();
  version->unix_time_ns = fields->Number();
  version->whole = fields->Flag();
  const uint8_t element = fields->Byte();
  if (element >= kElementTypes) return false;
  version->shape.element = static_cast<ElementType>(element);
  const uint64_t dimensions = fields->Number();
  if (dimensions > kExtentsMax) return false;
  for (uint64_t i = 0; i < dimensions; ++i) version->shape.extents.push_back(fields->Number());
  return fields->ok() && version->version > 0 && ShapeFits(version->bytes, version->shape);
}

// Precedes each entry (kEntry), and follows the last one: kLast, or kMore if the list is
// incomplete.
constexpr uint8_t kLast = 0;
constexpr uint8_t kEntry = 1;
constexpr uint8_t kMore = 2;

template <typename T, typename Put>
std::string EncodeList(std::span<const T> entries, bool* more, const Put& put) {
  std::string body;
  if (more != nullptr) *more = false;
  for (const T& entry : entries) {
    std::string one;
    put(&one, entry);
    if (body.size() + one.size() > kListBytesMax) {
      if (more != nullptr) *more = true;
      base::PutFixed(&body, kMore);
      return body;
    }
    base::PutFixed(&body, kEntry);
    body += one;
  }
  base::PutFixed(&body, kLast);
  return body;
}

template <typename Take>
Result<bool> DecodeList(Slice body, const Take& take) {
  Fields fields(body);
  for (;;) {
    const uint8_t mark = fields.Byte();
    if (!fields.ok() || mark > kMore) return DamagedRequest("list");
    if (mark != kEntry) {
      if (!fields.AtEnd()) return DamagedRequest("end of a list");
      return mark == kMore;
    }
    if (!take(&fields)) return DamagedRequest("entry in a list");
  }
}

}  // namespace

std::string EncodeRequest(const Request& request) {
  std::string bytes;
  base::PutFixed(&bytes, static_cast<uint8_t>(request.operation));
  PutPart(&bytes, request.part);
  base::PutLengthPrefixed(&bytes, request.key);
  base::PutVarint(&bytes, request.number);
  base::PutFixed(&bytes, static_cast<uint8_t>(request.at_snapshot ? 1 : 0));
  base::PutVarint(&bytes, request.have);
  base::PutVarint(&bytes, request.have_time_ns);
  base::PutVarint(&bytes, request.timeout_ms);
  base::PutLengthPrefixed(&bytes, request.address);
  base::PutVarint(&bytes, request.parts.size());
  for (const RegisteredPart& told : request.parts) {
    PutPart(&bytes, told.part);
    base::PutVarint(&bytes, told.newest_ns);
  }
  return bytes;
}

Result<Request> DecodeRequest(Slice bytes) {
  if (bytes.size() > kRequestBytesMax) return DamagedRequest("size");
  Fields fields(bytes);
  Request request;
  const uint8_t operation = fields.Byte();
  if (operation < static_cast<uint8_t>(RequestOperation::kState) ||
      operation > static_cast<uint8_t>(RequestOperation::kLookup)) {
    return DamagedRequest("operation");
  }
  request.operation = static_cast<RequestOperation>(operation);
  request.part = TakePart(&fields);
  request.key = fields.Text(kKeyBytesMax);
  request.number = fields.Number();
  request.at_snapshot = fields.Flag();
  request.have = fields.Number();
  request.have_time_ns = fields.Number();
  request.timeout_ms = std::min(fields.Number(), kWaitMsMax);
  request.address = fields.Text(kAddressBytesMax);
  // The bytes of the message limit the number of parts, so it needs no limit of its own.
  for (uint64_t left = fields.Number(); left > 0 && fields.ok(); --left) {
    const StorePart part = TakePart(&fields);
    request.parts.push_back({part, fields.Number()});
  }
  if (!fields.AtEnd()) return DamagedRequest("fields");
  QUIRE_RETURN_IF_ERROR(CheckRequest(request));
  return request;
}

uint64_t EncodedPartBytes(const RegisteredPart& part) {
  return part.part.store.size() + 18;
}

std::string EncodeAnswer(const Status& status, Slice body) {
  std::string bytes;
  base::PutFixed(&bytes, static_cast<uint8_t>(status.code()));
  base::PutLengthPrefixed(&bytes, Slice(status.message()).substr(0, kTextBytesMax));
  if (status.ok()) bytes.append(body);
  return bytes;
}

Result<Slice> DecodeAnswer(Slice bytes) {
  Fields fields(bytes);
  const uint8_t code = fields.Byte();
  std::string text = fields.Text(kTextBytesMax);
  if (!fields.ok() || code > kCodeMax) return DamagedRequest("outcome");
  if (code == 0) return fields.rest();
  if (text.empty()) return Status(static_cast<Code>(code));
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  return Status(static_cast<Code>(code), std::move(text));
}

std::string EncodeState(const StateBody& state) {
  std::string body;
  base::PutVarint(&body, state.last_snapshot);
  base::PutFixed(&body, static_cast<uint8_t>(state.finished ? 1 : 0));
  return body;
}

Result<StateBody> DecodeState(Slice body) {
  Fields fields(body);
  StateBody state;
  state.last_snapshot = fields.Number();
  state.finished = fields.Flag();
  if (!fields.AtEnd()) return DamagedRequest("state");
  return state;
}

std::string EncodeObjects(std::span<const std::string> keys, bool* more) {
  return EncodeList(keys, more, [](std::string* to, const std::string& key) {
    base::PutLengthPrefixed(to, key);
  });
}

Result<ObjectsBody> DecodeObjects(Slice body) {
  ObjectsBody objects;
  QUIRE_ASSIGN_OR_RETURN(objects.more, DecodeList(body, [&objects](Fields* fields) {
                           objects.keys.push_back(fields->Text(kKeyBytesMax));
                           return fields->ok();
                         }));
  return objects;
}

std::string EncodeVersions(std::span<const StreamVersion> versions, bool* more) {
  return EncodeList(versions, more, PutVersion);
}

Result<VersionsBody> DecodeVersions(Slice body) {
  VersionsBody versions;
  QUIRE_ASSIGN_OR_RETURN(versions.more, DecodeList(body, [&versions](Fields* fields) {
                           return TakeVersion(fields, &versions.versions.emplace_back());
                         }));
  return versions;
}

std::string EncodeFetch(const FetchBody& fetch) {
  std::string body;
  base::PutFixed(&body, static_cast<uint8_t>(fetch.hash ? 1 : 0));
  PutVersion(&body, fetch.version);
  if (fetch.hash) base::PutFixed(&body, *fetch.hash);
  return body;
}

Result<FetchBody> DecodeFetch(Slice body) {
  Fields fields(body);
  FetchBody fetch;
  const bool sent = fields.Flag();
  if (!TakeVersion(&fields, &fetch.version)) return DamagedRequest("version");
  if (sent) fetch.hash = fields.Fixed();
  if (!fields.AtEnd()) return DamagedRequest("version");
  return fetch;
}

std::string EncodeNumber(uint64_t number) {
  std::string body;
  base::PutVarint(&body, number);
  return body;
}

Result<uint64_t> DecodeNumber(Slice body) {
  Fields fields(body);
  const uint64_t number = fields.Number();
  if (!fields.AtEnd()) return DamagedRequest("number");
  return number;
}

}  // namespace quire::stream
