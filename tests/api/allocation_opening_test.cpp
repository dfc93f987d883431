// The n-th allocation fails, for n = 0, 1, ..., while a stream's index is made by the first program
// that opens the log after a restart of the machine (the next program to open it finds everything
// that was stored), or by a mirror that forgets objects; and while a writer keeps a snapshot.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/core/out_of_memory.h"
#include "failing_allocations.h"
#include "io/paths/forwarding.h"
#include "stream/log/delta.h"
#include "stream/store/local_reader.h"
#include "stream/store/part.h"
#include "stream/store/stream_testing.h"
#include "stream/store/writer.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"

namespace quire::stream {
namespace {

constexpr uint64_t kBytes = 3000;
constexpr uint64_t kVersions = 5;

// The real file system, after a restart of the machine.
class LaterBoot final : public io::ForwardingFileSystem {
 public:
  LaterBoot() : ForwardingFileSystem(io::PosixFileSystem()) {}
  uint64_t BootId() override { return io::PosixFileSystem().BootId() + 1; }
};

class OpeningWithoutMemory : public testing::Test {
 protected:
  static StreamOptions Options() {
    StreamOptions options = SmallLog(64 << 10);
    options.keep_versions = kVersions;
    return options;
  }

  static void Store(const std::string& place) {
    const auto writer = OpenWriter(io::PosixFileSystem(), place, "store", 0, Options());
    ASSERT_OK(writer.status());
    const Result<char*> memory = (*writer)->Create("key", kBytes);
    ASSERT_OK(memory.status());
    for (uint64_t version = 1; version <= kVersions; ++version) {
      Compute(*memory, "key", version, kBytes);
      ASSERT_OK((*writer)->Put("key").status());
    }
    ASSERT_OK((*writer)->Finish());
  }

  void ExpectAll(const std::string& place) {
    const auto reader = OpenLocalReader(fs_, place, "store", 0);
    ASSERT_OK(reader.status());
    for (uint64_t version = 1; version <= kVersions; ++version) {
      SCOPED_TRACE(version);
      std::string bytes;
      ASSERT_OK((*reader)->Get("key", version, &bytes));
      EXPECT_EQ(bytes == BytesOf("key", version, kBytes), true);
    }
  }

  // Opens stores, each while another allocation fails.
  template <typename Open>
  void OpenWithoutEach(const Open& open) {
    int64_t n = 0;
    for (bool failed = true; failed; ++n) {
      SCOPED_TRACE(n);
      const test::TempDirectory directory;
      const std::string place = directory / "place";
      Store(place);
      test::FailAllocation(n);
      const Status opened = base::OrOutOfMemory([&] { return open(fs_, place); });
      failed = test::AllocationFailed();
      EXPECT_TRUE(opened.ok() || opened.code() == Code::kOutOfMemory) << opened.ToString();
      ExpectAll(place);
      ASSERT_FALSE(HasFailure());
    }
    EXPECT_GT(n, 20);
  }

  LaterBoot fs_;
};

TEST_F(OpeningWithoutMemory, AWriterThatCannotOpenHidesNothingFromReaders) {
  OpenWithoutEach([](io::FileSystem& fs, const std::string& place) {
    return OpenWriter(fs, place, "store", 0, Options()).status();
  });
}

TEST_F(OpeningWithoutMemory, AReaderThatCannotOpenHidesNothingFromOthers) {
  OpenWithoutEach([](io::FileSystem& fs, const std::string& place) {
    return OpenLocalReader(fs, place, "store", 0).status();
  });
}

// It would keep fewer versions.
TEST_F(OpeningWithoutMemory, ARefusedWriterLeavesThePolicyAndTheEnd) {
  int refused = 0;
  OpenWithoutEach([&](io::FileSystem& fs, const std::string& place) {
    const Status opened = base::OrOutOfMemory(
        [&] { return OpenWriter(fs, place, "store", 0, SmallLog(64 << 10)).status(); });
    if (opened.ok()) return Status();
    ++refused;
    const auto log = LogHeap::Open(io::PosixFileSystem(), place + "/store/log-0",
                                   io::MapMode::kRead);
    EXPECT_OK(log.status());
    EXPECT_EQ((*log)->head().keep_versions, kVersions);
    EXPECT_TRUE((*log)->head().finished);
    return opened;
  });
  EXPECT_GT(refused, 20);
}

// A mirror's part, whose index forgets objects when it has no room for another.
class ForgettingPart {
 public:
  ForgettingPart() {
    StreamOptions options = SmallLog(64 << 10);
    options.keep_versions = 0;
    auto opened =
        Part::Open(io::PosixFileSystem(), {directory_ / "place", "store", 0}, options, true);
    EXPECT_OK(opened.status());
    part_ = *std::move(opened);
  }

