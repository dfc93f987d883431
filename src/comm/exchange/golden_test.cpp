// The golden file of a frame with a part of a message (docs/format/frame.md, message.md).
#include <gtest/gtest.h>

#include <string>

#include "comm/transport/frame.h"
#include "comm/exchange/message.h"
#include "tests/support/golden.h"

namespace quire::comm::golden_test {
namespace {

constexpr FramePath kPath = {3, 4};

std::string Written() {
  const std::string part = "the second part";
  MessageHeader message;
  message.kind = MessageKind::kAnswer;
  message.code = Code::kNoSpace;
  message.channel = 0x11;
  message.call = 0x2122232425262728;
  message.total_size = 100;
  message.offset = 100 - part.size();
  std::string frame(kFrameHeaderBytes + kMessageHeaderBytes, '\0');
  EncodeMessageHeader(message, frame.data() + kFrameHeaderBytes);
  frame += part;
  FrameHeader header;
  header.size = static_cast<uint32_t>(frame.size() - kFrameHeaderBytes);
  header.session = 0x31323334;
  header.sequence = 0x4142434445464748;
  header.acknowledged = 0x5152535455565758;
  SealFrame(kPath, header, frame.data());
  return frame;
}

TEST(FrameGolden, IsWrittenAndReadAsEver) {
  const std::string bytes = test::Golden(QUIRE_GOLDEN "/v1_frame", Written());
  const Result<FrameHeader> header = DecodeFrameHeader(bytes);
  ASSERT_TRUE(header.ok()) << header.status().ToString();
  EXPECT_TRUE(VerifyFrame(kPath, *header, bytes).ok());
  EXPECT_EQ(header->session, 0x31323334u);
  EXPECT_EQ(header->sequence, 0x4142434445464748u);
  EXPECT_EQ(header->acknowledged, 0x5152535455565758u);
  Slice part;
  const auto message = DecodeMessageHeader(Slice(bytes).substr(kFrameHeaderBytes), 1000, &part);
  ASSERT_TRUE(message.ok()) << message.status().ToString();
  EXPECT_EQ(message->kind, MessageKind::kAnswer);
  EXPECT_EQ(message->code, Code::kNoSpace);
  EXPECT_EQ(message->call, 0x2122232425262728u);
  EXPECT_EQ(message->offset, 85u);
  EXPECT_EQ(part, "the second part");
}

}  // namespace
}  // namespace quire::comm::golden_test
