#include "io/sim/sim_file_system.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/status_asserts.h"

namespace quire::io::sim_file_system_test {
namespace {

constexpr int kSeeds = 300;  // enough for every fate of a page

class SimFileSystemTest : public ::testing::Test {
 protected:
  std::unique_ptr<File> Create(const std::string& path) {
    auto file = fs().Open(path, FileOpenMode::kReadWriteCreate);
    EXPECT_TRUE(file.ok()) << file.status().ToString();
    return std::move(file).value();
  }
  // Makes a file whose contents and name are durable.
  void CreateDurable(const std::string& path, Slice bytes) {
    auto file = Create(path);
    EXPECT_TRUE(file->WriteAt(0, bytes).ok());
    EXPECT_TRUE(file->Sync().ok());
    EXPECT_TRUE(fs().SyncDirectory("/").ok());
  }
  std::string Contents(const std::string& path) {
    auto bytes = ReadFile(fs(), path, 1 << 20);
    return bytes.ok() ? *bytes : bytes.status().ToString();
  }
  bool Exists(const std::string& path) { return *fs().Exists(path); }
  // Starts a fresh machine, for tests that try many seeds.
  void Fresh() { fs_ = NewSimFileSystem(); }
  SimFileSystem& fs() { return *fs_; }

 private:
  std::unique_ptr<SimFileSystem> fs_ = NewSimFileSystem();
};

TEST_F(SimFileSystemTest, AKilledProcessLosesNothingThatHappened) {
  auto file = Create("/f");
  ASSERT_TRUE(file->Allocate(8192).ok());
  ASSERT_TRUE(file->WriteAt(0, "written").ok());
  auto map = fs().Map("/f", 8192, MapMode::kReadWrite);
  std::memcpy((*map)->data() + 5000, "stored", 6);
  const uint64_t boot = fs().BootId();
  fs().Restart(CrashKind::kProcess, 1);
  EXPECT_EQ(fs().BootId(), boot);
  EXPECT_EQ(Contents("/f").substr(0, 7), "written");
  EXPECT_EQ(Contents("/f").substr(5000, 6), "stored");
  fs().Restart(CrashKind::kMoved, 1);
  EXPECT_NE(fs().BootId(), boot) << "another node";
  EXPECT_EQ(Contents("/f").substr(5000, 6), "stored");
}

TEST_F(SimFileSystemTest, HandlesAndLocksOfBeforeARestartAreDead) {
  CreateDurable("/f", std::string(4096, 'x'));
  auto file = Create("/f");
  auto map = fs().Map("/f", 4096, MapMode::kReadWrite);
  auto lock = fs().Lock("/LOCK", "me");
  ASSERT_TRUE(map.ok() && lock.ok());
  fs().Restart(CrashKind::kProcess, 1);
  char byte;
  EXPECT_EQ(file->ReadAt(0, 1, &byte).code(), Code::kIo);
  EXPECT_EQ(file->WriteAt(0, "y").code(), Code::kIo);
  EXPECT_EQ(file->Size().status().code(), Code::kIo);
  EXPECT_EQ((*map)->Sync(0, 4096).code(), Code::kIo);
  (*map)->data()[0] = 'y';
  (*map)->Stored(0, 1);
  EXPECT_EQ(fs().steps(), 0u);
  EXPECT_EQ(Contents("/f"), std::string(4096, 'x'));
  auto second = fs().Lock("/LOCK", "you");
  EXPECT_TRUE(second.ok());
  lock = Status(Code::kNotFound);  // releasing the dead one releases nothing
  EXPECT_EQ(fs().Lock("/LOCK", "third").status().code(), Code::kBusy);
}

TEST_F(SimFileSystemTest, SyncedFilesSurvivePowerLoss) {
  for (int seed = 0; seed < kSeeds; ++seed) {
    Fresh();
    CreateDurable("/f", std::string(10000, 'd'));
    const uint64_t boot = fs().BootId();
    fs().Restart(CrashKind::kPower, static_cast<uint64_t>(seed));
    EXPECT_NE(fs().BootId(), boot);
    EXPECT_EQ(Contents("/f"), std::string(10000, 'd')) << seed;
  }
}

TEST_F(SimFileSystemTest, UnsyncedBytesMeetEveryFate) {
  bool kept = false, dropped = false, torn = false, garbled = false;
  for (int seed = 0; seed < kSeeds; ++seed) {
    Fresh();
    CreateDurable("/f", std::string(4096, 'o'));
    ASSERT_TRUE(Create("/f")->WriteAt(0, std::string(4096, 'n')).ok());
    fs().Restart(CrashKind::kPower, static_cast<uint64_t>(seed));
    const std::string bytes = Contents("/f");
    ASSERT_EQ(bytes.size(), 4096u);
    const std::set<char> letters(bytes.begin(), bytes.end());
    if (letters == std::set<char>{'n'}) {
      kept = true;
    } else if (letters == std::set<char>{'o'}) {
      dropped = true;
    } else if (letters == std::set<char>{'n', 'o'}) {
      torn = true;
      for (size_t i = 0; i < bytes.size(); ++i) EXPECT_EQ(bytes[i], bytes[i / 64 * 64]);
    } else {
      garbled = true;
    }
  }
  EXPECT_TRUE(kept && dropped && torn && garbled) << kept << dropped << torn << garbled;
}

TEST_F(SimFileSystemTest, PagesMeetTheirFatesIndependently) {
  std::set<std::string> outcomes;
  for (int seed = 0; seed < kSeeds; ++seed) {
    Fresh();
    CreateDurable("/f", std::string(2 * 4096, 'o'));
    ASSERT_TRUE(Create("/f")->WriteAt(0, std::string(2 * 4096, 'n')).ok());
    fs().Restart(CrashKind::kPower, static_cast<uint64_t>(seed));
    std::string outcome;
    for (const std::string& page : {Contents("/f").substr(0, 4096), Contents("/f").substr(4096)}) {
      const std::set<char> letters(page.begin(), page.end());
      outcome += letters.size() == 1 ? *letters.begin() : '?';
    }
    outcomes.insert(outcome);
  }
  for (const char* outcome : {"oo", "on", "no", "nn"}) EXPECT_TRUE(outcomes.contains(outcome));
}

TEST_F(SimFileSystemTest, SyncedBytesOfAPageSurviveBesideUnsyncedOnes) {
  for (int seed = 0; seed < kSeeds; ++seed) {
    Fresh();
    CreateDurable("/f", std::string(4096, '\0'));
    auto map = fs().Map("/f", 4096, MapMode::kReadWrite);
    std::memset((*map)->data() + 10, 's', 20);
    ASSERT_TRUE((*map)->Sync(10, 20).ok());
    std::memset((*map)->data() + 30, 'u', 20);
    fs().Restart(CrashKind::kPower, static_cast<uint64_t>(seed));
    EXPECT_EQ(Contents("/f").substr(10, 20), std::string(20, 's')) << seed;
    EXPECT_EQ(Contents("/f").substr(0, 10), std::string(10, '\0')) << seed;
  }
}

TEST_F(SimFileSystemTest, AnUnsyncedSizeIsTheOldOrTheNew) {
  std::set<size_t> sizes;
  for (int seed = 0; seed < kSeeds; ++seed) {
    Fresh();
    CreateDurable("/f", "abc");
    ASSERT_TRUE(Create("/f")->Allocate(5000).ok());
    fs().Restart(CrashKind::kPower, static_cast<uint64_t>(seed));
    sizes.insert(Contents("/f").size());
    EXPECT_EQ(Contents("/f").substr(0, 3), "abc");
  }
  EXPECT_EQ(sizes, (std::set<size_t>{3, 5000}));
}

TEST_F(SimFileSystemTest, AnUnsyncedCutMayComeBackWhole) {
  std::set<size_t> sizes;
  for (int seed = 0; seed < kSeeds; ++seed) {
    Fresh();
    CreateDurable("/f", std::string(10000, 'a'));
    ASSERT_TRUE(Create("/f")->Truncate(100).ok());
    fs().Restart(CrashKind::kPower, static_cast<uint64_t>(seed));
    const std::string bytes = Contents("/f");
    sizes.insert(bytes.size());
    EXPECT_EQ(bytes, std::string(bytes.size(), 'a'));
  }
  EXPECT_EQ(sizes, (std::set<size_t>{100, 10000}));
}

TEST_F(SimFileSystemTest, ASyncedFileWithoutADirectorySyncMayLoseItsName) {
  bool there = false, gone = false;
  for (int seed = 0; seed < kSeeds; ++seed) {
    Fresh();
    auto file = Create("/f");
    ASSERT_TRUE(file->WriteAt(0, "abc").ok());
    ASSERT_TRUE(file->Sync().ok());
    fs().Restart(CrashKind::kPower, static_cast<uint64_t>(seed));
    (Exists("/f") ? there : gone) = true;
    if (Exists("/f")) {
      EXPECT_EQ(Contents("/f"), "abc");
    }
  }
  EXPECT_TRUE(there && gone);
}

TEST_F(SimFileSystemTest, DirectoryOperationsSurviveAsAPrefixAndRenamesWhole) {
  std::set<std::string> outcomes;
  for (int seed = 0; seed < kSeeds; ++seed) {
    Fresh();
    CreateDurable("/a", "old");
    CreateDurable("/b", "new");
    ASSERT_TRUE(fs().Rename("/b", "/a").ok());
    Create("/c");
    ASSERT_TRUE(fs().Unlink("/a").ok());
    fs().Restart(CrashKind::kPower, static_cast<uint64_t>(seed));
    std::string outcome;
    for (const FileInfo& file : *fs().List("/")) {
      outcome += file.name + "=" + Contents("/" + file.name) + " ";
    }
    outcomes.insert(outcome);
  }
  EXPECT_EQ(outcomes, (std::set<std::string>{"a=old b=new ", "a=new ", "a=new c= ", "c= "}));
}

TEST_F(SimFileSystemTest, ALinkedFileTakesItsRoomOnceUntilItsLastNameGoes) {
  Fresh();
  CreateDurable("/a", "0123456789");
  fs().SetFreeBytes(100);
  ASSERT_TRUE(fs().Link("/a", "/b").ok());
  EXPECT_EQ(*fs().FreeBytes("/"), 100u);
  ASSERT_TRUE(fs().SyncDirectory("/").ok());
  fs().Restart(CrashKind::kPower, 1);
  ASSERT_TRUE(fs().Unlink("/a").ok());
  EXPECT_EQ(*fs().FreeBytes("/"), 100u);
  ASSERT_TRUE(fs().Unlink("/b").ok());
  EXPECT_EQ(*fs().FreeBytes("/"), 110u);
}

TEST_F(SimFileSystemTest, FilesInALostDirectoryAreLost) {
  std::set<std::string> outcomes;
  for (int seed = 0; seed < kSeeds; ++seed) {
    Fresh();
    ASSERT_TRUE(fs().MakeDirectory("/d").ok());
    ASSERT_TRUE(Create("/d/f")->Sync().ok());
    ASSERT_TRUE(fs().SyncDirectory("/d").ok());
    fs().Restart(CrashKind::kPower, static_cast<uint64_t>(seed));
    outcomes.insert(Exists("/d") ? (Exists("/d/f") ? "both" : "directory") : "none");
  }
  EXPECT_EQ(outcomes, (std::set<std::string>{"both", "none"}));
}

TEST_F(SimFileSystemTest, ASecondPowerLossFindsWhatTheFirstLeft) {
  for (int seed = 0; seed < kSeeds; ++seed) {
    Fresh();
    Create("/f");
    ASSERT_TRUE(Create("/f")->WriteAt(0, std::string(20000, 'x')).ok());
    fs().Restart(CrashKind::kPower, static_cast<uint64_t>(seed));
    const std::string first = Contents("/f");
    fs().Restart(CrashKind::kPower, static_cast<uint64_t>(seed) + 1);
    EXPECT_EQ(Contents("/f"), first);
  }
}

TEST_F(SimFileSystemTest, SameSeedSameOutcome) {
  std::vector<std::string> outcomes;
  for (int run = 0; run < 2; ++run) {
    Fresh();
    for (const char* path : {"/a", "/b", "/c"}) {
      ASSERT_TRUE(Create(path)->WriteAt(0, std::string(30000, 'x')).ok());
    }
    fs().Restart(CrashKind::kPower, 12345);
    outcomes.push_back(Contents("/a") + "|" + Contents("/b") + "|" + Contents("/c"));
  }
  EXPECT_EQ(outcomes[0], outcomes[1]);
}

TEST_F(SimFileSystemTest, CrashesAfterTheGivenStepAndThenFailsEverything) {
  CreateDurable("/f", "abc");
  auto file = Create("/f");
  auto map = fs().Map("/f", 3, MapMode::kReadWrite);
  fs().CrashAfter(2);
  EXPECT_TRUE(file->WriteAt(0, "A").ok());
  EXPECT_FALSE(fs().crashed());
  EXPECT_TRUE(file->WriteAt(1, "B").ok());
  EXPECT_TRUE(fs().crashed());
  (*map)->data()[2] = 'C';  // dead memory
  const Status status = file->WriteAt(2, "");
  EXPECT_EQ(status.ToString(), "input/output error: simulated crash");
  char byte;
  EXPECT_EQ(file->ReadAt(0, 1, &byte).code(), Code::kIo);
  EXPECT_EQ(file->Sync().code(), Code::kIo);
  EXPECT_EQ(file->Truncate(0).code(), Code::kIo);
  EXPECT_EQ((*map)->Sync(0, 3).code(), Code::kIo);
  EXPECT_EQ(fs().Open("/g", FileOpenMode::kCreate).status().code(), Code::kIo);
  EXPECT_EQ(fs().Map("/f", 1, MapMode::kRead).status().code(), Code::kIo);
  EXPECT_EQ(fs().Rename("/f", "/g").code(), Code::kIo);
  EXPECT_EQ(fs().Unlink("/f").code(), Code::kIo);
  EXPECT_EQ(fs().MakeDirectory("/d").code(), Code::kIo);
  EXPECT_EQ(fs().RemoveDirectory("/d").code(), Code::kIo);
  EXPECT_EQ(fs().SyncDirectory("/").code(), Code::kIo);
  EXPECT_EQ(fs().List("/").status().code(), Code::kIo);
  EXPECT_EQ(fs().Exists("/f").status().code(), Code::kIo);
  EXPECT_EQ(fs().Lock("/LOCK", "me").status().code(), Code::kIo);
  EXPECT_EQ(fs().FreeBytes("/").status().code(), Code::kIo);
  fs().Restart(CrashKind::kProcess, 1);
  EXPECT_EQ(Contents("/f"), "ABc");
  EXPECT_FALSE(fs().crashed());
}

TEST_F(SimFileSystemTest, EveryChangeIsAStepAndNothingElse) {
  uint64_t before = 0;
  const auto took = [&] { return fs().steps() - std::exchange(before, fs().steps()); };
  EXPECT_TRUE(fs().MakeDirectory("/d").ok());
  EXPECT_EQ(took(), 1u);
  EXPECT_TRUE(fs().MakeDirectory("/d").ok());  // there already
  EXPECT_EQ(took(), 0u);
  auto file = Create("/d/f");
  EXPECT_EQ(took(), 1u);
  Create("/d/f");
  EXPECT_EQ(took(), 0u);
  EXPECT_TRUE(file->WriteAt(0, "abc").ok());
  EXPECT_EQ(took(), 1u);
  EXPECT_TRUE(file->Allocate(4096).ok());
  EXPECT_EQ(took(), 1u);
  EXPECT_TRUE(file->Truncate(4096).ok());
  EXPECT_EQ(took(), 1u);
  EXPECT_TRUE(file->Sync().ok());
  EXPECT_EQ(took(), 1u);
  EXPECT_TRUE(fs().SyncDirectory("/d").ok());
  EXPECT_EQ(took(), 1u);
  auto map = fs().Map("/d/f", 4096, MapMode::kReadWrite);
  EXPECT_EQ(took(), 0u);
  (*map)->Stored(0, 8);
  EXPECT_EQ(took(), 1u);
  EXPECT_TRUE((*map)->Sync(0, 8).ok());
  EXPECT_EQ(took(), 1u);
  EXPECT_TRUE(fs().Rename("/d/f", "/d/g").ok());
  EXPECT_EQ(took(), 1u);
  EXPECT_TRUE(fs().Unlink("/d/g").ok());
  EXPECT_EQ(took(), 1u);
  EXPECT_TRUE(fs().RemoveDirectory("/d").ok());
  EXPECT_EQ(took(), 1u);
  EXPECT_FALSE(fs().Unlink("/d/g").ok());
  EXPECT_TRUE(fs().List("/").ok());
  EXPECT_EQ(took(), 0u);
}

TEST_F(SimFileSystemTest, TheWriteUnderWayAtTheCrashMayLeaveAPart) {
  std::set<size_t> written, stored;
  for (int seed = 0; seed < kSeeds; ++seed) {
    Fresh();
    CreateDurable("/f", std::string(100, '.'));
    CreateDurable("/m", std::string(100, '.'));
    auto file = Create("/f");
    auto map = fs().Map("/m", 100, MapMode::kReadWrite);
    fs().CrashAfter(0);
    if (seed % 2 == 0) {
      EXPECT_FALSE(file->WriteAt(10, "01234567").ok());
    }
    std::memcpy((*map)->data() + 10, "01234567", 8);
    (*map)->Stored(10, 8);  // after a WriteAt this is the second write, which leaves nothing
    fs().Restart(CrashKind::kProcess, static_cast<uint64_t>(seed));
    for (const char* path : {"/f", "/m"}) {
      const std::string bytes = Contents(path);
      const size_t kept = bytes.find('.', 10) - 10;
      EXPECT_EQ(bytes, std::string(10, '.') + std::string("01234567").substr(0, kept) +
                           std::string(90 - kept, '.'));
      const bool first = (seed % 2 == 0) == (std::string(path) == "/f");
      if (first) {
        (seed % 2 == 0 ? written : stored).insert(kept);
      } else {
        EXPECT_EQ(kept, 0u);
      }
    }
  }
  EXPECT_EQ(written.size(), 9u);
  EXPECT_EQ(stored.size(), 9u);
}

// A program does not see a call fail because the machine goes down, and then write: no write that
// it makes after that call may be found.
TEST_F(SimFileSystemTest, NoWriteOfAThreadWasUnderWayBehindAnotherCallThatFailed) {
  const std::function<Status()> others[] = {
      [this] { return fs().Open("/f", FileOpenMode::kRead).status(); },
      [this] { return fs().SyncDirectory("/"); }, [this] { return fs().Exists("/f").status(); }};
  for (const auto& other : others) {
    for (int seed = 0; seed < kSeeds; ++seed) {
      Fresh();
      CreateDurable("/f", std::string(100, '.'));
      auto map = fs().Map("/f", 100, MapMode::kReadWrite);
      fs().CrashAfter(0);
      EXPECT_EQ(other().code(), Code::kIo);
      std::memcpy((*map)->data() + 10, "01234567", 8);
      (*map)->Stored(10, 8);
      fs().Restart(CrashKind::kProcess, static_cast<uint64_t>(seed));
      EXPECT_EQ(Contents("/f"), std::string(100, '.'));
    }
  }
}

TEST_F(SimFileSystemTest, AWriteOfAnotherThreadMayHaveBeenUnderWay) {
  std::set<std::string> found;
  for (int seed = 0; seed < kSeeds; ++seed) {
    Fresh();
    CreateDurable("/f", "..");
    auto file = Create("/f");
    fs().CrashAfter(0);
    EXPECT_EQ(fs().SyncDirectory("/").code(), Code::kIo);
    std::thread([&] { EXPECT_FALSE(file->WriteAt(0, "01").ok()); }).join();
    fs().Restart(CrashKind::kProcess, static_cast<uint64_t>(seed));
    found.insert(Contents("/f"));
  }
  EXPECT_EQ(found, (std::set<std::string>{"..", "0.", "01"}));
}

TEST_F(SimFileSystemTest, AFullDeviceRefusesUntilThereIsRoom) {
  CreateDurable("/f", std::string(1000, 'x'));
  auto file = Create("/f");
  fs().SetFreeBytes(500);
  EXPECT_EQ(*fs().FreeBytes("/"), 500u);
  EXPECT_EQ(file->WriteAt(900, std::string(601, 'y')).code(), Code::kNoSpace);
  EXPECT_EQ(Contents("/f"), std::string(1000, 'x'));
  EXPECT_EQ(file->Allocate(1501).code(), Code::kNoSpace);
  EXPECT_TRUE(file->WriteAt(900, std::string(600, 'y')).ok());
  EXPECT_EQ(*fs().FreeBytes("/"), 0u);
  EXPECT_TRUE(file->WriteAt(0, "overwriting needs none").ok());
  EXPECT_TRUE(fs().Lock("/LOCK", "locking needs none").ok());
  auto second = Create("/g");
  EXPECT_EQ(second->WriteAt(0, "z").code(), Code::kNoSpace);
  EXPECT_TRUE(file->Truncate(1400).ok());
  EXPECT_TRUE(second->WriteAt(0, "z").ok());
  EXPECT_TRUE(fs().Unlink("/f").ok());
  EXPECT_EQ(*fs().FreeBytes("/"), 1499u);
  fs().SetFreeBytes(~uint64_t{0});
  EXPECT_TRUE(second->Allocate(100000).ok());
}

TEST_F(SimFileSystemTest, DamageIsDurableAtOnce) {
  CreateDurable("/f", "abcdef");
  ASSERT_TRUE(fs().Damage("/f", [](std::string* bytes) {
                    (*bytes)[1] = 'X';
                    bytes->resize(4);
                  }).ok());
  EXPECT_EQ(Contents("/f"), "aXcd");
  fs().Restart(CrashKind::kPower, 1);
  EXPECT_EQ(Contents("/f"), "aXcd");
  EXPECT_EQ(fs().Damage("/g", [](std::string*) {}).code(), Code::kNotFound);
}

TEST_F(SimFileSystemTest, RefusesWhatItDoesNotSimulate) {
  CreateDurable("/f", "abc");
  ASSERT_TRUE(fs().MakeDirectory("/d").ok());
  EXPECT_EQ(fs().Rename("/f", "/d/f").code(), Code::kUnsupported);
  auto map = fs().Map("/f", 3, MapMode::kRead);
  EXPECT_EQ(Create("/f")->Allocate(100000).code(), Code::kUnsupported);
  EXPECT_EQ(Contents("/f"), "abc");
}

TEST_F(SimFileSystemTest, ADurableDirectorySurvivesPowerLoss) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto fs = NewSimFileSystem();
    ASSERT_TRUE(MakeDurableDirectory(*fs, "/a").ok());
    ASSERT_TRUE(fs->MakeDirectory("/a/b").ok());
    ASSERT_TRUE(MakeDurableDirectory(*fs, "/a/b").ok()) << "what was there before, too";
    fs->Restart(CrashKind::kPower, seed);
    EXPECT_TRUE(*fs->Exists("/a/b")) << "seed " << seed;
  }
}