  // The only version of an object of its own.
  Status Store(uint64_t number) {
    VersionEntry entry;
    entry.key = KeyOf(number);
    entry.version = 1;
    entry.snapshot = number;
    entry.bytes = kBytes;
    QUIRE_ASSIGN_OR_RETURN(const Reservation room, part_->Reserve(entry));
    const std::string bytes = BytesOf(entry.key, 1, kBytes);
    bytes.copy(room.bytes, bytes.size());
    return part_->CommitReserved(DataHash(bytes));
  }

  // Expects that objects before `end` which are in the index are also in the log.
  void ExpectNoneDamaged(uint64_t end) {
    for (uint64_t number = 1; number < end; ++number) {
      const Status found = part_->EntryAt(KeyOf(number), 0).status();
      EXPECT_TRUE(found.ok() || found.code() == Code::kNotFound) << found.ToString();
    }
  }

 private:
  static std::string KeyOf(uint64_t number) { return "an object " + std::to_string(number); }

  const test::TempDirectory directory_;
  std::unique_ptr<Part> part_;
};

TEST(ForgettingWithoutMemory, LeavesNoObjectInThePlaceOfAnother) {
  constexpr uint64_t kObjects = 16;  // of SmallLog
  int64_t n = 0;
  for (bool failed = true; failed; ++n) {
    SCOPED_TRACE(n);
    ForgettingPart part;
    for (uint64_t number = 1; number <= kObjects; ++number) ASSERT_OK(part.Store(number));
    test::FailAllocation(n);
    const Status stored = base::OrOutOfMemory([&] { return part.Store(kObjects + 1); });
    failed = test::AllocationFailed();
    EXPECT_TRUE(stored.ok() || stored.code() == Code::kOutOfMemory) << stored.ToString();
    for (uint64_t number = kObjects + 2; number < 3 * kObjects; ++number) {
      ASSERT_OK(part.Store(number));
      part.ExpectNoneDamaged(number);
      ASSERT_FALSE(testing::Test::HasFailure()) << "object " << number;
    }
  }
  EXPECT_GT(n, 20);
}

// Whether the n-th allocation of a Keep failed, and what came of that.
bool KeepsWithout(int64_t n) {
  const test::TempDirectory directory;
  StreamOptions options = SmallLog(64 << 10);
  options.keep_versions = 14;
  const auto writer =
      OpenWriter(io::PosixFileSystem(), directory / "place", "store", 0, options);
  EXPECT_OK(writer.status());
  const Result<char*> memory = (*writer)->Create("key", kBytes);
  EXPECT_OK(memory.status());
  for (uint64_t version = 1; version <= 30; ++version) EXPECT_OK((*writer)->Put("key").status());
  const uint64_t snapshot = (*writer)->LastSnapshot() - 12;
  test::FailAllocation(n);
  const Status kept = (*writer)->Keep(snapshot);
  const bool failed = test::AllocationFailed();
  EXPECT_TRUE(kept.ok() || kept.code() == Code::kOutOfMemory) << kept.ToString();
  EXPECT_EQ((*writer)->Release(snapshot).ok(), kept.ok()) << kept.ToString();
  return failed;
}

TEST(KeepingWithoutMemory, KeepsOrSaysThatItDoesNot) {
  int64_t n = 0;
  while (KeepsWithout(n) && !testing::Test::HasFailure()) ++n;
  ASSERT_FALSE(testing::Test::HasFailure()) << "allocation " << n;
  EXPECT_GT(n, 5);
}

}  // namespace
}  // namespace quire::stream
