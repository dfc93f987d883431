#include "stream/store/listing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "stream/remote/remote_reader.h"
#include "stream/store/local_reader.h"
#include "stream/store/mirror.h"
#include "stream/store/tending.h"
#include "stream/store/writer.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"

namespace quire::stream::listing_test {
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

TEST_F(Listing, AMissingPlaceOrStoreIsNotFound) {
  EXPECT_EQ(ListStores(fs_, place_ / "nowhere").status().code(), Code::kNotFound);
  EXPECT_EQ(ListRanks(fs_, place_.path(), "none").status().code(), Code::kNotFound);
  EXPECT_EQ(ListRanks(fs_, place_.path(), "../none").status().code(), Code::kInvalidArgument);
  const auto stores = ListStores(fs_, place_.path());
  ASSERT_OK(stores.status());
  EXPECT_THAT(*stores, IsEmpty());
}

// A store beside the place is not in the place, so no name may lead there.
TEST_F(Listing, ANameThatLeadsOutOfThePlaceOpensNothing) {
  const std::string inner = place_ / "inner";
  ASSERT_OK(fs_.MakeDirectory(inner));
  for (const std::string& place : {place_.path(), inner}) {
    auto writer = OpenWriter(fs_, place, "secret", 0, StreamOptions{.log_bytes = 1 << 20});
    ASSERT_OK(writer.status());
    ASSERT_OK((*writer)->Create("x", 8).status());
    ASSERT_OK((*writer)->Snapshot().status());
    ASSERT_OK((*writer)->Finish());
  }
  const std::string outside = place_ / "inner";
  ASSERT_OK(OpenReader(fs_, outside, "secret", 0, {}).status());
  for (const std::string& name :
       {std::string("../secret"), std::string("../inner/secret"), std::string("./secret"),
        std::string("secret/"), std::string(".."), std::string("."), std::string(),
        place_ / "secret", std::string("secret\0x", 8), std::string(256, 's')}) {
    const StreamReaderOptions local{.remote = false};
    EXPECT_CODE(OpenReader(fs_, outside, name, 0, local).status(), Code::kInvalidArgument) << name;
    EXPECT_CODE(OpenReader(fs_, outside, name, 0, {}).status(), Code::kInvalidArgument) << name;
    EXPECT_CODE(OpenLocalReader(fs_, outside, name, 0).status(), Code::kInvalidArgument) << name;
    EXPECT_CODE(OpenRemoteReader(fs_, outside, name, 0, {}).status(), Code::kInvalidArgument);
    EXPECT_CODE(OpenWriter(fs_, outside, name, 0, {}).status(), Code::kInvalidArgument) << name;
    EXPECT_CODE(Mirror::Open(fs_, outside, name, 0, {}).status(), Code::kInvalidArgument) << name;
    EXPECT_CODE(CollectEnded(fs_, outside, name, 0), Code::kInvalidArgument) << name;
    EXPECT_CODE(RecoverIndex(fs_, outside, name, 0), Code::kInvalidArgument) << name;
    EXPECT_CODE(CheckLog(fs_, outside, name, 0, true), Code::kInvalidArgument) << name;
    EXPECT_CODE(ListRanks(fs_, outside, name).status(), Code::kInvalidArgument) << name;
  }
}

TEST_F(Listing, AStoreThatDoesNotExistYetIsReported) {
  ::unsetenv("QUIRE_STREAMD");
  ::unsetenv("QUIRE_STREAMD_METADATA");
  const Status here = OpenReader(fs_, place_.path(), "temp", 0, {.remote = false}).status();
  EXPECT_EQ(here.ToString(), "not found: no store temp at " + place_.path() +
                                 ": no writer has created it yet (rank 0)");
  const Status anywhere = OpenReader(fs_, place_.path(), "temp", 0, {}).status();
  EXPECT_EQ(anywhere.ToString(),
            "not found: no store temp at " + place_.path() +
                ": no writer has created it yet (rank 0), or it is on another node and no "
                "quire-streamd serves " +
                place_.path());
}

}  // namespace
}  // namespace quire::stream::listing_test
