#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "io/files/machine.h"
#include "io/files/page_memory.h"
#include "stream/store/local_reader.h"
#include "stream/store/stream_testing.h"
#include "stream/store/writer.h"
#include "tests/support/status_asserts.h"

namespace quire::stream::stream_test {
namespace {

constexpr uint64_t kMiB = 1 << 20;

class Stream : public ::testing::Test {
 protected:
  void Open(const StreamOptions& options) {
    Result<std::unique_ptr<StreamWriter>> opened = machine_.Write(options);
    ASSERT_OK(opened.status());
    writer_ = *std::move(opened);
  }
  void OpenReader() {
    Result<std::unique_ptr<StreamReader>> opened = machine_.Read();
    ASSERT_OK(opened.status());
    reader_ = *std::move(opened);
  }
  char* Make(Slice key, uint64_t bytes) {
    const Result<char*> made = writer_->Create(key, bytes);
    EXPECT_OK(made.status());
    return made.ok() ? *made : nullptr;
  }
  // Computes the next version of an object, and puts it.
  uint64_t Put(Slice key, char* memory, uint64_t bytes) {
    Compute(memory, key, ++puts_, bytes);
    const Result<uint64_t> version = writer_->Put(key);
    EXPECT_OK(version.status());
    return version.ok() ? *version : 0;
  }
  std::string Got(Slice key, uint64_t version) {
    std::string bytes;
    const Status status = reader_->Get(key, version, &bytes);
    return status.ok() ? bytes : status.ToString();
  }

