// Every public call of databases and datasets, in C++ and in C: after Close, without its context,
// in a forked child, inside a function that Quire calls, and from a thread that has all signals
// blocked. The rows are compared with the headers: a call without a row fails the test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <regex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "quire/database.h"
#include "quire/dataset.h"
#include "quire/quire.h"
#include "quire/reader.h"
#include "quire/stream.h"
#include "tests/support/public_calls.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"

namespace {
bool in_forked_child = false;
}  // namespace

// LeakSanitizer asks for it when a process ends. The threads of the parent are not in a forked
// child, and it takes for lost what only they know. It is found from the sanitizer's own library.
extern "C" [[gnu::visibility("default")]] int __lsan_is_turned_off();
int __lsan_is_turned_off() {
  return in_forked_child ? 1 : 0;
}

namespace quire {
namespace {

using testing::HasSubstr;

constexpr uint32_t kUpdate = 7;
constexpr unsigned kHangSeconds = 20;

// One of each kind, as a program has them.
struct Objects {
  explicit Objects(const std::string& directory) : home(directory) {
    context = *Context::OpenSerial(directory + "/repository", {});
    database = *context->Open("db", {});
    MUST(database->Put("key", "value"));
    MUST(database->RegisterUpdate(kUpdate, Keep));
    checkpoint = *database->Checkpoint(directory + "/checkpoints", {});
    MUST(checkpoint->Wait());
    pending = database->GetAsync("key");
    iterator = database->NewLocalIterator();
    iterator->SeekToFirst();
    writer = *DatasetWriter::Open(*context, "set");
    MUST(writer->BeginEpoch(1));
    MUST(writer->Put("key", "value"));
    MUST(writer->EndEpoch());
    reader = *DatabaseReader::Open(directory + "/checkpoints/db/1", {});
    walk = reader->NewIterator();
    dataset = *DatasetReader::Open(directory + "/repository/set", {});
    scan = dataset->Scan(1);
  }
  static void MUST(const Status& status) {
    if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
    ASSERT_OK(status);
  }
  static Status Keep(Slice, const Slice*, Slice, std::string*) { return Status(Code::kNotFound); }
  static Status KeepAnswering(Slice, const Slice*, Slice, std::string*, std::string*) {
    return Status(Code::kNotFound);
  }

