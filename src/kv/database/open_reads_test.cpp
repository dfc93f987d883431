// The files that opening a database reads: texts and manifests, whatever the tables and value
// segments contain, with as many ranks as wrote it and with other numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "io/sim/sim_file_system.h"
#include "kv/database/persistence_testing.h"
#include "quire/log.h"
#include "tests/support/status_asserts.h"

namespace quire::kv::open_reads_test {
namespace {

using testing::AnyOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

constexpr int kWriters = 2;

// A disk, and what each rank of the second job touches of it.
class OpenReads : public testing::Test {
 protected:
  OpenReads() {
    for (int rank = 0; rank < 4; ++rank) {
      watched_.push_back(io::NewFaultFileSystem(*disk_));
      watched_.back()->BeforeCalls(io::kFaultOpen | io::kFaultRead | io::kFaultMap,
                                   [this, rank](const std::string& path) { Note(rank, path); });
    }
  }
  void Run(int size, const SimCluster::Program& program) {
    SimCluster::Options options;
    options.rank_count = size;
    options.seed = ++seed_;
    options.file_system = [this](int rank) { return watched_[static_cast<size_t>(rank)].get(); };
    SimCluster cluster(options);
    shares_memory_ = cluster.direct_reads();
    cluster.Run(program);
  }
  void Note(int rank, const std::string& path) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (opening_.contains(rank)) touched_.insert(path.substr(kHome.size()));
  }
  void Watch(int rank, bool opening) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (opening) {
      opening_.insert(rank);
    } else {
      opening_.erase(rank);
    }
  }
  // Tables stay as they are flushed: a merge that is due would read them.
  static DatabaseOptions WithoutMerges(DatabaseOptions options) {
    options.storage.value_separation_bytes_min = 256;
    options.storage.compaction = CompactionPolicy::kEveryNth;
    options.storage.compaction_trigger = 1000;
    return options;
  }
  // The files that opening touched, below the database's directory; then all pairs are read.
  std::set<std::string> TouchedByOpen(int size, int count) {
    touched_.clear();
    Run(size, [&](int rank, Context& context) {
      Watch(rank, true);
      auto db = context.Open("db", WithoutMerges(Existing()));
      Watch(rank, false);
      ASSERT_OK(db.status());
      ASSERT_OK(context.Barrier());  // a rank that is ready must not ask others yet
      for (int i = 0; i < count; ++i) {
        EXPECT_EQ(SimCluster::ValueOf(**db, "key " + std::to_string(i)), ValueFor(i)) << i;
      }
      ASSERT_OK((*db)->Close());
    });
    return touched_;
  }
  static std::string ValueFor(int i) {
    return std::string(i % 5 == 0 ? 900 : 30, 'v') + std::to_string(i);
  }
  void Write(int count) {
    Run(kWriters, [&](int rank, Context& context) {
      auto db = context.Open("db", WithoutMerges(SimCluster::SmallDatabase()));
      ASSERT_OK(db.status());
      for (int i = rank; i < count; i += kWriters) {
        ASSERT_OK((*db)->Put("key " + std::to_string(i), ValueFor(i)));
        if (i / kWriters % 250 == 0) ASSERT_OK((*db)->Barrier(Level::kSsTable));
      }
      ASSERT_OK((*db)->Close());
    });
  }
  size_t FilesOf(const std::string& part, const std::string& kind) {
    size_t count = 0;
    const auto files = disk_->List(kHome + part);
    EXPECT_OK(files.status());
    for (const io::FileInfo& file : *files) count += file.name.rfind(kind, 0) == 0 ? 1 : 0;
    return count;
  }

  const std::string kHome = "/repository/db/";
  const std::unique_ptr<io::SimFileSystem> disk_ = io::NewSimFileSystem();
  std::vector<std::unique_ptr<io::FaultFileSystem>> watched_;
  uint64_t seed_ = 0;
  bool shares_memory_ = false;
  std::mutex mutex_;
  std::set<int> opening_;
  std::set<std::string> touched_;
};

class Opening : public OpenReads, public testing::WithParamInterface<int> {};

INSTANTIATE_TEST_SUITE_P(Ranks, Opening, testing::Values(1, 2, 3, 4));