TEST_F(SimFileSystemTest, ReplaceFileIsAtomicAtEveryStep) {
  std::set<std::string> outcomes;
  for (uint64_t steps = 0; steps < 8; ++steps) {
    for (uint64_t seed = 0; seed < 100; ++seed) {
      Fresh();
      CreateDurable("/f", "old");
      fs().CrashAfter(steps);
      const bool done = ReplaceFile(fs(), "/f", "new contents").ok();
      fs().Restart(seed % 2 == 0 ? CrashKind::kPower : CrashKind::kProcess, seed);
      outcomes.insert(Contents("/f"));
      if (done) {
        EXPECT_EQ(Contents("/f"), "new contents");
      }
      EXPECT_TRUE(ReplaceFile(fs(), "/f", "again").ok());
      EXPECT_EQ(fs().List("/")->size(), 1u);
    }
  }
  EXPECT_EQ(outcomes, (std::set<std::string>{"old", "new contents"}));
}

TEST_F(SimFileSystemTest, ThreadsMayStoreWhileOthersSync) {
  CreateDurable("/f", std::string(65536, '\0'));
  auto map = fs().Map("/f", 65536, MapMode::kReadWrite);
  std::thread writer([&map] {
    for (uint64_t i = 0; i < 8192; ++i) {
      std::memcpy((*map)->data() + 8 * i, &i, 8);
      (*map)->Stored(8 * i, 8);
    }
  });
  for (int i = 0; i < 50; ++i) EXPECT_TRUE((*map)->Sync(0, 65536).ok());
  writer.join();
  EXPECT_TRUE((*map)->Sync(0, 65536).ok());
  fs().Restart(CrashKind::kPower, 1);
  const std::string bytes = Contents("/f");
  for (uint64_t i = 0; i < 8192; ++i) {
    uint64_t value;
    std::memcpy(&value, bytes.data() + 8 * i, 8);
    ASSERT_EQ(value, i);
  }
}