  const std::string home;
  std::unique_ptr<Context> context;
  std::unique_ptr<Database> database;
  std::unique_ptr<Event> checkpoint;
  std::unique_ptr<PendingGet> pending;
  std::unique_ptr<LocalIterator> iterator;
  std::unique_ptr<DatasetWriter> writer;
  std::unique_ptr<DatabaseReader> reader;
  std::unique_ptr<LocalIterator> walk;
  std::unique_ptr<DatasetReader> dataset;
  std::unique_ptr<DatasetScan> scan;
};

struct Row {
  std::string call;
  std::function<Status(Objects&)> run;
};

// What a call without a Status must be, told as one.
Status Is(bool right) { return right ? Status(Code::kInvalidArgument, "forked") : Status(); }

std::vector<Row> DatabaseRows() {
  using O = Objects;
  return {
      {"Put", [](O& o) { return o.database->Put("k", "v"); }},
      {"Delete", [](O& o) { return o.database->Delete("k"); }},
      {"Get", [](O& o) {
         std::string value;
         return o.database->Get("key", &value);
       }},
      {"GetAsync", [](O& o) { return o.database->GetAsync("key")->Take().status(); }},
      {"PutMany", [](O& o) { return o.database->PutMany({{"k", "v"}}); }},
      {"DeleteMany", [](O& o) { return o.database->DeleteMany({"k"}); }},
      {"GetMany", [](O& o) {
         std::vector<std::string> values;
         std::vector<bool> found;
         return o.database->GetMany({"key"}, &values, &found);
       }},
      {"Write", [](O& o) {
         Batch batch;
         batch.Put("k", "v");
         return o.database->Write(batch);
       }},
      {"RegisterUpdate", [](O& o) { return o.database->RegisterUpdate(kUpdate, O::Keep); }},
      {"RegisterAnsweringUpdate",
       [](O& o) { return o.database->RegisterAnsweringUpdate(kUpdate, O::KeepAnswering); }},
      {"Update", [](O& o) { return o.database->Update("k", kUpdate, ""); }},
      {"UpdateAndAnswer", [](O& o) {
         std::string answer;
         return o.database->UpdateAndAnswer("k", kUpdate, "", &answer);
       }},
      {"Fence", [](O& o) { return o.database->Fence(); }},
      {"Flush", [](O& o) { return o.database->Flush(); }},
      {"Barrier", [](O& o) { return o.database->Barrier(Level::kSsTable); }},
      {"SetConsistency", [](O& o) { return o.database->SetConsistency(Consistency::kRelaxed); }},
      {"Protect", [](O& o) { return o.database->Protect(Protection::kReadWrite); }},
      {"Checkpoint",
       [](O& o) { return o.database->Checkpoint(o.home + "/checkpoints", {}).status(); }},
      {"NewLocalIterator", [](O& o) { return o.database->NewLocalIterator()->status(); }},
      {"Compact", [](O& o) { return o.database->Compact(); }},
      {"Close", [](O& o) { return o.database->Close(); }},
  };
}

std::vector<Row> ContextRows() {
  using O = Objects;
  return {
      {"Context::Open", [](O& o) { return o.context->Open("db2", {}).status(); }},
      {"Context::Destroy", [](O& o) { return o.context->Destroy("db2"); }},
      {"Context::DestroyAsync", [](O& o) { return o.context->DestroyAsync("db2").status(); }},
      {"Context::Restart",
       [](O& o) { return o.context->Restart(o.home + "/checkpoints", "db", {}).status(); }},
      {"Context::ListDatabases", [](O& o) { return o.context->ListDatabases().status(); }},
      {"Context::Agree", [](O& o) { return o.context->Agree(Status()); }},
      {"Context::Barrier", [](O& o) { return o.context->Barrier(); }},
      {"Context::Notify", [](O& o) { return o.context->Notify(1, {0}); }},
      {"Context::WaitSignal", [](O& o) { return o.context->WaitSignal(1, {0}); }},
      {"Context::Progress", [](O& o) {
         o.context->Progress();
         return Is(true);
       }},
  };
}

std::vector<Row> HeldRows() {
  using O = Objects;
  return {
      {"Database::GetStatistics", [](O& o) { return Is(o.database->GetStatistics().empty()); }},
      {"Event::Ready", [](O& o) { return Is(o.checkpoint->Ready()); }},
      {"Event::Wait", [](O& o) { return o.checkpoint->Wait(); }},
      {"Event::Progress", [](O& o) { return Is(o.checkpoint->Progress().bytes_done == 0); }},
      {"PendingGet::Ready", [](O& o) { return Is(o.pending->Ready()); }},
      {"PendingGet::Take", [](O& o) { return o.pending->Take().status(); }},
      {"LocalIterator::SeekToFirst", [](O& o) {
         o.iterator->SeekToFirst();
         return o.iterator->status();
       }},
      {"LocalIterator::SeekToLast", [](O& o) {
         o.walk->SeekToLast();
         return o.walk->status();
       }},
      {"LocalIterator::Seek", [](O& o) {
         o.walk->Seek("k");
         return o.walk->status();
       }},
      {"LocalIterator::Valid", [](O& o) { return Is(!o.iterator->Valid() && !o.walk->Valid()); }},
      {"LocalIterator::Next", [](O& o) {
         o.iterator->Next();
         o.walk->Next();
         return o.walk->status();
       }},
      {"LocalIterator::Prev", [](O& o) {
         o.iterator->Prev();
         o.walk->Prev();
         return o.walk->status();
       }},
      {"LocalIterator::value", [](O& o) { return Is(o.iterator->value().empty()); }},
      {"LocalIterator::status", [](O& o) { return o.iterator->status(); }},
      {"DatabaseReader::Get", [](O& o) {
         std::string value;
         return o.reader->Get("key", &value);
       }},
      {"DatabaseReader::NewIterator", [](O& o) { return o.reader->NewIterator()->status(); }},
      {"DatabaseReader::Refresh", [](O& o) { return o.reader->Refresh(); }},
  };
}

std::vector<Row> DatasetRows() {
  using O = Objects;
  return {
      {"DatasetWriter::Open",
       [](O& o) { return DatasetWriter::Open(*o.context, "set2").status(); }},
      {"DatasetWriter::BeginEpoch", [](O& o) { return o.writer->BeginEpoch(2); }},
      {"DatasetWriter::Put", [](O& o) { return o.writer->Put("k", "v"); }},
      {"DatasetWriter::EndEpoch", [](O& o) { return o.writer->EndEpoch(); }},
      {"DatasetWriter::Finish", [](O& o) { return o.writer->Finish(); }},
      {"DatasetWriter::Statistics", [](O& o) { return Is(o.writer->Statistics().pairs == 0); }},
      {"DatasetReader::Epochs", [](O& o) { return Is(o.dataset->Epochs().empty()); }},
      {"DatasetReader::Get", [](O& o) {
         std::vector<DatasetValue> values;
         return o.dataset->Get(1, "key", &values);
       }},
      {"DatasetReader::GetTrajectory", [](O& o) {
         std::vector<DatasetValue> values;
         return o.dataset->GetTrajectory("key", &values);
       }},
      {"DatasetReader::GetMany", [](O& o) {
         std::vector<std::vector<DatasetValue>> values;
         return o.dataset->GetMany(1, {"key"}, &values);
       }},
      {"DatasetReader::Scan", [](O& o) { return o.dataset->Scan(1)->status(); }},
      {"DatasetReader::Verify", [](O& o) { return o.dataset->Verify(1); }},
      {"DatasetReader::Refresh", [](O& o) { return o.dataset->Refresh(); }},
      {"DatasetReader::Statistics",
       [](O& o) { return Is(o.dataset->Statistics().queries == 0); }},
      {"DatasetScan::Valid", [](O& o) { return Is(!o.scan->Valid()); }},
      {"DatasetScan::Next", [](O& o) {
         o.scan->Next();
         return o.scan->status();
       }},
      {"DatasetScan::status", [](O& o) { return o.scan->status(); }},
  };
}

std::vector<Row> AllRows() {
  std::vector<Row> all = ContextRows();
  for (const Row& row : DatabaseRows()) all.push_back({"Database::" + row.call, row.run});
  for (const Row& row : HeldRows()) all.push_back(row);
  for (const Row& row : DatasetRows()) all.push_back(row);
  return all;
}

// What a forked child may ask: it stays as it was, and no lock or thread is needed for it.
bool MayAsk(const std::string& call) {
  static const std::set<std::string> pure = {
      "Context::rank",       "Context::size",      "Context::repository",
      "Context::Description", "Database::name",     "Database::Owner",
      "LocalIterator::key",  "DatasetScan::key",   "DatasetScan::value",
      "DatasetScan::rank",   "DatasetReader::format", "DatasetReader::partitioner_name",
      "DatasetWriter::LastEpoch"};
  return pure.contains(call);
}

TEST(EveryCall, HasARow) {
  std::set<std::string> rows;
  for (const Row& row : AllRows()) rows.insert(row.call);
  for (const std::string header : {"database.h", "reader.h", "dataset.h"}) {
    const std::set<std::string> calls = test::CallsOf(header);
    EXPECT_GE(calls.size(), 3u) << header;
    for (const std::string& call : calls) {
      EXPECT_TRUE(rows.contains(call) || MayAsk(call)) << call << " of " << header;
    }
  }
}

TEST(EveryCall, FailsOnceTheDatabaseIsClosed) {
  const test::TempDirectory directory;
  Objects objects(directory.path());
  ASSERT_OK(objects.database->Close());
  for (const Row& row : DatabaseRows()) {
    const Status status = row.run(objects);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << row.call;
    EXPECT_THAT(status.message(), HasSubstr("closed")) << row.call;
  }
}

TEST(EveryCall, RunsInAThreadThatBlocksAllSignals) {
  const test::TempDirectory directory;
  Objects objects(directory.path());
  std::thread([&] {
    sigset_t all;
    sigfillset(&all);
    ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &all, nullptr), 0);
    for (const Row& row : DatabaseRows()) {
      if (row.call == "Close") continue;  // last: the iterator ends before
      const Status status = row.run(objects);
      EXPECT_TRUE(status.ok()) << row.call << ": " << status.ToString();
    }
    objects.iterator.reset();
    EXPECT_OK(objects.database->Close());
  }).join();
}