TEST_P(Opening, ReadsNoTableAndNoValueSegment) {
  Write(2000);
  for (const char* part : {"gen-1/rank-0", "gen-1/rank-1"}) {
    ASSERT_GE(FilesOf(part, "t-"), 3u);
    ASSERT_GE(FilesOf(part, "val-"), 3u);
  }
  const std::set<std::string> touched = TouchedByOpen(GetParam(), 2000);
  EXPECT_TRUE(touched.contains("DATABASE"));
  for (const std::string& path : touched) {
    // Other ranks begin a generation: a segment for what they will write.
    if (GetParam() != kWriters && path.rfind("gen-2/", 0) == 0) continue;
    EXPECT_THAT(path, AnyOf(StartsWith("DATABASE"), EndsWith("LOCK"), HasSubstr("/MANIFEST"),
                            HasSubstr("/log-")));
    // For parts that other numbers of ranks wrote, not even these: they are read when a key is
    // first asked for.
    if (GetParam() != kWriters && path.rfind("gen-1/", 0) == 0) {
      EXPECT_THAT(path, EndsWith("/LOCK"));
    }
  }
}

// The neighbour opens the table when it first reads there. If it cannot, the owner answers for each
// key.
TEST_F(OpenReads, ATableThatANeighbourCannotOpenCostsOnlyItsOwnKeys) {
  Write(2000);
  ASSERT_OK(disk_->Damage(kHome + "gen-1/rank-1/t-1.sst", [](std::string* bytes) {
    bytes->back() = static_cast<char>(bytes->back() ^ 1);
  }));
  std::mutex mutex;
  std::string log;
  SetLogSink([&](LogLevel, Slice line) {
    const std::lock_guard<std::mutex> lock(mutex);
    log += std::string(line) + "\n";
  });
  int sound[kWriters] = {0, 0};
  int damaged[kWriters] = {0, 0};
  Run(kWriters, [&](int rank, Context& context) {
    auto db = context.Open("db", WithoutMerges(Existing()));
    ASSERT_OK(db.status());
    for (int i = 0; i < 2000; ++i) {
      std::string value;
      const Status got = (*db)->Get("key " + std::to_string(i), &value);
      if (got.ok()) {
        EXPECT_EQ(value, ValueFor(i));
        ++sound[rank];
        continue;
      }
      ++damaged[rank];
      EXPECT_EQ(got.code(), Code::kCorruption) << got.ToString();
      EXPECT_THAT(std::string(got.message()), HasSubstr("gen-1/rank-1/t-1.sst"));
    }
    static_cast<void>((*db)->Close());
  });
  SetLogSink({});
  for (int rank = 0; rank < kWriters; ++rank) {
    EXPECT_GT(sound[rank], 1000) << rank;
    EXPECT_GT(damaged[rank], 0) << rank;
  }
  EXPECT_EQ(sound[0], sound[1]);
  const std::string said = "no direct reads in " + kHome + "gen-1/rank-1";
  const size_t at = log.find(said);
  EXPECT_EQ(at != std::string::npos, shares_memory_);
  EXPECT_EQ(log.find(said, at + 1), std::string::npos) << "said once";
}

// Besides those of each rank's storage (DbOpening.WaitsForTheDevice*). Every rank: the names of the
// database's directory, of the generation's, and of its part. Rank 0: the descriptor that says that
// a creation has begun, before any part is there, and the one that says that all parts are.
TEST(OpenSyncs, ANewDatabaseWaitsForTheDeviceOnceForEachNameAndDescriptor) {
  using Counts = std::map<std::string, int>;
  constexpr int kRanks = 2;
  const auto disk = io::NewSimFileSystem();
  std::vector<std::unique_ptr<io::FaultFileSystem>> watched;
  std::vector<Counts> syncs(kRanks);
  for (int rank = 0; rank < kRanks; ++rank) watched.push_back(io::NewFaultFileSystem(*disk));
  SimCluster::Options options;
  options.rank_count = kRanks;
  options.file_system = [&](int rank) { return watched[static_cast<size_t>(rank)].get(); };
  SimCluster(options).Run([&](int rank, Context& context) {
    const size_t at = static_cast<size_t>(rank);
    watched[at]->BeforeCalls(io::kFaultSync, [&, at](const std::string& path) {
      if (path.find("/gen-1/rank-") == std::string::npos) ++syncs[at][path];
    });
    auto db = context.Open("db", SimCluster::SmallDatabase());
    ASSERT_OK(db.status());
    watched[at]->BeforeCalls(0, {});
    ASSERT_OK(context.Barrier());
    ASSERT_OK((*db)->Close());
  });
  const Counts others = {{"/repository", 1}, {"/repository/db", 1}, {"/repository/db/gen-1", 1}};
  Counts first = others;
  first["/repository/db"] = 3;
  first["/repository/db/DATABASE.tmp"] = 2;
  EXPECT_EQ(syncs[0], first);
  EXPECT_EQ(syncs[1], others);
}

}  // namespace
}  // namespace quire::kv::open_reads_test
