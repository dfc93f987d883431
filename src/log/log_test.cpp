// Records, segments and replay.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/core/random.h"
#include "base/text/coding.h"
#include "io/sim/sim_file_system.h"
#include "log/record.h"
#include "log/segment.h"
#include "log/segment_testing.h"
#include "tests/support/one_page_memory.h"

namespace quire::log::log_test {
namespace {

std::string Hex(Slice bytes) {
  std::string text;
  for (const char byte : bytes) {
    char digits[4];
    std::snprintf(digits, sizeof digits, "%02X", static_cast<unsigned char>(byte));
    text += (text.empty() ? "" : " ") + std::string(digits);
  }
  return text;
}

// A batch of puts of `keys`, each its own value; the offset after it.
uint64_t WriteBatch(char* data, uint64_t generation, uint64_t offset,
                    const std::vector<std::string>& keys) {
  uint64_t at = offset + RecordSize(1, sizeof(BatchExtent));
  const uint64_t first = at;
  for (const std::string& key : keys) {
    at = Write(data, generation, at,
               {RecordType::kPut, key, key, static_cast<uint32_t>((at - offset) / 8)});
  }
  char extent[8];
  base::StoreLe(extent, static_cast<uint32_t>(keys.size()));
  base::StoreLe(extent + 4, static_cast<uint32_t>(at - first));
  Write(data, generation, offset,
        {RecordType::kBatchBegin, Slice("\0", 1), Slice(extent, sizeof extent)});
  return at;
}

TEST(Record, HasTheDocumentedBytes) {
  alignas(8) char record[40];
  EncodeRecord(record, RecordType::kPut, "key", "value", 0);
  HeaderAt(record)->checksum = RecordChecksum(record, 1, 4096);
  EXPECT_EQ(RecordSize(3, 5), 32u);
  // docs/format/record.md
  EXPECT_EQ(Hex(Slice(record, 32)),
            "D0 B8 FF 6E 56 2A AA 39 00 00 00 00 05 00 00 00 "
            "00 00 00 00 02 00 01 00 6B 65 79 76 61 6C 75 65");
}

TEST(Record, GivesBackWhatItWasMadeFrom) {
  alignas(8) char record[64];
  std::memset(record, 0xFF, sizeof record);
  EncodeRecord(record, RecordType::kRangeDelete, Slice("a\0b", 3), "cde", 12);
  EXPECT_EQ(KeyOf(record), Slice("a\0b", 3));
  EXPECT_EQ(ValueOf(record), "cde");
  EXPECT_EQ(SizeOf(record), 32u);
  EXPECT_EQ(HeaderAt(record)->type, RecordType::kRangeDelete);
  EXPECT_EQ(HeaderAt(record)->batch, 12u);
  EXPECT_EQ(HeaderAt(record)->prev.load(), 0u);
  EXPECT_EQ(Slice(record + 30, 2), Slice("\0\0", 2));  // padding
  EXPECT_EQ(record[32], static_cast<char>(0xFF));      // nothing beyond
}

TEST(Record, IsWrittenByStoresThatEachLieInOnePage) {
  test::OnePageMemory memory(4);
  const std::string bytes(2 * test::OnePageMemory::kPageBytes, 'b');
  for (const size_t key_size : {1u, 20u, 300u}) {
    for (const size_t value_size : {0u, 1u, 40u, 64u, 200u, 1000u, 5000u}) {
      const Slice key = Slice(bytes).substr(0, key_size);
      const Slice value = Slice(bytes).substr(0, value_size);
      const uint64_t size = RecordSize(key_size, value_size);
      std::vector<char> expected(size);
      EncodeRecord(expected.data(), RecordType::kPut, key, value, 7);
      const size_t first = test::OnePageMemory::kPageBytes;
      for (size_t before = 8; before <= std::min<size_t>(size, 400); before += 8) {
        char* const to = memory.data() + first - before;
        EncodeRecord(to, RecordType::kPut, key, value, 7);
        ASSERT_EQ(memory.endless(), 0) << key_size << ", " << value_size << ", " << before;
        ASSERT_EQ(Slice(to, size), Slice(expected.data(), size));
      }
    }
  }
}

// A batch that is not atomic may be larger than any record.
TEST(Record, OnlyWhatAHeaderCanClaimIsSealed) {
  EXPECT_EQ(BegunSeal(kSealedBytesMin - 8, kGeneration, 4096), 0u);
  EXPECT_EQ(BegunSeal(kSealedBytesMax + 8, kGeneration, 4096), 0u);
  for (const uint64_t size : {kSealedBytesMin, kSealedBytesMax}) {
    const uint64_t seal = BegunSeal(size, kGeneration, 4096);
    EXPECT_NE(seal, 0u);
    alignas(8) char header[sizeof(RecordHeader)];
    EncodeBegun(header, size, seal);
    EXPECT_EQ(SizeOf(header), size);
    EXPECT_EQ(HeaderAt(header)->checksum, seal);
  }
}

TEST(Record, IsValidOnlyInItsGenerationAndAtItsOffset) {
  alignas(8) static char bytes[256];
  const uint64_t end = Put(bytes, kGeneration, 64, "key", "value");
  uint64_t size = 0;
  EXPECT_TRUE(ValidRecord(bytes, 64, end, kGeneration, &size));
  EXPECT_EQ(size, end - 64);
  EXPECT_FALSE(ValidRecord(bytes, 64, end, kGeneration + 1, &size));
  EXPECT_FALSE(ValidRecord(bytes, 64, end - 8, kGeneration, &size)) << "cut off";
  std::memmove(bytes + 72, bytes + 64, end - 64);
  EXPECT_FALSE(ValidRecord(bytes, 72, end + 8, kGeneration, &size));
}

TEST(Record, EveryFlippedBitButThoseOfPrevAndPaddingIsNoticed) {
  alignas(8) static char bytes[256];
  const uint64_t end = Put(bytes, kGeneration, 64, "key", "value");
  for (uint64_t bit = 64 * 8; bit < (64 + 24 + 8) * 8; ++bit) {
    if (bit / 8 >= 72 && bit / 8 < 76) continue;  // prev
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    uint64_t size = 0;
    EXPECT_FALSE(ValidRecord(bytes, 64, sizeof bytes, kGeneration, &size)) << "bit " << bit;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
  }
  uint64_t size = 0;
  EXPECT_TRUE(ValidRecord(bytes, 64, end, kGeneration, &size));
}

TEST(Record, ARecordOfAValueSegmentIsBoundToItsValuesChecksum) {
  alignas(8) char record[64];
  EncodeRecord(record, RecordType::kPut, "key", "value", 0);
  const uint64_t value_checksum = ValueChecksum("value", 9, 4096);
  const uint64_t checksum = ValueRecordChecksum(record, value_checksum, 1, 4096);
  EXPECT_NE(checksum, ValueRecordChecksum(record, value_checksum + 1, 1, 4096));
  EXPECT_NE(checksum, ValueRecordChecksum(record, value_checksum, 1, 4104));
  EXPECT_NE(value_checksum, ValueChecksum("value", 9, 4104));
  EXPECT_NE(value_checksum, ValueChecksum("value", 10, 4096));
  EXPECT_NE(value_checksum, ValueChecksum("valuf", 9, 4096));
}

TEST(SegmentTail, ReservationsOfManyThreadsNeverOverlapAndFillTheSegment) {
  SegmentTail tail;
  constexpr int kThreads = 4;
  std::vector<std::vector<std::pair<uint64_t, uint64_t>>> got(kThreads);
  std::vector<std::jthread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      base::Random random(t);
      while (true) {
        const uint64_t size = 8 * (1 + random.Below(8));
        const uint64_t offset = Reserve(tail, kCapacity, size);
        if (offset == kNoRoom) return;
        got[t].push_back({offset, size});
        Complete(tail, size);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  std::map<uint64_t, uint64_t> all;
  for (const auto& list : got) all.insert(list.begin(), list.end());
  uint64_t expected = kSegmentHeaderBytes;
  for (const auto& [offset, size] : all) {
    EXPECT_EQ(offset, expected);
    expected = offset + size;
  }
  EXPECT_LE(expected, kCapacity);
  EXPECT_GT(expected, kCapacity - 64);
  EXPECT_EQ(CloseAndDrain(tail), expected);
}

// Reserves pieces until the segment is closed; those of kSealedBytesMin or more in a pause.
std::map<uint64_t, uint64_t> ReservePieces(SegmentTail& tail, char* data, uint64_t seed) {
  std::map<uint64_t, uint64_t> pieces;
  base::Random random(seed);
  while (true) {
    const uint64_t size = 8 * (1 + random.Below(2 * kSealedBytesMin / 8));
    const bool sealed = size >= kSealedBytesMin;
    const uint64_t offset = sealed ? ReservePaused(tail, kCapacity, size, kCapacity)
                                   : Reserve(tail, kCapacity, size, kCapacity);
    if (offset == kNoRoom || offset == kMoreRoom) return pieces;
    if (sealed) {
      EncodeBegun(data + offset, size, BegunSeal(size, kGeneration, offset));
      EXPECT_EQ(tail.tail.load() & SegmentTail::kOffset, offset) << "it went on in a pause";
      EndPause(tail, size);
    }
    pieces[offset] = size;
    Complete(tail, size);
  }
}

TEST(SegmentTail, AReservationWithAPauseIsOneStepForAllOthers) {
  for (uint64_t round = 0; round < 100; ++round) {
    SegmentTail tail;
    std::vector<uint64_t> words(kCapacity / 8);
    char* const data = reinterpret_cast<char*>(words.data());
    std::array<std::map<uint64_t, uint64_t>, 3> pieces;
    std::vector<std::jthread> threads;
    for (size_t t = 0; t < pieces.size(); ++t) {
      threads.emplace_back([&, t] { pieces[t] = ReservePieces(tail, data, 3 * round + t); });
    }
    uint64_t quiesced = kSegmentHeaderBytes;
    while (quiesced < kSegmentHeaderBytes + round * 300 && quiesced < kCapacity / 2) {
      quiesced = Quiesce(tail);
    }
    const uint64_t end = CloseAndDrain(tail);
    threads.clear();
    std::map<uint64_t, uint64_t> all;
    for (const auto& mine : pieces) all.insert(mine.begin(), mine.end());
    uint64_t expected = kSegmentHeaderBytes;
    bool split = false;  // where the segment was quiescent, a piece ends
    for (const auto& [offset, size] : all) {
      ASSERT_EQ(offset, expected);
      split = split || offset == quiesced;
      expected = offset + size;
    }
    ASSERT_EQ(end, expected);
    ASSERT_TRUE(split || quiesced == end || quiesced == kSegmentHeaderBytes);
  }
}

TEST(SegmentTail, IsClosedForAllWritersOnceAReservationDidNotFit) {
  SegmentTail tail;
  EXPECT_EQ(Reserve(tail, kCapacity, 64), kSegmentHeaderBytes);
  EXPECT_EQ(Reserve(tail, kCapacity, kCapacity), kNoRoom);
  EXPECT_EQ(Reserve(tail, kCapacity, 8), kNoRoom);
  Complete(tail, 64);
  EXPECT_EQ(CloseAndDrain(tail), kSegmentHeaderBytes + 64);
}

TEST(SegmentTail, ReportsAnEndOnlyOnceEveryRecordIsComplete) {
  SegmentTail tail;
  Reserve(tail, kCapacity, 64);
  Reserve(tail, kCapacity, 32);
  EXPECT_EQ(EndIfComplete(tail), 0u);
  Complete(tail, 32);
  EXPECT_EQ(EndIfComplete(tail), 0u);
  std::thread([&tail] { Complete(tail, 64); }).join();
  EXPECT_EQ(EndIfComplete(tail), kSegmentHeaderBytes + 96);
}

// Writers count the bytes of what they reserved before they complete it; whenever the tail is
// quiescent, everything before its offset must have been counted.
TEST(SegmentTail, QuiescenceSplitsFinishedFromNotBegun) {
  SegmentTail tail;
  constexpr int kThreads = 3;
  constexpr uint64_t kBig = uint64_t{1} << 40;
  std::atomic<bool> stop{false};
  std::vector<std::jthread> threads;
  std::atomic<uint64_t> sum{kSegmentHeaderBytes};
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      while (!stop.load(std::memory_order_relaxed)) {
        if (Reserve(tail, kBig, 8) == kNoRoom) return;
        sum.fetch_add(8, std::memory_order_relaxed);  // the work, done before Complete
        Complete(tail, 8);
      }
    });
  }
  uint64_t last = 0;
  while (last < (8 << 20)) {
    const uint64_t end = Quiesce(tail);
    EXPECT_GE(sum.load(std::memory_order_relaxed), end);
    EXPECT_GE(end, last);
    last = end;
  }
  stop = true;
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(Quiesce(tail), sum.load());
}