class FaultFileSystemTest : public ::testing::Test {
 protected:
  std::unique_ptr<SimFileSystem> sim_ = NewSimFileSystem();
  std::unique_ptr<FaultFileSystem> fs_ = NewFaultFileSystem(*sim_);
};

TEST_F(FaultFileSystemTest, FailsTheChosenCallsAndCounts) {
  auto file = fs_->Open("/f", FileOpenMode::kCreate);
  ASSERT_TRUE(file.ok());
  fs_->FailAt(kFaultWrite, 2, 2, Code::kNoSpace);
  EXPECT_TRUE((*file)->WriteAt(0, "1").ok());
  EXPECT_TRUE((*file)->Sync().ok());  // not counted
  const Status status = (*file)->WriteAt(1, "2");
  EXPECT_EQ(status.ToString(), "no space: injected fault: write /f");
  EXPECT_EQ((*file)->Truncate(0).code(), Code::kNoSpace);
  EXPECT_TRUE((*file)->WriteAt(1, "4").ok());
  EXPECT_EQ(fs_->calls(), 4u);
  EXPECT_EQ(fs_->failures(), 2u);
  fs_->FailAt(kFaultWrite, 1, ~uint64_t{0}, Code::kIo);
  EXPECT_EQ(fs_->calls(), 0u);
  for (int i = 0; i < 10; ++i) EXPECT_EQ((*file)->WriteAt(0, "x").code(), Code::kIo);
  fs_->FailAt(kFaultAll, 1, 0, Code::kIo);
  EXPECT_TRUE((*file)->WriteAt(0, "x").ok());
  EXPECT_EQ(fs_->calls(), 1u);
  EXPECT_EQ(fs_->failures(), 0u);
}

