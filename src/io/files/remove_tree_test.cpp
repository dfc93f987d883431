#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <utility>

#include "base/threads/sync_point.h"
#include "io/files/file_system.h"
#include "io/sim/sim_file_system.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"

namespace quire::io::remove_tree_test {
namespace {

constexpr char kListed[] = "io.remove_tree.listed";
constexpr char kDirectory[] = "io.remove_tree.directory";

// At the first arrival at `point`, replaces `inner` by a link to `victim`, as another program
// might.
class Swap : public base::SyncPointListener {
 public:
  Swap(std::string point, std::string inner, std::string victim)
      : point_(std::move(point)), inner_(std::move(inner)), victim_(std::move(victim)) {}
  void Reach(const char* name) override {
    if (swapped_ || name != point_) return;
    swapped_ = true;
    std::filesystem::rename(inner_, inner_ + ".away");
    std::filesystem::create_directory_symlink(victim_, inner_);
  }
  bool swapped() const { return swapped_; }

 private:
  const std::string point_;
  const std::string inner_;
  const std::string victim_;
  bool swapped_ = false;
};

class RemoveTree : public testing::Test {
 protected:
  void Make(FileSystem& fs, const std::string& root) {
    ASSERT_OK(fs.MakeDirectory(root));
    for (const std::string below : {"/a", "/a/b", "/a/b/c"}) {
      ASSERT_OK(fs.MakeDirectory(root + below));
      ASSERT_OK(WriteFile(fs, root + below + "/file", "x"));
    }
    ASSERT_OK(WriteFile(fs, root + "/file", "x"));
  }

  FileSystem& fs_ = PosixFileSystem();
  const test::TempDirectory directory_;
};

TEST_F(RemoveTree, TakesAllThatIsInADirectory) {
  Make(fs_, directory_ / "tree");
  ASSERT_OK(fs_.RemoveTree(directory_ / "tree"));
  EXPECT_FALSE(*fs_.Exists(directory_ / "tree"));
  EXPECT_CODE(fs_.RemoveTree(directory_ / "tree"), Code::kNotFound);
  const auto simulated = NewSimFileSystem();
  Make(*simulated, "/tree");
  ASSERT_OK(simulated->RemoveTree("/tree"));
  EXPECT_FALSE(*simulated->Exists("/tree"));
  EXPECT_CODE(simulated->RemoveTree("/tree"), Code::kNotFound);
}

// Removes in pieces of each size. Directories and files take turns, so that some come before others
// in any order of listing.
TEST_F(RemoveTree, RemovesNoMoreAtOnceThanItMay) {
  const auto simulated = NewSimFileSystem();
  const std::pair<FileSystem*, std::string> trees[] = {{&fs_, directory_ / "tree"},
                                                       {simulated.get(), "/tree"}};
  for (const auto& [fs, tree] : trees) {
    for (size_t piece = 1; piece <= 18; ++piece) {
      Make(*fs, tree);
      for (const std::string more : {"/1", "/2", "/3"}) {
        ASSERT_OK(WriteFile(*fs, tree + "/file" + more.substr(1), "x"));
        ASSERT_OK(fs->MakeDirectory(tree + more));
        ASSERT_OK(WriteFile(*fs, tree + more + "/file", "x"));
      }
      size_t removed = 0;
      bool gone = false;
      for (int calls = 0; !gone && calls < 17; ++calls) {
        size_t most = piece;
        const auto some = fs->RemoveSome(tree, &most);
        ASSERT_OK(some.status());
        gone = *some;
        EXPECT_LE(most, piece);
        EXPECT_TRUE(gone || most == 0) << "it stops early";
        removed += piece - most;
        EXPECT_EQ(*fs->Exists(tree), !gone);
      }
      EXPECT_TRUE(gone);
      EXPECT_EQ(removed, 17u) << "in pieces of " << piece;
    }
  }
}

TEST_F(RemoveTree, TakesLinksAndNotWhatTheyLeadTo) {
  Make(fs_, directory_ / "victim");
  Make(fs_, directory_ / "tree");
  std::filesystem::create_directory_symlink(directory_ / "victim", directory_ / "tree/link");
  std::filesystem::create_symlink(directory_ / "victim/file", directory_ / "tree/a/link");
  std::filesystem::create_directory_symlink(directory_ / "victim", directory_ / "link");
  EXPECT_FALSE(fs_.RemoveTree(directory_ / "link").ok());
  ASSERT_OK(fs_.RemoveTree(directory_ / "tree"));
  EXPECT_TRUE(*fs_.Exists(directory_ / "victim/a/b/c/file"));
  EXPECT_TRUE(*fs_.Exists(directory_ / "victim/file"));
}

TEST_F(RemoveTree, FollowsNoLinkThatTakesThePlaceOfADirectoryMeanwhile) {
  Make(fs_, directory_ / "victim");
  int round = 0;
  for (const std::string& point : {std::string(kListed), std::string(kDirectory)}) {
    for (const std::string below : {"", "/a"}) {
      const std::string tree = directory_ / "tree" + std::to_string(++round);
      Make(fs_, tree);
      Swap swap(point, tree + below, directory_ / "victim");
      const base::ScopedSyncPoints installed(&swap);
      (void)fs_.RemoveTree(tree).ok();  // it may fail, or go on
      EXPECT_TRUE(swap.swapped());
      for (const std::string kept : {"victim/file", "victim/a/file", "victim/a/b/c/file"}) {
        EXPECT_TRUE(*fs_.Exists(directory_ / kept)) << kept << ": " << point << below;
      }
    }
  }
}

TEST_F(RemoveTree, GivesUpATreeWithoutEnd) {
  const std::string deep = directory_ / "deep";
  std::string path = deep;
  ASSERT_OK(fs_.MakeDirectory(path));
  for (int level = 0; level < 100; ++level) {
    path += "/d";
    ASSERT_OK(fs_.MakeDirectory(path));
  }
  EXPECT_CODE(fs_.RemoveTree(deep), Code::kInvalidArgument);
  EXPECT_TRUE(*fs_.Exists(path));
}

}  // namespace
}  // namespace quire::io::remove_tree_test