class SegmentTest : public ::testing::Test {
 protected:
  std::unique_ptr<Segment> Create(const SegmentHeader& header, bool named = false) {
    auto segment = Segment::Create(*fs_, kPath, header, Segment::Origin::kFound, named);
    EXPECT_TRUE(segment.ok()) << segment.status().ToString();
    return std::move(segment).value();
  }
  // Returns the keys that replay takes, by offset.
  std::map<uint64_t, std::string> Replayed(uint64_t boot_id) {
    std::map<uint64_t, std::string> taken;
    auto header = ReadSegmentHeader(*fs_, kPath);
    EXPECT_TRUE(header.ok()) << header.status().ToString();
    auto map = fs_->Map(kPath, header->capacity, io::MapMode::kRead);
    EXPECT_TRUE(map.ok());
    auto report = Replay({(*map)->data()}, *header, boot_id, kPath,
                         [&taken](uint64_t offset, const char* record) {
                           taken[offset] = KeyOf(record);
                           return Status();
                         });
    status_ = report.status();
    if (report.ok()) report_ = *report;
    return taken;
  }
  std::vector<std::string> ReplayedKeys(uint64_t boot_id) {
    std::vector<std::string> keys;
    for (auto& [offset, key] : Replayed(boot_id)) {
      if (key != std::string(1, '\0')) keys.push_back(key);
    }
    return keys;
  }
  void Damage(const std::function<void(std::string*)>& change) {
    ASSERT_TRUE(fs_->Damage(kPath, change).ok());
  }
  void Restart(io::CrashKind kind = io::CrashKind::kProcess, uint64_t seed = 1) {
    fs_->Restart(kind, seed);
  }
  using Keys = std::vector<std::string>;