TEST_F(FaultFileSystemTest, AFailingWriteHasWrittenItsFirstHalf) {
  auto file = fs_->Open("/f", FileOpenMode::kCreate);
  ASSERT_TRUE(file.ok());
  fs_->FailAt(kFaultWrite, 1, 1, Code::kIo);
  EXPECT_FALSE((*file)->WriteAt(0, "12345678").ok());
  EXPECT_EQ(*ReadFile(*fs_, "/f", 100), "1234");
}

TEST_F(FaultFileSystemTest, EveryOperationCanFail) {
  auto file = fs_->Open("/f", FileOpenMode::kCreate);
  ASSERT_TRUE(file.ok() && (*file)->Allocate(10).ok());
  auto map = fs_->Map("/f", 10, MapMode::kReadWrite);
  ASSERT_TRUE(map.ok());
  fs_->FailAt(kFaultAll, 1, ~uint64_t{0}, Code::kIo);
  char byte;
  EXPECT_EQ(fs_->Open("/f", FileOpenMode::kRead).status().code(), Code::kIo);
  EXPECT_EQ(fs_->Lock("/LOCK", "me").status().code(), Code::kIo);
  EXPECT_EQ((*file)->ReadAt(0, 1, &byte).code(), Code::kIo);
  EXPECT_EQ((*file)->Size().status().code(), Code::kIo);
  EXPECT_EQ((*file)->WriteAt(0, "").code(), Code::kIo);
  EXPECT_EQ((*file)->Truncate(1).code(), Code::kIo);
  EXPECT_EQ((*file)->Sync().code(), Code::kIo);
  EXPECT_EQ((*map)->Sync(0, 10).code(), Code::kIo);
  EXPECT_EQ(fs_->SyncDirectory("/").code(), Code::kIo);
  EXPECT_EQ(fs_->Rename("/f", "/g").code(), Code::kIo);
  EXPECT_EQ(fs_->Unlink("/f").code(), Code::kIo);
  EXPECT_EQ(fs_->RemoveDirectory("/f").code(), Code::kIo);
  EXPECT_EQ((*file)->Allocate(20).code(), Code::kIo);
  EXPECT_EQ(fs_->Map("/f", 10, MapMode::kRead).status().code(), Code::kIo);
  EXPECT_EQ(fs_->MakeDirectory("/d").code(), Code::kIo);
  EXPECT_EQ(fs_->List("/").status().code(), Code::kIo);
  EXPECT_EQ(fs_->Exists("/f").status().code(), Code::kIo);
  EXPECT_EQ(fs_->FreeBytes("/").status().code(), Code::kIo);
  EXPECT_EQ(fs_->calls(), 18u);
  EXPECT_EQ(fs_->failures(), 18u);
  fs_->FailAt(kFaultAll, 1, 0, Code::kIo);
  EXPECT_EQ(fs_->List("/")->size(), 1u);
  EXPECT_EQ((*fs_->List("/"))[0].size, 10u);
}

