// Ranks that see other storage of a dataset than earlier ranks: no existing data is cut off, and
// all ranks report what was found, and where.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dataset/calls/dataset_testing.h"
#include "dataset/part/files.h"
#include "io/sim/sim_file_system.h"
#include "runtime/repository.h"
#include "runtime/sim_ranks_testing.h"
#include "tests/support/file_tree.h"
#include "tests/support/status_asserts.h"

namespace quire::dataset::other_storage_test {
namespace {

using testing::HasSubstr;

using Disk = std::unique_ptr<io::SimFileSystem>;
using Disks = std::vector<io::FileSystem*>;

constexpr int kPairs = 40;

std::string InDataset(const std::string& name) {
  return std::string(kDatasetDirectory) + "/" + name;
}

// By path: the bytes of all files but those of locks, which name their last holder.
std::map<std::string, std::string> Contents(io::FileSystem& fs) {
  std::map<std::string, std::string> contents;
  for (const std::string& path : test::FileTree(fs, "/repository")) {
    const Result<std::string> bytes = io::ReadFile(fs, path, UINT64_MAX);
    const bool is_lock = path.ends_with(".lock") || path.ends_with("/LOCK");
    contents[path] = bytes.ok() && !is_lock ? *bytes : "";
  }
  return contents;
}

class OtherStorage : public testing::TestWithParam<DatasetFormat> {
 protected:
  static Disk NewDisk() {
    Disk disk = io::NewSimFileSystem();
    EXPECT_OK(disk->MakeDirectory("/repository"));
    return disk;
  }
  static Disk CopyOf(io::FileSystem& disk) {
    Disk copy = NewDisk();
    EXPECT_OK(io::MakeDurableDirectory(*copy, kDatasetDirectory));
    for (const auto& [path, bytes] : Contents(disk)) {
      if (path == kDatasetDirectory) continue;
      EXPECT_OK(io::WriteFile(*copy, path, bytes));
    }
    return copy;
  }

  // A job of a rank on each of these disks.
  void Run(const Disks& disks,
           const std::function<void(runtime::ContextState&, DatasetWriter&)>& program) {
    RunSimRanks(Ranks(disks), [&](const std::shared_ptr<runtime::ContextState>& context) {
      auto writer = OpenWriter(context, SmallDataset(GetParam()));
      ASSERT_OK(writer.status());
      program(*context, **writer);
      EXPECT_OK((*writer)->Finish());
    });
  }
  void Write(const Disks& disks, const std::vector<uint64_t>& epochs) {
    Run(disks, [&](runtime::ContextState& context, DatasetWriter& writer) {
      for (const uint64_t epoch : epochs) {
        ASSERT_OK(WriteEpoch(writer, epoch, context.rank(), context.size(), kPairs));
      }
    });
  }
  void ExpectLast(const Disks& disks, std::optional<uint64_t> epoch) {
    Run(disks, [&](runtime::ContextState&, DatasetWriter& writer) {
      EXPECT_EQ(writer.LastEpoch(), epoch);
    });
  }
  // Expects that all ranks report the same, with `path` and what to do, and that no file is
  // touched.
  void ExpectRefused(const Disks& disks, const std::string& path) {
    std::vector<std::map<std::string, std::string>> before;
    for (io::FileSystem* const disk : disks) before.push_back(Contents(*disk));
    std::vector<std::string> texts(disks.size());
    RunSimRanks(Ranks(disks), [&](const std::shared_ptr<runtime::ContextState>& context) {
      const Status status = OpenWriter(context, SmallDataset(GetParam())).status();
      EXPECT_CODE(status, Code::kCorruption) << status.ToString();
      texts[static_cast<size_t>(context->rank())] = status.ToString();
    });
    for (size_t rank = 0; rank < disks.size(); ++rank) {
      EXPECT_EQ(texts[rank], texts[0]);
      EXPECT_EQ(Contents(*disks[rank]), before[rank]) << "on rank " << rank;
    }
    EXPECT_THAT(texts[0], HasSubstr(path));
    EXPECT_THAT(texts[0], HasSubstr("restore"));
  }

 private:
  runtime::SimRanksOptions Ranks(const Disks& disks) {
    runtime::SimRanksOptions ranks;
    ranks.rank_count = static_cast<int>(disks.size());
    ranks.seed = ++seed_;
    ranks.file_system = [disks](int rank) { return disks[static_cast<size_t>(rank)]; };
    return ranks;
  }