// Runs `body` in a forked child that has so many seconds. What it returns is the exit status.
int InChild(const std::function<int()>& body) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    in_forked_child = true;
    ::alarm(kHangSeconds);
    std::exit(body());
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_FALSE(WIFSIGNALED(status)) << "signal " << WTERMSIG(status) << ": it hung, or crashed";
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(EveryCall, FailsInAForkedChild) {
  const test::TempDirectory directory;
  auto objects = std::make_unique<Objects>(directory.path());
  const int wrong = InChild([&] {
    int count = 0;
    for (const Row& row : AllRows()) {
      const Status status = row.run(*objects);
      const bool refused = status.code() == Code::kInvalidArgument;
      if (refused && status.message().find("forked") != std::string::npos) continue;
      std::fprintf(stderr, "%s in a forked child: %s\n", row.call.c_str(),
                   status.ToString().c_str());
      ++count;
    }
    objects.reset();
    return count;
  });
  EXPECT_EQ(wrong, 0);
  // The parent notices nothing.
  std::string value;
  ASSERT_OK(objects->database->Get("key", &value));
  EXPECT_EQ(value, "value");
  EXPECT_OK(objects->database->Put("k", "v"));
  EXPECT_OK(objects->database->Barrier(Level::kSsTable));
  EXPECT_OK(objects->writer->BeginEpoch(2));
  EXPECT_OK(objects->writer->Put("k", "v"));
  EXPECT_OK(objects->writer->EndEpoch());
  objects->iterator.reset();
  EXPECT_OK(objects->database->Close());
}