TEST_F(FaultFileSystemTest, ADirectoryWhoseNameCannotBeSyncedIsNotDurableThoughItWasThere) {
  for (const bool was_there : {false, true}) {
    SCOPED_TRACE(was_there);
    const std::string path = was_there ? "/there" : "/new";
    if (was_there) {
      ASSERT_TRUE(sim_->MakeDirectory(path).ok());
    }
    fs_->FailAt(kFaultSync, 1, 1, Code::kIo);
    EXPECT_EQ(MakeDurableDirectory(*fs_, path).code(), Code::kIo);
    EXPECT_TRUE(MakeDurableDirectory(*fs_, path).ok());
    sim_->Restart(CrashKind::kPower, 1);
    EXPECT_TRUE(*sim_->Exists(path));
  }
}

TEST_F(FaultFileSystemTest, ReplaceFileLeavesTheOldContentsAtEveryFault) {
  uint64_t failed = 0;
  for (uint64_t n = 1;; ++n) {
    fs_->FailAt(kFaultAll, 1, 0, Code::kIo);
    ASSERT_TRUE(ReplaceFile(*fs_, "/f", "old").ok());
    fs_->FailAt(kFaultAll & ~kFaultUnlink, n, 1, Code::kNoSpace);
    const Status status = ReplaceFile(*fs_, "/f", "new");
    if (fs_->failures() == 0) {
      EXPECT_TRUE(status.ok());
      break;
    }
    ++failed;
    const bool after_rename = status.message().find("sync directory") != std::string::npos;
    EXPECT_EQ(status.code(), after_rename ? Code::kIo : Code::kNoSpace);
    EXPECT_EQ(*ReadFile(*fs_, "/f", 10), after_rename ? "new" : "old");
    EXPECT_EQ(fs_->List("/")->size(), 1u);
  }
  EXPECT_EQ(failed, 5u);  // open, write, sync, rename, directory sync
}

