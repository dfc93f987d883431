// Every call of streams, in C++ and in C, and those of C datasets: in a forked child, and after the
// end of what it belongs to. The rows of C are compared with the headers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "quire/quire.h"
#include "quire/quire_dataset.h"
#include "quire/quire_stream.h"
#include "quire/stream.h"
#include "tests/api/every_call.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"

namespace quire {
namespace {

using test::InChild;

constexpr char kKey[] = "key";
constexpr size_t kKeyBytes = sizeof kKey - 1;

// What the calls belong to. One place has the writer of C++, another one that of C.
struct Objects {
  explicit Objects(const std::string& directory) : home(directory) {
    writer = *StreamWriter::Open(home + "/place", "store", 0);
    Must(writer->Create(kKey, 64).status().ok());
    Must(writer->Put(kKey).ok());
    reader = *StreamReader::Open(home + "/place", "store", 0);
    view = *reader->View(kKey, 0);
    OpenC();
  }
  void OpenC() {
    void* memory = nullptr;
    uint64_t version = 0;
    const std::string place = home + "/c-place";
    Must(quire_stream_writer_open(place.c_str(), "store", 0, nullptr, &c_writer) == QUIRE_OK);
    Must(quire_stream_writer_create(c_writer, kKey, kKeyBytes, 64, nullptr, &memory) == QUIRE_OK);
    Must(quire_stream_writer_put(c_writer, kKey, kKeyBytes, &version) == QUIRE_OK);
    Must(quire_stream_reader_open(place.c_str(), "store", 0, nullptr, &c_reader) == QUIRE_OK);
    Must(quire_stream_reader_view(c_reader, kKey, kKeyBytes, 0, &c_view) == QUIRE_OK);
    const std::string repository = home + "/repository";
    Must(quire_context_open(repository.c_str(), nullptr, &context) == QUIRE_OK);
    Must(quire_dataset_writer_open(context, "set", nullptr, &set) == QUIRE_OK);
    Must(quire_dataset_writer_begin_epoch(set, 1) == QUIRE_OK);
    Must(quire_dataset_writer_put(set, kKey, kKeyBytes, "v", 1) == QUIRE_OK);
    Must(quire_dataset_writer_end_epoch(set) == QUIRE_OK);
    const std::string directory = repository + "/set";
    Must(quire_dataset_reader_open(directory.c_str(), nullptr, &set_reader) == QUIRE_OK);
    Must(quire_dataset_scan_create(set_reader, 1, 0, 1, &scan) == QUIRE_OK);
  }
  static void Must(bool done) { ASSERT_TRUE(done) << quire_error_message(); }
  void CloseC() const {
    quire_dataset_scan_destroy(scan);
    quire_dataset_reader_destroy(set_reader);
    quire_dataset_writer_destroy(set);
    quire_stream_view_release(c_view);
    quire_stream_reader_destroy(c_reader);
    quire_stream_writer_destroy(c_writer);
    quire_context_close(context);
  }

