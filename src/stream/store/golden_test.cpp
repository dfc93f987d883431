// The golden file of a stream's log: its identity, its heads with a kept snapshot, commits of whole
// versions, deltas and packed deltas, and a relocation (docs/format/stream.md).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/text/coding.h"
#include "stream/log/delta.h"
#include "stream/log/log_heap.h"
#include "stream/store/stream_testing.h"
#include "tests/support/golden.h"
#include "tests/support/status_asserts.h"

namespace quire::stream::golden_test {
namespace {

constexpr uint64_t kCapacity = 16 << 10;
constexpr uint64_t kBytes = 1000;

// The second version differs from the first in its second block.
std::string Version(uint64_t number) {
  std::string bytes(kBytes, 'a');
  if (number == 2) bytes.replace(256, 256, std::string(256, 'b'));
  return bytes;
}

// The third version. Another version of LZ4 may pack it into other bytes, so they are fixed here:
// one 'a', 994 times the byte before, and five more.
std::string PackedVersion() {
  const std::string block(
      "\x1F"
      "a\x01\x00\xFF\xFF\xFF\xD2\x50"
      "aaaaa",
      14);
  std::string packed;
  base::PutFixed<uint64_t>(&packed, kBytes);
  base::PutFixed<uint32_t>(&packed, static_cast<uint32_t>(block.size()));
  return packed + block;
}

class StreamGolden : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(machine_.fs().MakeDirectory("/place"));
    ASSERT_OK(machine_.fs().MakeDirectory("/place/store"));
  }

  void Append(LogHeap& heap, RecordKind kind, const std::vector<Slice>& pieces,
              VersionEntry entry) {
    entry.bytes = kBytes;
    entry.snapshot = entry.version;
    entry.unix_time_ns = 1'700'000'000'000'000'000 + entry.version;
    ASSERT_OK(heap.Begin(4096));
    entry.data = heap.cursor();
    entry.checksum = DataSeed();
    for (const Slice piece : pieces) {
      entry.checksum = heap.Append(piece, entry.checksum);
      entry.stored += pieces.size() == 1 ? piece.size() : AlignUp(piece.size(), kRecordBytes);
    }
    heap.AppendEntry(entry);
    const bool commit = kind == RecordKind::kCommit;
    heap.Commit(kind, commit ? entry.snapshot : 0, entry.unix_time_ns);
  }

  void Write() {
    Head head;
    head.sequence = head.synced = 1;
    head.boot_id = 7;
    ASSERT_OK(LogHeap::Create(machine_.fs(), machine_.log_path(),
                              {0x1122334455667788, kCapacity, 0, "store"}, head));
    Result<std::unique_ptr<LogHeap>> heap =
        LogHeap::Open(machine_.fs(), machine_.log_path(), io::MapMode::kReadWrite);
    ASSERT_OK(heap.status());
    VersionEntry entry;
    entry.key = "key";
    entry.shape.element = ElementType::kUInt8;
    entry.shape.extents = {10, 100};
    entry.version = 1;
    const std::string first = Version(1);
    Append(**heap, RecordKind::kCommit, {first}, entry);
    const Position second = (*heap)->tail();
    entry.version = 2;
    entry.delta = true;
    entry.has_content_hash = true;
    entry.content_hash = DataHash(Version(2));
    const std::string changed = Version(2).substr(256, 256);
    Append(**heap, RecordKind::kCommit, {EncodeRuns({{1, 1}}), changed}, entry);
    entry.version = 3;
    entry.delta = entry.has_content_hash = false;
    entry.content_hash = 0;
    entry.packed = true;
    Append(**heap, RecordKind::kCommit, {PackedVersion()}, entry);
    entry.version = 1;
    entry.packed = false;
    Append(**heap, RecordKind::kRelocation, {first}, entry);
    ASSERT_OK((*heap)->Sync());
    head = (*heap)->head();
    head.head = second;
    head.kept = {1, 2};
    head.keep_versions = 3;
    head.keep_ms = 5000;
    head.finished = true;
    ASSERT_OK((*heap)->WriteHead(head));
  }

