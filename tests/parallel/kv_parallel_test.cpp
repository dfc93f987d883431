// Every call of the public interface on several ranks, over each transport and at each thread level
// of MPI.
#include <atomic>
#include <map>
#include <thread>
#include <vector>

#include "base/threads/thread.h"
#include "parallel_fixture.h"

namespace quire::test {
namespace {

using testing::HasSubstr;

TEST_F(Parallel, TheContextSaysWhatWasChosen) {
  const auto context = NewContext();
  ASSERT_NE(context, nullptr);
  EXPECT_EQ(context->rank(), rank_);
  EXPECT_EQ(context->size(), size_);
  EXPECT_EQ(context->repository(), directory_ + "/repository");
  EXPECT_EQ(context->Description().find("MPI_THREAD_MULTIPLE") != std::string::npos, HasThreads());
  if (size_ == 1) return;
  const char* const transport = ::getenv("QUIRE_TRANSPORT");
  const bool mpi_only = transport != nullptr && std::string(transport) == "mpi";
  const std::string across = RanksBeside(rank_) > 1 ? "shm+mpi" : "mpi";
  const std::string begin = mpi_only ? "mpi" : NodeCount() > 1 ? across : "shm";
  EXPECT_EQ(context->Description().substr(0, begin.size() + 1), begin + ",")
      << context->Description();
}

// A relative path is that of each rank's working directory: another one on a rank that went
// elsewhere. Its node is that of another rank, which sees both.
TEST_F(Parallel, RanksOfOneNodeWhoseRelativePathsPartAreRefusedOnAllRanks) {
  const int last = size_ - 1;
  if (RanksBeside(last) == 1) return;
  namespace fs = std::filesystem;
  const fs::path before = fs::current_path();
  fs::current_path(directory_);
  const std::string home = fs::current_path();
  fs::create_directory("elsewhere");
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank_ == last) fs::current_path("elsewhere");
  const Status status = OpenContext(MPI_COMM_WORLD, "repository").status();
  fs::current_path(before);
  EXPECT_CODE(status, Code::kInvalidArgument);
  EXPECT_THAT(status.message(),
              HasSubstr(" gives " + home + "/repository, rank " + std::to_string(last) + " gives " +
                        home + "/elsewhere/repository; give one directory"));
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_FALSE(fs::exists(home + "/repository") || fs::exists(home + "/elsewhere/repository"));
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_NE(NewContext(), nullptr);
}

TEST_F(Parallel, ARankWithoutItsThreadsIsReportedOnAllRanks) {
  const bool fails_here = rank_ == size_ - 1;
  int more = 1;
  int refused = 0;
  for (int n = 0; more != 0; ++n) {
    if (fails_here) base::FailThreadStarts(n, 1);
    const Status status = OpenContext(MPI_COMM_WORLD, directory_ + "/repository").status();
    if (fails_here) more = base::ThreadStarts() > n ? 1 : 0;
    base::FailThreadStarts(0, 0);
    MPI_Bcast(&more, 1, MPI_INT, size_ - 1, MPI_COMM_WORLD);
    ASSERT_EQ(status.code(), more != 0 ? Code::kOutOfMemory : Code::kOk)
        << "without thread " << n << ": " << status.ToString();
    refused += more;
  }
  EXPECT_GT(refused, 0);
  EXPECT_NE(NewContext(), nullptr);
}

TEST_F(Parallel, EveryRankReadsThePairsOfEveryRank) {
  const auto context = NewContext();
  for (const Level level : {Level::kMemTable, Level::kSsTable}) {
    const auto db = NewDatabase(*context, "db", Small());
    const std::string tag = std::to_string(static_cast<int>(level));
    for (int i = 0; i < 3000; ++i) ASSERT_OK(db->Put(Key(rank_, i) + tag, "v" + Key(rank_, i)));
    for (int i = 0; i < 3000; i += 17) {
      ASSERT_EQ(GetOr(*db, Key(rank_, i) + tag, "(absent)"), "v" + Key(rank_, i));
    }
    ASSERT_OK(db->Barrier(level));
    for (int other = 0; other < size_; ++other) {
      for (int i = 0; i < 3000; i += 7) {
        ASSERT_EQ(GetOr(*db, Key(other, i) + tag, "(absent)"), "v" + Key(other, i));
      }
    }
    EXPECT_EQ(GetOr(*db, "never written", "(absent)"), "(absent)");
    ASSERT_OK(db->Close());
  }
}

TEST_F(Parallel, DataOutlivesTheContext) {
  {
    const auto context = NewContext();
    const auto db = NewDatabase(*context, "db", Small());
    for (int i = 0; i < 500; ++i) ASSERT_OK(db->Put(Key(rank_, i), std::string(300, 'x')));
    ASSERT_OK(db->Close());
  }
  const auto context = NewContext();
  DatabaseOptions options = Small();
  options.mode = OpenMode::kMustExist;
  const auto db = NewDatabase(*context, "db", options);
  for (int i = 0; i < 500; ++i) {
    ASSERT_EQ(GetOr(*db, Key(next(), i), "(absent)"), std::string(300, 'x'));
  }
  ASSERT_OK(db->Close());
  ASSERT_OK(context->Destroy("db"));
  EXPECT_CODE(context->Open("db", options).status(), Code::kNotFound);
}

TEST_F(Parallel, SequentialWritesAndSignalsHandOver) {
  const auto context = NewContext();
  DatabaseOptions options = Small();
  options.consistency = Consistency::kSequential;
  const auto db = NewDatabase(*context, "db", options);
  for (int i = 0; i < 50 && size_ > 1; ++i) {
    if (i % size_ == rank_) {
      ASSERT_OK(db->Put("token", std::to_string(i)));
      ASSERT_OK(context->Notify(3, {next()}));
    } else if ((i + 1) % size_ == rank_) {
      ASSERT_OK(context->WaitSignal(3, {(rank_ + size_ - 1) % size_}));
      ASSERT_EQ(GetOr(*db, "token", "(absent)"), std::to_string(i));
      ASSERT_OK(db->Put("seen by " + std::to_string(rank_), std::to_string(i)));
    }
    ASSERT_OK(context->Barrier());
  }
  ASSERT_OK(db->Close());
}

TEST_F(Parallel, ModesAreSwitchedBothWays) {
  const auto context = NewContext();
  const auto db = NewDatabase(*context, "db", Small());
  for (int round = 0; round < 6; ++round) {
    for (int i = 0; i < 200; ++i) {
      ASSERT_OK(db->Put(Key(rank_, i), std::to_string(round) + "/" + std::to_string(i)));
    }
    ASSERT_OK(
        db->SetConsistency(round % 2 == 0 ? Consistency::kSequential : Consistency::kRelaxed));
    for (int i = 0; i < 200; ++i) {
      ASSERT_EQ(GetOr(*db, Key(next(), i), "(absent)"),
                std::to_string(round) + "/" + std::to_string(i));
    }
    ASSERT_OK(context->Barrier());
  }
  ASSERT_OK(db->Close());
}

TEST_F(Parallel, LargeValuesTravelWhole) {
  const auto context = NewContext();
  DatabaseOptions options = Small();
  options.remote_memtable_bytes = 8 << 20;
  const auto db = NewDatabase(*context, "db", options);
  const auto value_of = [](int rank, size_t size) {
    std::string value(size, '\0');
    for (size_t i = 0; i < size; ++i) value[i] = static_cast<char>(i * 31 + i / 257 + rank);
    return value;
  };
  const std::vector<size_t> sizes = {0, 1, 1023, 70'000, 131'072, 1'500'000, 9'000'000};
  for (const Consistency consistency : {Consistency::kRelaxed, Consistency::kSequential}) {
    ASSERT_OK(db->SetConsistency(consistency));
    for (size_t n = 0; n < sizes.size(); ++n) {
      const std::string key = Key(rank_, static_cast<int>(n));
      ASSERT_OK(db->Put(key, value_of(rank_, sizes[n])));
      ASSERT_EQ(GetOr(*db, key, "(absent)"), value_of(rank_, sizes[n])) << "own, at once";
    }
    ASSERT_OK(db->Barrier(Level::kMemTable));
    for (size_t n = 0; n < sizes.size(); ++n) {
      ASSERT_EQ(GetOr(*db, Key(next(), static_cast<int>(n)), "(absent)"),
                value_of(next(), sizes[n]));
    }
    ASSERT_OK(context->Barrier());
  }
  ASSERT_OK(db->Close());
}

TEST_F(Parallel, BulkCallsAndAsynchronousGets) {
  const auto context = NewContext();
  const auto db = NewDatabase(*context, "db", Small());
  for (const Consistency consistency : {Consistency::kRelaxed, Consistency::kSequential}) {
    ASSERT_OK(db->SetConsistency(consistency));
    std::vector<std::string> names, values;
    for (int i = 0; i < 2000; ++i) {
      names.push_back(Key(rank_, i));
      values.push_back(std::string(static_cast<size_t>(i % 300), static_cast<char>('a' + i % 26)));
    }
    std::vector<std::pair<Slice, Slice>> pairs;
    for (size_t i = 0; i < names.size(); ++i) pairs.emplace_back(names[i], values[i]);
    ASSERT_OK(db->PutMany(pairs));
    ASSERT_OK(db->Barrier(Level::kMemTable));
    std::vector<std::string> wanted;
    for (int i = 0; i < 2010; ++i) wanted.push_back(Key(next(), i));
    const std::vector<Slice> keys(wanted.begin(), wanted.end());
    std::vector<std::string> got;
    std::vector<bool> found;
    ASSERT_OK(db->GetMany(keys, &got, &found));
    for (size_t i = 0; i < keys.size(); ++i) {
      ASSERT_EQ(found[i], i < 2000);
      if (found[i]) {
        ASSERT_EQ(got[i], values[i]);
      }
    }
    std::vector<std::unique_ptr<PendingGet>> pending;
    for (int i = 0; i < 300; ++i) pending.push_back(db->GetAsync(wanted[static_cast<size_t>(i)]));
    for (size_t i = 0; i < pending.size(); ++i) {
      const Result<std::string> value = pending[i]->Take();
      ASSERT_TRUE(value.ok()) << value.status().ToString();
      ASSERT_EQ(*value, values[i]);
    }
    ASSERT_OK(context->Barrier());
    const std::vector<Slice> own(names.begin(), names.end());
    ASSERT_OK(db->DeleteMany(own));
    ASSERT_OK(db->Barrier(Level::kMemTable));
    EXPECT_EQ(GetOr(*db, Key(next(), 5), "(absent)"), "(absent)");
    ASSERT_OK(context->Barrier());
  }
  ASSERT_OK(db->Close());
}

Status Count(Slice, const Slice* present, Slice argument, std::string* updated) {
  if (argument == "fail") return Status(Code::kInvalidArgument, "told to fail");
  const long before = present == nullptr ? 0 : std::stol(std::string(*present));
  *updated = std::to_string(before + std::stol(std::string(argument)));
  return Status();
}

TEST_F(Parallel, UpdatesAreAtomicForAKey) {
  const auto context = NewContext();
  const auto db = NewDatabase(*context, "db", Small());
  ASSERT_OK(db->RegisterUpdate(1, Count));
  ASSERT_OK(db->Protect(Protection::kUpdateOnly));
  for (int i = 0; i < 2000; ++i) ASSERT_OK(db->Update("sum " + std::to_string(i % 7), 1, "2"));
  ASSERT_OK(db->Barrier(Level::kSsTable));
  long total = 0;
  for (int i = 0; i < 7; ++i) total += std::stol(GetOr(*db, "sum " + std::to_string(i), "0"));
  EXPECT_EQ(total, 2L * 2000 * size_);
  EXPECT_CODE(db->Put("k", "v"), Code::kReadOnly);
  ASSERT_OK(db->Close());
}

TEST_F(Parallel, AFailureOnOneRankIsReportedOnAllRanks) {
  const auto context = NewContext();
  const auto db = NewDatabase(*context, "db", Small());
  ASSERT_OK(db->RegisterUpdate(1, Count));
  ASSERT_OK(context->Barrier());
  const int failing = size_ - 1;
  if (rank_ == failing && size_ > 1) {
    std::string key = "k";
    while (db->Owner(key) == rank_) key += "k";
    ASSERT_OK(db->Update(key, 1, "fail"));
  }
  const Status barrier = db->Barrier(Level::kMemTable);
  if (size_ > 1) {
    EXPECT_CODE(barrier, Code::kInvalidArgument);
    EXPECT_THAT(barrier.message(), HasSubstr("rank " + std::to_string(failing)));
    EXPECT_THAT(barrier.message(), HasSubstr("1 operation lost"));
  }
  ASSERT_OK(db->Barrier(Level::kMemTable));
  DatabaseOptions bad = Small();
  if (rank_ == failing) bad.storage.block_bytes = 1;
  const Status open = context->Open("other", bad).status();
  EXPECT_CODE(open, Code::kInvalidArgument);
  EXPECT_THAT(open.message(), HasSubstr("block_bytes"));
  DatabaseOptions different = Small();
  if (rank_ == failing) different.storage.cache_bytes += 1;
  if (size_ > 1) {
    const Status differs = context->Open("other", different).status();
    EXPECT_CODE(differs, Code::kInvalidArgument);
    EXPECT_THAT(differs.message(), HasSubstr("cache_bytes"));
  }
  ASSERT_OK(db->Close());
}

TEST_F(Parallel, ProtectionAndCaches) {
  const auto context = NewContext();
  DatabaseOptions options = Small();
  options.local_cache_bytes = 1 << 20;
  options.group_size = 1;
  const auto db = NewDatabase(*context, "db", options);
  for (int round = 0; round < 3; ++round) {
    ASSERT_OK(db->Protect(Protection::kWriteOnly));
    std::string value;
    EXPECT_CODE(db->Get("k", &value), Code::kInvalidArgument);
    for (int i = 0; i < 300; ++i) ASSERT_OK(db->Put(Key(rank_, i), std::to_string(round * i)));
    ASSERT_OK(db->Barrier(Level::kSsTable));
    ASSERT_OK(db->Protect(Protection::kReadOnly));
    EXPECT_CODE(db->Put("k", "v"), Code::kReadOnly);
    for (int repeat = 0; repeat < 2; ++repeat) {
      for (int i = 0; i < 300; ++i) {
        ASSERT_EQ(GetOr(*db, Key(next(), i), "(absent)"), std::to_string(round * i));
      }
    }
  }
  const Statistics statistics = db->GetStatistics();
  if (size_ > 1) {
    EXPECT_EQ(statistics.at("cache.remote.hits"), statistics.at("gets.message"));
  }
  EXPECT_GT(statistics.at("cache.local.hits") + statistics.at("cache.remote.hits"), 0u);
  ASSERT_OK(db->Close());
}

TEST_F(Parallel, GetsFromNeighboursNeedNoMessage) {
  const auto context = NewContext();
  const auto db = NewDatabase(*context, "db", Small());
  for (int i = 0; i < 2000; ++i) ASSERT_OK(db->Put(Key(rank_, i), std::string(2000, 'v')));
  ASSERT_OK(db->Barrier(Level::kMemTable));
  const std::vector<int> nodes = NodesOfRanks();
  const int node = NodeOf(rank_);
  uint64_t elsewhere = 0;  // gets of keys that live on another node
  for (int i = 0; i < 2000; ++i) {
    ASSERT_EQ(GetOr(*db, Key(next(), i), "(absent)"), std::string(2000, 'v'));
    if (nodes[static_cast<size_t>(db->Owner(Key(next(), i)))] != node) ++elsewhere;
  }
  uint64_t neighbours = 0;
  for (int other = 0; other < size_; ++other) {
    if (other != rank_ && NodeOf(other) == node) ++neighbours;
  }
  const Statistics statistics = db->GetStatistics();
  const bool shared = context->Description().find("shm") != std::string::npos;
  if (size_ > 1 && shared) {
    EXPECT_EQ(statistics.at("direct.neighbours"), neighbours);
    EXPECT_EQ(statistics.at("gets.direct") > 0, neighbours > 0);
    EXPECT_EQ(statistics.at("gets.message"), elsewhere + statistics.at("gets.direct_busy"));
    EXPECT_EQ(elsewhere > 0, NodeCount() > 1);
  }
  // Their tables they read where they share no memory, too.
  ASSERT_OK(db->Barrier(Level::kSsTable));
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(GetOr(*db, Key(next(), i), "(absent)"), std::string(2000, 'v'));
  }
  if (!shared && neighbours > 0) {
    EXPECT_GT(db->GetStatistics().at("gets.group"), 0u);
    EXPECT_EQ(db->GetStatistics().at("gets.direct"), 0u);
  }
  ASSERT_OK(context->Barrier());
  ASSERT_OK(db->Close());
}

