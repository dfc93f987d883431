// Every call of a context and a database after a collective call that timed out on all ranks: they
// match, and do what they do without it.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kv/database/persistence_testing.h"
#include "kv/database/timeouts_testing.h"
#include "tests/support/status_asserts.h"

namespace quire::kv::calls_after_timeout_test {
namespace {

Status Keep(Slice, const Slice*, Slice argument, std::string* updated) {
  updated->assign(argument);
  return Status();
}

// Of a pair that this rank owns, and of one that the other owns.
void PutAndGet(Database& db, int rank) {
  for (const int owner : {0, 1}) {
    const std::string key = SimCluster::KeyOwnedBy(db, owner, "key" + std::to_string(rank));
    ASSERT_OK(db.Put(key, "value"));
    EXPECT_EQ(SimCluster::ValueOf(db, key), "value");
    ASSERT_OK(db.Delete(key));
    ASSERT_OK(db.PutMany({{key, "many"}}));
    ASSERT_OK(db.Fence());
    std::vector<std::string> values;
    std::vector<bool> found;
    ASSERT_OK(db.GetMany({key}, &values, &found));
    EXPECT_EQ(values, std::vector<std::string>{"many"});
    const Result<std::string> later = db.GetAsync(key)->Take();
    ASSERT_OK(later.status());
    EXPECT_EQ(*later, "many");
    ASSERT_OK(db.DeleteMany({key}));
    Batch batch;
    batch.Put(key, "batch");
    ASSERT_OK(db.Write(batch));
    ASSERT_OK(db.Update(key, 1, "update"));
    std::string answer;
    ASSERT_OK(db.UpdateAndAnswer(key, 1, "answer", &answer));
    ASSERT_OK(db.Fence());
    EXPECT_EQ(SimCluster::ValueOf(db, key), "answer");
  }
}

void CallDatabase(Database& db, int rank) {
  ASSERT_OK(db.RegisterUpdate(1, Keep));
  ASSERT_OK(db.Barrier(Level::kMemTable));
  PutAndGet(db, rank);
  ASSERT_OK(db.Flush());
  ASSERT_OK(db.Barrier(Level::kSsTable));
  ASSERT_OK(db.SetConsistency(Consistency::kSequential));
  ASSERT_OK(db.Protect(Protection::kReadOnly));
  ASSERT_OK(db.Protect(Protection::kReadWrite));
  PutAndGet(db, rank);
  ASSERT_OK(db.Compact());
  ASSERT_OK(db.NewLocalIterator()->status());
  EXPECT_FALSE(db.GetStatistics().empty());
  ASSERT_OK(WaitFor(db.Checkpoint("/pfs", {})));
}

void CallContext(Context& context, int rank) {
  ASSERT_OK(context.Agree(Status()));
  ASSERT_OK(context.Barrier());
  ASSERT_OK(context.Notify(3, {1 - rank}));
  ASSERT_OK(context.WaitSignal(3, {1 - rank}));
  ASSERT_OK(context.ListDatabases().status());
  context.Progress();
  auto other = context.Open("other", SimCluster::SmallDatabase());
  ASSERT_OK(other.status());
  ASSERT_OK((*other)->Close());
  other->reset();
  ASSERT_OK(context.Destroy("other"));
  ASSERT_OK(WaitFor(context.Restart("/pfs", "db", {.replace = true})));
  ASSERT_OK(WaitFor(context.DestroyAsync("db")));
}

TEST(CallsAfterATimeout, DoWhatTheyDoWithoutIt) {
  SimCluster cluster({});
  cluster.Run([&](int rank, Context& context) {
    auto db = context.Open("db", SimCluster::SmallDatabase());
    ASSERT_OK(db.status());
    ASSERT_NO_FATAL_FAILURE(LetACallTimeOut(cluster, rank, context));
    ASSERT_NO_FATAL_FAILURE(CallDatabase(**db, rank));
    ASSERT_NO_FATAL_FAILURE(LetACallTimeOut(cluster, rank, context));
    ASSERT_OK((*db)->Close());
    ASSERT_NO_FATAL_FAILURE(LetACallTimeOut(cluster, rank, context));
    ASSERT_NO_FATAL_FAILURE(CallContext(context, rank));
  });
}

}  // namespace
}  // namespace quire::kv::calls_after_timeout_test
