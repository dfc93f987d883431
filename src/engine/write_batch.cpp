#include "engine/write_batch.h"

#include "base/text/coding.h"

namespace quire::engine {
namespace {

constexpr size_t kRecordHeaderBytes = sizeof(log::RecordHeader);

// A record's header read from anywhere; the same fields as log::RecordHeader.
struct UnalignedHeader {
  explicit UnalignedHeader(const char* at)
      : prev(base::LoadLe<uint32_t>(at + 8)),
        value_size(base::LoadLe<uint32_t>(at + 12)),
        batch(base::LoadLe<uint32_t>(at + 16)),
        key_size(uint64_t{base::LoadLe<uint16_t>(at + 20)} + 1),
        type(static_cast<log::RecordType>(at[22])),
        flags(at[23]) {}
  uint32_t prev;
  uint32_t value_size;
  uint32_t batch;
  uint64_t key_size;
  log::RecordType type;
  char flags;
};

bool PossibleOnTheWire(const UnalignedHeader& header) {
  if (header.prev != 0 || header.batch != 0 || header.flags != 0) return false;
  switch (header.type) {
    case log::RecordType::kPut:
    case log::RecordType::kRangeDelete:
      return true;
    case log::RecordType::kDelete:
      return header.value_size == 0;
    case log::RecordType::kUpdate:
      return header.value_size >= sizeof(uint32_t);
    case log::RecordType::kValueRef:
    case log::RecordType::kBatchBegin:
      return false;
  }
  return false;
}

Status Malformed(size_t offset, const char* what) {
  return Status(Code::kCorruption, "write batch: at offset " + std::to_string(offset) + " " + what);
}

}  // namespace

void WriteBatch::AddHeader(log::RecordType type, Slice key, size_t value_size) {
  char header[kRecordHeaderBytes];
  log::EncodeHeader(header, type, key.size(), value_size, 0);
  bytes_.append(header, sizeof header).append(key);
}

void WriteBatch::AddPadding(size_t key_size, size_t value_size) {
  const uint64_t size = log::RecordSize(key_size, value_size);
  bytes_.append(size - kRecordHeaderBytes - key_size - value_size, '\0');
  ++count_;
}

void WriteBatch::Add(log::RecordType type, Slice key, Slice value) {
  AddHeader(type, key, value.size());
  bytes_.append(value);
  AddPadding(key.size(), value.size());
}

void WriteBatch::Update(Slice key, uint32_t function, Slice argument) {
  AddHeader(log::RecordType::kUpdate, key, sizeof function + argument.size());
  base::PutFixed(&bytes_, function);
  bytes_.append(argument);
  AddPadding(key.size(), sizeof function + argument.size());
}

Result<std::vector<WriteOp>> DecodeBatch(Slice bytes) {
  std::vector<WriteOp> ops;
  size_t at = 0;
  while (at < bytes.size()) {
    const size_t rest = bytes.size() - at;
    if (rest < kRecordHeaderBytes) return Malformed(at, "a header is cut off");
    const UnalignedHeader header(bytes.data() + at);
    if (!PossibleOnTheWire(header)) return Malformed(at, "is no operation");
    const uint64_t size = log::RecordSize(header.key_size, header.value_size);
    if (size > rest) return Malformed(at, "an operation is cut off");
    const Slice body = bytes.substr(at + kRecordHeaderBytes, header.key_size + header.value_size);
    ops.push_back({header.type, body.substr(0, header.key_size), body.substr(header.key_size)});
    at += size;
  }
  return ops;
}

}  // namespace quire::engine
