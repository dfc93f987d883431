// Readers of a database beside its writers, and of one without writers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/core/sanitizer.h"
#include "base/hash/hash.h"
#include "base/threads/epoch.h"
#include "base/threads/executor.h"
#include "io/files/machine.h"
#include "io/paths/forwarding.h"
#include "kv/database/database_reader.h"
#include "kv/database/persistence_testing.h"
#include "kv/database/sim_cluster_testing.h"
#include "kv/generations/generation_chain.h"
#include "kv/protocol/descriptor.h"
#include "lsm/db/db.h"
#include "tests/support/status_asserts.h"

namespace quire::kv::database_reader_test {
namespace {

using testing::HasSubstr;

using Model = std::map<std::string, std::string>;

SimCluster::Options Ranks(int count, io::FileSystem* disk) {
  SimCluster::Options options;
  options.rank_count = count;
  options.file_system = [disk](int) { return disk; };
  return options;
}

Model AllOf(const DatabaseReader& reader) {
  Model all;
  const auto iterator = reader.NewIterator();
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    all[std::string(iterator->key())] = std::string(iterator->value());
  }
  EXPECT_OK(iterator->status());
  return all;
}

std::string Get(const DatabaseReader& reader, Slice key) {
  std::string value;
  const Status status = reader.Get(key, &value);
  return status.ok() ? value : "<" + status.ToString() + ">";
}

std::unique_ptr<DatabaseReader> OpenReader(io::FileSystem& fs, const std::string& directory) {
  auto reader = OpenDatabaseReader(fs, directory, {});
  EXPECT_OK(reader.status());
  return reader.ok() ? std::move(*reader) : nullptr;
}

TEST(DatabaseReading, SeesWhatIsInTablesAndCatchesUp) {
  const auto disk = io::NewSimFileSystem();
  EXPECT_EQ(OpenDatabaseReader(*disk, "/repository/db", {}).status().code(), Code::kNotFound);
  SimCluster cluster(Ranks(3, disk.get()));
  std::unique_ptr<DatabaseReader> reader;
  Model model;
  cluster.RunDatabase(SimCluster::SmallDatabase(), [&](int rank, Context& context, Database& db) {
    for (int round = 0; round < 3; ++round) {
      for (int i = rank; i < 60; i += 3) {
        ASSERT_OK(
            db.Put("key " + std::to_string(i), std::to_string(round) + "/" + std::to_string(i)));
      }
      ASSERT_OK(db.Barrier(Level::kMemTable));
      if (rank == 0 && round > 0) {
        EXPECT_EQ(AllOf(*reader), model) << "nothing is published yet";
      }
      ASSERT_OK(db.Barrier(Level::kSsTable));
      if (rank == 0) {
        for (int i = 0; i < 60; ++i) {
          model["key " + std::to_string(i)] = std::to_string(round) + "/" + std::to_string(i);
        }
        if (reader == nullptr) reader = OpenReader(*disk, "/repository/db");
        ASSERT_NE(reader, nullptr);
        ASSERT_OK(reader->Refresh());
        EXPECT_EQ(AllOf(*reader), model);
        EXPECT_EQ(Get(*reader, "key 7"), model["key 7"]);
        EXPECT_EQ(Get(*reader, "key 77"), "<not found>");
      }
      ASSERT_OK(context.Barrier());
    }
    ASSERT_OK(db.Close());
  });
  EXPECT_EQ(AllOf(*reader), model);
}

TEST(DatabaseReading, CallsAPlaceWhereItMayBlock) {
  const auto disk = io::NewSimFileSystem();
  SimCluster(Ranks(1, disk.get()))
      .RunDatabase(SimCluster::SmallDatabase(), [](int, Context&, Database& db) {
        ASSERT_OK(db.Put("small", "value"));
        ASSERT_OK(db.Put("large", std::string(10'000, 'v')));
      });
  const auto reader = OpenReader(*disk, "/repository/db");
  for (const std::string key : {"small", "large"}) {
    std::string value;
    ASSERT_OK(reader->Get(key, [&](size_t size) {
      EXPECT_TRUE(base::EpochMaySynchronize());
      value.resize(size);
      return value.data();
    }));
    EXPECT_EQ(value.size(), key == "small" ? 5u : 10'000u);
  }
}

TEST(DatabaseReading, APlaceThatThrowsFailsThatGet) {
  const auto disk = io::NewSimFileSystem();
  const Model model = {{"small", "value"}, {"large", std::string(10'000, 'v')}, {"empty", ""}};
  SimCluster(Ranks(2, disk.get()))
      .RunDatabase(SimCluster::SmallDatabase(), [&](int rank, Context&, Database& db) {
        for (const auto& [key, value] : model) {
          if (rank == 0) {
            ASSERT_OK(db.Put(key, value));
          }
        }
        ASSERT_OK(db.Close());
      });
  const auto reader = OpenReader(*disk, "/repository/db");
  for (const auto& [key, value] : model) {
    const Status threw =
        reader->Get(key, [](size_t) -> char* { throw std::runtime_error("the array is full"); });
    EXPECT_EQ(threw.code(), Code::kInvalidArgument);
    EXPECT_THAT(threw.message(),
                HasSubstr("the buffer allocator threw an exception: the array is"));
    const Status number = reader->Get(key, [](size_t) -> char* { throw 7; });
    EXPECT_EQ(number.code(), Code::kInvalidArgument);
    EXPECT_THAT(number.message(), HasSubstr("the buffer allocator threw something"));
    EXPECT_EQ(reader->Get(key, [](size_t) -> char* { throw std::bad_alloc(); }).code(),
              Code::kOutOfMemory);
    EXPECT_EQ(reader->Get(key, [](size_t) -> char* { return nullptr; }).code(), Code::kOutOfMemory);
    EXPECT_EQ(Get(*reader, key), value);
  }
  EXPECT_EQ(AllOf(*reader), model);
}

TEST(DatabaseReading, WalksBothWaysAndTurnsRound) {
  const auto disk = io::NewSimFileSystem();
  SimCluster cluster(Ranks(2, disk.get()));
  cluster.RunDatabase(SimCluster::SmallDatabase(), [&](int rank, Context&, Database& db) {
    for (int i = rank; i < 9; i += 2) {
      ASSERT_OK(db.Put("k" + std::to_string(i), "v"));
    }
    ASSERT_OK(db.Close());
  });
  const auto reader = OpenReader(*disk, "/repository/db");
  const auto iterator = reader->NewIterator();
  iterator->Seek("k4");
  EXPECT_EQ(iterator->key(), "k4");
  iterator->Prev();
  EXPECT_EQ(iterator->key(), "k3");
  iterator->Next();
  EXPECT_EQ(iterator->key(), "k4");
  iterator->SeekToLast();
  EXPECT_EQ(iterator->key(), "k8");
  iterator->Prev();
  EXPECT_EQ(iterator->key(), "k7");
  iterator->Next();
  iterator->Next();
  EXPECT_FALSE(iterator->Valid());
  EXPECT_OK(iterator->status());
}

TEST(DatabaseReading, AReaderReadsACheckpointAndSeveralGenerations) {
  const auto disk = io::NewSimFileSystem();
  for (const int size : {3, 2}) {
    SimCluster cluster(Ranks(size, disk.get()));
    cluster.RunDatabase(SimCluster::SmallDatabase(), [&](int rank, Context& context, Database& db) {
      if (rank == 0 && size == 3) {
        ASSERT_OK(db.Put("a", "1"));
        ASSERT_OK(db.Put("b", "1"));
      }
      if (rank == 0 && size == 2) {
        ASSERT_OK(db.Put("a", "2"));
        ASSERT_OK(db.Delete("b"));
      }
      if (size == 3) {
        auto event = db.Checkpoint("/pfs", {});
        ASSERT_OK(event.status());
        ASSERT_OK((*event)->Wait());
      }
      ASSERT_OK(context.Barrier());
      ASSERT_OK(db.Close());
    });
  }
  EXPECT_EQ(AllOf(*OpenReader(*disk, "/pfs/db/1")), (Model{{"a", "1"}, {"b", "1"}}));
  EXPECT_EQ(AllOf(*OpenReader(*disk, "/repository/db")), (Model{{"a", "2"}}));
}

TEST(DatabaseReading, OpenReportsThatThereIsNoDatabase) {
  const auto disk = io::NewSimFileSystem();
  ASSERT_OK(disk->MakeDirectory("/repository"));
  for (const std::string directory : {"/repository", "/repository/nowhere"}) {
    EXPECT_EQ(OpenDatabaseReader(*disk, directory, {}).status().ToString(),
              "not found: there is no database and no checkpoint in " + directory +
                  "; name a database's directory, <repository>/<name>");
  }
}

TEST(DatabaseReading, AReaderReportsThatItIsStaleOnceThePairsHaveMoved) {
  const auto disk = io::NewSimFileSystem();
  SimCluster(Ranks(2, disk.get()))
      .RunDatabase(SimCluster::SmallDatabase(), [&](int, Context&, Database& db) {
        ASSERT_OK(db.Put("a", "1"));
        ASSERT_OK(db.Close());
      });
  const auto reader = OpenReader(*disk, "/repository/db");
  DatabaseOptions options = SimCluster::SmallDatabase();
  options.redistribute = true;
  SimCluster(Ranks(3, disk.get())).RunDatabase(options, [&](int, Context&, Database& db) {
    ASSERT_OK(db.Close());
  });
  std::string value;
  EXPECT_EQ(reader->Get("a", &value).code(), Code::kBusy);
  const auto walk = reader->NewIterator();
  walk->SeekToFirst();
  EXPECT_FALSE(walk->Valid());
  EXPECT_EQ(walk->status().code(), Code::kBusy) << walk->status().ToString();
  ASSERT_OK(reader->Refresh());
  EXPECT_EQ(Get(*reader, "a"), "1");
}

// It has the older generation open when the pairs have moved, are deleted, and the tombstones are
// gone.
TEST(DatabaseReading, NeverShowsAnOlderValueOfWhatWasDeleted) {
  const auto disk = io::NewSimFileSystem();
  SimCluster(Ranks(2, disk.get()))
      .RunDatabase(SimCluster::SmallDatabase(), [&](int, Context&, Database& db) {
        for (int i = 0; i < 40; ++i) ASSERT_OK(db.Put("key " + std::to_string(i), "old"));
        ASSERT_OK(db.Close());
      });
  std::unique_ptr<DatabaseReader> reader;
  std::vector<std::string> unseen;
  SimCluster(Ranks(3, disk.get()))
      .RunDatabase(SimCluster::SmallDatabase(), [&](int rank, Context& context, Database& db) {
        if (rank == 0) {
          reader = OpenReader(*disk, "/repository/db");
          EXPECT_EQ(Get(*reader, "key 0"), "old");
        }
        ASSERT_OK(context.Barrier());
        auto event = db.Checkpoint("/pfs", {});  // which waits until all has moved
        ASSERT_OK(event.status());
        ASSERT_OK((*event)->Wait());
        for (int i = 1; i < 40; ++i) ASSERT_OK(db.Delete("key " + std::to_string(i)));
        ASSERT_OK(db.Barrier(Level::kSsTable));
        if (rank == 0) {
          for (int i = 1; i < 40; ++i) {
            std::string value;
            const Status status = reader->Get("key " + std::to_string(i), &value);
            // As it was before, from a part that was open then; or that it is stale.
            EXPECT_TRUE(status.ok() ? value == "old" : status.code() == Code::kBusy)
                << status.ToString();
            if (!status.ok()) unseen.push_back(status.ToString());
          }
          EXPECT_FALSE(unseen.empty());
          ASSERT_OK(reader->Refresh());
          for (int i = 1; i < 40; ++i) {
            EXPECT_EQ(Get(*reader, "key " + std::to_string(i)), "<not found>");
          }
          EXPECT_EQ(Get(*reader, "key 0"), "old");
        }
        ASSERT_OK(context.Barrier());
        ASSERT_OK(db.Close());
      });
}

// One rank's pairs of an old generation, and two ranks to which they move and which write all the
// time.
class ReadingWhilePairsMove : public testing::Test {
 protected:
  ReadingWhilePairsMove() {
    EXPECT_OK(disk_->MakeDirectory("/db"));
    for (int i = 100; keys_.size() < 4; ++i) {
      const std::string key = "key " + std::to_string(i);
      if (base::OwnerOf(base::HashKey(key), 2) == 0) keys_.push_back(key);
    }
    const auto old = OpenPart(kOld, 0, nullptr);
    for (const std::string& key : keys_) EXPECT_OK(old->Put(key, "old"));
    for (int rank : {0, 1}) newer_.push_back(OpenPart(kNewer, rank, NewEmptyBackingStore()));
    Publish({kNewer, kOld});
  }
  std::unique_ptr<lsm::Db> OpenPart(const Generation& generation, int rank,
                                    std::shared_ptr<const engine::BackingStore> base) {
    const std::string part = PartDirectory("/db", generation, rank);
    EXPECT_OK(io::MakeDurableDirectory(*disk_, GenerationDirectory("/db", generation)));
    engine::EngineEnvironment environment;
    environment.fs = disk_.get();
    environment.executor = executor_.get();
    environment.base = std::move(base);
    auto opened = lsm::Db::Open(environment, part, SimCluster::SmallDatabase().storage,
                                engine::OpenFlags::kMustNotExist);
    EXPECT_OK(opened.status());
    return std::move(*opened);
  }
  void Publish(const std::vector<Generation>& generations) {
    DatabaseDescriptor descriptor;
    descriptor.generations = generations;
    EXPECT_OK(WriteDescriptor(*disk_, "/db", descriptor));
  }
  // The key is deleted when the reader is opened. Then the last pairs move, and what newer tables
  // hide in the older generation is needed no more.
  void DeleteAndOpen(const std::string& key) {
    ASSERT_OK(newer_[0]->Delete(key));
    ASSERT_OK(newer_[0]->Flush());
    reader_ = OpenReader(*files_, "/db");
    EXPECT_EQ(Get(*reader_, key), "<not found>");
    EXPECT_EQ(Get(*reader_, keys_[0]), "old");
    ASSERT_EQ(AllOf(*reader_).size(), keys_.size() - 1);  // all parts are open
  }
  void EndTheMove(const std::string& deleted) {
    for (const std::string& key : keys_) {
      if (key != deleted) ASSERT_OK(newer_[0]->Put(key, "old"));
    }
    ASSERT_OK(newer_[0]->Flush());
    Publish({kNewer});
    newer_[0]->DetachBackingStore();
    ASSERT_OK(newer_[0]->Compact());
  }

  const Generation kOld{1, 1, "hash", ""};
  const Generation kNewer{2, 2, "hash", ""};
  const std::unique_ptr<io::SimFileSystem> disk_ = io::NewSimFileSystem();
  const std::unique_ptr<io::FaultFileSystem> files_ = io::NewFaultFileSystem(*disk_);
  const std::unique_ptr<base::Executor> executor_ = base::NewManualExecutor();
  std::vector<std::string> keys_;  // of rank 0, of those that the pairs move to
  std::vector<std::unique_ptr<lsm::Db>> newer_;
  std::unique_ptr<DatabaseReader> reader_;
};

TEST_F(ReadingWhilePairsMove, AWalkLeavesOutNoPairThatMovesBesideIt) {
  reader_ = OpenReader(*disk_, "/db");
  const auto walk = reader_->NewIterator();
  walk->SeekToFirst();
  for (const std::string& key : keys_) ASSERT_OK(newer_[0]->Put(key, "old"));
  ASSERT_OK(newer_[0]->Flush());
  ASSERT_OK(reader_->Refresh());
  std::vector<std::string> walked;
  for (; walk->Valid(); walk->Next()) walked.emplace_back(walk->key());
  EXPECT_OK(walk->status());
  EXPECT_EQ(walked, keys_);
  EXPECT_EQ(AllOf(*reader_).size(), keys_.size());
}

// A repair cannot know the function of an older generation: its one part is by hash as by any rule.
TEST_F(ReadingWhilePairsMove, GoesByTheRuleOfTheNewestGeneration) {
  Publish({{kNewer.number, kNewer.rank_count, "by the program", ""}, kOld});
  EXPECT_CODE(OpenDatabaseReader(*disk_, "/db", {}).status(), Code::kInvalidArgument);
  DatabaseReaderOptions with;
  with.partitioner = [](Slice, int) { return 0; };
  const auto reader = OpenDatabaseReader(*disk_, "/db", with);
  ASSERT_OK(reader.status());
  for (const std::string& key : keys_) EXPECT_EQ(Get(**reader, key), "old");
  EXPECT_EQ(AllOf(**reader).size(), keys_.size());
}

TEST_F(ReadingWhilePairsMove, AWalkShowsNothingThatWasDeletedBeforeIt) {
  DeleteAndOpen(keys_[1]);
  const auto walk = reader_->NewIterator();
  walk->SeekToFirst();
  EndTheMove(keys_[1]);
  ASSERT_OK(reader_->Refresh());
  std::vector<std::string> walked;
  for (; walk->Valid(); walk->Next()) walked.emplace_back(walk->key());
  EXPECT_OK(walk->status());
  EXPECT_THAT(walked, testing::ElementsAre(keys_[0], keys_[2], keys_[3]));
}

// The reader refreshes its view of the first part although the second one cannot be read.
TEST_F(ReadingWhilePairsMove, ARefreshThatFailsLeavesWhatWasSeen) {
  DeleteAndOpen(keys_[1]);
  EndTheMove(keys_[1]);
  files_->OnlyBelow(PartDirectory("/db", kNewer, 1));
  files_->FailAt(io::kFaultOpen, 1, UINT64_MAX, Code::kIo);
  EXPECT_EQ(reader_->Refresh().code(), Code::kIo);
  EXPECT_EQ(Get(*reader_, keys_[1]), "<not found>");
  EXPECT_EQ(AllOf(*reader_).size(), keys_.size() - 1);
  files_->FailAt(io::kFaultOpen, 1, 0, Code::kIo);
  ASSERT_OK(reader_->Refresh());
  EXPECT_EQ(Get(*reader_, keys_[1]), "<not found>");
  EXPECT_EQ(Get(*reader_, keys_[2]), "old");
}

// Recreates a database with as many ranks, with more and with fewer: it is another database, though
// its generations have the same numbers.
TEST(DatabaseReading, AReaderCatchesUpWithARecreatedDatabase) {
  const auto disk = io::NewSimFileSystem();
  std::unique_ptr<DatabaseReader> reader;
  for (const int size : {2, 2, 40, 1}) {
    SCOPED_TRACE(std::to_string(size) + " ranks");
    Model model;
    for (int i = 0; i < 100; ++i) model["key " + std::to_string(i)] = std::to_string(size);
    SimCluster(Ranks(size, disk.get())).Run([&](int rank, Context& context) {
      if (reader != nullptr) {
        ASSERT_OK(context.Destroy("db"));
      }
      auto db = context.Open("db", SimCluster::SmallDatabase());
      ASSERT_OK(db.status());
      if (rank == 0) {
        for (const auto& [key, value] : model) ASSERT_OK((*db)->Put(key, value));
      }
      ASSERT_OK((*db)->Close());
    });
    if (reader == nullptr) reader = OpenReader(*disk, "/repository/db");
    ASSERT_OK(reader->Refresh());
    EXPECT_EQ(AllOf(*reader), model);
  }
}

// The pairs written after the checkpoint and those written after the restart are in files of the
// same names.
TEST(DatabaseReading, CatchesUpWithADatabaseThatWentBackToACheckpoint) {
  const auto disk = io::NewSimFileSystem();
  std::unique_ptr<DatabaseReader> reader;
  SimCluster(Ranks(1, disk.get())).Run([&](int, Context& context) {
    auto db = context.Open("db", SimCluster::SmallDatabase());
    ASSERT_OK(db.status());
    const auto put_and_see = [&](const std::string& key, const std::string& value) {
      ASSERT_OK((*db)->Put(key, value));
      ASSERT_OK((*db)->Barrier(Level::kSsTable));
      if (reader == nullptr) reader = OpenReader(*disk, "/repository/db");
      ASSERT_OK(reader->Refresh());
      EXPECT_EQ(Get(*reader, key), value);
    };
    put_and_see("saved", std::string(10'000, 's'));
    ASSERT_OK(WaitFor((*db)->Checkpoint("/pfs", {})));
    put_and_see("lost", std::string(10'000, 'l'));
    ASSERT_OK((*db)->Close());
    ASSERT_OK(context.Destroy("db"));
    ASSERT_OK(WaitFor(context.Restart("/pfs", "db", {})));
    db = context.Open("db", SimCluster::SmallDatabase());
    ASSERT_OK(db.status());
    put_and_see("new", std::string(10'000, 'n'));
    EXPECT_EQ(Get(*reader, "saved"), std::string(10'000, 's'));
    EXPECT_EQ(Get(*reader, "lost"), "<not found>");
    ASSERT_OK((*db)->Close());
  });
}

// Parts with logs of 16 MiB in which a killed job left one pair each.
class PartsOfAKilledJob : public testing::Test {
 protected:
  static constexpr int kParts = 8;

  void SetUp() override {
    if (QUIRE_ADDRESS_SANITIZER || QUIRE_THREAD_SANITIZER) {
      GTEST_SKIP() << "a sanitizer's own memory is not Quire's";
    }
    const Generation generation{1, kParts, "hash", ""};
    ASSERT_OK(disk_->MakeDirectory("/repository"));
    ASSERT_OK(disk_->MakeDirectory(kDirectory));
    ASSERT_OK(disk_->MakeDirectory(GenerationDirectory(kDirectory, generation)));
    DatabaseDescriptor descriptor;
    descriptor.generations = {generation};
    ASSERT_OK(WriteDescriptor(*disk_, kDirectory, descriptor));
    StorageOptions options = SimCluster::SmallDatabase().storage;
    options.memtable_bytes = kLogBytes;
    const auto executor = base::NewManualExecutor();
    engine::EngineEnvironment environment;
    environment.fs = disk_.get();
    environment.executor = executor.get();
    std::vector<std::unique_ptr<lsm::Db>> parts;
    for (int rank = 0; rank < kParts; ++rank) {
      auto part = lsm::Db::Open(environment, PartDirectory(kDirectory, generation, rank), options,
                                engine::OpenFlags::kMustNotExist);
      ASSERT_OK(part.status());
      ASSERT_OK((*part)->Put(KeyOf(rank), "v"));
      parts.push_back(std::move(*part));
    }
    disk_->CrashAfter(0);
    parts.clear();
    disk_->Restart(io::CrashKind::kProcess, 1);
  }
  static std::string KeyOf(int rank) {
    for (int i = 0;; ++i) {
      std::string key = "key " + std::to_string(i);
      if (base::OwnerOf(base::HashKey(key), kParts) == rank) return key;
    }
  }
  // Less than what the logs of all parts, or indexes of such logs, take.
  static void ExpectLittleSince(uint64_t bytes_before) {
    const uint64_t bytes = io::ProcessMemory().anonymous_bytes;
    EXPECT_LE(bytes, bytes_before + kParts * kLogBytes / 16) << bytes - bytes_before << " more";
  }

  static constexpr uint64_t kLogBytes = 16 << 20;
  static constexpr char kDirectory[] = "/repository/db";
  const std::unique_ptr<io::SimFileSystem> disk_ = io::NewSimFileSystem();
};

TEST_F(PartsOfAKilledJob, TakeMemoryOfAReaderForTheirPairs) {
  const uint64_t before = io::ProcessMemory().anonymous_bytes;
  const auto reader = OpenReader(*disk_, kDirectory);
  for (int rank = 0; rank < kParts; ++rank) EXPECT_EQ(Get(*reader, KeyOf(rank)), "v");
  EXPECT_EQ(AllOf(*reader).size(), static_cast<size_t>(kParts));
  ExpectLittleSince(before);
}

TEST_F(PartsOfAKilledJob, TakeMemoryOfFewerRanksForTheirPairs) {
  SimCluster(Ranks(1, disk_.get()))
      .RunDatabase(SimCluster::SmallDatabase(), [](int, Context&, Database& db) {
        const uint64_t before = io::ProcessMemory().anonymous_bytes;
        for (int rank = 0; rank < kParts; ++rank) {
          EXPECT_EQ(SimCluster::ValueOf(db, KeyOf(rank)), "v");
        }
        ExpectLittleSince(before);
        ASSERT_OK(db.Close());
      });
}

// A file system without locks: no caller gets one, and none is named as a holder (see WithoutLocks
// of the file system's tests).
class NoLocks final : public io::ForwardingFileSystem {
 public:
  using ForwardingFileSystem::ForwardingFileSystem;
  Result<std::unique_ptr<io::FileLock>> Lock(const std::string& path,
                                             const std::string& /*holder*/) override {
    return Status(Code::kUnsupported, "cannot lock " + path);
  }
  Result<std::unique_ptr<io::FileLock>> LockShared(const std::string& /*path*/) override {
    return std::unique_ptr<io::FileLock>(std::make_unique<io::FileLock>());
  }
  Result<std::string> LockHolder(const std::string& /*path*/) override { return std::string(); }
};

TEST(DatabaseReading, NeedsNoLocks) {
  const auto disk = io::NewSimFileSystem();
  const std::string text(10'000, 'v');
  SimCluster(Ranks(1, disk.get()))
      .RunDatabase(SimCluster::SmallDatabase(), [&](int, Context&, Database& db) {
        ASSERT_OK(db.Put("in a table", text));
        ASSERT_OK(db.Barrier(Level::kSsTable));
        ASSERT_OK(WaitFor(db.Checkpoint("/pfs", {})));
        ASSERT_OK(db.Put("in the log", text));
        disk->CrashAfter(0);
      });
  disk->Restart(io::CrashKind::kMoved, 1);
  NoLocks files(*disk);
  const Model saved = {{"in a table", text}};
  const Model all = {{"in a table", text}, {"in the log", text}};
  for (const auto& [directory, expected] :
       {std::pair("/repository/db", all), std::pair("/pfs/db/1", saved)}) {
    const auto reader = OpenReader(files, directory);
    ASSERT_NE(reader, nullptr);
    EXPECT_EQ(AllOf(*reader), expected);
    EXPECT_EQ(Get(*reader, "in a table"), text);
    ASSERT_OK(reader->Refresh());
    EXPECT_EQ(AllOf(*reader), expected);
  }
  SimCluster(Ranks(2, &files)).Run([](int, Context& context) {
    EXPECT_CODE(context.Open("db", SimCluster::SmallDatabase()).status(), Code::kUnsupported);
  });
}

// By the function it would look into the wrong parts, and find nothing.
TEST(DatabaseReading, RefusesAPartitionerForADatabaseByHash) {
  const auto disk = io::NewSimFileSystem();
  SimCluster(Ranks(2, disk.get()))
      .RunDatabase(SimCluster::SmallDatabase(), [&](int, Context&, Database& db) {
        ASSERT_OK(db.Put("a", "1"));
        ASSERT_OK(db.Close());
      });
  DatabaseReaderOptions with;
  with.partitioner = [](Slice, int) { return 0; };
  const Status refused = OpenDatabaseReader(*disk, "/repository/db", with).status();
  EXPECT_CODE(refused, Code::kInvalidArgument);
  EXPECT_THAT(refused.message(), testing::HasSubstr("by the hash of keys: give no function"));
  auto reader = OpenDatabaseReader(*disk, "/repository/db", {});
  ASSERT_OK(reader.status());
  EXPECT_EQ(Get(**reader, "a"), "1");
}

TEST(DatabaseReading, NeedsThePartitionerAndNamesAMissingPart) {
  const auto disk = io::NewSimFileSystem();
  DatabaseOptions options = SimCluster::SmallDatabase();
  options.partitioner = [](Slice key, int count) { return static_cast<int>(key.size()) % count; };
  SimCluster(Ranks(2, disk.get())).RunDatabase(options, [&](int, Context&, Database& db) {
    ASSERT_OK(db.Put("a", "1"));
    ASSERT_OK(db.Close());
  });
  EXPECT_EQ(OpenDatabaseReader(*disk, "/repository/db", {}).status().code(),
            Code::kInvalidArgument);
  DatabaseReaderOptions with;
  with.partitioner = options.partitioner;
  auto reader = OpenDatabaseReader(*disk, "/repository/db", with);
  ASSERT_OK(reader.status());
  EXPECT_EQ(Get(**reader, "a"), "1");
  ASSERT_OK(lsm::DestroyDb(*disk, "/repository/db/gen-1/rank-0"));
  auto again = OpenDatabaseReader(*disk, "/repository/db", with);
  ASSERT_OK(again.status());
  std::string value;
  const Status missing = (*again)->Get("bb", &value);
  EXPECT_EQ(missing.code(), Code::kCorruption);
  EXPECT_THAT(missing.message(), testing::HasSubstr("gen-1/rank-0"));
}

}  // namespace
}  // namespace quire::kv::database_reader_test