TEST_F(FaultFileSystemTest, StoresThroughItAreStepsOfTheSimulationBelow) {
  auto file = fs_->Open("/f", FileOpenMode::kCreate);
  ASSERT_TRUE(file.ok() && (*file)->Allocate(10).ok());
  auto map = fs_->Map("/f", 10, MapMode::kReadWrite);
  const uint64_t before = sim_->steps();
  (*map)->Stored(0, 1);
  EXPECT_EQ(sim_->steps(), before + 1);
  EXPECT_EQ(fs_->BootId(), sim_->BootId());
}

TEST_F(FaultFileSystemTest, ADeadProcessChangesNothing) {
  auto file = fs_->Open("/f", FileOpenMode::kCreate);
  ASSERT_TRUE(file.ok() && (*file)->WriteAt(0, "before").ok());
  auto map = fs_->Map("/f", 6, MapMode::kReadWrite);
  auto lock = fs_->Lock("/LOCK", "me");
  ASSERT_TRUE(map.ok() && lock.ok() && sim_->LockShared("/LOCK").status().code() == Code::kBusy);
  const uint64_t steps = sim_->steps();
  int hooked = 0;
  fs_->BeforeCalls(kFaultAll, [&](const std::string&) { ++hooked; });
  fs_->Kill();
  EXPECT_EQ((*file)->WriteAt(0, "AFTER").code(), Code::kIo);
  EXPECT_EQ(fs_->Rename("/f", "/g").code(), Code::kIo);
  std::copy_n("AFTER", 5, (*map)->data());
  (*map)->Stored(0, 5);
  EXPECT_EQ(std::string((*map)->data(), 5), "AFTER") << "of its own memory it sees what it stored";
  EXPECT_EQ(sim_->steps(), steps);
  EXPECT_EQ(hooked, 0);
  auto next = sim_->Lock("/LOCK", "the next process");
  EXPECT_OK(next.status());
  lock->reset();
  EXPECT_EQ(sim_->LockShared("/LOCK").status().code(), Code::kBusy) << "it is not the dead one's";
  map->reset();
  EXPECT_EQ(*ReadFile(*sim_, "/f", 100), "before");
}

