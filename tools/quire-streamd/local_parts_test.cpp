#include "tools/quire-streamd/local_parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/status_asserts.h"
#include "tools/quire-streamd/daemon_testing.h"

namespace quire::streamd::local_parts_test {
namespace {

using stream::Request;
using stream::RequestOperation;

class LocalPartsTest : public ::testing::Test {
 protected:
  Request Of(RequestOperation operation, const std::string& key, uint64_t number) {
    Request request;
    request.operation = operation;
    request.part = {"store", 0};
    request.key = key;
    request.number = number;
    return request;
  }
  // Returns the objects as a reader of another node requests them; `pages` counts the answers.
  std::vector<std::string> Objects(int* pages) {
    std::vector<std::string> all;
    for (bool more = true; more; ++*pages) {
      const auto body =
          parts_.BodyOf(Of(RequestOperation::kObjects, all.empty() ? "" : all.back(), 0));
      const auto some = body.ok() ? stream::DecodeObjects(*body) : body.status();
      EXPECT_OK(some.status());
      if (!some.ok()) break;
      all.insert(all.end(), some->keys.begin(), some->keys.end());
      more = some->more;
    }
    return all;
  }
  std::vector<uint64_t> Versions(int* pages) {
    std::vector<uint64_t> all;
    for (bool more = true; more; ++*pages) {
      const auto body =
          parts_.BodyOf(Of(RequestOperation::kVersions, "T", all.empty() ? 0 : all.back()));
      const auto some = body.ok() ? stream::DecodeVersions(*body) : body.status();
      EXPECT_OK(some.status());
      if (!some.ok()) break;
      for (const StreamVersion& one : some->versions) all.push_back(one.version);
      more = some->more;
    }
    return all;
  }

  const std::shared_ptr<FakePart> part_ = std::make_shared<FakePart>();
  LocalParts parts_{[this](const stream::StorePart&) { return NewFakeReader(part_); }};
};

TEST_F(LocalPartsTest, ListTheObjectsOnceForAllPages) {
  constexpr size_t kObjects = 500;
  for (size_t i = 0; i < kObjects; ++i) part_->Put(std::string(1000, 'k') + std::to_string(i), "x");
  int pages = 0;
  const auto objects = Objects(&pages);
  EXPECT_EQ(objects.size(), kObjects);
  EXPECT_TRUE(std::is_sorted(objects.begin(), objects.end()));
  EXPECT_GT(pages, 5);
  EXPECT_EQ(part_->listed, 1);
}

TEST_F(LocalPartsTest, ListTheVersionsOnceForAllPages) {
  constexpr uint64_t kVersions = 30'000;
  for (uint64_t i = 0; i < kVersions; ++i) part_->Put("T", "x");
  int pages = 0;
  const auto versions = Versions(&pages);
  ASSERT_EQ(versions.size(), kVersions);
  EXPECT_EQ(versions.front(), kVersions);
  EXPECT_EQ(versions.back(), 1u);
  EXPECT_GT(pages, 3);
  EXPECT_EQ(part_->listed, 1);
}

TEST_F(LocalPartsTest, AFirstPageIsListedAgain) {
  part_->Put("T", "x");
  int pages = 0;
  EXPECT_EQ(Objects(&pages).size(), 1u);
  part_->Put("U", "x");
  EXPECT_EQ(Objects(&pages).size(), 2u);
  EXPECT_EQ(Versions(&pages).size(), 1u);
  part_->Put("T", "x");
  EXPECT_EQ(Versions(&pages).size(), 2u);
}

// A list is dropped if two refreshes come between two of its pages: the next page is right anyway.
TEST_F(LocalPartsTest, GiveTheNextPageOfAListThatWasDropped) {
  for (int i = 0; i < 500; ++i) part_->Put(std::string(1000, 'k') + std::to_string(i), "x");
  const auto first = *stream::DecodeObjects(*parts_.BodyOf(Of(RequestOperation::kObjects, "", 0)));
  EXPECT_TRUE(first.more);
  for (int i = 0; i < 2; ++i) parts_.Refresh();
  const auto second =
      *stream::DecodeObjects(*parts_.BodyOf(Of(RequestOperation::kObjects, first.keys.back(), 0)));
  EXPECT_GT(second.keys.front(), first.keys.back());
  EXPECT_EQ(part_->listed, 2);
}

}  // namespace
}  // namespace quire::streamd::local_parts_test
