#include "tools/quire-streamd/paged_lists.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/status_asserts.h"

namespace quire::streamd::paged_lists_test {
namespace {

class PagedListsTest : public ::testing::Test {
 protected:
  // Gets a page of the list `name`, which has this many entries. Returns whether the list was made
  // for it.
  bool MakesPage(const std::string& name, bool first, size_t entries) {
    bool made = false;
    const auto list = lists_.Get(name, first, [&]() -> Result<std::vector<int>> {
      made = true;
      return std::vector<int>(entries);
    });
    EXPECT_OK(list.status());
    lists_.Keep(name, *list);
    return made;
  }

  PagedLists<std::string, int> lists_{100};
};

TEST_F(PagedListsTest, KeepAListForItsFurtherPages) {
  EXPECT_TRUE(MakesPage("a", true, 10));
  EXPECT_FALSE(MakesPage("a", false, 10));
  EXPECT_TRUE(MakesPage("a", true, 10));
}

TEST_F(PagedListsTest, DropThoseThatWereAskedForLongestAgoWhereTheyHaveTooManyEntries) {
  for (const char* const name : {"a", "b", "c"}) EXPECT_TRUE(MakesPage(name, true, 30));
  EXPECT_FALSE(MakesPage("a", false, 30));
  EXPECT_TRUE(MakesPage("d", true, 30));  // drops b
  for (const char* const name : {"a", "c", "d"}) EXPECT_FALSE(MakesPage(name, false, 30)) << name;
  EXPECT_TRUE(MakesPage("b", false, 30));
}

TEST_F(PagedListsTest, KeepTheLastListWhateverItsSize) {
  EXPECT_TRUE(MakesPage("a", true, 30));
  EXPECT_TRUE(MakesPage("large", true, 1000));
  EXPECT_FALSE(MakesPage("large", false, 1000));
  EXPECT_TRUE(MakesPage("a", false, 30));
}

}  // namespace
}  // namespace quire::streamd::paged_lists_test