// A page of a file and a page of a mapping that could not be synced, and stores to them since then
// by another process.
class FailedSyncTest : public FaultFileSystemTest {
 protected:
  static constexpr uint64_t kPage = 4096;

  // "old" in both pages is durable; "new" is in the page cache, and a sync of it has failed.
  void FailSync(bool mapped, Code code) {
    const auto file = sim_->Open("/f", FileOpenMode::kReadWriteCreate);
    ASSERT_TRUE((*file)->WriteAt(0, std::string(2 * kPage, 'o')).ok());
    ASSERT_TRUE((*file)->Sync().ok());
    ASSERT_TRUE(sim_->SyncDirectory("/").ok());
    fs_->FailAt(kFaultSync, 1, 1, code);
    if (mapped) {
      const auto map = fs_->Map("/f", 2 * kPage, MapMode::kReadWrite);
      std::memset((*map)->data(), 'n', 2 * kPage);
      EXPECT_EQ((*map)->Sync(0, 2 * kPage).code(), code);
      EXPECT_TRUE((*map)->Sync(0, 2 * kPage).ok());
    } else {
      const auto through = fs_->Open("/f", FileOpenMode::kReadWrite);
      ASSERT_TRUE((*through)->WriteAt(0, std::string(2 * kPage, 'n')).ok());
      EXPECT_EQ((*through)->Sync().code(), code);
      EXPECT_TRUE((*through)->Sync().ok());
    }
    sim_->Restart(CrashKind::kProcess, 1);
  }
  // Returns the first bytes of the two pages.
  std::string Pages() {
    const Result<std::string> bytes = ReadFile(*sim_, "/f", 1 << 20);
    return bytes.ok() ? std::string{(*bytes)[0], (*bytes)[kPage]} : bytes.status().ToString();
  }
  void SyncAgain() {
    const auto file = sim_->Open("/f", FileOpenMode::kReadWrite);
    ASSERT_TRUE((*file)->Sync().ok());
  }
  // Returns "x" for each of the two pages that some loss of power takes.
  std::string LostOf(bool mapped, Code code, const std::function<void()>& between) {
    std::string lost = "..";
    for (uint64_t seed = 1; seed <= uint64_t{kSeeds}; ++seed) {
      sim_ = NewSimFileSystem();
      fs_ = NewFaultFileSystem(*sim_);
      FailSync(mapped, code);
      EXPECT_EQ(Pages(), "nn") << "the page cache keeps them";
      between();
      SyncAgain();
      sim_->Restart(CrashKind::kPower, seed);
      for (size_t page = 0; page < 2; ++page) {
        if (Pages()[page] != 'n') lost[page] = 'x';
      }
    }
    return lost;
  }

};