  const std::string home;
  std::unique_ptr<StreamWriter> writer;
  std::unique_ptr<StreamReader> reader;
  std::unique_ptr<StreamView> view;
  quire_stream_writer* c_writer = nullptr;
  quire_stream_reader* c_reader = nullptr;
  quire_stream_view* c_view = nullptr;
  quire_context* context = nullptr;
  quire_dataset_writer* set = nullptr;
  quire_dataset_reader* set_reader = nullptr;
  quire_dataset_scan* scan = nullptr;
};

using O = Objects;

using Row = test::CallRow<O, Status>;

std::vector<Row> WriterRows() {
  static char memory[64];
  return {
      {"Create", [](O& o) { return o.writer->Create("new", 64).status(); }},
      {"Attach", [](O& o) { return o.writer->Attach("new", memory, sizeof memory); }},
      {"Free", [](O& o) { return o.writer->Free(kKey); }},
      {"Put", [](O& o) { return o.writer->Put(kKey).status(); }},
      {"Snapshot", [](O& o) { return o.writer->Snapshot().status(); }},
      {"Snapshot of some", [](O& o) { return o.writer->Snapshot({Slice(kKey)}).status(); }},
      {"MarkDirty", [](O& o) { return o.writer->MarkDirty(kKey, 0, 1); }},
      {"Restore", [](O& o) { return o.writer->Restore(0, kKey); }},
      {"Sync", [](O& o) { return o.writer->Sync(); }},
      {"Keep", [](O& o) { return o.writer->Keep(1); }},
      {"Release", [](O& o) { return o.writer->Release(1); }},
      {"Collect", [](O& o) { return o.writer->Collect(); }},
      {"Tracking", [](O& o) { return o.writer->Tracking(kKey).status(); }},
      {"Finish", [](O& o) { return o.writer->Finish(); }},
  };
}

std::vector<Row> ReaderRows() {
  static std::string bytes;
  return {
      {"Objects", [](O& o) { return o.reader->Objects().status(); }},
      {"Versions", [](O& o) { return o.reader->Versions(kKey).status(); }},
      {"LastSnapshot", [](O& o) { return o.reader->LastSnapshot().status(); }},
      {"Get", [](O& o) { return o.reader->Get(kKey, 0, &bytes); }},
      {"GetAt", [](O& o) { return o.reader->GetAt(kKey, 1, &bytes); }},
      {"View", [](O& o) { return o.reader->View(kKey, 0).status(); }},
      {"ViewAt", [](O& o) { return o.reader->ViewAt(kKey, 1).status(); }},
      {"Wait", [](O& o) { return o.reader->Wait(0, 0).status(); }},
      {"Finished", [](O& o) { return o.reader->Finished().status(); }},
      {"Verify", [](O& o) { return o.view->Verify(); }},
  };
}

using CRow = test::CallRow<O, int>;

uint64_t number;
size_t size;
void* memory;
const void* const kKeys[] = {kKey};
const size_t kSizes[] = {kKeyBytes};
char buffer[64];

std::vector<CRow> CWriterRows() {
  return {
      {"create", [](O& o) {
         return quire_stream_writer_create(o.c_writer, "new", 3, 64, nullptr, &memory);
       }},
      {"attach", [](O& o) {
         return quire_stream_writer_attach(o.c_writer, "new", 3, buffer, sizeof buffer, nullptr);
       }},
      {"free", [](O& o) { return quire_stream_writer_free(o.c_writer, kKey, kKeyBytes); }},
      {"put", [](O& o) { return quire_stream_writer_put(o.c_writer, kKey, kKeyBytes, &number); }},
      {"snapshot", [](O& o) { return quire_stream_writer_snapshot(o.c_writer, &number); }},
      {"snapshot_some", [](O& o) {
         return quire_stream_writer_snapshot_some(o.c_writer, 1, kKeys, kSizes, &number);
       }},
      {"mark_dirty", [](O& o) {
         return quire_stream_writer_mark_dirty(o.c_writer, kKey, kKeyBytes, 0, 1);
       }},
      {"restore",
       [](O& o) { return quire_stream_writer_restore(o.c_writer, 0, kKey, kKeyBytes); }},
      {"sync", [](O& o) { return quire_stream_writer_sync(o.c_writer); }},
      {"keep", [](O& o) { return quire_stream_writer_keep(o.c_writer, 1); }},
      {"release", [](O& o) { return quire_stream_writer_release(o.c_writer, 1); }},
      {"collect", [](O& o) { return quire_stream_writer_collect(o.c_writer); }},
      {"tracking", [](O& o) {
         char* text = nullptr;
         return quire_stream_writer_tracking(o.c_writer, kKey, kKeyBytes, &text);
       }},
      {"finish", [](O& o) { return quire_stream_writer_finish(o.c_writer); }},
  };
}

// What a call that succeeds has given is the caller's.
int Freed(int code, void* given) {
  quire_free(given);
  return code;
}

int Released(int code, quire_stream_view** view) {
  if (code == QUIRE_OK) quire_stream_view_release(*view);
  return code;
}

std::vector<CRow> CReaderRows() {
  static int finished = 0;
  return {
      {"objects", [](O& o) {
         quire_bytes* keys = nullptr;
         const int code = quire_stream_reader_objects(o.c_reader, &keys, &size);
         return Freed(code, keys);
       }},
      {"versions", [](O& o) {
         quire_stream_version* versions = nullptr;
         const int code =
             quire_stream_reader_versions(o.c_reader, kKey, kKeyBytes, &versions, &size);
         return Freed(code, versions);
       }},
      {"last_snapshot", [](O& o) { return quire_stream_reader_last_snapshot(o.c_reader, &number); }},
      {"get", [](O& o) {
         memory = nullptr;
         const int code =
             quire_stream_reader_get(o.c_reader, kKey, kKeyBytes, 0, &memory, &size);
         return Freed(code, memory);
       }},
      {"get_at", [](O& o) {
         memory = nullptr;
         const int code =
             quire_stream_reader_get_at(o.c_reader, kKey, kKeyBytes, 1, &memory, &size);
         return Freed(code, memory);
       }},
      {"get_into", [](O& o) {
         size = sizeof buffer;
         return quire_stream_reader_get_into(o.c_reader, kKey, kKeyBytes, 0, buffer, &size);
       }},
      {"get_at_into", [](O& o) {
         size = sizeof buffer;
         return quire_stream_reader_get_at_into(o.c_reader, kKey, kKeyBytes, 1, buffer, &size);
       }},
      {"view", [](O& o) {
         quire_stream_view* view = nullptr;
         return Released(quire_stream_reader_view(o.c_reader, kKey, kKeyBytes, 0, &view), &view);
       }},
      {"view_at", [](O& o) {
         quire_stream_view* view = nullptr;
         return Released(quire_stream_reader_view_at(o.c_reader, kKey, kKeyBytes, 1, &view), &view);
       }},
      {"wait", [](O& o) { return quire_stream_reader_wait(o.c_reader, 0, 0, &number); }},
      {"finished", [](O& o) { return quire_stream_reader_finished(o.c_reader, &finished); }},
  };
}

std::vector<CRow> CDatasetWriterRows() {
  return {
      {"begin_epoch", [](O& o) { return quire_dataset_writer_begin_epoch(o.set, 2); }},
      {"put", [](O& o) { return quire_dataset_writer_put(o.set, kKey, kKeyBytes, "v", 1); }},
      {"end_epoch", [](O& o) { return quire_dataset_writer_end_epoch(o.set); }},
      {"finish", [](O& o) { return quire_dataset_writer_finish(o.set); }},
  };
}

std::vector<CRow> CDatasetReaderRows() {
  static quire_dataset_values* values = nullptr;
  return {
      {"refresh", [](O& o) { return quire_dataset_reader_refresh(o.set_reader); }},
      {"get", [](O& o) {
         return quire_dataset_reader_get(o.set_reader, 1, kKey, kKeyBytes, &values);
       }},
      {"get_many", [](O& o) {
         return quire_dataset_reader_get_many(o.set_reader, 1, 1, kKeys, kSizes, &values);
       }},
      {"trajectory", [](O& o) {
         return quire_dataset_reader_trajectory(o.set_reader, kKey, kKeyBytes, &values);
       }},
      {"verify", [](O& o) { return quire_dataset_reader_verify(o.set_reader, 1); }},
  };
}

// How many of the calls are not refused.
int NotRefused(const std::vector<Row>& rows, O& objects, const char* when) {
  int count = 0;
  for (const Row& row : rows) {
    const Status status = row.run(objects);
    if (status.code() == Code::kInvalidArgument) continue;
    std::fprintf(stderr, "%s %s: %s\n", row.call.c_str(), when, status.ToString().c_str());
    ++count;
  }
  return count;
}

int NotRefused(const std::vector<CRow>& rows, O& objects, const char* when) {
  int count = 0;
  for (const CRow& row : rows) {
    if (row.run(objects) == QUIRE_INVALID_ARGUMENT) continue;
    std::fprintf(stderr, "%s of C %s: %s\n", row.call.c_str(), when, quire_error_message());
    ++count;
  }
  return count;
}

// The functions with a code whose names begin with `prefix`, but `others`, have a row.
void ExpectRows(const char* header, const std::string& prefix, const std::vector<CRow>& rows,
                std::set<std::string> others) {
  for (const CRow& row : rows) others.insert(row.call);
  const std::string text = test::HeaderText(header);
  const std::regex call(R"(\nQUIRE_EXPORT int )" + prefix + R"((\w+)\()");
  int count = 0;
  for (std::sregex_iterator at(text.begin(), text.end(), call), end; at != end; ++at, ++count) {
    EXPECT_TRUE(others.contains((*at)[1])) << prefix << (*at)[1];
  }
  EXPECT_GE(count, 6) << prefix;
}

TEST(EveryStreamCall, OfCHasARow) {
  ExpectRows("quire_stream.h", "quire_stream_writer_", CWriterRows(),
             {"open", "last_snapshot", "durability", "statistic", "statistics"});
  ExpectRows("quire_stream.h", "quire_stream_reader_", CReaderRows(), {"open", "open_local"});
  ExpectRows("quire_dataset.h", "quire_dataset_writer_", CDatasetWriterRows(),
             {"open", "last_epoch", "statistic", "statistics"});
  ExpectRows("quire_dataset.h", "quire_dataset_reader_", CDatasetReaderRows(),
             {"open", "epochs", "statistic", "statistics"});
}

TEST(EveryStreamCall, FailsInAForkedChild) {
  const test::TempDirectory directory;
  auto objects = std::make_unique<Objects>(directory.path());
  const int wrong = InChild([&] {
    const char* const when = "in a forked child";
    int count = NotRefused(WriterRows(), *objects, when) +
                NotRefused(ReaderRows(), *objects, when) +
                NotRefused(CWriterRows(), *objects, when) +
                NotRefused(CReaderRows(), *objects, when) +
                NotRefused(CDatasetWriterRows(), *objects, when) +
                NotRefused(CDatasetReaderRows(), *objects, when);
    count += quire_stream_view_verify(objects->c_view) != QUIRE_INVALID_ARGUMENT;
    count += quire_dataset_scan_valid(objects->scan) != 0;
    count += quire_dataset_scan_status(objects->scan) != QUIRE_INVALID_ARGUMENT;
    objects->CloseC();
    objects.reset();
    return count;
  });
  EXPECT_EQ(wrong, 0);
  // The parent goes on.
  for (const Row& row : ReaderRows()) EXPECT_OK(row.run(*objects));
  for (const CRow& row : CReaderRows()) EXPECT_EQ(row.run(*objects), QUIRE_OK) << row.call;
  EXPECT_OK(objects->writer->Put(kKey).status());
  EXPECT_EQ(quire_stream_writer_put(objects->c_writer, kKey, kKeyBytes, &number), QUIRE_OK);
  objects->CloseC();
}

TEST(EveryStreamCall, AForkedChildThatOnlyEndsEnds) {
  const test::TempDirectory directory;
  auto objects = std::make_unique<Objects>(directory.path());
  EXPECT_EQ(InChild([] { return 0; }), 0);
  EXPECT_OK(objects->writer->Put(kKey).status());
  EXPECT_OK(objects->view->Verify());
  objects->CloseC();
}

TEST(EveryStreamCall, OfAWriterFailsAfterFinish) {
  const test::TempDirectory directory;
  Objects objects(directory.path());
  const char* const when = "after finish";
  EXPECT_OK(objects.writer->Finish());
  EXPECT_EQ(NotRefused(WriterRows(), objects, when), 0);
  EXPECT_EQ(quire_stream_writer_finish(objects.c_writer), QUIRE_OK);
  EXPECT_EQ(NotRefused(CWriterRows(), objects, when), 0);
  EXPECT_EQ(quire_dataset_writer_finish(objects.set), QUIRE_OK);
  EXPECT_EQ(NotRefused(CDatasetWriterRows(), objects, when), 0);
  objects.CloseC();
}

}  // namespace
}  // namespace quire