TEST_F(Parallel, IteratorsWalkOverWhatARankOwns) {
  const auto context = NewContext();
  const auto db = NewDatabase(*context, "db", Small());
  for (int i = 0; i < 1000; ++i) ASSERT_OK(db->Put(Key(rank_, i), "v"));
  ASSERT_OK(db->Barrier(Level::kMemTable));
  long count = 0;
  std::string before;
  const auto iterator = db->NewLocalIterator();
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next(), ++count) {
    ASSERT_EQ(db->Owner(iterator->key()), rank_);
    ASSERT_LT(before, iterator->key());
    before = iterator->key();
  }
  ASSERT_OK(iterator->status());
  long total = 0;
  MPI_Allreduce(&count, &total, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_EQ(total, 1000L * size_);
  ASSERT_OK(db->Close());
}

TEST_F(Parallel, ABatchIsAllOrNothingAtEachOwner) {
  const auto context = NewContext();
  const auto db = NewDatabase(*context, "db", Small());
  Batch batch;
  for (int i = 0; i < 300; ++i) batch.Put(Key(rank_, i), "batch");
  ASSERT_OK(db->Write(batch));
  for (int i = 0; i < 300; ++i) ASSERT_EQ(GetOr(*db, Key(rank_, i), "(absent)"), "batch");
  Batch huge;
  for (int i = 0; i < 300; ++i) huge.Put(Key(rank_, i), std::string(900, 'x'));
  // More than one owner's MemTable takes, however many share it.
  for (int i = 0; i < 6000 * (1 + size_ / 5); ++i) huge.Put(Key(rank_, i), std::string(900, 'x'));
  EXPECT_CODE(db->Write(huge), Code::kInvalidArgument);
  for (int i = 0; i < 300; ++i) ASSERT_EQ(GetOr(*db, Key(rank_, i), "(absent)"), "batch");
  ASSERT_OK(db->Close());
}