  std::unique_ptr<io::SimFileSystem> fs_ = io::NewSimFileSystem();
  Status status_;
  ReplayReport report_;
};

TEST_F(SegmentTest, HeaderHasTheDocumentedBytes) {
  std::string page(kSegmentHeaderBytes, 'x');
  SegmentHeader header = HeaderFor(0x2A, 1);
  EncodeSegmentHeader(header, page.data());
  // docs/format/segment.md
  EXPECT_EQ(Hex(Slice(page).substr(0, 96)),
            "51 55 49 52 45 53 45 47 02 00 00 00 01 00 00 00 "
            "01 00 00 00 00 00 00 00 03 00 00 00 00 00 00 00 "
            "40 42 0F 00 00 00 00 00 00 00 01 00 00 00 00 00 "
            "2A 00 00 00 00 00 00 00 07 00 00 00 00 00 00 00 "
            "58 3E 0F 00 00 00 00 00 05 00 00 00 00 00 00 00 "
            "00 00 00 00 00 00 00 00 17 1E E6 4B 30 07 F1 DB");
  MarkComplete(page.data(), 1, 4128);
  EXPECT_EQ(Hex(Slice(page).substr(1536, 8)), "04 02 00 00 87 FD C5 64");
  EXPECT_EQ(page.substr(0, 96), page.substr(2048, 96));
}