  StreamMachine machine_;
  std::unique_ptr<StreamWriter> writer_;
  std::unique_ptr<StreamReader> reader_;
  uint64_t puts_ = 0;
};

TEST_F(Stream, VersionsAreReadAsTheyWerePut) {
  StreamOptions options = SmallLog(kMiB);
  options.keep_versions = 3;
  Open(options);
  char* const zeta = Make("zeta", 5000);
  for (uint64_t version = 1; version <= 3; ++version) EXPECT_EQ(Put("zeta", zeta, 5000), version);
  OpenReader();
  for (uint64_t version = 1; version <= 3; ++version) {
    EXPECT_EQ(Got("zeta", version), BytesOf("zeta", version, 5000));
  }
  EXPECT_EQ(Got("zeta", 0), BytesOf("zeta", 3, 5000));
  std::string bytes;
  EXPECT_CODE(reader_->Get("zeta", 4, &bytes), Code::kNotFound);
  EXPECT_CODE(reader_->Get("eta", 0, &bytes), Code::kNotFound);
  const Result<std::vector<StreamVersion>> versions = reader_->Versions("zeta");
  ASSERT_OK(versions.status());
  ASSERT_EQ(versions->size(), 3u);
  EXPECT_EQ(versions->front().version, 3u);
  EXPECT_EQ(versions->front().bytes, 5000u);
}

TEST_F(Stream, AReaderThatIsThereFirstSeesWhatComes) {
  Open(SmallLog(kMiB));
  OpenReader();
  char* const zeta = Make("zeta", 100);
  EXPECT_CODE(reader_->Get("zeta", 0, [](size_t) { return nullptr; }), Code::kNotFound);
  Put("zeta", zeta, 100);
  EXPECT_EQ(Got("zeta", 0), BytesOf("zeta", 1, 100));
  EXPECT_EQ(*reader_->Objects(), std::vector<std::string>{"zeta"});
}

TEST_F(Stream, ASnapshotIsOneCommitOfAllObjects) {
  StreamOptions options = SmallLog(kMiB);
  options.keep_versions = 4;
  Open(options);
  char* const a = Make("a", 300);
  char* const b = Make("b", 4096);
  for (uint64_t step = 1; step <= 3; ++step) {
    Compute(a, "a", step, 300);
    Compute(b, "b", step, 4096);
    const Result<uint64_t> snapshot = writer_->Snapshot();
    ASSERT_OK(snapshot.status());
    EXPECT_EQ(*snapshot, step);
  }
  OpenReader();
  for (uint64_t step = 1; step <= 3; ++step) {
    std::string bytes;
    ASSERT_OK(reader_->GetAt("a", step, &bytes));
    EXPECT_EQ(bytes, BytesOf("a", step, 300));
    ASSERT_OK(reader_->GetAt("b", step, &bytes));
    EXPECT_EQ(bytes, BytesOf("b", step, 4096));
  }
  EXPECT_EQ(*reader_->LastSnapshot(), 3u);
}

TEST_F(Stream, TheLogWrapsAndTheNewestVersionsStay) {
  StreamOptions options = SmallLog(kMiB);
  options.keep_versions = 2;
  Open(options);
  OpenReader();
  char* const zeta = Make("zeta", 50'000);
  for (uint64_t version = 1; version <= 200; ++version) {
    ASSERT_EQ(Put("zeta", zeta, 50'000), version);
    ASSERT_EQ(Got("zeta", version), BytesOf("zeta", version, 50'000));
    if (version > 1) {
      ASSERT_EQ(Got("zeta", version - 1), BytesOf("zeta", version - 1, 50'000));
    }
  }
  EXPECT_GT(writer_->Statistics().collected, 150u);
}

TEST_F(Stream, AnOldKeptVersionIsMovedOutOfTheWay) {
  Open(SmallLog(kMiB));
  OpenReader();
  char* const mesh = Make("mesh", 200'000);
  char* const field = Make("field", 50'000);
  Put("mesh", mesh, 200'000);
  for (uint64_t i = 0; i < 300; ++i) {
    const uint64_t version = Put("field", field, 50'000);
    ASSERT_NE(version, 0u);
    ASSERT_EQ(Got("field", version), BytesOf("field", version + 1, 50'000));
    ASSERT_EQ(Got("mesh", 1), BytesOf("mesh", 1, 200'000));
  }
  EXPECT_GT(writer_->Statistics().relocated_bytes, 0u);
}

TEST_F(Stream, AViewIsNotPulledAway) {
  Open(SmallLog(kMiB));
  OpenReader();
  char* const zeta = Make("zeta", 100'000);
  Put("zeta", zeta, 100'000);
  Result<std::unique_ptr<StreamView>> view = reader_->View("zeta", 1);
  ASSERT_OK(view.status());
  EXPECT_TRUE((*view)->in_place());
  Status full;
  for (int i = 0; i < 20 && full.ok(); ++i) full = writer_->Put("zeta").status();
  EXPECT_CODE(full, Code::kNoSpace);
  EXPECT_NE(full.message().find("a reader holds"), std::string::npos) << full.ToString();
  EXPECT_EQ((*view)->bytes(), BytesOf("zeta", 1, 100'000));
  EXPECT_OK((*view)->Verify());
  view->reset();
  EXPECT_OK(writer_->Put("zeta").status());
}

TEST_F(Stream, APutWaitsForAReaderIfWaitMsIsSet) {
  StreamOptions options = SmallLog(kMiB);
  options.wait_ms = 60'000;
  Open(options);
  OpenReader();
  char* const zeta = Make("zeta", 100'000);
  Put("zeta", zeta, 100'000);
  Result<std::unique_ptr<StreamView>> view = reader_->View("zeta", 1);
  ASSERT_OK(view.status());
  std::atomic<int> done = 0;
  std::thread writing([&] {
    for (int i = 0; i < 20; ++i) {
      EXPECT_OK(writer_->Put("zeta").status());
      ++done;
    }
  });
  while (done < 5) std::this_thread::yield();
  EXPECT_LT(done, 20);
  view->reset();
  writing.join();
}

TEST_F(Stream, AWriterGoesOnWhereTheLastOneEnded) {
  StreamOptions options = SmallLog(kMiB);
  options.keep_versions = 8;
  for (uint64_t life = 0; life < 4; ++life) {
    Open(options);
    char* const zeta = Make("zeta", 3000);
    if (life != 0) {
      ASSERT_OK(writer_->Restore(0));
      EXPECT_EQ(std::string(zeta, 3000), BytesOf("zeta", puts_, 3000));
    }
    EXPECT_EQ(Put("zeta", zeta, 3000), 2 * life + 1);
    EXPECT_EQ(Put("zeta", zeta, 3000), 2 * life + 2);
    ASSERT_OK(writer_->Finish());
    writer_.reset();
    OpenReader();
    EXPECT_EQ(Got("zeta", 1), BytesOf("zeta", 1, 3000));
    EXPECT_EQ(Got("zeta", 0), BytesOf("zeta", puts_, 3000));
  }
}

TEST_F(Stream, AKeptSnapshotStaysWhole) {
  Open(SmallLog(kMiB));
  OpenReader();
  char* const a = Make("a", 20'000);
  char* const b = Make("b", 1000);
  Put("b", b, 1000);
  Put("a", a, 20'000);
  ASSERT_OK(writer_->Keep(2));
  for (int i = 0; i < 200; ++i) {
    Put("a", a, 20'000);
    Put("b", b, 1000);
  }
  std::string bytes;
  ASSERT_OK(reader_->GetAt("a", 2, &bytes));
  EXPECT_EQ(bytes, BytesOf("a", 2, 20'000));
  ASSERT_OK(reader_->GetAt("b", 2, &bytes));
  EXPECT_EQ(bytes, BytesOf("b", 1, 1000));
  EXPECT_CODE(reader_->GetAt("a", 7, &bytes), Code::kNotFound);
  EXPECT_CODE(writer_->Keep(7), Code::kNotFound);
  ASSERT_OK(writer_->Release(2));
  for (int i = 0; i < 200; ++i) Put("a", a, 20'000);
  EXPECT_CODE(reader_->GetAt("a", 2, &bytes), Code::kNotFound);
  EXPECT_CODE(writer_->Release(2), Code::kNotFound);
}

TEST_F(Stream, AReaderThatWaitsSeesEachSnapshotAndTheEnd) {
  Open(SmallLog(kMiB));
  OpenReader();
  char* const zeta = Make("zeta", 100);
  std::atomic<uint64_t> seen = 0;
  std::thread waiting([&] {
    while (true) {
      const Result<uint64_t> newest = reader_->Wait(seen, 60'000);
      if (!newest.ok()) {
        EXPECT_CODE(newest.status(), Code::kNotFound);
        return;
      }
      seen = *newest;
    }
  });
  for (uint64_t i = 1; i <= 50; ++i) {
    Put("zeta", zeta, 100);
    while (seen < i) std::this_thread::yield();
  }
  ASSERT_OK(writer_->Finish());
  waiting.join();
  EXPECT_TRUE(*reader_->Finished());
}

TEST_F(Stream, WaitingEndsAtItsTimeout) {
  Open(SmallLog(kMiB));
  OpenReader();
  EXPECT_CODE(reader_->Wait(0, 5).status(), Code::kTimedOut);
}

TEST_F(Stream, PackedVersionsAreReadAsTheyWerePut) {
  StreamOptions options = SmallLog(kMiB);
  options.compression = Compression::kLz4;
  options.keep_versions = 2;
  Open(options);
  OpenReader();
  char* const zeta = Make("zeta", 300'000);
  for (uint64_t i = 0; i < 300'000; ++i) zeta[i] = static_cast<char>(i / 100);
  ASSERT_OK(writer_->Put("zeta").status());
  EXPECT_EQ(Got("zeta", 1), std::string(zeta, 300'000));
  EXPECT_LT(writer_->Statistics().stored_bytes, 30'000u);
  Put("zeta", zeta, 300'000);  // random bytes: packing saves nothing
  EXPECT_EQ(Got("zeta", 2), BytesOf("zeta", 1, 300'000));
}

TEST_F(Stream, WrongCallsAreRefusedAndLoseNothing) {
  Open(SmallLog(kMiB));
  Make("zeta", 8);
  EXPECT_CODE(writer_->Create("zeta", 8, {}).status(), Code::kInvalidArgument);
  EXPECT_CODE(writer_->Create("", 8, {}).status(), Code::kInvalidArgument);
  EXPECT_CODE(writer_->Create(std::string(1025, 'k'), 8, {}).status(), Code::kInvalidArgument);
  EXPECT_CODE(writer_->Create("huge", 2 * kMiB, {}).status(), Code::kNoSpace);
  EXPECT_CODE(writer_->Create("odd", 9, {ElementType::kFloat64, {}}).status(),
              Code::kInvalidArgument);
  EXPECT_CODE(writer_->Put("eta").status(), Code::kNotFound);
  EXPECT_CODE(writer_->Snapshot({Slice("zeta"), Slice("zeta")}).status(), Code::kInvalidArgument);
  EXPECT_CODE(writer_->Snapshot(std::vector<Slice>()).status(), Code::kInvalidArgument);
  EXPECT_CODE(writer_->MarkDirty("zeta", 4, 5), Code::kInvalidArgument);
  EXPECT_CODE(writer_->Restore(0), Code::kNotFound);
  EXPECT_CODE(machine_.Write(SmallLog(kMiB)).status(), Code::kBusy);
  EXPECT_CODE(OpenWriter(machine_.fs(), "/place", "../x", 0, SmallLog(kMiB)).status(),
              Code::kInvalidArgument);
  EXPECT_CODE(OpenLocalReader(machine_.fs(), "/place", "nothing", 0).status(), Code::kNotFound);
  ASSERT_OK(writer_->Finish());
  EXPECT_CODE(writer_->Put("zeta").status(), Code::kInvalidArgument);
}

// This holds for each way to find changes, and for each owner of the memory.
TEST_F(Stream, TheMemoryOfObjectsIsThereUntilTheWriterIsDestroyed) {
  constexpr uint64_t kBytes = 3 * 4096;
  for (const StreamDeltas deltas : {StreamDeltas::kOff, StreamDeltas::kHash, StreamDeltas::kProtect,
                                    StreamDeltas::kAuto}) {
    StreamMachine machine;
    StreamOptions options = SmallLog(kMiB);
    options.deltas = deltas;
    const auto writer = machine.Write(options);
    ASSERT_OK(writer.status());
    const io::PageMemory own = *io::AllocatePages(kBytes);
    ASSERT_OK((*writer)->Attach("attached", own.data(), kBytes));
    const Result<char*> made = (*writer)->Create("created", kBytes);
    ASSERT_OK(made.status());
    Compute(*made, "created", 1, kBytes);
    ASSERT_OK((*writer)->Snapshot().status());
    ASSERT_OK((*writer)->Finish());
    EXPECT_EQ(std::string(*made, kBytes), BytesOf("created", 1, kBytes));
    (*made)[0] = 'x';
    own.data()[0] = 'x';
  }
}

TEST_F(Stream, AStoreInMemoryReportsItsDurability) {
  Open(SmallLog(kMiB));
  EXPECT_EQ(writer_->durability(), StreamDurability::kProcess);
  const std::string place = "/dev/shm/quire-test-" + std::to_string(io::ProcessId());
  const auto in_memory = OpenWriter(io::PosixFileSystem(), place, "store", 0, SmallLog(kMiB));
  if (!in_memory.ok()) GTEST_SKIP() << "no tmpfs at /dev/shm: " << in_memory.status().ToString();
  EXPECT_EQ((*in_memory)->durability(), StreamDurability::kMemory);
  std::filesystem::remove_all(place);
}

TEST_F(Stream, AllIsRestoredOrNothing) {
  Open(SmallLog(kMiB));
  char* const first = Make("a", 100);
  first[0] = 1;
  ASSERT_OK(writer_->Snapshot().status());
  first[0] = 2;
  Make("b", 100);
  EXPECT_CODE(writer_->Restore(1), Code::kNotFound);
  EXPECT_EQ(first[0], 2);
  ASSERT_OK(writer_->Restore(1, "a"));
  EXPECT_EQ(first[0], 1);
}

TEST_F(Stream, KeysAreAnyBytes) {
  Open(SmallLog(kMiB));
  OpenReader();
  const std::string nul("a\0b", 3);
  const std::string longest(1024, '\xff');
  char* const first = Make(nul, 10);
  char* const second = Make(Slice("a"), 10);
  char* const third = Make(longest, 10);
  Put(nul, first, 10);
  Put("a", second, 10);
  Put(longest, third, 10);
  EXPECT_EQ(Got(nul, 0), BytesOf(nul, 1, 10));
  EXPECT_EQ(Got("a", 0), BytesOf("a", 2, 10));
  EXPECT_EQ(Got(longest, 0), BytesOf(longest, 3, 10));
}

}  // namespace
}  // namespace quire::stream::stream_test
