#include "comm/exchange/message.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/core/random.h"
#include "comm/mpi/transport_factory.h"
#include "comm/transport/adaptive_spin.h"
#include "comm/transport/backoff.h"
#include "comm/transport/core_set.h"
#include "comm/transport/frame.h"

namespace quire::comm::message_test {
namespace {

std::string Frame(const FramePath& path, FrameHeader header, Slice body) {
  std::string frame(kFrameHeaderBytes + body.size(), '\0');
  header.size = static_cast<uint32_t>(body.size());
  JoinParts({body.substr(0, body.size() / 3), body.substr(body.size() / 3), {}},
            frame.data() + kFrameHeaderBytes);
  SealFrame(path, header, frame.data());
  return frame;
}

TEST(Frame, ComesBackAsItWasSent) {
  for (size_t size : {0, 1, 1000, 65536}) {
    FrameHeader header;
    header.session = 77;
    header.sequence = 1ull << 40;
    header.acknowledged = 12;
    const std::string body(size, 'b');
    const std::string frame = Frame({3, 4}, header, body);
    const auto read = DecodeFrameHeader(frame);
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    EXPECT_EQ(read->size, size);
    EXPECT_EQ(read->session, 77u);
    EXPECT_EQ(read->kind, FrameKind::kData);
    EXPECT_EQ(read->sequence, 1ull << 40);
    EXPECT_EQ(read->acknowledged, 12u);
    EXPECT_TRUE(VerifyFrame({3, 4}, *read, frame).ok());
    EXPECT_EQ(frame.substr(kFrameHeaderBytes), body);
  }
}

TEST(Frame, HasTheBytesOfItsDocument) {
  FrameHeader header;
  header.session = 7;
  header.sequence = 2;
  const std::string frame = Frame({0, 1}, header, "abc");
  EXPECT_EQ(frame.substr(8), std::string("QUF1\3\0\0\0\7\0\0\0\1\0\0\0\2\0\0\0\0\0\0\0"
                                         "\0\0\0\0\0\0\0\0abc",
                                         35));
  EXPECT_EQ(*reinterpret_cast<const uint64_t*>(frame.data()), 4927073780066831384u);
}

TEST(Frame, IsRefusedWithAnyBitFlippedAtAnyOtherSizeAndOnAnyOtherPath) {
  const std::string good = Frame({3, 4}, FrameHeader(), "some bytes that matter");
  auto fails = [](const FramePath& path, const std::string& frame) {
    const auto header = DecodeFrameHeader(frame);
    const Status status = header.ok() ? VerifyFrame(path, *header, frame) : header.status();
    return status.code() == Code::kCorruption;
  };
  EXPECT_FALSE(fails({3, 4}, good));
  EXPECT_TRUE(fails({4, 3}, good));
  EXPECT_TRUE(fails({3, 5}, good));
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] ^= static_cast<char>(1 << bit % 8);
    EXPECT_TRUE(fails({3, 4}, bad)) << bit;
  }
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_TRUE(fails({3, 4}, good.substr(0, size))) << size;
  }
  EXPECT_TRUE(fails({3, 4}, good + "x"));
}

MessageHeader Header(uint64_t total, uint64_t offset) {
  MessageHeader header;
  header.kind = MessageKind::kRequest;
  header.channel = 5;
  header.call = 9;
  header.total_size = total;
  header.offset = offset;
  return header;
}

std::string Encoded(const MessageHeader& header, Slice part) {
  std::string frame(kMessageHeaderBytes, '\0');
  EncodeMessageHeader(header, frame.data());
  return frame.append(part);
}

TEST(MessageHeader, ComesBackAsItWasSent) {
  MessageHeader header = Header(1ull << 33, 1ull << 32);
  header.kind = MessageKind::kAnswer;
  header.code = Code::kNoSpace;
  header.channel = 0xFFFFFFFF;
  header.call = 0xFEDCBA9876543210;
  Slice part;
  const auto read = DecodeMessageHeader(Encoded(header, "part"), 1ull << 34, &part);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->kind, MessageKind::kAnswer);
  EXPECT_EQ(read->code, Code::kNoSpace);
  EXPECT_EQ(read->channel, 0xFFFFFFFFu);
  EXPECT_EQ(read->call, 0xFEDCBA9876543210u);
  EXPECT_EQ(read->total_size, 1ull << 33);
  EXPECT_EQ(read->offset, 1ull << 32);
}

TEST(MessageHeader, IsRefusedWhereAFieldIsOutOfItsRange) {
  auto refused = [](const std::string& frame) {
    Slice part;
    return DecodeMessageHeader(frame, 1000, &part).status().code() == Code::kCorruption;
  };
  EXPECT_FALSE(refused(Encoded(Header(1000, 990), "0123456789")));
  EXPECT_TRUE(refused(Encoded(Header(1000, 991), "0123456789")));
  EXPECT_TRUE(refused(Encoded(Header(1001, 0), "0123456789")));
  EXPECT_TRUE(refused(Encoded(Header(UINT64_MAX, UINT64_MAX - 3), "0123456789")));
  EXPECT_TRUE(refused(Encoded(Header(10, 1000), "")));
  EXPECT_TRUE(refused(Encoded(Header(10, 0), "")));
  EXPECT_FALSE(refused(Encoded(Header(0, 0), "")));
  for (size_t size = 0; size < kMessageHeaderBytes; ++size) {
    EXPECT_TRUE(refused(Encoded(Header(0, 0), "").substr(0, size)));
  }
  for (const auto& [place, value] : {std::pair<size_t, char>{0, 0}, {0, 5}, {1, 12}, {2, 1}}) {
    std::string frame = Encoded(Header(0, 0), "");
    frame[place] = value;
    EXPECT_TRUE(refused(frame)) << place;
  }
  MessageHeader answer = Header(10, 0);
  answer.kind = MessageKind::kAnswer;
  answer.channel = 11;
  EXPECT_TRUE(refused(Encoded(answer, "0123456789")));
}