// Doors that need no object: they could wait for what the thread holds, too.
std::vector<Row> DoorRows() {
  using O = Objects;
  return {
      {"Context::OpenSerial",
       [](O& o) { return Context::OpenSerial(o.home + "/other", {}).status(); }},
      {"DatabaseReader::Open",
       [](O& o) { return DatabaseReader::Open(o.home + "/checkpoints/db/1", {}).status(); }},
      {"DatasetReader::Open",
       [](O& o) { return DatasetReader::Open(o.home + "/repository/set", {}).status(); }},
      {"StreamWriter::Open",
       [](O& o) { return StreamWriter::Open(o.home + "/place", "store", 0).status(); }},
      {"StreamReader::Open",
       [](O& o) { return StreamReader::Open(o.home + "/place", "store", 0).status(); }},
      {"StreamStores", [](O& o) { return StreamStores(o.home + "/place").status(); }},
      {"StreamRanks", [](O& o) { return StreamRanks(o.home + "/place", "store").status(); }},
  };
}

// Calls without a Status, which tell what is known at once.
bool OnlyTells(const std::string& call) {
  static const std::set<std::string> calls = {
      "Context::Progress",   "Database::GetStatistics", "Event::Ready",
      "Event::Progress",     "PendingGet::Ready",       "LocalIterator::Valid",
      "LocalIterator::value", "DatasetWriter::Statistics", "DatasetReader::Epochs",
      "DatasetReader::Statistics", "DatasetScan::Valid"};
  return calls.contains(call);
}

// Runs all rows inside a function that Quire called.
void ExpectAllRefusedInside(Objects& objects) {
  std::vector<Row> rows = AllRows();
  for (const Row& row : DoorRows()) rows.push_back(row);
  for (const Row& row : rows) {
    const Status status = row.run(objects);
    if (OnlyTells(row.call)) continue;
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << row.call;
    EXPECT_THAT(status.message(), HasSubstr("called inside a function")) << row.call;
  }
  EXPECT_FALSE(objects.iterator->Valid());
  EXPECT_FALSE(objects.scan->Valid());
}

TEST(EveryCall, FailsInsideAFunctionThatQuireCalls) {
  const test::TempDirectory directory;
  Objects objects(directory.path());
  std::string value;
  ASSERT_OK(objects.database->Get("key", [&](size_t size) {
    ExpectAllRefusedInside(objects);
    value.resize(size);
    return value.data();
  }));
  EXPECT_EQ(value, "value");
  ASSERT_OK(objects.reader->Get("key", [&](size_t size) {
    ExpectAllRefusedInside(objects);
    value.resize(size);
    return value.data();
  }));
  // Nothing of it was done, and all goes on.
  EXPECT_TRUE(objects.iterator->Valid());
  EXPECT_OK(objects.database->Put("k", "v"));
  objects.iterator.reset();
  EXPECT_OK(objects.database->Close());
}

