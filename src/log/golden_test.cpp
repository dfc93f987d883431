// The golden file of a log segment: its header page, and a record of each type
// (docs/format/segment.md, record.md).
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "base/text/coding.h"
#include "io/sim/sim_file_system.h"
#include "log/record.h"
#include "log/segment.h"
#include "log/segment_testing.h"
#include "tests/support/golden.h"

namespace quire::log::golden_test {
namespace {

constexpr uint64_t kGeneration = 0x1122334455667788;
constexpr uint64_t kCapacity = 16 * 1024;
constexpr uint64_t kBootId = 0x2122232425262728;
constexpr char kPath[] = "/log-3.seg";

// Appends records as writers do, with the marks of a segment that was synced half way.
class SegmentWriter {
 public:
  explicit SegmentWriter(Segment& segment) : data_(segment.data()) {}

  void Add(RecordType type, Slice key, Slice value, uint64_t batch_begin = 0) {
    const uint64_t batch = batch_begin == 0 ? 0 : (end_ - batch_begin) / 8;
    EncodeRecord(data_ + end_, type, key, value, static_cast<uint32_t>(batch));
    if (batch == 0 && last_ != 0) {
      SetPredecessor(data_ + end_, static_cast<uint32_t>((end_ - last_) / 8));
    }
    if (batch == 0) last_ = end_;
    HeaderAt(data_ + end_)->checksum = RecordChecksum(data_ + end_, kGeneration, end_);
    end_ += RecordSize(key.size(), value.size());
  }
  uint64_t end() const { return end_; }

 private:
  char* const data_;
  uint64_t end_ = kSegmentHeaderBytes;
  uint64_t last_ = 0;
};

std::string EncodedRef() {
  const ValueRef ref = {7, kSegmentHeaderBytes, ValueChecksum("large", 7, kSegmentHeaderBytes), 5,
                        4};
  std::string bytes;
  base::PutFixed(&bytes, ref);
  return bytes;
}

void WriteRecords(Segment& segment) {
  SegmentWriter writer(segment);
  writer.Add(RecordType::kPut, "key", "value");
  writer.Add(RecordType::kDelete, std::string("k\0y", 3), "");
  writer.Add(RecordType::kRangeDelete, "a", "b");
  ASSERT_TRUE(segment.Sync(writer.end()).ok());
  writer.Add(RecordType::kValueRef, "long", EncodedRef());
  const uint64_t begin = writer.end();
  std::string extent;
  base::PutFixed(&extent, uint32_t{2});
  base::PutFixed(&extent, static_cast<uint32_t>(RecordSize(2, 1) + RecordSize(2, 0)));
  writer.Add(RecordType::kBatchBegin, Slice("\0", 1), extent);
  writer.Add(RecordType::kPut, "b1", "1", begin);
  writer.Add(RecordType::kDelete, "b2", "", begin);
  MarkComplete(segment.data(), kGeneration, writer.end());
}

void ExpectToBeRead(std::string bytes) {
  const auto fs = io::NewSimFileSystem();
  bytes.resize(kCapacity);
  ASSERT_TRUE((*fs->Open("/old.seg", io::FileOpenMode::kCreate))->WriteAt(0, bytes).ok());
  const auto read = ReadSegmentHeader(*fs, "/old.seg");
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->generation, kGeneration);
  EXPECT_EQ(read->id, 3u);
  EXPECT_EQ(read->base_lsn, 1'000'000u);
  EXPECT_EQ(read->previous_end_lsn, 999'000u);
  for (const uint64_t boot_id : {kBootId, kBootId + 1}) {
    std::string seen;
    const auto take = [&](uint64_t, const char* at) {
      seen += std::to_string(static_cast<int>(HeaderAt(at)->type)) + std::string(KeyOf(at)) + " ";
      return Status();
    };
    const auto report = Replay({bytes.data()}, *read, boot_id, kPath, take);
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    EXPECT_EQ(report->records, 6u);
    EXPECT_EQ(seen, std::string("1key 2k\0y 3a 4long 5\0 1b1 2b2 ", 30));
  }
}

TEST(LogGolden, ASegmentOfVersion1IsReadAsEver) {
  std::ifstream file(QUIRE_GOLDEN "/v1_log.seg", std::ios::binary);
  ASSERT_TRUE(file.good());
  ExpectToBeRead(std::string((std::istreambuf_iterator<char>(file)), {}));
}

TEST(LogGolden, ASegmentIsWrittenAndReadAsEver) {
  SegmentHeader header = HeaderFor(kBootId, kGeneration);
  header.capacity = kCapacity;
  const auto fs = io::NewSimFileSystem();
  const auto written = Segment::Create(*fs, kPath, header, Segment::Origin::kNew);
  ASSERT_TRUE(written.ok()) << written.status().ToString();
  ASSERT_NO_FATAL_FAILURE(WriteRecords(**written));
  std::string today((*written)->data(), kCapacity);
  today.resize(today.find_last_not_of('\0') / 8 * 8 + 8);
  ExpectToBeRead(test::Golden(QUIRE_GOLDEN "/v2_log.seg", today));
}

}  // namespace
}  // namespace quire::log::golden_test
