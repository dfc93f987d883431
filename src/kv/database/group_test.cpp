// Storage groups: members read each other's tables as files; the owner returns the pairs in its
// memory (SC17, section 2.7).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/core/sanitizer.h"
#include "io/ipc/shared_memory.h"
#include "kv/database/sim_cluster_testing.h"
#include "kv/protocol/descriptor.h"
#include "lsm/version/manifest.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"

namespace quire::kv::group_test {
namespace {

// Ranks that share no memory: what they read of each other they read as files.
class Groups : public testing::TestWithParam<bool> {
 protected:
  void Run(int count, bool own_disks, int group_size, const SimCluster::DatabaseProgram& program,
           bool share_memory = false) {
    SimCluster::Options ranks;
    ranks.rank_count = count;
    ranks.deterministic = GetParam();
    ranks.own_disks = own_disks;
    ranks.share_memory = share_memory;
    SimCluster cluster(ranks);
    DatabaseOptions options = SimCluster::SmallDatabase();
    options.group_size = group_size;
    cluster.RunDatabase(options, program);
  }
};

INSTANTIATE_TEST_SUITE_P(Modes, Groups, testing::Values(true, false),
                         [](const auto& mode) { return mode.param ? "Seeded" : "Threads"; });

std::string ValueFor(int rank, int round) {
  return std::string(round % 3 == 0 ? 2000 : 50, static_cast<char>('a' + rank)) +
         std::to_string(round);
}

TEST_P(Groups, MembersReadTablesAndTheOwnerAnswersForItsMemory) {
  Run(4, false, 2, [](int rank, Context& context, Database& db) {
    for (int round = 0; round < 20; ++round) {
      ASSERT_OK(db.Put(SimCluster::KeyOwnedBy(db, rank), ValueFor(rank, round)));
      ASSERT_OK(db.Barrier(round % 2 == 0 ? Level::kSsTable : Level::kMemTable));
      if (round % 5 == 0) {
        ASSERT_OK(db.Compact());
      }
      for (int owner = 0; owner < 4; ++owner) {
        ASSERT_EQ(SimCluster::ValueOf(db, SimCluster::KeyOwnedBy(db, owner)),
                  ValueFor(owner, round));
        ASSERT_EQ(SimCluster::ValueOf(db, SimCluster::KeyOwnedBy(db, owner, "absent")),
                  "<not found>");
      }
      ASSERT_OK(context.Barrier());
    }
    const Statistics statistics = db.GetStatistics();
    // Gets from the one other member: every second round a pair in a table, and each round an
    // absent key. In two more rounds the member compacts, before or after it is asked.
    EXPECT_GE(statistics.at("gets.group"), 30u);
    EXPECT_LE(statistics.at("gets.group"), 32u);
    ASSERT_OK(db.Delete(SimCluster::KeyOwnedBy(db, rank)));
    ASSERT_OK(db.Barrier(Level::kSsTable));
    for (int owner = 0; owner < 4; ++owner) {
      EXPECT_EQ(SimCluster::ValueOf(db, SimCluster::KeyOwnedBy(db, owner)), "<not found>");
    }
    ASSERT_OK(db.Close());
  });
}

// Overwrites, flushes and compacts until `enough` is set.
void WriteUntil(const std::atomic<bool>& enough, Database& db, Slice key) {
  const std::string other = SimCluster::KeyOwnedBy(db, 1);
  for (int round = 1; !enough.load(); ++round) {
    ASSERT_LT(round, 100'000) << "nobody reads tables";
    ASSERT_OK(db.Put(key, std::string(3000, 'x') + std::to_string(round)));
    if (round % 3 == 0) {
      ASSERT_OK(db.Flush());
      ASSERT_OK(db.Compact());
    }
    ASSERT_EQ(SimCluster::ValueOf(db, other), "<not found>");  // the reader's turn
  }
}

// Never an older value than before, from memory or from tables.
void ReadUntilTablesWereReadOften(Database& db, Slice key) {
  int seen = 0;
  while (db.GetStatistics().at("gets.group") < 50 || seen < 50) {
    std::string value;
    const Status got = db.Get(key, &value);
    if (got.code() == Code::kNotFound && seen == 0) continue;
    ASSERT_OK(got);
    const int now = std::stoi(value.substr(3000));
    ASSERT_GE(now, seen);
    seen = now;
  }
}

TEST_P(Groups, ReadsAreNeverOldOrTornWhileTheOwnerCompacts) {
  std::atomic<bool> enough = false;
  Run(2, false, 2, [&](int rank, Context& context, Database& db) {
    const std::string key = SimCluster::KeyOwnedBy(db, 0);
    ASSERT_OK(context.Barrier());
    if (rank == 0) {
      WriteUntil(enough, db, key);
    } else {
      ReadUntilTablesWereReadOften(db, key);
      enough.store(true);
    }
    ASSERT_OK(context.Barrier());
    ASSERT_OK(db.Close());
  });
}

// Keys of rank 0 in tables and in memory, deleted and absent, and what GetMany and GetAsync have to
// say of them.
const std::vector<std::string> kKinds = {"table", "memory", "deleted", "absent"};

std::string LargeValueOf(const std::string& kind) {
  return kind + std::string(5000, 'v');
}

void WriteKinds(int rank, Database& db) {
  const auto key_of = [&db](const char* kind) { return SimCluster::KeyOwnedBy(db, 0, kind); };
  if (rank == 0) {
    ASSERT_OK(db.Put(key_of("table"), LargeValueOf("table")));
    ASSERT_OK(db.Put(key_of("deleted"), LargeValueOf("deleted")));
    ASSERT_OK(db.Delete(key_of("deleted")));
  }
  ASSERT_OK(db.Barrier(Level::kSsTable));
  if (rank == 0) {
    ASSERT_OK(db.Put(key_of("memory"), "in memory"));
  }
  ASSERT_OK(db.Barrier(Level::kMemTable));
}

std::vector<std::string> KindKeys(const Database& db) {
  std::vector<std::string> keys;
  for (const std::string& kind : kKinds) keys.push_back(SimCluster::KeyOwnedBy(db, 0, kind));
  return keys;
}

void ExpectKindsInOneCall(Database& db) {
  const std::vector<std::string> keys = KindKeys(db);
  std::vector<std::string> values;
  std::vector<bool> found;
  ASSERT_OK(db.GetMany({keys.begin(), keys.end()}, &values, &found));
  EXPECT_EQ(found, (std::vector<bool>{true, true, false, false}));
  EXPECT_EQ(values, (std::vector<std::string>{LargeValueOf("table"), "in memory", "", ""}));
}

void ExpectKindsAskedForLater(Database& db) {
  std::vector<std::unique_ptr<PendingGet>> gets;
  for (const std::string& key : KindKeys(db)) gets.push_back(db.GetAsync(key));
  std::vector<std::string> taken;
  for (const auto& get : gets) {
    while (!get->Ready()) std::this_thread::yield();
    const Result<std::string> value = get->Take();
    taken.push_back(value.ok() ? *value : "<" + value.status().ToString() + ">");
    EXPECT_CODE(get->Take().status(), Code::kInvalidArgument);
  }
  EXPECT_THAT(taken, testing::ElementsAre(LargeValueOf("table"), "in memory", "<not found>",
                                          "<not found>"));
}

// What is in tables is read there, and what has no value too.
void ExpectTablesAreRead(int rank, Context& context, Database& db) {
  WriteKinds(rank, db);
  if (rank == 1) {
    ExpectKindsInOneCall(db);
    Statistics statistics = db.GetStatistics();
    EXPECT_EQ(statistics.at("gets.group"), 3u);
    EXPECT_EQ(statistics.at("gets.message"), 1u);
    ExpectKindsAskedForLater(db);
    statistics = db.GetStatistics();
    EXPECT_EQ(statistics.at("gets.group"), 6u);
    EXPECT_EQ(statistics.at("gets.message"), 2u);
    for (const std::string& key : KindKeys(db)) SimCluster::ValueOf(db, key);
    statistics = db.GetStatistics();
    EXPECT_EQ(statistics.at("gets.group"), 9u);
    EXPECT_EQ(statistics.at("gets.message"), 3u);
    EXPECT_EQ(statistics.at("gets.direct"), 0u);
    // The large value has not travelled.
    EXPECT_LT(statistics.at("messages.bytes_received"), 5000u);
  }
  ASSERT_OK(context.Barrier());
  ASSERT_OK(db.Close());
}

TEST_P(Groups, ManyAtOnceAndAskedForLaterAreReadInTablesAsWell) {
  Run(2, false, 2, ExpectTablesAreRead);
}

TEST_P(Groups, RanksOfAMachineThatShareNoMemoryReadTables) {
  Run(2, false, 0, ExpectTablesAreRead);
}

// Restores what it finds: other tests of the program share memory.
class NoSharedMemory {
 public:
  NoSharedMemory() { io::SharedMemory::LimitForTests(0); }
  ~NoSharedMemory() { io::SharedMemory::LimitForTests(UINT64_MAX); }
};

TEST_P(Groups, WithoutRoomToShareMemoryTablesAreRead) {
  const NoSharedMemory full;
  Run(2, false, 0, ExpectTablesAreRead, true);
}

void ExpectValuesAreAskedFor(int rank, Context& context, Database& db) {
  WriteKinds(rank, db);
  if (rank == 1) {
    ExpectKindsAskedForLater(db);
    ExpectKindsInOneCall(db);
    for (const std::string& key : KindKeys(db)) SimCluster::ValueOf(db, key);
    EXPECT_EQ(db.GetStatistics().at("gets.group"), 0u);
    EXPECT_EQ(db.GetStatistics().at("gets.message"), 12u);
  }
  ASSERT_OK(context.Barrier());
  ASSERT_OK(db.Close());
}

TEST_P(Groups, OneThatCannotBeSeenIsAskedForItsValues) {
  Run(2, true, 2, ExpectValuesAreAskedFor);
  Run(2, true, 0, ExpectValuesAreAskedFor);
}

// The very first call of all meets the tables that are not to be had.
TEST_P(Groups, ManyAtOnceOfOneThatCannotBeSeenAreAskedForAgain) {
  Run(2, true, 2, [](int rank, Context& context, Database& db) {
    WriteKinds(rank, db);
    if (rank == 1) ExpectKindsInOneCall(db);
    ASSERT_OK(context.Barrier());
    ASSERT_OK(db.Close());
  });
}

// The same of gets under way: the owner names tables that came after those which were seen, and
// they cannot be opened.
TEST_P(Groups, OneUnderWayWhoseTablesCannotBeOpenedIsAskedForAgain) {
  const auto disk = io::NewSimFileSystem();
  const auto files = io::NewFaultFileSystem(*disk);
  SimCluster::Options ranks;
  ranks.rank_count = 2;
  ranks.deterministic = GetParam();
  ranks.share_memory = false;
  ranks.file_system = [&](int rank) -> io::FileSystem* {
    if (rank == 0) return disk.get();
    return files.get();
  };
  DatabaseOptions options = SimCluster::SmallDatabase();
  options.group_size = 2;
  SimCluster(ranks).RunDatabase(options, [&](int rank, Context& context, Database& db) {
    WriteKinds(rank, db);
    if (rank == 1) ExpectKindsAskedForLater(db);  // the owner's tables are seen now
    ASSERT_OK(context.Barrier());
    if (rank == 0) ASSERT_OK(db.Put(SimCluster::KeyOwnedBy(db, 0, "later"), "x"));
    ASSERT_OK(db.Barrier(Level::kSsTable));
    if (rank == 0) {
      ASSERT_OK(db.Put(SimCluster::KeyOwnedBy(db, 0, "memory"), "in memory"));
    }
    ASSERT_OK(db.Barrier(Level::kMemTable));
    if (rank == 1) {
      const uint64_t before = db.GetStatistics().at("gets.message");
      files->OnlyBelow("/repository/db/gen-1/rank-0");
      files->FailAt(io::kFaultOpen | io::kFaultRead, 1, UINT64_MAX, Code::kIo);
      ExpectKindsAskedForLater(db);
      files->FailAt(io::kFaultOpen, 1, 0, Code::kIo);
      EXPECT_EQ(db.GetStatistics().at("gets.message"), before + 4);
    }
    ASSERT_OK(context.Barrier());
    ASSERT_OK(db.Close());
  });
}

// The files at the member's place are here those of another database, for example of an older copy.
TEST_P(Groups, TheSamePlaceOnOtherStorageIsNotTaken) {
  const auto first = io::NewSimFileSystem();
  const auto second = io::NewSimFileSystem();
  for (const bool split : {false, true}) {
    SimCluster::Options ranks;
    ranks.deterministic = GetParam();
    ranks.share_memory = false;
    for (io::SimFileSystem* const of_rank_1 : {first.get(), second.get()}) {
      if (split && of_rank_1 == first.get()) continue;
      ranks.file_system = [&, split](int rank) {
        return split && rank == 0 ? first.get() : of_rank_1;
      };
      SimCluster cluster(ranks);
      cluster.RunDatabase(SimCluster::SmallDatabase(), [&](int rank, Context& context,
                                                           Database& db) {
        const std::string key = SimCluster::KeyOwnedBy(db, 1);
        if (!split && rank == 1) {
          ASSERT_OK(db.Put(key, of_rank_1 == first.get() ? "another database's" : "this one's"));
        }
        // The older copy is of a later edition.
        for (int round = 0; round < (split || of_rank_1 == second.get() ? 1 : 9); ++round) {
          if (round > 0) ASSERT_OK(db.Put(SimCluster::KeyOwnedBy(db, rank, "more"), "x"));
          ASSERT_OK(db.Barrier(Level::kSsTable));
        }
        if (split) {
          EXPECT_EQ(SimCluster::ValueOf(db, key), "this one's");
          EXPECT_EQ(db.GetStatistics().at("gets.group"), 0u);
        }
        ASSERT_OK(context.Barrier());
        ASSERT_OK(db.Close());
      });
    }
    // Else the next open is refused: rank 1 has another database.
    EXPECT_EQ(second->Unlink("/repository/db/DATABASE").ok(), !split);
  }
}

// Memory and tables alike are read without a question.
TEST_P(Groups, RanksThatShareMemoryAskNoOwner) {
  if (QUIRE_THREAD_SANITIZER) GTEST_SKIP() << "no direct reads under ThreadSanitizer";
  Run(
      2, false, 0,
      [](int rank, Context& context, Database& db) {
        WriteKinds(rank, db);
        if (rank == 1) {
          ExpectKindsInOneCall(db);
          ExpectKindsAskedForLater(db);
          EXPECT_EQ(db.GetStatistics().at("gets.direct"), 8u);
          EXPECT_EQ(db.GetStatistics().at("gets.message"), 0u);
        }
        ASSERT_OK(context.Barrier());
        ASSERT_OK(db.Close());
      },
      true);
}

TEST_P(Groups, EveryRankItsOwnAsksByMessage) {
  Run(2, false, 1, [](int rank, Context&, Database& db) {
    ASSERT_OK(db.Put(SimCluster::KeyOwnedBy(db, rank), ValueFor(rank, 1)));
    ASSERT_OK(db.Barrier(Level::kSsTable));
    EXPECT_EQ(SimCluster::ValueOf(db, SimCluster::KeyOwnedBy(db, 1 - rank)), ValueFor(1 - rank, 1));
    EXPECT_EQ(db.GetStatistics().at("gets.group"), 0u);
    EXPECT_EQ(db.GetStatistics().at("gets.direct"), 0u);
    EXPECT_EQ(db.GetStatistics().at("gets.message"), 1u);
    ASSERT_OK(db.Close());
  });
}

// The number of this process's open files, and mappings of files, below `directory`.
int OpenBelow(const std::string& directory) {
  int count = 0;
  for (const char* links : {"/proc/self/fd", "/proc/self/map_files"}) {
    std::error_code ignored;
    for (const auto& link : std::filesystem::directory_iterator(links, ignored)) {
      const std::string target = std::filesystem::read_symlink(link.path(), ignored).string();
      if (target.starts_with(directory + "/")) ++count;
    }
  }
  return count;
}

TEST_P(Groups, NoFileOfAMemberIsOpenAfterClose) {
  test::TempDirectory directory;
  SimCluster::Options ranks;
  ranks.deterministic = GetParam();
  ranks.share_memory = false;
  ranks.repository = std::filesystem::canonical(directory.path()).string() + "/repository";
  ranks.file_system = [](int) { return &io::PosixFileSystem(); };
  SimCluster cluster(ranks);
  cluster.RunDatabase(SimCluster::SmallDatabase(), [&](int rank, Context& context, Database& db) {
    WriteKinds(rank, db);
    if (rank == 1) {
      ExpectKindsInOneCall(db);
      EXPECT_GT(db.GetStatistics().at("gets.group"), 0u);
    }
    EXPECT_GT(OpenBelow(ranks.repository), 0);
    ASSERT_OK(db.Close());
    ASSERT_OK(context.Barrier());
    EXPECT_EQ(OpenBelow(ranks.repository), 0);  // though the handle is there still
    ASSERT_OK(context.Barrier());
  });
}

}  // namespace
}  // namespace quire::kv::group_test