TEST_F(FailedSyncTest, LeavesPagesThatALaterSyncPassesOver) {
  EXPECT_EQ(LostOf(false, Code::kIo, [] {}), "xx");
  EXPECT_EQ(LostOf(true, Code::kIo, [] {}), "xx");
  EXPECT_EQ(LostOf(true, Code::kOutOfMemory, [] {}), "..") << "the device was not asked";
}

TEST_F(FailedSyncTest, IsMendedForPagesThatAreStoredToAgain) {
  for (const bool mapped : {false, true}) {
    const auto write = [&] {
      const auto file = sim_->Open("/f", FileOpenMode::kReadWrite);
      ASSERT_TRUE((*file)->WriteAt(kPage + 5, "n").ok());
    };
    EXPECT_EQ(LostOf(mapped, Code::kIo, write), "x.");
    const auto store = [&] {
      const auto map = sim_->Map("/f", 2 * kPage, MapMode::kReadWrite);
      (*map)->data()[5] = 'z';
    };
    EXPECT_EQ(LostOf(mapped, Code::kIo, store), ".x");
    const auto store_again = [&] {
      const auto map = sim_->Map("/f", 2 * kPage, MapMode::kReadWrite);
      ASSERT_TRUE((*map)->StoreAgain(kPage - 1, 2).ok());
    };
    EXPECT_EQ(LostOf(mapped, Code::kIo, store_again), "..");
  }
}

TEST_F(FaultFileSystemTest, AProcessMayDieInTheMiddleOfAWrite) {
  auto file = fs_->Open("/f", FileOpenMode::kCreate);
  ASSERT_TRUE(file.ok());
  fs_->BeforeCalls(kFaultWrite, [&](const std::string&) { fs_->Kill(); });
  EXPECT_EQ((*file)->WriteAt(0, "12345678").code(), Code::kIo);
  EXPECT_EQ((*file)->WriteAt(0, "abcdefgh").code(), Code::kIo);
  EXPECT_EQ(*ReadFile(*sim_, "/f", 100), "1234");
}

}  // namespace
}  // namespace quire::io::sim_file_system_test
