// A reader beside a writer that flushes, merges and collects all the time, on a real file system.
#include <atomic>
#include <memory>
#include <mutex>
#include <thread>

#include "lsm/db/db_testing.h"
#include "lsm/offline/lsm_engine.h"
#include "lsm/offline/reader.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"
#include "tests/support/test_scale.h"

namespace quire::lsm::reader_writer_test {
namespace {

constexpr int kKeys = 40;

std::string KeyOf(int i) {
  return "key" + std::to_string(i);
}
// Every third one is separated.
std::string ValueOf(uint64_t round, int i) {
  std::string value = std::to_string(round) + "|";
  value.resize(i % 3 == 0 ? 600 : 40, 'p');
  return value;
}
uint64_t RoundOf(Slice value) {
  return std::strtoull(std::string(value).c_str(), nullptr, 10);
}

struct Writer {
  explicit Writer(const std::string& path) : directory(path) {
    engine::EngineEnvironment environment;
    environment.fs = &io::PosixFileSystem();
    environment.executor = executor.get();
    auto opened =
        Db::Open(environment, directory, SmallOptions(), engine::OpenFlags::kOpenOrCreate);
    EXPECT_TRUE(opened.ok()) << opened.status().ToString();
    db = std::move(opened).value();
  }
  // All keys at once, so that every published state has one round.
  Status Write(uint64_t round) {
    engine::WriteBatch batch;
    for (int i = 0; i < kKeys; ++i) batch.Put(KeyOf(i), ValueOf(round, i));
    QUIRE_RETURN_IF_ERROR(db->Write(batch));
    return round % 5 == 0 ? db->Flush() : Status();
  }
  const std::string directory;
  std::unique_ptr<base::Executor> executor = base::NewThreadPool(2, "writer").value();
  std::unique_ptr<Db> db;
};

// The round of all that the iterator shows; 0: a value was stale.
uint64_t RoundSeen(engine::Iterator& iterator) {
  uint64_t round = 0;
  int count = 0;
  for (iterator.SeekToFirst(); iterator.Valid(); iterator.Next(), ++count) {
    const uint64_t here = RoundOf(iterator.value());
    if (iterator.status().code() == Code::kBusy) return 0;
    EXPECT_TRUE(iterator.status().ok()) << iterator.status().ToString();
    if (count == 0) round = here;
    EXPECT_EQ(here, round) << "a torn state at " << iterator.key();
  }
  EXPECT_TRUE(iterator.status().ok()) << iterator.status().ToString();
  EXPECT_EQ(count, kKeys);
  return round;
}

TEST(ReaderBesideAWriter, SeesOnePublishedStateAfterAnother) {
  const test::TempDirectory directory;
  Writer writer(directory / "db");
  ASSERT_OK(writer.Write(5));
  std::atomic<bool> seen_enough{false};
  std::atomic<bool> done{false};
  std::thread writing([&] {
    const auto rounds = static_cast<uint64_t>(test::ScaledCount(400));
    // A machine that is busy may let all rounds be written before the reader has its first turn.
    for (uint64_t round = 6; round < rounds || !seen_enough.load(); ++round)
      ASSERT_OK(writer.Write(round));
    done.store(true);
  });
  auto opened = Reader::Open(io::PosixFileSystem(), writer.directory, {SmallOptions(), nullptr});
  ASSERT_OK(opened.status());
  std::mutex mutex;  // GCC 12's atomic shared pointers lack an order
  std::shared_ptr<engine::StoredPart> reader = *opened;
  const auto present = [&] {
    const std::lock_guard<std::mutex> lock(mutex);
    return reader;
  };
  // Points, while another thread looks again and again.
  std::thread getting([&] {
    uint64_t newest = 0;
    for (int i = 0; !done.load(); i = (i + 1) % kKeys) {
      std::string value;
      const Status status = present()->Get(KeyOf(i), Into(&value), nullptr);
      if (status.code() == Code::kBusy) continue;
      ASSERT_OK(status);
      ASSERT_GE(RoundOf(value), newest);
      newest = RoundOf(value);
      ASSERT_EQ(value, ValueOf(newest, i));
    }
  });
  uint64_t newest = 0;
  uint64_t looks = 0;
  for (; !done.load(); ++looks) {
    const auto newer = present()->Newer();
    ASSERT_OK(newer.status());
    {
      const std::lock_guard<std::mutex> lock(mutex);
      reader = *newer;
    }
    const uint64_t round = RoundSeen(*(*newer)->NewIterator({}));
    EXPECT_TRUE(round == 0 || round >= newest) << round << " after " << newest;
    newest = std::max(newest, round);
    seen_enough.store(looks > 3 && newest > 5);
  }
  writing.join();
  getting.join();
}

TEST(ReaderBesideAWriter, OpensWhileTheManifestIsReplaced) {
  const test::TempDirectory directory;
  Writer writer(directory / "db");
  ASSERT_OK(writer.Write(5));
  std::atomic<bool> done{false};
  std::thread writing([&] {
    const auto rounds = static_cast<uint64_t>(test::ScaledCount(500));
    for (uint64_t round = 6; round < rounds; ++round) ASSERT_OK(writer.Write(round));
    done.store(true);
  });
  for (int opened = 0; opened < 3 || !done.load(); ++opened) {
    const auto reader =
        Reader::Open(io::PosixFileSystem(), writer.directory, {SmallOptions(), nullptr});
    EXPECT_TRUE(reader.ok()) << reader.status().ToString();
    if (reader.ok()) RoundSeen(*(*reader)->NewIterator({}));
    if (reader.ok()) {
      const Status verified = (*reader)->Verify({});
      EXPECT_TRUE(verified.ok() || verified.code() == Code::kBusy) << verified.ToString();
    }
  }
  writing.join();
}

TEST(ReaderBesideAWriter, LivesThroughOpensAndClosesOfTheWriter) {
  const test::TempDirectory directory;
  { Writer(directory / "db").Write(5).ok(); }
  Result<std::shared_ptr<engine::StoredPart>> opened = LsmEngine().stored_parts()->Open(
      io::PosixFileSystem(), directory / "db", {SmallOptions(), nullptr});
  ASSERT_OK(opened.status());
  std::atomic<bool> done{false};
  std::thread writing([&] {
    const auto rounds = static_cast<uint64_t>(test::ScaledCount(60));
    for (uint64_t round = 6; round < rounds; ++round) {
      Writer writer(directory / "db");
      ASSERT_OK(writer.Write(round));
    }
    done.store(true);
  });
  uint64_t newest = 0;
  while (!done.load()) {
    opened = (*opened)->Newer();
    ASSERT_OK(opened.status());
    const uint64_t round = RoundSeen(*(*opened)->NewIterator({}));
    EXPECT_TRUE(round == 0 || round >= newest) << round << " after " << newest;
    newest = std::max(newest, round);
  }
  writing.join();
  opened = (*opened)->Newer();
  ASSERT_OK(opened.status());
  const auto rounds = static_cast<uint64_t>(test::ScaledCount(60));
  EXPECT_EQ(RoundSeen(*(*opened)->NewIterator({})), std::max<uint64_t>(rounds - 1, 5));
}

}  // namespace
}  // namespace quire::lsm::reader_writer_test