// A program keeps what it has, and lets the context go first.
TEST(EveryCall, FailsOnceTheContextIsGone) {
  const test::TempDirectory directory;
  // In a process of its own, since it may hang.
  const int wrong = InChild([&] {
    Objects objects(directory.path());
    objects.context.reset();
    int count = 0;
    const auto expect = [&](const Row& row, bool refused) {
      const Status status = row.run(objects);
      if (refused ? status.code() == Code::kInvalidArgument : status.ok()) return;
      std::fprintf(stderr, "%s without a context: %s\n", row.call.c_str(),
                   status.ToString().c_str());
      ++count;
    };
    for (const Row& row : DatabaseRows()) expect(row, true);
    for (const Row& row : HeldRows()) {
      // What was read before, and what reads by itself, is there.
      static const std::set<std::string> stays = {
          "Event::Wait",        "Event::Progress",     "LocalIterator::SeekToLast",
          "LocalIterator::Seek", "LocalIterator::Next", "LocalIterator::Prev",
          "LocalIterator::Valid", "DatabaseReader::Get", "DatabaseReader::NewIterator",
          "DatabaseReader::Refresh", "PendingGet::Take"};
      expect(row, !stays.contains(row.call));
    }
    for (const Row& row : DatasetRows()) {
      if (row.call == "DatasetWriter::Open") continue;  // it takes a context
      const bool of_writer = row.call.rfind("DatasetWriter::", 0) == 0;
      expect(row, of_writer && row.call != "DatasetWriter::Statistics");
    }
    return count;
  });
  EXPECT_EQ(wrong, 0);
}

TEST(EveryCall, AChildThatOnlyEndsEnds) {
  const test::TempDirectory directory;
  // As a program has them that keeps them in statics: their destructors run in exit().
  static std::unique_ptr<Context> context;
  static std::unique_ptr<Database> database;
  context = *Context::OpenSerial(directory / "repository", {});
  database = *context->Open("db", {});
  ASSERT_OK(database->Put("key", "value"));
  EXPECT_EQ(InChild([] { return 0; }), 0);
  EXPECT_EQ(InChild([] {
              context.reset();  // with the database open
              database.reset();
              return 0;
            }),
            0);
  ASSERT_OK(database->Close());
  database.reset();
  context = *Context::OpenSerial(directory / "repository", {});
  database = *context->Open("db", {});
  std::string value;
  ASSERT_OK(database->Get("key", &value));
  EXPECT_EQ(value, "value");
  ASSERT_OK(database->Close());
  database.reset();
  context.reset();
}

TEST(EveryCall, AForkedChildReadsAndOpensItsOwn) {
  const test::TempDirectory directory;
  Objects objects(directory.path());
  EXPECT_EQ(InChild([&] {
              const auto reader = DatabaseReader::Open(objects.home + "/checkpoints/db/1", {});
              std::string value;
              return reader.ok() && (*reader)->Get("key", &value).ok() && value == "value" ? 0 : 1;
            }),
            0);
}

// ---- C ----

struct CObjects {
  explicit CObjects(const std::string& directory) {
    EXPECT_EQ(quire_context_open((directory + "/repository").c_str(), nullptr, &context), QUIRE_OK);
    EXPECT_EQ(quire_db_open(context, "db", nullptr, &db), QUIRE_OK);
    EXPECT_EQ(quire_db_put(db, "key", 3, "value", 5), QUIRE_OK);
    EXPECT_EQ(quire_iter_create(db, &iter), QUIRE_OK);
    EXPECT_EQ(quire_batch_create(&batch), QUIRE_OK);
    EXPECT_EQ(quire_batch_put(batch, "k", 1, "v", 1), QUIRE_OK);
  }
  quire_context* context = nullptr;
  quire_db* db = nullptr;
  quire_iter* iter = nullptr;
  quire_batch* batch = nullptr;
};

struct CRow {
  std::string call;
  std::function<int(CObjects&)> run;
};

int KeepInC(quire_bytes, const quire_bytes*, quire_bytes, quire_value*, void*) {
  return QUIRE_NOT_FOUND;
}
int KeepAnsweringInC(quire_bytes, const quire_bytes*, quire_bytes, quire_value*, quire_value*,
                     void*) {
  return QUIRE_NOT_FOUND;
}

