// Every call of streams, in C++ and in C, and those of C datasets: in a forked child, after the end
// of what it belongs to, after a time-out, and while signals interrupt it. The rows are compared
// with the headers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "quire/quire.h"
#include "quire/quire_dataset.h"
#include "quire/quire_stream.h"
#include "quire/stream.h"
#include "tests/api/every_call.h"
#include "tests/api/stream_calls.h"
#include "tests/support/held_thread.h"
#include "tests/support/public_calls.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"

namespace quire {
namespace {

using Objects = test::StreamObjects;
using Row = test::StreamRow;
using CRow = test::CStreamRow;
using test::CDatasetOtherRows;
using test::CDatasetReaderRows;
using test::CDatasetWriterRows;
using test::CScanRows;
using test::CStreamDoorRows;
using test::CStreamReaderRows;
using test::CStreamWriterRows;
using test::InChild;
using test::kStreamKey;
using test::kStreamKeyBytes;
using test::StreamReaderRows;
using test::StreamWriterRows;

// How many of the calls are not refused.
int NotRefused(const std::vector<Row>& rows, Objects& objects, const char* when) {
  int count = 0;
  for (const Row& row : rows) {
    const Status status = row.run(objects);
    if (status.code() == Code::kInvalidArgument) continue;
    std::fprintf(stderr, "%s %s: %s\n", row.call.c_str(), when, status.ToString().c_str());
    ++count;
  }
  return count;
}

int NotRefused(const std::vector<CRow>& rows, Objects& objects, const char* when) {
  int count = 0;
  for (const CRow& row : rows) {
    if (row.run(objects) == QUIRE_INVALID_ARGUMENT) continue;
    std::fprintf(stderr, "%s of C %s: %s\n", row.call.c_str(), when, quire_error_message());
    ++count;
  }
  return count;
}

TEST(EveryStreamCall, EachCallOfCHasARow) {
  // These only return data of a view or a scan.
  std::set<std::string> rows = {"quire_stream_view_bytes", "quire_stream_view_version",
                                "quire_stream_view_in_place", "quire_stream_view_verify",
                                "quire_dataset_scan_valid"};
  const auto add = [&rows](const std::string& prefix, const std::vector<CRow>& more) {
    for (const CRow& row : more) rows.insert(prefix + row.call);
  };
  add("quire_stream_writer_", CStreamWriterRows());
  add("quire_stream_reader_", CStreamReaderRows());
  add("quire_dataset_writer_", CDatasetWriterRows());
  add("quire_dataset_reader_", CDatasetReaderRows());
  add("quire_dataset_scan_", CScanRows());
  add("", CDatasetOtherRows());
  add("", CStreamDoorRows());
  for (const std::string header : {"quire_stream.h", "quire_dataset.h"}) {
    const std::set<std::string> calls = test::CCallsOf(header);
    EXPECT_GE(calls.size(), 20u) << header;
    for (const std::string& call : calls) EXPECT_TRUE(rows.contains(call)) << call;
  }
}

TEST(EveryStreamCall, HasARow) {
  // These only return what is already known.
  std::set<std::string> rows = {"StreamWriter::LastSnapshot", "StreamWriter::durability",
                                "StreamWriter::Statistics",   "StreamView::bytes",
                                "StreamView::version",        "StreamView::in_place",
                                "StreamView::Verify"};
  for (const Row& row : StreamWriterRows()) rows.insert("StreamWriter::" + row.call);
  for (const Row& row : StreamReaderRows()) rows.insert("StreamReader::" + row.call);
  const std::set<std::string> calls = test::CallsOf("stream.h");
  EXPECT_GE(calls.size(), 20u);
  for (const std::string& call : calls) EXPECT_TRUE(rows.contains(call)) << call;
}

TEST(EveryStreamCall, AnswersTheSameWhileSignalsInterruptIt) {
  test::ExpectTheSameWhileInterrupted(StreamWriterRows());
  test::ExpectTheSameWhileInterrupted(StreamReaderRows());
  test::ExpectTheSameWhileInterrupted(CStreamWriterRows());
  test::ExpectTheSameWhileInterrupted(CStreamReaderRows());
  test::ExpectTheSameWhileInterrupted(CDatasetWriterRows());
  test::ExpectTheSameWhileInterrupted(CDatasetReaderRows());
  test::ExpectTheSameWhileInterrupted(CScanRows());
  test::ExpectTheSameWhileInterrupted(CDatasetOtherRows());
  test::ExpectTheSameWhileInterrupted(CStreamDoorRows());
}

TEST(EveryStreamCall, RunsInAThreadThatBlocksAllSignals) {
  test::ExpectTheSameWithSignalsBlocked(StreamWriterRows());
  test::ExpectTheSameWithSignalsBlocked(StreamReaderRows());
  test::ExpectTheSameWithSignalsBlocked(CStreamWriterRows());
  test::ExpectTheSameWithSignalsBlocked(CStreamReaderRows());
  test::ExpectTheSameWithSignalsBlocked(CDatasetWriterRows());
  test::ExpectTheSameWithSignalsBlocked(CDatasetReaderRows());
  test::ExpectTheSameWithSignalsBlocked(CScanRows());
  test::ExpectTheSameWithSignalsBlocked(CDatasetOtherRows());
  test::ExpectTheSameWithSignalsBlocked(CStreamDoorRows());
}

// The pages are protected, and the first watch of a process tests itself: a store would end the
// process in a thread that holds SIGSEGV back. Quire makes its own where it can be handled.
int PutAndRestoreProtected(const std::string& place) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  StreamOptions options;
  options.log_bytes = 4 << 20;
  options.deltas = StreamDeltas::kProtect;
  const auto writer = StreamWriter::Open(place, "store", 0, options);
  if (!writer.ok()) return 1;
  const auto memory = (*writer)->Create(kStreamKey, 1 << 18);
  if (!memory.ok()) return 2;
  (*memory)[100] = 'a';  // not protected yet
  if (!(*writer)->Put(kStreamKey).ok() || !(*writer)->Put(kStreamKey).ok()) return 3;
  if (*(*writer)->Tracking(kStreamKey) != "protect") return 4;
  if (!(*writer)->Restore(1, kStreamKey).ok() || (*memory)[100] != 'a') return 5;
  if (!(*writer)->Put(kStreamKey).ok() || !(*writer)->Free(kStreamKey).ok()) return 6;
  sigset_t now;
  pthread_sigmask(SIG_BLOCK, nullptr, &now);
  if (sigismember(&now, SIGSEGV) != 1) return 7;
  return (*writer)->Finish().ok() ? 0 : 8;
}

TEST(EveryStreamCall, CallsOnProtectedMemoryRunInAThreadThatBlocksAllSignals) {
  const test::TempDirectory directory;
  EXPECT_EQ(InChild([&] { return PutAndRestoreProtected(directory.path()); }), 0);
}

TEST(EveryStreamCall, AnswersTheSameAfterATimeOut) {
  const test::TempDirectory directory;
  Objects objects(directory.path());
  const uint64_t last = *objects.reader->LastSnapshot();
  for (const Row& row : StreamReaderRows()) {
    EXPECT_CODE(objects.reader->Wait(last, 1).status(), Code::kTimedOut);
    EXPECT_OK(row.run(objects));
  }
  for (const CRow& row : CStreamReaderRows()) {
    uint64_t snapshot = 0;
    ASSERT_EQ(quire_stream_reader_wait(objects.c_reader, last, 1, &snapshot), QUIRE_TIMED_OUT);
    EXPECT_EQ(row.run(objects), QUIRE_OK) << row.call;
  }
}

TEST(EveryStreamCall, FailsInAForkedChild) {
  const test::TempDirectory directory;
  auto objects = std::make_unique<Objects>(directory.path());
  const int wrong = InChild([&] {
    const char* const when = "in a forked child";
    int count = NotRefused(StreamWriterRows(), *objects, when) +
                NotRefused(StreamReaderRows(), *objects, when) +
                NotRefused(CStreamWriterRows(), *objects, when) +
                NotRefused(CStreamReaderRows(), *objects, when) +
                NotRefused(CDatasetWriterRows(), *objects, when) +
                NotRefused(CDatasetReaderRows(), *objects, when);
    count += quire_stream_view_verify(objects->c_view) != QUIRE_INVALID_ARGUMENT;
    count += NotRefused(CScanRows(), *objects, when);
    count += quire_dataset_scan_valid(objects->scan) != 0;
    objects.reset();
    return count;
  });
  EXPECT_EQ(wrong, 0);
  // The parent goes on.
  for (const Row& row : StreamReaderRows()) EXPECT_OK(row.run(*objects));
  for (const CRow& row : CStreamReaderRows()) EXPECT_EQ(row.run(*objects), QUIRE_OK) << row.call;
  EXPECT_OK(objects->writer->Put(kStreamKey).status());
  uint64_t version = 0;
  EXPECT_EQ(quire_stream_writer_put(objects->c_writer, kStreamKey, kStreamKeyBytes, &version),
            QUIRE_OK);
}

// The thread that holds the writer's mutex is not in the child.
TEST(EveryStreamCall, AWritersCallFailsInAForkedChildThoughAThreadWasInACall) {
  const test::TempDirectory directory;
  Objects objects(directory.path());
  test::Hold hold;
  hold.place = "stream.commit.before_record";
  hold.wait_ms_max = 10'000;
  test::HeldThread held(hold);
  std::jthread put([&] { EXPECT_OK(objects.writer->Put(kStreamKey).status()); });
  ASSERT_TRUE(held.WaitUntilHeld());
  const int wrong = InChild([&] {
    const int count = NotRefused(StreamWriterRows(), objects, "in a forked child");
    return count + (objects.writer->LastSnapshot() != 0) +
           (objects.writer->Statistics().commits != 0);
  });
  EXPECT_EQ(wrong, 0);
  held.Release();
}

TEST(EveryStreamCall, AForkedChildThatOnlyEndsEnds) {
  const test::TempDirectory directory;
  auto objects = std::make_unique<Objects>(directory.path());
  EXPECT_EQ(InChild([] { return 0; }), 0);
  EXPECT_OK(objects->writer->Put(kStreamKey).status());
  EXPECT_OK(objects->view->Verify());
}

TEST(EveryStreamCall, AWritersCallFailsAfterFinish) {
  const test::TempDirectory directory;
  Objects objects(directory.path());
  const char* const when = "after finish";
  EXPECT_OK(objects.writer->Finish());
  EXPECT_EQ(NotRefused(StreamWriterRows(), objects, when), 0);
  EXPECT_EQ(quire_stream_writer_finish(objects.c_writer), QUIRE_OK);
  EXPECT_EQ(NotRefused(CStreamWriterRows(), objects, when), 0);
  EXPECT_EQ(quire_dataset_writer_finish(objects.set), QUIRE_OK);
  std::vector<CRow> rows = CDatasetWriterRows();
  const size_t all = rows.size();
  std::erase_if(rows, [](const CRow& row) {
    return row.call == "last_epoch" || row.call.starts_with("statistic");
  });
  EXPECT_EQ(all - rows.size(), 3u);  // they still report what was written
  EXPECT_EQ(NotRefused(rows, objects, when), 0);
  uint64_t last = 0;
  EXPECT_EQ(quire_dataset_writer_last_epoch(objects.set, &last), QUIRE_OK);
  EXPECT_EQ(last, 1u);
}

}  // namespace
}  // namespace quire
