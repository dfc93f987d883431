// Functions of the program that throw or call Quire: each is an error of its own operation, at any
// rank, and nothing else suffers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/threads/epoch.h"
#include "kv/database/database_reader.h"
#include "kv/database/sim_cluster_testing.h"
#include "tests/support/status_asserts.h"

namespace quire::kv::program_functions_test {
namespace {

using testing::HasSubstr;

constexpr uint32_t kThrows = 1;
constexpr uint32_t kThrowsANumber = 2;
constexpr uint32_t kCallsBack = 3;
constexpr uint32_t kAppends = 4;

class ProgramFunctions : public testing::TestWithParam<bool> {
 protected:
  void Run(const DatabaseOptions& options, const SimCluster::DatabaseProgram& program) {
    SimCluster::Options ranks;
    ranks.rank_count = 3;
    ranks.deterministic = GetParam();
    SimCluster(ranks).RunDatabase(options, program);
  }
  static DatabaseOptions With(Consistency consistency) {
    DatabaseOptions options = SimCluster::SmallDatabase();
    options.consistency = consistency;
    options.local_cache_bytes = 1 << 20;
    return options;
  }
};

INSTANTIATE_TEST_SUITE_P(Modes, ProgramFunctions, testing::Values(true, false),
                         [](const auto& mode) { return mode.param ? "Seeded" : "Threads"; });

void Register(Database& db) {
  ASSERT_OK(db.RegisterUpdate(kThrows, [](Slice, const Slice*, Slice, std::string*) -> Status {
    throw std::length_error("too long");
  }));
  ASSERT_OK(db.RegisterUpdate(
      kThrowsANumber, [](Slice, const Slice*, Slice, std::string*) -> Status { throw 7; }));
  ASSERT_OK(db.RegisterUpdate(
      kCallsBack, [&db](Slice key, const Slice*, Slice, std::string* updated) -> Status {
        Status status = db.Get(key, updated);
        return status.ok() ? Status(Code::kUnsupported, "a call inside it succeeded") : status;
      }));
  ASSERT_OK(db.RegisterUpdate(
      kAppends, [](Slice, const Slice* present, Slice argument, std::string* updated) {
        *updated = std::string(present == nullptr ? Slice() : *present) + std::string(argument);
        return Status();
      }));
  ASSERT_OK(db.Barrier(Level::kMemTable));
}

TEST_P(ProgramFunctions, AnUpdateThatThrowsFailsThatUpdateAtAnyRank) {
  Run(With(Consistency::kSequential), [](int rank, Context&, Database& db) {
    Register(db);
    for (int owner = 0; owner < 3; ++owner) {
      const std::string key = SimCluster::KeyOwnedBy(db, owner, "of " + std::to_string(rank));
      ASSERT_OK(db.Put(key, "a"));
      std::string answer;
      for (const Status& status :
           {db.Update(key, kThrows, ""), db.UpdateAndAnswer(key, kThrows, "", &answer)}) {
        EXPECT_EQ(status.code(), Code::kInvalidArgument);
        EXPECT_THAT(status.message(), HasSubstr("update function 1 threw an exception: too long"));
      }
      const Status number = db.Update(key, kThrowsANumber, "");
      EXPECT_EQ(number.code(), Code::kInvalidArgument);
      EXPECT_THAT(number.message(), HasSubstr("update function 2 threw something"));
      EXPECT_OK(db.Update(key, kAppends, "b"));
      EXPECT_EQ(SimCluster::ValueOf(db, key), "ab");
    }
    ASSERT_OK(db.Barrier(Level::kSsTable));
  });
}

TEST_P(ProgramFunctions, AStagedUpdateThatThrowsIsReportedByTheFenceAlone) {
  Run(With(Consistency::kRelaxed), [](int rank, Context& context, Database& db) {
    Register(db);
    const int owner = (rank + 1) % 3;
    const std::string key = SimCluster::KeyOwnedBy(db, owner, "of " + std::to_string(rank));
    ASSERT_OK(db.Update(key, kAppends, "a"));
    ASSERT_OK(db.Update(key, kThrows, ""));
    ASSERT_OK(db.Update(key, kAppends, "b"));
    const Status fenced = db.Fence();
    EXPECT_EQ(fenced.code(), Code::kInvalidArgument);
    EXPECT_THAT(fenced.message(), HasSubstr("too long"));
    EXPECT_OK(db.Fence());
    EXPECT_EQ(SimCluster::ValueOf(db, key), "ab");
    EXPECT_OK(context.Barrier());
  });
}

TEST_P(ProgramFunctions, ACallInsideAnUpdateIsRefused) {
  Run(With(Consistency::kSequential), [](int rank, Context&, Database& db) {
    Register(db);
    for (int owner = 0; owner < 3; ++owner) {
      const std::string key = SimCluster::KeyOwnedBy(db, owner, "of " + std::to_string(rank));
      ASSERT_OK(db.Put(key, "a"));
      const Status status = db.Update(key, kCallsBack, "");
      EXPECT_EQ(status.code(), Code::kInvalidArgument);
      EXPECT_THAT(status.message(), HasSubstr("called inside a function"));
      EXPECT_EQ(SimCluster::ValueOf(db, key), "a");
    }
    ASSERT_OK(db.Barrier(Level::kMemTable));
  });
}

// Gets of a key that is staged, in memory, in tables, cached, of another rank.
void GetWithPlaces(Database& db, const std::string& key) {
  const Status threw =
      db.Get(key, [](size_t) -> char* { throw std::runtime_error("no room in the array"); });
  EXPECT_EQ(threw.code(), Code::kInvalidArgument);
  EXPECT_THAT(threw.message(), HasSubstr("the buffer allocator threw an exception: no room in"));
  EXPECT_EQ(db.Get(key, [](size_t) -> char* { throw std::bad_alloc(); }).code(),
            Code::kOutOfMemory);
  Status inner;
  std::string value;
  EXPECT_OK(db.Get(key, [&](size_t size) {
    EXPECT_TRUE(base::EpochMaySynchronize());  // it may block: nothing waits for this thread
    std::string other;
    inner = db.Get(key, &other);
    value.resize(size);
    return value.data();
  }));
  EXPECT_EQ(value, "value of " + key);
  EXPECT_EQ(inner.code(), Code::kInvalidArgument);
  EXPECT_THAT(inner.message(), HasSubstr("called inside a function"));
  EXPECT_EQ(SimCluster::ValueOf(db, key), "value of " + key);
}

TEST_P(ProgramFunctions, APlaceThatThrowsOrCallsFailsThatGet) {
  Run(With(Consistency::kRelaxed), [](int rank, Context&, Database& db) {
    std::vector<std::string> keys;
    for (int owner = 0; owner < 3; ++owner) {
      keys.push_back(SimCluster::KeyOwnedBy(db, owner, "of " + std::to_string(rank)));
      ASSERT_OK(db.Put(keys.back(), "value of " + keys.back()));
    }
    for (const std::string& key : keys) GetWithPlaces(db, key);  // staged, or in memory
    ASSERT_OK(db.Barrier(Level::kMemTable));
    for (const std::string& key : keys) GetWithPlaces(db, key);
    ASSERT_OK(db.Barrier(Level::kSsTable));
    for (int round = 0; round < 2; ++round) {  // in tables, then cached
      for (const std::string& key : keys) GetWithPlaces(db, key);
    }
    ASSERT_OK(db.Protect(Protection::kReadOnly));
    for (int round = 0; round < 2; ++round) {
      for (const std::string& key : keys) GetWithPlaces(db, key);
    }
    ASSERT_OK(db.Protect(Protection::kReadWrite));
  });
}

// By turns, a rank serves others inside its own calls, but not inside those of its functions.
TEST_P(ProgramFunctions, ReadyInsideAFunctionServesNoOtherRank) {
  constexpr uint32_t kNotes = 5;
  static thread_local bool in_place = false;
  std::atomic<bool> nested{false};
  Run(With(Consistency::kSequential), [&](int rank, Context& context, Database& db) {
    const auto note = [&](Slice, const Slice*, Slice, std::string*) {
      nested = nested || in_place;
      return Status(Code::kNotFound);
    };
    ASSERT_OK(db.RegisterUpdate(kNotes, note));
    const std::string key = SimCluster::KeyOwnedBy(db, 0, "a key of rank 0 ");
    const std::string other = SimCluster::KeyOwnedBy(db, 1, "a key of rank 1 ");
    if (rank == 0) {
      ASSERT_OK(db.Put(key, "value"));
      ASSERT_OK(db.Put(other, "other"));
    }
    auto event = db.Checkpoint("/pfs", {});
    ASSERT_OK(event.status());
    if (rank == 0) {
      const auto pending = db.GetAsync(other);
      std::string value;
      EXPECT_OK(db.Get(key, [&](size_t size) {
        in_place = true;
        for (int i = 0; i < 1000; ++i) {
          EXPECT_TRUE(pending->Ready());  // Take fails at once
          EXPECT_TRUE((*event)->Ready());
        }
        in_place = false;
        value.resize(size);
        return value.data();
      }));
      EXPECT_EQ(value, "value");
      const Result<std::string> taken = pending->Take();
      EXPECT_TRUE(taken.ok() && *taken == "other") << taken.status().ToString();
    } else {
      ASSERT_OK(db.Update(key, kNotes, ""));
    }
    ASSERT_OK((*event)->Wait());
    ASSERT_OK(context.Barrier());
  });
  EXPECT_FALSE(nested);
}

int ThrowsForSome(Slice key, int rank_count) {
  if (key.starts_with("bad")) throw std::out_of_range("a key of another program");
  return static_cast<int>(key.size()) % rank_count;
}

// Each call of a database that asks for the owner of `key`; "good" has an owner.
std::vector<Status> CallsWith(Database& db, const std::string& key) {
  std::string value;
  Batch batch;
  batch.Put("good", "x");
  batch.Put(key, "x");
  std::vector<std::string> values;
  std::vector<bool> found;
  return {db.Put(key, "v"),
          db.Delete(key),
          db.Get(key, &value),
          db.Write(batch),
          db.Update(key, kAppends, ""),
          db.UpdateAndAnswer(key, kAppends, "", &value),
          db.GetAsync(key)->Take().status(),
          db.PutMany({{key, "v"}, {"good", "v"}}),
          db.DeleteMany({key}),
          db.GetMany({key}, &values, &found)};
}

TEST_P(ProgramFunctions, APartitionerThatThrowsFailsThatCall) {
  DatabaseOptions options = With(Consistency::kRelaxed);
  options.partitioner = ThrowsForSome;
  Run(options, [](int, Context&, Database& db) {
    Register(db);
    EXPECT_LT(db.Owner("bad"), 0);
    for (const Status& status : CallsWith(db, "bad")) {
      EXPECT_EQ(status.code(), Code::kInvalidArgument);
      EXPECT_THAT(status.message(), HasSubstr("the partitioner threw an exception: a key of"));
    }
    ASSERT_OK(db.Barrier(Level::kMemTable));
    EXPECT_EQ(SimCluster::ValueOf(db, "good"), "v");
    ASSERT_OK(db.Barrier(Level::kMemTable));
  });
}

// The objects whose calls a function of the program tries.
struct Objects {
  std::atomic<Context*> context{nullptr};
  std::atomic<Database*> db{nullptr};
};

// Calls Quire, and throws why it is refused.
void CallAndThrow(const Objects& objects) {
  std::vector<Status> told = {objects.context.load()->Open("other", {}).status(),
                              objects.context.load()->Barrier()};
  if (Database* const db = objects.db) {
    std::string value;
    told.push_back(db->Get("good", &value));
    told.push_back(db->Put("good", "of the partitioner"));
    told.push_back(db->Barrier(Level::kMemTable));
    told.push_back(db->Close());
  }
  for (const Status& status : told) {
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("called inside a function"));
  }
  throw std::logic_error(told[0].message());
}

TEST_P(ProgramFunctions, ACallInsideAPartitionerIsRefusedAtAnyRank) {
  std::array<Objects, 3> of_ranks;
  DatabaseOptions options = With(Consistency::kRelaxed);
  options.partitioner = [&of_ranks](Slice key, int rank_count) {
    if (key.starts_with("calls ")) CallAndThrow(of_ranks[static_cast<size_t>(key.back() - '0')]);
    return static_cast<int>(key.size()) % rank_count;
  };
  Run(options, [&of_ranks](int rank, Context& context, Database& db) {
    Objects& objects = of_ranks[static_cast<size_t>(rank)];
    objects.context = &context;
    objects.db = &db;
    Register(db);
    const std::string key = "calls " + std::to_string(rank);
    EXPECT_LT(db.Owner(key), 0);
    for (const Status& status : CallsWith(db, key)) {
      EXPECT_EQ(status.code(), Code::kInvalidArgument);
      EXPECT_THAT(status.message(), HasSubstr("the partitioner threw an exception: the context: "
                                              "called inside a function"));
    }
    ASSERT_OK(db.Barrier(Level::kMemTable));
    EXPECT_EQ(SimCluster::ValueOf(db, "good"), "v");
    ASSERT_OK(db.Barrier(Level::kSsTable));
  });
}

// There it is called for pairs of all ranks, and no database is open yet.
TEST_P(ProgramFunctions, ACallInsideAPartitionerFailsTheOpenThatMovesPairs) {
  const auto disk = io::NewSimFileSystem();
  const auto on = [&](int rank_count) {
    SimCluster::Options ranks;
    ranks.rank_count = rank_count;
    ranks.deterministic = GetParam();
    ranks.file_system = [&disk](int) { return disk.get(); };
    return ranks;
  };
  Objects objects;
  std::atomic<bool> calls{false};
  DatabaseOptions options = With(Consistency::kRelaxed);
  options.redistribute = true;
  options.partitioner = [&](Slice key, int rank_count) {
    if (calls) CallAndThrow(objects);
    return static_cast<int>(key.size()) % rank_count;
  };
  SimCluster(on(3)).RunDatabase(options, [](int rank, Context&, Database& db) {
    ASSERT_OK(db.Put("of " + std::string(static_cast<size_t>(rank), 'x'), "value"));
    ASSERT_OK(db.Close());
  });
  SimCluster(on(2)).Run([&](int rank, Context& context) {
    if (rank == 0) {
      objects.context = &context;
      calls = true;
    }
    ASSERT_OK(context.Barrier());
    const Status opened = context.Open("db", options).status();
    EXPECT_EQ(opened.code(), Code::kInvalidArgument);
    EXPECT_THAT(opened.message(), HasSubstr("called inside a function"));
    ASSERT_OK(context.Barrier());
    if (rank == 0) calls = false;
    ASSERT_OK(context.Barrier());
    const auto db = context.Open("db", options);
    ASSERT_OK(db.status());
    for (const std::string key : {"of ", "of x", "of xx"}) {
      EXPECT_EQ(SimCluster::ValueOf(**db, key), "value");
    }
    ASSERT_OK(context.Barrier());
    ASSERT_OK((*db)->Close());
  });
}

}  // namespace
}  // namespace quire::kv::program_functions_test