TEST_F(Parallel, SeveralDatabasesWithTheirOwnProperties) {
  const auto context = NewContext();
  DatabaseOptions first = Small();
  first.partitioner = [](Slice key, int count) {
    return static_cast<int>(key.size() % static_cast<size_t>(count));
  };
  first.partitioner_name = "by length";
  DatabaseOptions second = Small();
  second.consistency = Consistency::kSequential;
  second.storage.wal = WalMode::kOff;
  const auto one = NewDatabase(*context, "one", first);
  const auto two = NewDatabase(*context, "two", second);
  for (int i = 0; i < 300; ++i) {
    ASSERT_OK(one->Put(Key(rank_, i), "one"));
    ASSERT_OK(two->Put(Key(rank_, i), "two"));
  }
  ASSERT_OK(one->Barrier(Level::kMemTable));
  for (int i = 0; i < 300; ++i) {
    ASSERT_EQ(GetOr(*one, Key(next(), i), "(absent)"), "one");
    ASSERT_EQ(GetOr(*two, Key(next(), i), "(absent)"), "two");
  }
  ASSERT_OK(two->Close());
  ASSERT_OK(one->Close());
  const Status other = context->Open("one", Small()).status();
  EXPECT_CODE(other, Code::kInvalidArgument);
  EXPECT_THAT(other.message(), HasSubstr("by length"));
}