TEST(MessageJoiner, JoinsWhatFollowsAndRefusesWhatDoesNot) {
  MessageJoiner joiner;
  EXPECT_FALSE(*joiner.Add(Header(10, 0), "0123"));
  EXPECT_FALSE(*joiner.Add(Header(10, 4), "456"));
  EXPECT_EQ(joiner.Add(Header(10, 4), "456").status().code(), Code::kCorruption);
  EXPECT_EQ(joiner.Add(Header(11, 7), "789").status().code(), Code::kCorruption);
  MessageHeader other = Header(10, 7);
  other.call = 10;
  EXPECT_EQ(joiner.Add(other, "789").status().code(), Code::kCorruption);
  EXPECT_TRUE(*joiner.Add(Header(10, 7), "789"));
  EXPECT_EQ(joiner.Take(), "0123456789");
  EXPECT_EQ(joiner.buffered_bytes(), 0u);
  EXPECT_EQ(joiner.Add(Header(10, 7), "789").status().code(), Code::kCorruption);
}

TEST(MessageJoiner, ForgetsAMessageThatItsSenderGaveUp) {
  MessageJoiner joiner;
  EXPECT_FALSE(*joiner.Add(Header(10, 0), "0123"));
  EXPECT_FALSE(*joiner.Add(Header(5, 0), "ab"));
  EXPECT_TRUE(*joiner.Add(Header(5, 2), "cde"));
  EXPECT_EQ(joiner.Take(), "abcde");
}

TEST(MessageJoiner, TakesMemoryForWhatCameNotForWhatWasAnnounced) {
  MessageJoiner joiner;
  const std::string part(60'000, 'x');
  EXPECT_FALSE(*joiner.Add(Header(4ull << 30, 0), part));
  EXPECT_LE(joiner.buffered_bytes(), 2u << 20);
  for (uint64_t offset = part.size(); offset < 12'000'000; offset += part.size()) {
    EXPECT_FALSE(*joiner.Add(Header(4ull << 30, offset), part));
    EXPECT_LE(joiner.buffered_bytes(), std::max<uint64_t>(2u << 20, 4 * offset));
  }
  joiner.Drop();
  EXPECT_EQ(joiner.buffered_bytes(), 0u);
}

TEST(CoreSet, ReadsTheListsThatLinuxWrites) {
  EXPECT_EQ(ParseCoreList("\t0-3,8\n").count(), 5u);
  EXPECT_TRUE(ParseCoreList("0-3,8").test(8));
  EXPECT_EQ(ParseCoreList("7").count(), 1u);
  EXPECT_EQ(ParseCoreList("").count(), 0u);
  EXPECT_EQ(ParseCoreList("x-3").count(), 0u);
  EXPECT_EQ(ParseCoreList("1020-4000000000").count(), 4u);
  EXPECT_GE(OwnCores().count(), 1u);
}

TEST(CoreSet, RoundsTheQuotaOfAControlGroupUp) {
  EXPECT_EQ(ParseCoreQuota("max 100000\n"), kCoresMax);
  EXPECT_EQ(ParseCoreQuota("200000 100000\n"), 2);
  EXPECT_EQ(ParseCoreQuota("150000 100000\n"), 2);
  EXPECT_EQ(ParseCoreQuota("10000 100000\n"), 1);
  EXPECT_EQ(ParseCoreQuota(""), kCoresMax);
  EXPECT_EQ(ParseCoreQuota("5"), kCoresMax);
}

TEST(Backoff, NapsLongerTheLongerNothingHappened) {
  Backoff naps;
  uint64_t last_ns = naps.SleepNs(1'000'000'000, false);
  EXPECT_LE(last_ns, 50'000u);
  for (uint64_t now_ns = 1'000'000'000; now_ns < 3'000'000'000; now_ns += 10'000'000) {
    const uint64_t nap_ns = naps.SleepNs(now_ns, false);
    EXPECT_GE(nap_ns, last_ns);
    EXPECT_LE(nap_ns, naps.SleepNs(now_ns, true));
    last_ns = nap_ns;
  }
  EXPECT_GE(last_ns, 1'000'000u);
  naps.Activity();
  EXPECT_LE(naps.SleepNs(3'000'000'000, false), 50'000u);
}

TEST(AdaptiveSpin, StopsSpinningWhereItIsInVainAndTriesAgain) {
  AdaptiveSpin gauge(1000);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(gauge.BudgetNs(), 1000u);
    gauge.Succeeded();
  }
  int spins = 0;
  for (int i = 0; i < 1000; ++i) {
    if (gauge.BudgetNs() == 0) continue;
    ++spins;
    gauge.Failed();
  }
  EXPECT_GT(spins, 10);
  EXPECT_LT(spins, 100);
  while (gauge.BudgetNs() == 0) {
  }
  gauge.Succeeded();
  EXPECT_EQ(gauge.BudgetNs(), 1000u);
  AdaptiveSpin never(0);
  EXPECT_EQ(never.BudgetNs(), 0u);
}

TEST(MpiTransport, SaysThatMpiIsNotInitialized) {
  EXPECT_FALSE(MpiIsRunning());
  const auto transport = NewTransport(0, TransportOptions());
  EXPECT_NE(transport.status().code(), Code::kOk);
  EXPECT_NE(transport.status().message(), "");
}

}  // namespace
}  // namespace quire::comm::message_test
