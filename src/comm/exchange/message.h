/// Messages, which the Exchange splits into frames and joins again.
///
/// Layer      comm
/// Encoding   docs/format/message.md
/// Threads    a joiner belongs to the polling thread
#pragma once

#include <cstdint>
#include <string>

#include "quire/slice.h"
#include "quire/status.h"

namespace quire::comm {

constexpr size_t kMessageHeaderBytes = 32;

enum class MessageKind : uint8_t {
  kRequest = 1,     ///< `channel` is the service's, `call` the sender's number for it
  kAnswer = 2,      ///< `channel` is the size of the status text in front of the payload
  kCollective = 3,  ///< `call` is the collective's number and its round
  kSignal = 4,      ///< `channel` is the signal; no payload
};

/// The header before each frame's part of a message; all fields except `offset` are equal in all
/// frames of one message.
struct MessageHeader {
  MessageKind kind = MessageKind::kRequest;
  Code code = Code::kOk;  ///< answers: what the service returned
  uint32_t channel = 0;
  uint64_t call = 0;
  uint64_t total_size = 0;  ///< bytes of the whole payload
  uint64_t offset = 0;      ///< where this frame's part of it begins
};

/// Writes kMessageHeaderBytes.
void EncodeMessageHeader(const MessageHeader& header, char* to);
/// Returns the header of `frame` (any bytes) and sets `part` to the payload behind it. kCorruption
/// if a field is out of range or the part is not within the message, whose size may be at most
/// `message_bytes_max`.
Result<MessageHeader> DecodeMessageHeader(Slice frame, uint64_t message_bytes_max, Slice* part);

/// Joins the frames of one sender's stream, in which messages follow one another. Memory grows with
/// the bytes that arrive, never with the announced size.
class MessageJoiner {
 public:
  /// Adds the next frame; returns whether the message is complete. kCorruption: this frame cannot
  /// follow the last one. A frame with offset 0 begins a message; an unfinished message before it
  /// was abandoned by its sender, and is dropped.
  Result<bool> Add(const MessageHeader& header, Slice part);
  /// Provides memory for the next message, unless one is being joined.
  void Lend(std::string buffer);
  /// Returns the complete message's payload and empties the joiner.
  std::string Take();
  /// True if memory ran out while joining: the message is complete, but its payload was dropped.
  bool out_of_memory() const { return out_of_memory_; }
  /// Returns the memory of an unfinished message.
  uint64_t buffered_bytes() const { return open_ ? payload_.capacity() : 0; }
  /// Drops an unfinished message.
  void Drop();

 private:
  bool Follows(const MessageHeader& header) const;
  void Append(const MessageHeader& header, Slice part);

  bool open_ = false;
  bool out_of_memory_ = false;
  MessageHeader first_;
  uint64_t received_ = 0;
  std::string payload_;
};

}  // namespace quire::comm