TEST_F(Parallel, ThreadsOfARankMayAllCall) {
  if (!HasThreads()) GTEST_SKIP() << "below MPI_THREAD_MULTIPLE the program serializes its threads";
  const auto context = NewContext();
  const auto db = NewDatabase(*context, "db", Small());
  ASSERT_OK(db->RegisterUpdate(1, Count));
  ASSERT_OK(context->Barrier());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const std::string prefix = std::to_string(rank_) + "." + std::to_string(t) + ".";
      for (int i = 0; i < 1000; ++i) {
        ASSERT_OK(db->Put(prefix + std::to_string(i), std::to_string(i)));
        ASSERT_OK(db->Update("sum", 1, "1"));
        if (i % 10 == 0) {
          ASSERT_EQ(GetOr(*db, prefix + std::to_string(i), "(absent)"), std::to_string(i));
        }
        if (i % 250 == 0) ASSERT_OK(db->Fence());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_OK(db->Barrier(Level::kMemTable));
  EXPECT_EQ(GetOr(*db, "sum", "0"), std::to_string(4 * 1000 * size_));
  for (int i = 0; i < 1000; i += 9) {
    ASSERT_EQ(GetOr(*db, std::to_string(next()) + ".2." + std::to_string(i), "(absent)"),
              std::to_string(i));
  }
  ASSERT_OK(context->Barrier());
  ASSERT_OK(db->Close());
}

TEST_F(Parallel, WorksOnAPartOfTheRanksAndLeavesTheCommunicatorAlone) {
  MPI_Comm part;
  MPI_Comm_split(MPI_COMM_WORLD, rank_ % 2, -rank_, &part);
  int part_rank = 0;
  MPI_Comm_rank(part, &part_rank);
  MPI_Errhandler before, after;
  MPI_Comm_get_errhandler(part, &before);
  {
    auto context = OpenContext(part, directory_ + "/part" + std::to_string(rank_ % 2));
    ASSERT_TRUE(context.ok()) << context.status().ToString();
    EXPECT_EQ((*context)->rank(), part_rank);
    const auto db = NewDatabase(**context, "db", Small());
    for (int i = 0; i < 100; ++i) ASSERT_OK(db->Put(Key(part_rank, i), "v"));
    ASSERT_OK(db->Barrier(Level::kMemTable));
    EXPECT_EQ(GetOr(*db, Key((part_rank + 1) % (*context)->size(), 7), "(absent)"), "v");
    ASSERT_OK(db->Close());
  }
  MPI_Comm_get_errhandler(part, &after);
  EXPECT_EQ(before, after);
  MPI_Errhandler_free(&before);
  MPI_Errhandler_free(&after);
  MPI_Comm_free(&part);
}

TEST_F(Parallel, HandlesMayEndWithoutClose) {
  {
    auto context = NewContext();
    auto db = NewDatabase(*context, "db", Small());
    for (int i = 0; i < 100; ++i) ASSERT_OK(db->Put(Key(rank_, i), "v"));
    ASSERT_OK(db->Barrier(Level::kMemTable));
    if (rank_ % 2 == 0) {
      context.reset();
      EXPECT_CODE(db->Put("k", "v"), Code::kInvalidArgument);
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const auto context = NewContext();
  const auto db = NewDatabase(*context, "db", Small());
  EXPECT_EQ(GetOr(*db, Key(next(), 50), "(absent)"), "v");
  ASSERT_OK(db->Close());
  EXPECT_CODE(db->Put("k", "v"), Code::kInvalidArgument);
}

// A thread that may not send must not take messages from threads that may.
TEST_F(Parallel, AThreadThatMayNotCallMpiChangesNothing) {
  int level = 0;
  MPI_Query_thread(&level);
  const auto context = NewContext();
  if (level >= MPI_THREAD_SERIALIZED || !context->Description().starts_with("mpi")) {
    GTEST_SKIP() << "any thread may call";
  }
  DatabaseOptions options = Small();
  options.group_size = 1;
  const auto db = NewDatabase(*context, "db", options);
  for (int i = 0; i < 100; ++i) ASSERT_OK(db->Put(Key(rank_, i), "v"));
  auto event = db->Checkpoint(directory_ + "/checkpoint", {});
  ASSERT_OK(event.status());
  std::thread([&] {
    std::string value;
    EXPECT_CODE(db->Put(Key(rank_, 0), "other"), Code::kInvalidArgument);
    EXPECT_CODE(db->Get(Key(rank_, 0), &value), Code::kInvalidArgument);
    EXPECT_CODE(db->Fence(), Code::kInvalidArgument);
    context->Progress();
    EXPECT_FALSE((*event)->Ready());
    EXPECT_CODE((*event)->Wait(), Code::kInvalidArgument);
  }).join();
  ASSERT_OK((*event)->Wait());
  ASSERT_OK(db->Fence());
  ASSERT_OK(db->Barrier(Level::kMemTable));
  for (int i = 0; i < 100; ++i) ASSERT_EQ(GetOr(*db, Key(next(), i), "(absent)"), "v");
  ASSERT_OK(db->Close());
}

TEST_F(Parallel, RepositoriesThatAreNotOursAreRefusedOnAllRanks) {
  const auto expect_refused = [&](const std::string& path, Code code) {
    const Status status = OpenContext(MPI_COMM_WORLD, path).status();
    EXPECT_EQ(status.code(), code) << status.ToString();
    EXPECT_FALSE(status.message().empty());
  };
  expect_refused("", Code::kInvalidArgument);
  expect_refused("$QUIRE_SURELY_NOT_SET/x", Code::kInvalidArgument);
  expect_refused(directory_ + "/no/such/parent", Code::kNotFound);
  // On each node; where they share the directory only the first one's links are new.
  std::error_code ignored;
  if (IsFirstOfNode(rank_)) {
    std::filesystem::create_directory(directory_ + "/real", ignored);
    std::filesystem::create_symlink(directory_ + "/real", directory_ + "/planted", ignored);
    ASSERT_NE(::fopen((directory_ + "/file").c_str(), "w"), nullptr);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  expect_refused(directory_ + "/planted", Code::kInvalidArgument);
  EXPECT_THAT(OpenContext(MPI_COMM_WORLD, directory_ + "/planted").status().message(),
              HasSubstr("name the real path"));
  expect_refused(directory_ + "/file", Code::kInvalidArgument);
  const auto context = NewContext();
  if (IsFirstOfNode(rank_)) {
    std::filesystem::create_symlink(directory_ + "/real", directory_ + "/repository/linked",
                                    ignored);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_CODE(context->Open("linked", Small()).status(), Code::kInvalidArgument);
  EXPECT_TRUE(std::filesystem::is_empty(directory_ + "/real"));
}

TEST_F(Parallel, ProgressLetsOthersReadWhileThisRankComputes) {
  const auto context = NewContext();
  DatabaseOptions options = Small();
  options.group_size = 1;
  options.consistency = Consistency::kSequential;
  const auto db = NewDatabase(*context, "db", options);
  ASSERT_OK(db->Put(Key(rank_, 0), "v"));
  ASSERT_OK(db->Barrier(Level::kMemTable));
  if (rank_ == 0) {
    // "Computes" until the others say that they have read.
    int done = 0;
    while (done < size_ - 1) {
      context->Progress();
      int flag = 0;
      MPI_Iprobe(MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
      if (!flag) continue;
      MPI_Recv(nullptr, 0, MPI_CHAR, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      ++done;
    }
  } else {
    std::string key = "of rank 0";
    while (db->Owner(key) != 0) key += "!";
    ASSERT_OK(db->Put(key, "v"));
    EXPECT_EQ(GetOr(*db, key, "(absent)"), "v");
    MPI_Send(nullptr, 0, MPI_CHAR, 0, 5, MPI_COMM_WORLD);
  }
  ASSERT_OK(db->Close());
}

}  // namespace
}  // namespace quire::test