  void ExpectWhatWasWritten(std::string golden);

  StreamMachine machine_;
};

void StreamGolden::ExpectWhatWasWritten(std::string golden) {
  golden.resize(kLogHeaderBytes + kCapacity);
  ASSERT_OK(io::ReplaceFile(machine_.fs(), machine_.log_path(), golden));
  const Result<std::unique_ptr<StreamReader>> reader = machine_.Read();
  ASSERT_OK(reader.status());
  EXPECT_TRUE(*(*reader)->Finished());
  const Result<std::vector<StreamVersion>> versions = (*reader)->Versions("key");
  ASSERT_OK(versions.status());
  ASSERT_EQ(versions->size(), 3u);
  for (const StreamVersion& version : *versions) {
    std::string bytes;
    ASSERT_OK((*reader)->Get("key", version.version, &bytes));
    EXPECT_EQ(bytes == Version(version.version), true) << version.version;
    EXPECT_EQ(version.snapshot, version.version);
    EXPECT_EQ(version.unix_time_ns, 1'700'000'000'000'000'000 + version.version);
    EXPECT_EQ(version.shape.extents, (std::vector<uint64_t>{10, 100}));
    EXPECT_EQ(version.shape.element, ElementType::kUInt8);
  }
  const Result<std::unique_ptr<LogHeap>> heap =
      LogHeap::Open(machine_.fs(), machine_.log_path(), io::MapMode::kRead);
  ASSERT_OK(heap.status());
  EXPECT_EQ((*heap)->head().kept, (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ((*heap)->head().keep_versions, 3u);
  EXPECT_EQ((*heap)->head().keep_ms, 5000u);
}

TEST_F(StreamGolden, ALogIsWrittenAndReadAsEver) {
  ASSERT_NO_FATAL_FAILURE(Write());
  std::string today;
  ASSERT_OK(machine_.fs().Damage(machine_.log_path(), [&](std::string* bytes) { today = *bytes; }));
  today.resize(today.find_last_not_of('\0') / 64 * 64 + 64);
  ExpectWhatWasWritten(test::Golden(std::string(QUIRE_GOLDEN) + "/v1_directory_hash.log", today));
}

// The log of a program before 0.1.0.
TEST_F(StreamGolden, ALogOfRecordsWithoutTheHashOfTheirDirectoryIsRead) {
  ExpectWhatWasWritten(test::GoldenBytes(std::string(QUIRE_GOLDEN) + "/v1_stream.log"));
}

// Each of its deltas is packed into less than a 256th of its object. The program that wrote the log
// (82b9398) took that for damage, and opened it neither to read nor to write.
TEST_F(StreamGolden, ALogOfPackedDeltasThatItsOwnWriterRefusedIsOpened) {
  constexpr uint64_t kObjectBytes = 256 << 10;
  constexpr uint64_t kLogFileBytes = (1 << 20) + (16 << 10);
  // The golden file ends where the log's data ends.
  std::string golden = test::GoldenBytes(std::string(QUIRE_GOLDEN) + "/v1_packed_deltas.log");
  golden.resize(kLogFileBytes);
  ASSERT_OK(io::WriteFile(machine_.fs(), machine_.log_path(), golden));
  const Result<std::unique_ptr<StreamWriter>> writer = machine_.Write(SmallLog(1 << 20));
  ASSERT_OK(writer.status());
  const Result<std::unique_ptr<StreamReader>> reader = machine_.Read();
  ASSERT_OK(reader.status());
  std::string expected(kObjectBytes, 'a');
  for (uint64_t version = 1; version <= 4; ++version) {
    if (version > 1) expected.replace(version * 25600, 256, std::string(256, "abcde"[version]));
    std::string bytes;
    ASSERT_OK((*reader)->Get("zeta", version, &bytes));
    EXPECT_TRUE(bytes == expected) << version;
  }
}

}  // namespace
}  // namespace quire::stream::golden_test
