#include "comm/exchange/message.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/text/coding.h"

namespace quire::comm {
namespace {

constexpr uint64_t kFirstReserveBytes = 1 << 20;

Status DamagedMessage(const std::string& what) {
  return Status(Code::kCorruption, "received a message frame with " + what);
}

}  // namespace

void EncodeMessageHeader(const MessageHeader& header, char* to) {
  to[0] = static_cast<char>(header.kind);
  to[1] = static_cast<char>(header.code);
  base::StoreLe<uint16_t>(to + 2, 0);
  base::StoreLe<uint32_t>(to + 4, header.channel);
  base::StoreLe<uint64_t>(to + 8, header.call);
  base::StoreLe<uint64_t>(to + 16, header.total_size);
  base::StoreLe<uint64_t>(to + 24, header.offset);
}

Result<MessageHeader> DecodeMessageHeader(Slice frame, uint64_t message_bytes_max, Slice* part) {
  if (frame.size() < kMessageHeaderBytes) {
    return DamagedMessage(std::to_string(frame.size()) + " bytes, less than its header");
  }
  const auto kind = static_cast<uint8_t>(frame[0]);
  const auto code = static_cast<uint8_t>(frame[1]);
  if (kind < static_cast<uint8_t>(MessageKind::kRequest) ||
      kind > static_cast<uint8_t>(MessageKind::kSignal)) {
    return DamagedMessage("kind " + std::to_string(kind));
  }
  if (code > static_cast<uint8_t>(Code::kUnsupported)) {
    return DamagedMessage("status " + std::to_string(code));
  }
  if (base::LoadLe<uint16_t>(frame.data() + 2) != 0)
    return DamagedMessage("a reserved field in use");
  MessageHeader header;
  header.kind = static_cast<MessageKind>(kind);
  header.code = static_cast<Code>(code);
  header.channel = base::LoadLe<uint32_t>(frame.data() + 4);
  header.call = base::LoadLe<uint64_t>(frame.data() + 8);
  header.total_size = base::LoadLe<uint64_t>(frame.data() + 16);
  header.offset = base::LoadLe<uint64_t>(frame.data() + 24);
  *part = frame.substr(kMessageHeaderBytes);
  if (header.total_size > message_bytes_max) {
    return DamagedMessage("a total of " + std::to_string(header.total_size) +
                          " bytes; the limit is " + std::to_string(message_bytes_max));
  }
  if (header.offset > header.total_size || part->size() > header.total_size - header.offset ||
      (part->empty() && header.total_size != 0)) {
    return DamagedMessage(std::to_string(part->size()) + " bytes at " +
                          std::to_string(header.offset) + " of " +
                          std::to_string(header.total_size));
  }
  if (header.kind == MessageKind::kAnswer && header.channel > header.total_size) {
    return DamagedMessage("a status text of " + std::to_string(header.channel) + " bytes in " +
                          std::to_string(header.total_size));
  }
  return header;
}

bool MessageJoiner::Follows(const MessageHeader& header) const {
  return open_ && header.kind == first_.kind && header.code == first_.code &&
         header.channel == first_.channel && header.call == first_.call &&
         header.total_size == first_.total_size && header.offset == received_;
}

Result<bool> MessageJoiner::Add(const MessageHeader& header, Slice part) {
  if (header.offset == 0) {
    if (open_) Drop();
    open_ = true;
    first_ = header;
  } else if (!Follows(header)) {
    return DamagedMessage("offset " + std::to_string(header.offset) + " after " +
                          std::to_string(received_) + " bytes of call " +
                          std::to_string(first_.call));
  }
  Append(header, part);
  received_ += part.size();
  if (received_ != header.total_size) return false;
  open_ = false;
  return true;
}

void MessageJoiner::Lend(std::string buffer) {
  if (open_ || buffer.capacity() <= payload_.capacity()) return;
  payload_ = std::move(buffer);
  payload_.clear();
}

void MessageJoiner::Append(const MessageHeader& header, Slice part) {
  if (out_of_memory_) return;
  try {
    const uint64_t needed = payload_.size() + part.size();
    if (needed > payload_.capacity()) {
      const uint64_t ahead = std::max({needed, 2 * payload_.size(), kFirstReserveBytes});
      payload_.reserve(std::min(header.total_size, ahead));
    }
    payload_.append(part);
  } catch (const std::bad_alloc&) {
    out_of_memory_ = true;
    std::string().swap(payload_);
  }
}

std::string MessageJoiner::Take() {
  std::string whole = std::move(payload_);
  Drop();
  return whole;
}

void MessageJoiner::Drop() {
  open_ = false;
  out_of_memory_ = false;
  received_ = 0;
  std::string().swap(payload_);
}

}  // namespace quire::comm