std::vector<CRow> CDatabaseRows() {
  using O = CObjects;
  static const void* const keys[] = {"key"};
  static const size_t sizes[] = {3};
  static void* value = nullptr;
  static size_t size = 0;
  static char buffer[16];
  return {
      {"put", [](O& o) { return quire_db_put(o.db, "k", 1, "v", 1); }},
      {"delete", [](O& o) { return quire_db_delete(o.db, "k", 1); }},
      {"get", [](O& o) { return quire_db_get(o.db, "key", 3, &value, &size); }},
      {"get_into",
       [](O& o) { return quire_db_get_into(o.db, "key", 3, buffer, sizeof buffer, &size); }},
      {"get_async", [](O& o) {
         quire_pending* pending = nullptr;
         const int made = quire_db_get_async(o.db, "key", 3, &pending);
         return made != QUIRE_OK ? made : quire_pending_take(pending, &value, &size);
       }},
      {"put_many", [](O& o) { return quire_db_put_many(o.db, 1, keys, sizes, keys, sizes); }},
      {"delete_many", [](O& o) { return quire_db_delete_many(o.db, 1, keys, sizes); }},
      {"get_many", [](O& o) { return quire_db_get_many(o.db, 1, keys, sizes, &value, &size); }},
      {"write", [](O& o) { return quire_db_write(o.db, o.batch); }},
      {"register_update", [](O& o) { return quire_db_register_update(o.db, 7, KeepInC, nullptr); }},
      {"update", [](O& o) { return quire_db_update(o.db, "k", 1, 7, nullptr, 0); }},
      {"register_answering_update",
       [](O& o) { return quire_db_register_answering_update(o.db, 7, KeepAnsweringInC, nullptr); }},
      {"update_and_answer", [](O& o) {
         return quire_db_update_and_answer(o.db, {"k", 1}, 7, {nullptr, 0}, &value, &size);
       }},
      {"fence", [](O& o) { return quire_db_fence(o.db); }},
      {"flush", [](O& o) { return quire_db_flush(o.db); }},
      {"barrier", [](O& o) { return quire_db_barrier(o.db, QUIRE_SSTABLE); }},
      {"set_consistency", [](O& o) { return quire_db_set_consistency(o.db, QUIRE_RELAXED); }},
      {"protect", [](O& o) { return quire_db_protect(o.db, QUIRE_READ_WRITE); }},
      {"compact", [](O& o) { return quire_db_compact(o.db); }},
      {"checkpoint", [](O& o) {
         quire_event* event = nullptr;
         return quire_db_checkpoint(o.db, "/nowhere", 0, &event);
       }},
      {"close", [](O& o) { return quire_db_close(o.db); }},
  };
}

TEST(EveryCallOfC, OfADatabaseHasARow) {
  // Those that tell nothing of the database but what it always was, or have no code.
  std::set<std::string> rows = {"open", "name", "owner", "statistic", "statistics"};
  for (const CRow& row : CDatabaseRows()) rows.insert(row.call);
  const std::string text = test::SourceText("include/quire/quire.h");
  static const std::regex call(R"(\nQUIRE_EXPORT int quire_db_(\w+)\()");
  int count = 0;
  for (std::sregex_iterator at(text.begin(), text.end(), call), end; at != end; ++at, ++count) {
    EXPECT_TRUE(rows.contains((*at)[1])) << "quire_db_" << (*at)[1];
  }
  EXPECT_GE(count, 15);
}

TEST(EveryCallOfC, FailsInAForkedChildAndOnceClosed) {
  const test::TempDirectory directory;
  CObjects objects(directory.path());
  const int wrong = InChild([&] {
    int count = 0;
    for (const CRow& row : CDatabaseRows()) {
      if (row.run(objects) == QUIRE_INVALID_ARGUMENT) continue;
      std::fprintf(stderr, "quire_db_%s in a forked child\n", row.call.c_str());
      ++count;
    }
    quire_db* other = nullptr;
    count += quire_db_open(objects.context, "db2", nullptr, &other) != QUIRE_INVALID_ARGUMENT;
    count += quire_context_barrier(objects.context) != QUIRE_INVALID_ARGUMENT;
    count += quire_iter_valid(objects.iter) != 0;
    count += quire_iter_status(objects.iter) != QUIRE_INVALID_ARGUMENT;
    quire_iter_destroy(objects.iter);
    count += quire_context_close(objects.context) != QUIRE_OK;
    return count;
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(quire_db_put(objects.db, "k", 1, "v", 1), QUIRE_OK);
  quire_iter_destroy(objects.iter);
  EXPECT_EQ(quire_db_close(objects.db), QUIRE_OK);
  for (const CRow& row : CDatabaseRows()) {
    EXPECT_EQ(row.run(objects), QUIRE_INVALID_ARGUMENT) << row.call;
  }
  quire_batch_destroy(objects.batch);
  EXPECT_EQ(quire_context_close(objects.context), QUIRE_OK);
}

}  // namespace
}  // namespace quire