  uint64_t seed_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Formats, OtherStorage,
                         testing::Values(DatasetFormat::kBase, DatasetFormat::kPointer,
                                         DatasetFormat::kRibbon),
                         [](const auto& about) { return std::string(FormatName(about.param)); });

TEST_P(OtherStorage, ARankZeroWithoutTheDatasetBeginsNoOtherOneOverTheParts) {
  for (const std::vector<uint64_t>& epochs : {std::vector<uint64_t>{1}, {1, 2, 3}}) {
    const Disk a = NewDisk(), b = NewDisk(), c = NewDisk(), empty = NewDisk();
    Write({a.get(), b.get(), c.get()}, epochs);
    ExpectRefused({empty.get(), b.get(), c.get()}, PartPath(kDatasetDirectory, 1));
    ExpectRefused({empty.get(), empty.get(), c.get()}, PartPath(kDatasetDirectory, 2));
    ExpectLast({a.get(), b.get(), c.get()}, epochs.back());
  }
}

// The rest of an incomplete epoch counts as much: the beginning of the dataset is on rank 0.
TEST_P(OtherStorage, ARankZeroWithoutTheDatasetKeepsTheRestOfAnIncompleteEpoch) {
  const Disk a = NewDisk(), b = NewDisk(), empty = NewDisk();
  Write({a.get(), b.get()}, {});
  ASSERT_OK(b->Damage(PartPath(kDatasetDirectory, 1), [](std::string* bytes) {
    *bytes = "a table";
  }));
  ExpectRefused({empty.get(), b.get()}, PartPath(kDatasetDirectory, 1));
  ExpectLast({a.get(), b.get()}, std::nullopt);
}

TEST_P(OtherStorage, RanksThatChangedPlacesAreRefused) {
  const Disk a = NewDisk(), b = NewDisk();
  Write({a.get(), b.get()}, {1});
  ExpectRefused({b.get(), a.get()}, InDataset(runtime::kDatasetFile));
  ExpectLast({a.get(), b.get()}, 1);
}

TEST_P(OtherStorage, PartsOfAnotherDatasetAreNotCutOff) {
  for (const std::vector<uint64_t>& epochs : {std::vector<uint64_t>{1}, {1, 2, 3}}) {
    for (const bool has_epoch : {false, true}) {
      const Disk a = NewDisk(), b = NewDisk(), other = NewDisk();
      Write({a.get(), b.get()}, epochs);
      Write({other.get()}, has_epoch ? std::vector<uint64_t>{1} : std::vector<uint64_t>{});
      ExpectRefused({other.get(), b.get()}, PartPath(kDatasetDirectory, 1));
      ExpectLast({a.get(), b.get()}, epochs.back());
    }
  }
}

TEST_P(OtherStorage, ARankThatSeesAnotherDatasetIsRefused) {
  const Disk a = NewDisk(), other = NewDisk();
  Write({a.get()}, {1});
  Write({other.get()}, {1});
  ExpectRefused({a.get(), other.get()}, InDataset(runtime::kDatasetFile));
}

TEST_P(OtherStorage, AnOldCopyOnRankZeroCutsNoPartOff) {
  const Disk a = NewDisk(), b = NewDisk(), c = NewDisk();
  Write({a.get(), b.get(), c.get()}, {1});
  const Disk old = CopyOf(*a);
  Write({a.get(), b.get(), c.get()}, {2});
  Write({a.get(), b.get()}, {3});  // the last rank has one epoch more than the old copy
  ExpectRefused({old.get(), b.get(), c.get()}, IndexPath(kDatasetDirectory, 1));
  ExpectLast({a.get(), b.get(), c.get()}, 3);
}

TEST_P(OtherStorage, AnOldCopyOfTheFirstEpochsOnRankZeroCutsNoPartOff) {
  const Disk a = NewDisk(), b = NewDisk();
  Write({a.get(), b.get()}, {});
  const Disk old = CopyOf(*a);
  Write({a.get(), b.get()}, {1, 2});
  ExpectRefused({old.get(), b.get()}, IndexPath(kDatasetDirectory, 1));
  ExpectLast({a.get(), b.get()}, 2);
}

// As on a network file system that shows rank 0 yesterday's files.
TEST_P(OtherStorage, ARankZeroThatSeesFewerEpochsThanAnotherRankIsRefused) {
  const Disk shared = NewDisk();
  Write({shared.get(), shared.get()}, {1});
  const Disk old = CopyOf(*shared);
  Write({shared.get(), shared.get()}, {2});
  ExpectRefused({old.get(), shared.get()}, InDataset(kEpochsName));
  ExpectLast({shared.get(), shared.get()}, 2);
}

TEST_P(OtherStorage, AnOldCopyOnAnotherRankIsRefused) {
  const Disk a = NewDisk(), b = NewDisk();
  Write({a.get(), b.get()}, {1});
  const Disk old = CopyOf(*b);
  Write({a.get(), b.get()}, {2});
  ExpectRefused({a.get(), old.get()}, IndexPath(kDatasetDirectory, 1));
  ExpectLast({a.get(), b.get()}, 2);
}

// On one storage: the dataset's first files are gone, and those of other ranks are not.
TEST_P(OtherStorage, PartsWithoutTheDatasetsFilesAreNotCutOff) {
  const Disk shared = NewDisk();
  Write({shared.get(), shared.get(), shared.get()}, {1});
  for (const std::string& name : {std::string(runtime::kDatasetFile), std::string(kEpochsName),
                                  std::string("part-0"), std::string("part-0.index")}) {
    ASSERT_OK(shared->Unlink(InDataset(name)));
  }
  ExpectRefused({shared.get(), shared.get()}, InDataset(runtime::kDatasetFile));
  ExpectRefused({shared.get()}, InDataset(runtime::kDatasetFile));
}

}  // namespace
}  // namespace quire::dataset::other_storage_test