TEST_F(SegmentTest, HeaderComesBackFromTheFile) {
  Create(HeaderFor(42));
  const auto header = ReadSegmentHeader(*fs_, kPath);
  ASSERT_TRUE(header.ok()) << header.status().ToString();
  EXPECT_EQ(header->kind, SegmentKind::kLog);
  EXPECT_EQ(header->generation, kGeneration);
  EXPECT_EQ(header->id, 3u);
  EXPECT_EQ(header->base_lsn, 1'000'000u);
  EXPECT_EQ(header->capacity, kCapacity);
  EXPECT_EQ(header->boot_id, 42u);
  EXPECT_EQ(header->previous_generation, 7u);
  EXPECT_EQ(header->previous_end_lsn, 999'000u);
  EXPECT_EQ(header->owner_epoch, 5u);
}

TEST_F(SegmentTest, OneDamagedCopyOfTheHeaderDoesNoHarmAndTwoAreCorruption) {
  Create(HeaderFor(42));
  Restart();
  for (uint64_t at = 0; at < 96; ++at) {
    Damage([at](std::string* bytes) { (*bytes)[at] ^= 1; });
    EXPECT_EQ(ReadSegmentHeader(*fs_, kPath)->generation, kGeneration) << "byte " << at;
    Damage([at](std::string* bytes) { (*bytes)[2048 + at] ^= 1; });
    const Code code = ReadSegmentHeader(*fs_, kPath).status().code();
    const bool version = at >= 8 && at < 12;
    EXPECT_EQ(code, version ? Code::kUnsupported : Code::kCorruption) << "byte " << at;
    Damage([at](std::string* bytes) { (*bytes)[at] ^= 1; });
    EXPECT_EQ(ReadSegmentHeader(*fs_, kPath)->generation, kGeneration) << "byte " << at;
    Damage([at](std::string* bytes) { (*bytes)[2048 + at] ^= 1; });
  }
}

TEST_F(SegmentTest, TruncatedMissingNewerAndUnfinishedFilesAreReported) {
  EXPECT_EQ(ReadSegmentHeader(*fs_, kPath).status().code(), Code::kNotFound);
  Create(HeaderFor(42));
  Restart();
  std::string good;
  Damage([&good](std::string* bytes) { good = *bytes; });
  const auto code_of = [&](const std::string& bytes) {
    Damage([&bytes](std::string* to) { *to = bytes; });
    return ReadSegmentHeader(*fs_, kPath).status().code();
  };
  EXPECT_EQ(code_of(good.substr(0, kCapacity - 1)), Code::kCorruption);
  EXPECT_EQ(code_of(good.substr(0, 100)), Code::kCorruption);
  EXPECT_EQ(code_of(""), Code::kNotFound);
  EXPECT_EQ(code_of(std::string(kCapacity, '\0')), Code::kNotFound);
  std::string torn = good;  // the creator died in the first copy
  std::fill(torn.begin() + 48, torn.begin() + 4096, '\0');
  EXPECT_EQ(code_of(torn), Code::kNotFound);
  std::string newer = good;
  newer[8] = newer[2048 + 8] = 3;
  EXPECT_EQ(code_of(newer), Code::kUnsupported);
  EXPECT_EQ(code_of(good), Code::kOk);
}

TEST_F(SegmentTest, AWriterThatDiesWhileItRecyclesAFileLeavesTheOldHeaderOrTheNew) {
  int old_count = 0;
  for (uint64_t steps = 0; steps < 4; ++steps) {
    for (uint64_t seed = 0; seed < 40; ++seed) {
      fs_ = io::NewSimFileSystem();
      auto segment = Create(HeaderFor(fs_->BootId(), 10), true);
      fs_->CrashAfter(steps);
      segment->Recycle(HeaderFor(fs_->BootId(), 11));
      Restart(io::CrashKind::kProcess, seed);
      const auto header = ReadSegmentHeader(*fs_, kPath);
      ASSERT_TRUE(header.ok()) << steps << " " << seed << header.status().ToString();
      old_count += header->generation == 10;
    }
  }
  EXPECT_GT(old_count, 0);
}

TEST_F(SegmentTest, TakesItsRoomAsItGrows) {
  SegmentHeader header = HeaderFor(1);
  header.capacity = 8 * kFirstRoomBytes;
  for (const SegmentKind kind : {SegmentKind::kLog, SegmentKind::kValue}) {
    header.kind = kind;
    EXPECT_EQ(Create(header)->map().room(), kFirstRoomBytes);
  }
}

TEST(SegmentTail, AReservationBeyondTheRoomChangesNothing) {
  SegmentTail tail;
  EXPECT_EQ(Reserve(tail, kCapacity, 64, kSegmentHeaderBytes + 56), kMoreRoom);
  EXPECT_EQ(Reserve(tail, kCapacity, 64, kSegmentHeaderBytes + 64), kSegmentHeaderBytes);
  Complete(tail, 64);
  EXPECT_EQ(Reserve(tail, kCapacity, 8, kSegmentHeaderBytes + 64), kMoreRoom);
  EXPECT_EQ(Reserve(tail, kCapacity, kCapacity, kSegmentHeaderBytes + 64), kNoRoom);
  EXPECT_EQ(Reserve(tail, kCapacity, 8, kCapacity), kNoRoom) << "closed";
}

TEST_F(SegmentTest, AFileOfAnotherSizeIsReplaced) {
  SegmentHeader header = HeaderFor(1);
  Create(header);
  header.capacity = 2 * kCapacity;
  Create(header);
  EXPECT_EQ(ReadSegmentHeader(*fs_, kPath)->capacity, 2 * kCapacity);
  header.capacity = kCapacity;
  Create(header);
  EXPECT_EQ(ReadSegmentHeader(*fs_, kPath)->capacity, kCapacity);
}

TEST_F(SegmentTest, NoRoomOnTheDeviceIsNoSpaceAndLeavesNoFile) {
  fs_->SetFreeBytes(kCapacity / 2);
  const auto create = [this] {
    return Segment::Create(*fs_, kPath, HeaderFor(1), Segment::Origin::kNew);
  };
  EXPECT_EQ(create().status().code(), Code::kNoSpace);
  EXPECT_FALSE(*fs_->Exists(kPath));
  fs_->SetFreeBytes(UINT64_MAX);
  EXPECT_TRUE(create().ok());
}

TEST_F(SegmentTest, TakesNoFileThatTheCallerDidNotFind) {
  const auto theirs = Create(HeaderFor(2));
  const auto ours = Segment::Create(*fs_, kPath, HeaderFor(1), Segment::Origin::kNew);
  EXPECT_EQ(ours.status().code(), Code::kInvalidArgument);
  EXPECT_EQ(ReadSegmentHeader(*fs_, kPath)->boot_id, theirs->header().boot_id) << "touched";
}

TEST_F(SegmentTest, WatermarksSurviveTheirOwnTearing) {
  auto segment = Create(HeaderFor(1));
  EXPECT_EQ(DurableMark(segment->data(), kGeneration), kSegmentHeaderBytes);
  ASSERT_TRUE(segment->Sync(5000).ok());
  EXPECT_EQ(DurableMark(segment->data(), kGeneration), 5000u);
  ASSERT_TRUE(segment->Sync(6000).ok());
  EXPECT_EQ(DurableMark(segment->data(), kGeneration), 6000u);
  ASSERT_TRUE(segment->Sync(7000).ok());
  EXPECT_EQ(DurableMark(segment->data(), kGeneration), 7000u);
  segment->data()[512] ^= 1;  // the newest, in the first slot
  EXPECT_EQ(DurableMark(segment->data(), kGeneration), 6000u);
  EXPECT_EQ(DurableMark(segment->data(), kGeneration + 1), kSegmentHeaderBytes);
}

// The system takes the pages of the failed sync for written.
TEST_F(SegmentTest, AFailedSyncFailsEveryLaterOne) {
  for (const bool header_alone : {true, false}) {
    const auto faulty = io::NewFaultFileSystem(*fs_);
    auto created = Segment::Create(*faulty, kPath, HeaderFor(1), Segment::Origin::kFound);
    ASSERT_TRUE(created.ok()) << created.status().ToString();
    faulty->FailAt(io::kFaultSync, 1, 1, Code::kIo);
    const Status failed = header_alone ? (*created)->SyncHeader() : (*created)->Sync(5000);
    EXPECT_EQ(failed.code(), Code::kIo);
    EXPECT_EQ((*created)->SyncHeader().ToString(), failed.ToString());
    EXPECT_EQ((*created)->Sync(6000).ToString(), failed.ToString());
    EXPECT_EQ(DurableMark((*created)->data(), kGeneration), kSegmentHeaderBytes);
  }
}

TEST_F(SegmentTest, TheCompletionMarkIsOfItsGeneration) {
  auto segment = Create(HeaderFor(1));
  EXPECT_EQ(CompleteMark(segment->data(), kGeneration), kSegmentHeaderBytes);
  MarkComplete(segment->data(), kGeneration, 8192);
  EXPECT_EQ(CompleteMark(segment->data(), kGeneration), 8192u);
  EXPECT_EQ(CompleteMark(segment->data(), kGeneration + 1), kSegmentHeaderBytes);
  segment->data()[1536] ^= 1;
  EXPECT_EQ(CompleteMark(segment->data(), kGeneration), kSegmentHeaderBytes);
}

TEST_F(SegmentTest, TheClosingMarkIsOfItsGenerationAndNoOtherMark) {
  auto segment = Create(HeaderFor(1));
  EXPECT_EQ(ClosedMark(segment->data(), kGeneration), 0u);
  MarkClosed(segment->data(), kGeneration, kSegmentHeaderBytes);
  EXPECT_EQ(ClosedMark(segment->data(), kGeneration), kSegmentHeaderBytes);
  EXPECT_EQ(ClosedMark(segment->data(), kGeneration + 1), 0u);
  MarkComplete(segment->data(), kGeneration, 8192);
  std::memcpy(segment->data() + 1544, segment->data() + 1536, 8);
  EXPECT_EQ(ClosedMark(segment->data(), kGeneration), 0u) << "a completion mark is none";
  MarkClosed(segment->data(), kGeneration, 8192);
  segment->data()[1544] ^= 1;
  EXPECT_EQ(ClosedMark(segment->data(), kGeneration), 0u);
}

// Records behind the mark count for nothing: in the same boot, replay does not even look at them.
TEST_F(SegmentTest, ReplayEndsAtTheClosingMarkInTheSameBoot) {
  auto segment = Create(HeaderFor(42));
  const uint64_t second = Put(segment->data(), kGeneration, kSegmentHeaderBytes, "a", "1");
  const uint64_t end = Put(segment->data(), kGeneration, second, "b", "2");
  Put(segment->data(), kGeneration, end, "c", "3");
  MarkClosed(segment->data(), kGeneration, end);
  EXPECT_EQ(ReplayedKeys(42), (Keys{"a", "b"}));
  EXPECT_EQ(report_.holes, 0u);
  EXPECT_EQ(ReplayedKeys(43), (Keys{"a", "b", "c"})) << "another boot does without";
  // One that lies below what was promised cannot be true.
  MarkComplete(segment->data(), kGeneration, end);
  MarkClosed(segment->data(), kGeneration, second);
  EXPECT_EQ(ReplayedKeys(42), (Keys{"a", "b", "c"}));
  MarkClosed(segment->data(), kGeneration, 2 * kCapacity);
  EXPECT_EQ(ReplayedKeys(42), (Keys{"a", "b", "c"}));
}

TEST_F(SegmentTest, ReplayGivesEveryRecordOnceInOrder) {
  auto segment = Create(HeaderFor(42));
  std::map<uint64_t, std::string> wrote;
  base::Random random(1);
  uint64_t at = kSegmentHeaderBytes;
  while (at < kCapacity - 2000) {
    const std::string key = "key" + std::to_string(random.Next());
    wrote[at] = key;
    at = Put(segment->data(), kGeneration, at, key,
               std::string(random.Below(1000), 'v'));
  }
  MarkComplete(segment->data(), kGeneration, at);
  EXPECT_EQ(Replayed(42), wrote);
  EXPECT_EQ(report_.records, wrote.size());
  EXPECT_EQ(report_.end, at);
  EXPECT_EQ(report_.holes, 0u);
  EXPECT_EQ(Replayed(43), wrote) << "another boot, all of it there";
  EXPECT_EQ(report_.holes, 0u);
}

TEST_F(SegmentTest, AFullSegmentIsReplayedToItsLastByte) {
  auto segment = Create(HeaderFor(42));
  const uint64_t room = kCapacity - kSegmentHeaderBytes;
  const std::string value(room - 25, 'v');
  const uint64_t at = Put(segment->data(), kGeneration, kSegmentHeaderBytes, "k", value);
  EXPECT_EQ(at, kCapacity);
  EXPECT_EQ(ReplayedKeys(42), Keys{"k"});
}

// Four records; the second was being written when its writer died.
TEST_F(SegmentTest, AHoleOfADeadWriterIsSteppedOverInAnyBoot) {
  auto segment = Create(HeaderFor(42));
  uint64_t at = Put(segment->data(), kGeneration, kSegmentHeaderBytes, "a", "1");
  MarkComplete(segment->data(), kGeneration, at);
  const uint64_t hole = at;
  at = Put(segment->data(), kGeneration, at, "b", "a value of some length");
  segment->data()[hole] ^= 1;
  at = Put(segment->data(), kGeneration, at, "c", "3");
  EXPECT_EQ(ReplayedKeys(42), (Keys{"a", "c"}));
  EXPECT_EQ(report_.holes, 1u);
  EXPECT_EQ(report_.hole_bytes, 48u);
  EXPECT_EQ(report_.end, at);
  EXPECT_EQ(ReplayedKeys(43), (Keys{"a", "c"})) << "killed, and opened on another node";
  EXPECT_EQ(report_.holes, 1u);
  EXPECT_EQ(report_.hole_bytes, 48u);
  EXPECT_EQ(report_.torn_bytes, 0u) << "nothing that was acknowledged";
}

// Two writers by turns. A writer goes on only behind what it finished.
TEST_F(SegmentTest, AHoleWithAPredecessorEndsTheLogInAnotherBoot) {
  auto segment = Create(HeaderFor(42));
  char* const data = segment->data();
  const uint64_t a = kSegmentHeaderBytes;
  const uint64_t b = PutAfter(data, 0, a, "a", "1");
  const uint64_t c = PutAfter(data, 0, b, "b", "2");
  const uint64_t d = PutAfter(data, a, c, "c", "3");
  const uint64_t end = PutAfter(data, b, d, "d", "4");
  data[c] ^= 1;
  EXPECT_EQ(ReplayedKeys(43), (Keys{"a", "b", "d"})) << "its writer wrote nothing after it";
  EXPECT_EQ(report_.torn_bytes, 0u);
  data[c] ^= 1;
  data[b] ^= 1;
  EXPECT_EQ(ReplayedKeys(43), Keys{"a"}) << "\"d\" says that \"b\" was finished";
  EXPECT_EQ(report_.holes, 1u);
  EXPECT_EQ(report_.end, b);
  EXPECT_EQ(report_.torn_bytes, end - b);
  EXPECT_EQ(report_.hole_bytes, end - b);
}

TEST_F(SegmentTest, AHoleBelowTheEndThatTheNextSegmentNamesEndsTheLogInAnotherBoot) {
  auto segment = Create(HeaderFor(42));
  const uint64_t b = Put(segment->data(), kGeneration, kSegmentHeaderBytes, "a", "1");
  const uint64_t c = Put(segment->data(), kGeneration, b, "b", "2");
  const uint64_t end = Put(segment->data(), kGeneration, c, "c", "3");
  segment->data()[b] ^= 1;
  const auto count = [&](uint64_t complete_end) {
    return Replay({segment->data()}, segment->header(), 43, kPath,
                  [](uint64_t, const char*) { return Status(); }, complete_end)
        ->records;
  };
  EXPECT_EQ(count(0), 2u);
  EXPECT_EQ(count(end), 1u);
  MarkClosed(segment->data(), kGeneration, end);
  EXPECT_EQ(count(0), 1u) << "so does the closing mark";
}

TEST_F(SegmentTest, AHoleBelowTheCompletionMarkIsCorruptionInTheSameBootOnly) {
  auto segment = Create(HeaderFor(42));
  uint64_t at = Put(segment->data(), kGeneration, kSegmentHeaderBytes, "a", "1");
  const uint64_t damaged = at;
  at = Put(segment->data(), kGeneration, at, "b", "2");
  at = Put(segment->data(), kGeneration, at, "c", "3");
  MarkComplete(segment->data(), kGeneration, at);
  segment->data()[damaged + 24] ^= 1;
  Replayed(42);
  EXPECT_EQ(status_.code(), Code::kCorruption);
  EXPECT_NE(status_.message().find(std::to_string(damaged)), std::string::npos);
  EXPECT_NE(status_.message().find(kPath), std::string::npos);
  EXPECT_EQ(ReplayedKeys(43), Keys{"a"}) << "what was not synced may be gone after another boot";
  EXPECT_TRUE(status_.ok());
  EXPECT_EQ(report_.holes, 1u) << "a torn tail";
  EXPECT_EQ(report_.hole_bytes, at - damaged);
  EXPECT_EQ(report_.torn_bytes, at - damaged);
}

TEST_F(SegmentTest, AHoleBelowTheDurableWatermarkIsCorruptionInAnyBoot) {
  auto segment = Create(HeaderFor(42));
  uint64_t at = Put(segment->data(), kGeneration, kSegmentHeaderBytes, "a", "1");
  ASSERT_TRUE(segment->Sync(at).ok());
  const uint64_t torn = at;
  at = Put(segment->data(), kGeneration, at, "b", "2");
  segment->data()[torn + 24] ^= 1;
  EXPECT_EQ(ReplayedKeys(43), Keys{"a"}) << "above the watermark: a torn tail";
  segment->data()[kSegmentHeaderBytes + 24] ^= 1;
  Replayed(43);
  EXPECT_EQ(status_.code(), Code::kCorruption);
  Replayed(42);
  EXPECT_EQ(status_.code(), Code::kCorruption);
}

TEST_F(SegmentTest, RecordsOfAnEarlierUseNeverComeBack) {
  auto segment = Create(HeaderFor(42, 10));
  uint64_t at = kSegmentHeaderBytes;
  for (int i = 0; i < 100; ++i) {
    at = Put(segment->data(), 10, at, "old" + std::to_string(i), "value");
  }
  MarkComplete(segment->data(), 10, at);
  ASSERT_TRUE(segment->Sync(at).ok());
  segment->Recycle(HeaderFor(42, 11));
  EXPECT_EQ(ReplayedKeys(42), Keys{});
  EXPECT_TRUE(status_.ok());
  Put(segment->data(), 11, kSegmentHeaderBytes, "new", "value");
  EXPECT_EQ(ReplayedKeys(42), Keys{"new"});
  EXPECT_EQ(ReplayedKeys(43), Keys{"new"});
}

TEST_F(SegmentTest, ABatchIsTakenWholeOrNotAtAll) {
  auto segment = Create(HeaderFor(42));
  char* const data = segment->data();
  uint64_t at = Put(data, kGeneration, kSegmentHeaderBytes, "a", "1");
  const uint64_t begin = at;
  at = WriteBatch(data, kGeneration, at, {"b", "c", "d"});
  const uint64_t batch_end = at;
  at = Put(data, kGeneration, at, "e", "5");
  EXPECT_EQ(ReplayedKeys(42), (Keys{"a", "b", "c", "d", "e"}));
  EXPECT_EQ(report_.records, 5u);
  const std::string good(data + begin, batch_end - begin);
  for (size_t i = 0; i < good.size(); i += 8) {
    std::fill(data + begin + i, data + begin + i + 8, '\xA5');
    const Keys keys = ReplayedKeys(42);
    ASSERT_TRUE(status_.ok());
    EXPECT_EQ(keys, (Keys{"a", "e"})) << "word " << i;
    EXPECT_EQ(ReplayedKeys(43), (Keys{"a", "e"})) << "word " << i;
    std::memcpy(data + begin, good.data(), good.size());
  }
}

TEST_F(SegmentTest, AnErrorOfTheTakerEndsReplay) {
  auto segment = Create(HeaderFor(42));
  Put(segment->data(), kGeneration, kSegmentHeaderBytes, "a", "1");
  const auto report = Replay({segment->data()}, segment->header(), 42, kPath,
                             [](uint64_t, const char*) { return Status(Code::kNoSpace, "full"); });
  EXPECT_EQ(report.status().code(), Code::kNoSpace);
}

TEST_F(SegmentTest, AfterAPowerLossEverySyncedRecordIsThereAndNoneIsMadeUp) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    fs_ = io::NewSimFileSystem();
    const uint64_t boot = fs_->BootId();
    auto segment = Create(HeaderFor(boot), true);
    ASSERT_TRUE(segment->map().Sync(0, kSegmentHeaderBytes).ok());  // a manifest lists it
    base::Random random(seed);
    std::map<uint64_t, std::string> wrote;
    size_t synced = 0;
    uint64_t at = kSegmentHeaderBytes;
    uint64_t last = 0;
    for (int i = 0; i < 60; ++i) {
      const std::string key = "key" + std::to_string(i);
      wrote[at] = key;
      const uint64_t next =
          PutAfter(segment->data(), last, at, key, std::string(random.Below(600), 'v'));
      last = std::exchange(at, next);
      MarkComplete(segment->data(), kGeneration, at);
      if (!random.OneIn(20)) continue;
      ASSERT_TRUE(segment->Sync(at).ok());
      synced = wrote.size();
    }
    segment.reset();
    Restart(io::CrashKind::kPower, seed);
    ASSERT_NE(fs_->BootId(), boot);
    const auto taken = Replayed(fs_->BootId());
    ASSERT_TRUE(status_.ok()) << status_.ToString() << " seed " << seed;
    ASSERT_GE(taken.size(), synced) << "seed " << seed;
    const std::map<uint64_t, std::string> prefix(
        wrote.begin(), std::next(wrote.begin(), static_cast<ptrdiff_t>(taken.size())));
    ASSERT_EQ(taken, prefix) << "seed " << seed;
  }
}

}  // namespace
}  // namespace quire::log::log_test
