#include "stream/listing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"

namespace quire::stream {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class Listing : public testing::Test {
 protected:
  void MakeStore(const std::string& name, const std::vector<std::string>& files) {
    ASSERT_OK(fs_.MakeDirectory(place_ / name));
    for (const std::string& file : files) {
      ASSERT_OK(io::WriteFile(fs_, place_ / name + "/" + file, "x"));
    }
  }

  io::FileSystem& fs_ = io::PosixFileSystem();
  const test::TempDirectory place_;
};

TEST_F(Listing, RanksAreThoseOfTheLogsInOrder) {
  MakeStore("heat", {"ROOT", "log-10", "log-2", "log-0", "log-0.lock", "log-7.lock", "index-3",
                     "log-", "log-01", "log--1", "log-4294967296", "log-4294967295"});
  const auto ranks = ListRanks(fs_, place_.path(), "heat");
  ASSERT_OK(ranks.status());
  EXPECT_THAT(*ranks, ElementsAre(0u, 2u, 10u, 4294967295u));
}

TEST_F(Listing, StoresAreDirectoriesWithALog) {
  MakeStore("b", {"ROOT", "log-3"});
  MakeStore("a", {"ROOT", "log-0"});
  MakeStore("empty", {});
  MakeStore("other", {"data"});
  MakeStore(".mirror", {"log-0"});
  ASSERT_OK(io::WriteFile(fs_, place_ / "file", "x"));
  const auto stores = ListStores(fs_, place_.path());
  ASSERT_OK(stores.status());
  EXPECT_THAT(*stores, ElementsAre("a", "b"));
}

TEST_F(Listing, WhatIsNotThereIsNotFound) {
  EXPECT_EQ(ListStores(fs_, place_ / "nowhere").status().code(), Code::kNotFound);
  EXPECT_EQ(ListRanks(fs_, place_.path(), "none").status().code(), Code::kNotFound);
  EXPECT_EQ(ListRanks(fs_, place_.path(), "../none").status().code(), Code::kInvalidArgument);
  const auto stores = ListStores(fs_, place_.path());
  ASSERT_OK(stores.status());
  EXPECT_THAT(*stores, IsEmpty());
}

}  // namespace
}  // namespace quire::stream
