// Every public call of databases and datasets, in C++ and in C: after Close, without its context,
// in a forked child, inside a function that Quire calls, from a thread that has all signals
// blocked, and while signals interrupt it. The rows are compared with the headers: a call without a
// row fails the test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "quire/database.h"
#include "quire/dataset.h"
#include "quire/quire.h"
#include "quire/reader.h"
#include "tests/api/database_calls.h"
#include "tests/api/every_call.h"
#include "tests/support/public_calls.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"

namespace quire {
namespace {

using test::InChild;
using testing::HasSubstr;

using Objects = test::DatabaseObjects;
using Row = test::DatabaseRow;
using test::AllRows;
using test::DatabaseRows;
using test::DatasetRows;
using test::DoorRows;
using test::HeldRows;
using test::LibraryRows;

// Returns whether a forked child may make the call: its result does not change, and it needs no
// lock or thread.
bool MayAsk(const std::string& call) {
  static const std::set<std::string> pure = {
      "Context::rank",           "Context::size",         "Context::repository",
      "Context::Description",    "Database::name",        "Database::Owner",
      "LocalIterator::key",      "DatasetScan::key",      "DatasetScan::value",
      "DatasetScan::rank",       "DatasetReader::format", "DatasetReader::partitioner_name",
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

// Functions of the public headers that have no row: they read a constant table, or they need MPI.
const std::set<std::string>& WithoutARow() {
  static const std::set<std::string> calls = {"ElementBytes", "ElementName", "Version", "CodeName",
                                              // tests/parallel/kv_parallel_test.cpp
                                              "OpenContext", "OpenContextFortran"};
  return calls;
}

TEST(EveryCall, EachFreeCallHasARow) {
  std::set<std::string> known = WithoutARow();
  for (const std::vector<Row>& rows : {AllRows(), DoorRows(), LibraryRows()}) {
    for (const Row& row : rows) known.insert(row.call);
  }
  std::set<std::string> calls;
  for (const std::string& header : test::PublicHeaders()) {
    if (header.starts_with("quire")) continue;  // of C
    for (const std::string& call : test::FreeCallsOf(header)) {
      EXPECT_TRUE(known.contains(call)) << call << " of " << header;
      calls.insert(call);
    }
  }
  for (const Row& row : DoorRows()) EXPECT_TRUE(calls.contains(row.call)) << row.call;
  for (const Row& row : LibraryRows()) EXPECT_TRUE(calls.contains(row.call)) << row.call;
  for (const std::string& call : WithoutARow()) EXPECT_TRUE(calls.contains(call)) << call;
}

// The tests that compare rows with headers name these.
TEST(EveryCall, IsInAHeaderThatTheTestsRead) {
  const std::set<std::string> virtual_calls = {"database.h", "dataset.h", "reader.h", "stream.h"};
  const std::set<std::string> of_c = {"quire.h", "quire_dataset.h", "quire_mpi.h",
                                      "quire_stream.h"};
  for (const std::string& header : test::PublicHeaders()) {
    EXPECT_EQ(test::CallsOf(header).empty(), !virtual_calls.contains(header)) << header;
    EXPECT_EQ(test::CCallsOf(header).empty(), !of_c.contains(header)) << header;
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

TEST(EveryCall, EachCallOfAWriterFailsOnceTheDatasetIsFinished) {
  const test::TempDirectory directory;
  Objects objects(directory.path());
  ASSERT_OK(objects.writer->Finish());
  for (const Row& row : DatasetRows()) {
    if (!row.call.starts_with("DatasetWriter::") || row.call == "DatasetWriter::Open") continue;
    const Status status = row.run(objects);
    if (row.call == "DatasetWriter::Statistics") {
      EXPECT_OK(status);
      continue;
    }
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << row.call;
    EXPECT_THAT(status.message(), HasSubstr("finished")) << row.call;
  }
  EXPECT_EQ(objects.writer->LastEpoch(), 1u);
}

TEST(EveryCall, RunsInAThreadThatBlocksAllSignals) {
  test::ExpectTheSameWithSignalsBlocked(AllRows());
  test::ExpectTheSameWithSignalsBlocked(DoorRows());
  test::ExpectTheSameWithSignalsBlocked(LibraryRows());
}

TEST(EveryCall, AnswersTheSameWhileSignalsInterruptIt) {
  test::ExpectTheSameWhileInterrupted(AllRows());
  test::ExpectTheSameWhileInterrupted(DoorRows());
  test::ExpectTheSameWhileInterrupted(LibraryRows());
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

// Returns whether the call has no Status, and reports at once what is known.
bool OnlyTells(const std::string& call) {
  static const std::set<std::string> calls = {
      "Context::Progress",         "Database::GetStatistics", "Event::Ready",
      "PendingGet::Ready",         "LocalIterator::Valid",    "LocalIterator::value",
      "DatasetWriter::Statistics", "DatasetScan::Valid"};
  return calls.contains(call);
}

// Those of them that are answered at any place: they read numbers, under no lock.
bool ReadsNumbers(const std::string& call) {
  static const std::set<std::string> calls = {"Event::Progress", "DatasetReader::Epochs",
                                              "DatasetReader::Statistics"};
  return calls.contains(call);
}

// Runs all rows inside a function that Quire called.
void ExpectAllRefusedInside(Objects& objects) {
  std::vector<Row> rows = AllRows();
  for (const Row& row : DoorRows()) rows.push_back(row);
  for (const Row& row : rows) {
    const Status status = row.run(objects);
    if (ReadsNumbers(row.call)) continue;
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << row.call;
    if (OnlyTells(row.call)) continue;
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
      // Data that was read before, or that the call reads by itself, is available.
      static const std::set<std::string> stays = {"Event::Wait",
                                                  "Event::Progress",
                                                  "LocalIterator::SeekToLast",
                                                  "LocalIterator::Seek",
                                                  "LocalIterator::Next",
                                                  "LocalIterator::Prev",
                                                  "LocalIterator::Valid",
                                                  "DatabaseReader::Get",
                                                  "DatabaseReader::NewIterator",
                                                  "DatabaseReader::Refresh",
                                                  "PendingGet::Take"};
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
              const auto own = Context::OpenSerial(objects.home + "/of the child");
              if (!own.ok() || !(*own)->Open("db", {}).ok()) return 2;
              return reader.ok() && (*reader)->Get("key", &value).ok() && value == "value" ? 0 : 1;
            }),
            0);
}

// ---- C ----

using CObjects = test::CDatabaseObjects;
using CRow = test::CDatabaseRow;
using test::CDatabaseRows;
using test::CDoorRows;
using test::CHeldRows;

TEST(EveryCallOfC, HasARow) {
  // Those without a code, those that a row has used, and those of MPI and of update functions.
  std::set<std::string> rows = {"quire_context_open_fortran",
                                "quire_context_open_mpi",
                                "quire_context_close",
                                "quire_context_rank",
                                "quire_context_size",
                                "quire_event_ready",
                                "quire_pending_ready",
                                "quire_pending_take",
                                "quire_value_set",
                                "quire_iter_valid"};
  for (const CRow& row : CDatabaseRows()) rows.insert("quire_db_" + row.call);
  for (const CRow& row : CDoorRows()) rows.insert(row.call);
  for (const CRow& row : CHeldRows()) rows.insert(row.call);
  std::set<std::string> calls = test::CCallsOf("quire.h");
  EXPECT_GE(calls.size(), 60u);
  calls.merge(test::CCallsOf("quire_mpi.h"));
  for (const std::string& call : calls) EXPECT_TRUE(rows.contains(call)) << call;
}

TEST(EveryCallOfC, AnswersTheSameWhileSignalsInterruptIt) {
  test::ExpectTheSameWhileInterrupted(CDatabaseRows());
  test::ExpectTheSameWhileInterrupted(CDoorRows());
  test::ExpectTheSameWhileInterrupted(CHeldRows());
}

TEST(EveryCallOfC, RunsInAThreadThatBlocksAllSignals) {
  test::ExpectTheSameWithSignalsBlocked(CDatabaseRows());
  test::ExpectTheSameWithSignalsBlocked(CDoorRows());
  test::ExpectTheSameWithSignalsBlocked(CHeldRows());
}

// Calls with a handle of what this process has opened. Options, batches and log messages belong to
// the program; a child may open readers of its own, as their rows do.
std::vector<CRow> COpenedRows() {
  std::vector<CRow> rows = CDatabaseRows();
  for (const CRow& row : CHeldRows()) {
    const auto of = [&row](const char* kind) { return row.call.starts_with(kind); };
    const bool opened = of("quire_context_") || of("quire_event_") || of("quire_iter_");
    if (opened || of("quire_db_")) rows.push_back(row);
  }
  return rows;
}

// Runs all rows inside an update function.
int CallAll(quire_bytes, const quire_bytes*, quire_bytes, quire_value*, void* user) {
  auto& objects = *static_cast<CObjects*>(user);
  std::vector<CRow> rows = COpenedRows();
  for (const CRow& row : CDoorRows()) rows.push_back(row);
  for (const CRow& row : rows) {
    EXPECT_EQ(row.run(objects), QUIRE_INVALID_ARGUMENT) << row.call;
    EXPECT_THAT(quire_error_message(), HasSubstr("called inside a function")) << row.call;
  }
  EXPECT_EQ(quire_context_close(objects.context), QUIRE_INVALID_ARGUMENT);
  return QUIRE_NOT_FOUND;
}

TEST(EveryCallOfC, FailsInsideAFunctionThatQuireCalls) {
  const test::TempDirectory directory;
  CObjects objects(directory.path());
  constexpr uint32_t kCallsAll = 8;
  ASSERT_EQ(quire_db_register_update(objects.db, kCallsAll, CallAll, &objects), QUIRE_OK);
  EXPECT_EQ(quire_db_update(objects.db, "key", 3, kCallsAll, nullptr, 0), QUIRE_OK);
  EXPECT_EQ(quire_db_put(objects.db, "k", 1, "v", 1), QUIRE_OK);
}

TEST(EveryCallOfC, FailsInAForkedChildAndOnceClosed) {
  const test::TempDirectory directory;
  CObjects objects(directory.path());
  const int wrong = InChild([&] {
    int count = 0;
    for (const CRow& row : COpenedRows()) {
      if (row.run(objects) == QUIRE_INVALID_ARGUMENT) continue;
      std::fprintf(stderr, "%s in a forked child\n", row.call.c_str());
      ++count;
    }
    count += quire_iter_valid(objects.iter) != 0;
    objects.Close();
    return count;
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(quire_db_put(objects.db, "k", 1, "v", 1), QUIRE_OK);
  quire_iter_destroy(objects.iter);
  objects.iter = nullptr;
  EXPECT_EQ(quire_db_close(objects.db), QUIRE_OK);
  for (const CRow& row : CDatabaseRows()) {
    EXPECT_EQ(row.run(objects), QUIRE_INVALID_ARGUMENT) << row.call;
  }
}

}  // namespace
}  // namespace quire
