// Replays of bytes that look like records, in places in which no record was finished.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/core/random.h"
#include "base/text/coding.h"
#include "log/record.h"
#include "log/segment.h"
#include "log/segment_testing.h"

namespace quire::log::replay_test {
namespace {

// Headers that each claim most of the segment: taking every claim seriously would hash its square.
TEST(Replay, ACraftedSegmentTakesBoundedTime) {
  SegmentHeader header = HeaderFor(42);
  header.capacity = 1 << 20;
  std::vector<uint64_t> words(header.capacity / 8);
  char* const data = reinterpret_cast<char*>(words.data());
  EncodeSegmentHeader(header, data);
  for (uint64_t at = kSegmentHeaderBytes; at + 24 <= header.capacity / 2; at += 24) {
    EncodeHeader(data + at, RecordType::kPut, 1, header.capacity / 2 - 100, 0);
  }
  const auto report = Replay({data}, header, 42, kPath,
                             [](uint64_t, const char*) { return Status(); });
  EXPECT_EQ(report.status().code(), Code::kCorruption);
}

// A value of integers that each look like sizes and the number of a batch, whose writer was killed.
TEST(Replay, StepsOverAnUnfinishedValueOfIntegersInBoundedTime) {
  SegmentHeader header = HeaderFor(42);
  header.capacity = 4 << 20;
  std::vector<uint64_t> words(header.capacity / 8);
  char* const data = reinterpret_cast<char*>(words.data());
  EncodeSegmentHeader(header, data);
  const uint64_t begin = Put(data, kGeneration, kSegmentHeaderBytes, "a", "1");
  base::Random random(1);
  std::string value;
  while (value.size() < 3 << 20) {
    base::PutFixed(&value, static_cast<uint32_t>(65536 + random.Below(65536)));
  }
  // The key has four bytes, so that the integers lie as the fields of a header do.
  EncodeRecord(data + begin, RecordType::kPut, "bbbb", value, 0);
  Put(data, kGeneration, begin + RecordSize(4, value.size()), "c", "3");
  std::string keys;
  const auto report = Replay({data}, header, 42, kPath, [&](uint64_t, const char* record) {
    keys += KeyOf(record);
    return Status();
  });
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_EQ(keys, "ac");
  EXPECT_EQ(report->holes, 1u);
}

// At each word of this kind a header could lie that claims 65,568 bytes.
constexpr uint64_t kLikeAHeader = 0x0001000100000000;

TEST(Replay, StepsOverWhatADeadWriterHadBegunAsAWhole) {
  SegmentHeader header = HeaderFor(42);
  header.capacity = 4 << 20;
  const std::string value(3 << 20, 'v');
  const uint64_t size = RecordSize(1, value.size());
  std::vector<uint64_t> words(header.capacity / 8);
  char* const data = reinterpret_cast<char*>(words.data());
  EncodeSegmentHeader(header, data);
  const uint64_t begin = Put(data, kGeneration, kSegmentHeaderBytes, "a", "1");
  Put(data, kGeneration, begin + size, "c", "3");
  const auto replay = [&](uint64_t boot, std::string* keys) {
    return Replay({data}, header, boot, kPath, [keys](uint64_t, const char* record) {
      *keys += KeyOf(record);
      return Status();
    });
  };
  const auto fill = [&] {
    for (uint64_t at = begin + sizeof(RecordHeader); at < begin + size; at += 8) {
      std::memcpy(data + at, &kLikeAHeader, sizeof kLikeAHeader);
    }
  };
  for (const bool of_many : {false, true}) {
    const uint64_t seal = BegunSeal(size, kGeneration, begin);
    if (of_many) {
      EncodeBegun(data + begin, size, seal);
    } else {
      EncodeRecord(data + begin, RecordType::kPut, "b", value, 0, seal);
    }
    fill();
    for (const uint64_t boot : {42, 43}) {
      std::string keys;
      const auto report = replay(boot, &keys);
      ASSERT_TRUE(report.ok()) << report.status().ToString();
      EXPECT_EQ(keys, "ac");
      EXPECT_EQ(report->holes, 1u);
      EXPECT_EQ(report->hole_bytes, size);
    }
  }
  // A mark of an earlier use of the segment says nothing.
  EncodeBegun(data + begin, size, BegunSeal(size, kGeneration + 1, begin));
  std::string keys;
  EXPECT_EQ(replay(42, &keys).status().code(), Code::kCorruption);
}

// The header of such a piece is missing. Replay finds the records that other writers stored behind
// it as well as possible, and counts what may be lost. In the same boot, only a repair replays such
// a log.
TEST(Replay, SmallRecordsBehindAnUnclearPlaceAreFound) {
  SegmentHeader header = HeaderFor(42);
  header.capacity = 4 << 20;
  std::vector<uint64_t> words(header.capacity / 8, kLikeAHeader);
  char* const data = reinterpret_cast<char*>(words.data());
  std::memset(data, 0, kSegmentHeaderBytes);
  EncodeSegmentHeader(header, data);
  const uint64_t unclear = Put(data, kGeneration, kSegmentHeaderBytes, "a", "1");
  const uint64_t small = 3 << 20;
  const uint64_t large = Put(data, kGeneration, small, "b", std::string(1000, '2'));
  const uint64_t end = Put(data, kGeneration, large, "c", std::string(100'000, '3'));
  std::string keys;
  const auto take = [&keys](uint64_t, const char* record) {
    keys += KeyOf(record);
    return Status();
  };
  EXPECT_EQ(Replay({data}, header, 42, kPath, take).status().code(), Code::kCorruption);
  for (const bool repair : {false, true}) {
    keys.clear();
    const auto report = repair ? ReplayForRepair({data}, header, kPath, take)
                               : Replay({data}, header, 43, kPath, take);
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    EXPECT_EQ(keys, "abc");
    EXPECT_EQ(report->end, end);
    EXPECT_GE(report->holes, 1u);
    EXPECT_GE(report->hole_bytes, small - unclear);
  }
  // Nothing is found behind: that something may have been there is counted.
  std::memset(data + small, 0, sizeof(RecordHeader));
  std::memset(data + large, 0, sizeof(RecordHeader));
  for (const bool repair : {false, true}) {
    keys.clear();
    const auto report = repair ? ReplayForRepair({data}, header, kPath, take)
                               : Replay({data}, header, 43, kPath, take);
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    EXPECT_EQ(keys, "a");
    EXPECT_EQ(report->end, unclear);
    EXPECT_EQ(report->holes, 1u);
    EXPECT_GT(report->torn_bytes, 0u);
  }
  // Records that were not synced may be lost, even if they were finished.
  MarkComplete(data, kGeneration, header.capacity);
  keys.clear();
  const auto report = Replay({data}, header, 43, kPath, take);
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_EQ(keys, "a");
  EXPECT_EQ(report->torn_bytes, header.capacity - unclear);
}

TEST(Replay, IsNotStoppedByWhatAnEarlierUseLeftBehindTheReservationMark) {
  SegmentHeader header = HeaderFor(42);
  header.capacity = 4 << 20;
  for (const bool marked : {false, true}) {
    std::vector<uint64_t> words(header.capacity / 8, kLikeAHeader);
    char* const data = reinterpret_cast<char*>(words.data());
    EncodeSegmentHeader(header, data);
    if (marked) MarkReserved(data, kGeneration, kSegmentHeaderBytes + (128 << 10));
    const uint64_t second = Put(data, kGeneration, kSegmentHeaderBytes, "a", "1");
    Put(data, kGeneration, second, "b", "2");
    for (const uint64_t boot : {42, 43}) {
      std::string keys;
      const auto report = Replay({data}, header, boot, kPath, [&](uint64_t, const char* record) {
        keys += KeyOf(record);
        return Status();
      });
      if (!marked && boot == 42) {
        EXPECT_EQ(report.status().code(), Code::kCorruption);
        continue;
      }
      ASSERT_TRUE(report.ok()) << report.status().ToString();
      EXPECT_EQ(keys, "ab");
      // Without the mark something may have been there.
      EXPECT_EQ(report->torn_bytes > 0, !marked);
    }
  }
}

}  // namespace
}  // namespace quire::log::replay_test
