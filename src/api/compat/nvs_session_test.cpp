// Sessions of libnvs beside stores that are removed and written again.
#include "api/compat/nvs_session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "io/files/machine.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"

namespace quire::compat::nvs_session_test {
namespace {

constexpr uint64_t kBytes = 4096;
const StoreId kStore = {"store", 0};

class NvsSessions : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::setenv("QUIRE_STREAM_LOG_BYTES", "1MiB", 1), 0); }
  void TearDown() override { ASSERT_EQ(::unsetenv("QUIRE_STREAM_LOG_BYTES"), 0); }

  // A program that puts so many versions, all of bytes `whose`, and ends.
  void Write(char whose, int versions) {
    NvsSession session(directory_.path(), kStore);
    const Result<char*> memory = session.Create("key", kBytes);
    ASSERT_OK(memory.status());
    std::fill_n(*memory, kBytes, whose);
    const Result<StreamWriter*> writer = session.Writer();
    ASSERT_OK(writer.status());
    for (int i = 0; i < versions; ++i) ASSERT_OK((*writer)->Put("key").status());
    ASSERT_OK(session.Finish());
  }
  void Remove() { std::filesystem::remove_all(directory_ / "store"); }
  static void PassALook() { io::RealClock().SleepNs(2 * NvsSession::kLookNs); }

  const test::TempDirectory directory_;
  NvsSession reading_{directory_.path(), kStore};
};

TEST_F(NvsSessions, AReaderReadsAStoreThatWasRecreated) {
  Write('A', 2);
  const Result<const void*> first = reading_.Get(kStore, "key", 0);
  ASSERT_OK(first.status());
  Remove();
  PassALook();
  EXPECT_CODE(reading_.Get(kStore, "key", 0).status(), Code::kNotFound);
  Write('B', 5);
  const Result<const void*> second = reading_.Get(kStore, "key", 0);
  ASSERT_OK(second.status());
  EXPECT_EQ(reading_.Look(*second).version, 5u);
  EXPECT_EQ(*static_cast<const char*>(*second), 'B');
  // The first version stays until it is released.
  EXPECT_EQ(reading_.Look(*first).version, 2u);
  EXPECT_EQ(*static_cast<const char*>(*first), 'A');
  EXPECT_OK(reading_.Release(*first));
  EXPECT_OK(reading_.Release(*second));
}

TEST_F(NvsSessions, HaveOneReaderOfAStoreThatStays) {
  Write('A', 1);
  const auto reader = reading_.Reader(kStore);
  ASSERT_OK(reader.status());
  EXPECT_EQ(*reader, *reading_.Reader(kStore));
}

}  // namespace
}  // namespace quire::compat::nvs_session_test
