#include "tests/api/stream_calls.h"

#include <gtest/gtest.h>

#include "tests/support/status_asserts.h"

namespace quire::test {
namespace {

using O = StreamObjects;

constexpr const char* kKey = kStreamKey;
constexpr size_t kKeyBytes = kStreamKeyBytes;
constexpr uint64_t kObjectBytes = 64;

uint64_t number;
size_t size;
void* memory;
const void* const kKeys[] = {kKey};
const size_t kSizes[] = {kKeyBytes};
char buffer[kObjectBytes];
std::string bytes;

void Must(bool done) {
  ASSERT_TRUE(done) << quire_error_message();
}

// The outcome of a call that must have found the object as it was stored.
Status Found(const Status& status, const std::string& found) {
  const bool right = found == std::string(kObjectBytes, '\0');
  return status.ok() && !right ? Status(Code::kCorruption, "other bytes") : status;
}

// Frees the result of a successful call, which belongs to the caller.
int Freed(int code, void* given) {
  quire_free(given);
  return code;
}

int Released(int code, quire_stream_view** view) {
  if (code == QUIRE_OK) quire_stream_view_release(*view);
  return code;
}

int Destroyed(int code, quire_dataset_values** values) {
  if (code == QUIRE_OK) quire_dataset_values_destroy(*values);
  return code;
}

}  // namespace

StreamObjects::StreamObjects(const std::string& directory)
    : home(directory),
      c_place(directory + "/c-place"),
      set_directory(directory + "/repository/set") {
  Must(quire_options_create(&options) == QUIRE_OK);
  Must(quire_options_set(options, "stream_log_bytes", "1MiB") == QUIRE_OK);
  OpenWriter();
  Must(writer->Put(kKey).ok());
  reader = *StreamReader::Open(home + "/place", "store", 0);
  view = *reader->View(kKey, 0);
  OpenCWriter();
  uint64_t version = 0;
  Must(quire_stream_writer_put(c_writer, kKey, kKeyBytes, &version) == QUIRE_OK);
  Must(quire_stream_reader_open(c_place.c_str(), "store", 0, nullptr, &c_reader) == QUIRE_OK);
  Must(quire_stream_reader_view(c_reader, kKey, kKeyBytes, 0, &c_view) == QUIRE_OK);
  const std::string repository = home + "/repository";
  Must(quire_context_open(repository.c_str(), nullptr, &context) == QUIRE_OK);
  BeginCEpoch();
  Must(quire_dataset_writer_end_epoch(set) == QUIRE_OK);
  Must(quire_dataset_reader_open(set_directory.c_str(), nullptr, &set_reader) == QUIRE_OK);
  Must(quire_dataset_scan_create(set_reader, 1, 0, 1, &scan) == QUIRE_OK);
}

void StreamObjects::OpenWriter() {
  writer.reset();
  StreamOptions small;
  small.log_bytes = 1 << 20;
  writer = *StreamWriter::Open(home + "/place", "store", 0, small);
  Must(writer->Create(kKey, kObjectBytes).status().ok());
}

void StreamObjects::OpenCWriter() {
  quire_stream_writer_destroy(c_writer);
  void* object = nullptr;
  Must(quire_stream_writer_open(c_place.c_str(), "store", 0, options, &c_writer) == QUIRE_OK);
  Must(quire_stream_writer_create(c_writer, kKey, kKeyBytes, kObjectBytes, nullptr, &object) ==
       QUIRE_OK);
}

void StreamObjects::OpenCSet() {
  quire_dataset_writer_destroy(set);
  set = nullptr;
  Must(quire_dataset_writer_open(context, "set", nullptr, &set) == QUIRE_OK);
}

void StreamObjects::BeginCEpoch() {
  OpenCSet();
  uint64_t last = 0;
  quire_dataset_writer_last_epoch(set, &last);
  Must(quire_dataset_writer_begin_epoch(set, last + 1) == QUIRE_OK);
  Must(quire_dataset_writer_put(set, kKey, kKeyBytes, "v", 1) == QUIRE_OK);
}

StreamObjects::~StreamObjects() {
  quire_dataset_scan_destroy(scan);
  quire_dataset_reader_destroy(set_reader);
  quire_dataset_writer_destroy(set);
  quire_stream_view_release(c_view);
  quire_stream_reader_destroy(c_reader);
  quire_stream_writer_destroy(c_writer);
  quire_context_close(context);
  quire_options_destroy(options);
}

std::string StreamObjects::State() const {
  uint64_t c_snapshot = 0;
  Must(quire_stream_reader_last_snapshot(c_reader, &c_snapshot) == QUIRE_OK);
  return std::to_string(*reader->LastSnapshot()) + ", " + std::to_string(c_snapshot);
}

void StreamObjects::ExpectAllThere(const std::string& directory) {
  for (const std::string place : {"/place", "/c-place"}) {
    const auto again = StreamReader::Open(directory + place, "store", 0);
    ASSERT_OK(again.status());
    std::string found;
    ASSERT_OK((*again)->Get(kKey, 0, &found));
    ASSERT_OK(Found(Status(), found));
  }
}

std::vector<StreamRow> StreamWriterRows() {
  static char own_memory[kObjectBytes];
  const auto free_new = [](O& o) { static_cast<void>(o.writer->Free("new")); };
  const auto reopen = [](O& o) { o.OpenWriter(); };
  return {
      {"Create", [](O& o) { return o.writer->Create("new", kObjectBytes).status(); }, free_new},
      {"Attach", [](O& o) { return o.writer->Attach("new", own_memory, sizeof own_memory); },
       free_new},
      {"Free", [](O& o) { return o.writer->Free(kKey); }, reopen},
      {"Put", [](O& o) { return o.writer->Put(kKey).status(); }},
      {"Snapshot", [](O& o) { return o.writer->Snapshot().status(); }},
      {"Snapshot of some", [](O& o) { return o.writer->Snapshot({Slice(kKey)}).status(); }},
      {"MarkDirty", [](O& o) { return o.writer->MarkDirty(kKey, 0, 1); }},
      {"Restore", [](O& o) { return o.writer->Restore(0, kKey); }},
      {"Sync", [](O& o) { return o.writer->Sync(); }},
      {"Keep", [](O& o) { return o.writer->Keep(1); },
       [](O& o) { static_cast<void>(o.writer->Release(1)); }},
      {"Release", [](O& o) { return o.writer->Release(1); },
       [](O& o) { static_cast<void>(o.writer->Keep(1)); }},
      {"Collect", [](O& o) { return o.writer->Collect(); },
       [](O& o) { Must(o.writer->Put(kKey).ok()); }},
      {"Tracking", [](O& o) { return o.writer->Tracking(kKey).status(); }},
      {"Finish", [](O& o) { return o.writer->Finish(); }, reopen},
  };
}

std::vector<StreamRow> StreamReaderRows() {
  return {
      {"Objects", [](O& o) { return o.reader->Objects().status(); }},
      {"Versions", [](O& o) { return o.reader->Versions(kKey).status(); }},
      {"LastSnapshot", [](O& o) { return o.reader->LastSnapshot().status(); }},
      {"Get",
       [](O& o) {
         const Status status = o.reader->Get(kKey, 0, &bytes);
         return Found(status, bytes);
       }},
      {"GetAt",
       [](O& o) {
         const Status status = o.reader->GetAt(kKey, 1, &bytes);
         return Found(status, bytes);
       }},
      {"View", [](O& o) { return o.reader->View(kKey, 0).status(); }},
      {"ViewAt", [](O& o) { return o.reader->ViewAt(kKey, 1).status(); }},
      {"Wait", [](O& o) { return o.reader->Wait(0, 0).status(); }},
      {"Finished", [](O& o) { return o.reader->Finished().status(); }},
      {"Verify", [](O& o) { return o.view->Verify(); }},
  };
}

std::vector<CStreamRow> CStreamWriterRows() {
  const auto free_new = [](O& o) { quire_stream_writer_free(o.c_writer, "new", 3); };
  const auto reopen = [](O& o) { o.OpenCWriter(); };
  return {
      {"create",
       [](O& o) {
         return quire_stream_writer_create(o.c_writer, "new", 3, 64, nullptr, &memory);
       },
       free_new},
      {"attach",
       [](O& o) {
         return quire_stream_writer_attach(o.c_writer, "new", 3, buffer, sizeof buffer, nullptr);
       },
       free_new},
      {"free", [](O& o) { return quire_stream_writer_free(o.c_writer, kKey, kKeyBytes); }, reopen},
      {"put", [](O& o) { return quire_stream_writer_put(o.c_writer, kKey, kKeyBytes, &number); }},
      {"snapshot", [](O& o) { return quire_stream_writer_snapshot(o.c_writer, &number); }},
      {"snapshot_some",
       [](O& o) {
         return quire_stream_writer_snapshot_some(o.c_writer, 1, kKeys, kSizes, &number);
       }},
      {"mark_dirty",
       [](O& o) {
         return quire_stream_writer_mark_dirty(o.c_writer, kKey, kKeyBytes, 0, 1);
       }},
      {"restore",
       [](O& o) { return quire_stream_writer_restore(o.c_writer, 0, kKey, kKeyBytes); }},
      {"sync", [](O& o) { return quire_stream_writer_sync(o.c_writer); }},
      {"keep", [](O& o) { return quire_stream_writer_keep(o.c_writer, 1); },
       [](O& o) { quire_stream_writer_release(o.c_writer, 1); }},
      {"release", [](O& o) { return quire_stream_writer_release(o.c_writer, 1); },
       [](O& o) { quire_stream_writer_keep(o.c_writer, 1); }},
      {"collect", [](O& o) { return quire_stream_writer_collect(o.c_writer); }},
      {"tracking",
       [](O& o) {
         char* text = nullptr;
         const int code = quire_stream_writer_tracking(o.c_writer, kKey, kKeyBytes, &text);
         return Freed(code, text);
       }},
      {"last_snapshot",
       [](O& o) { return quire_stream_writer_last_snapshot(o.c_writer, &number); }},
      {"durability",
       [](O& o) {
         int survives = 0;
         return quire_stream_writer_durability(o.c_writer, &survives);
       }},
      {"statistic",
       [](O& o) { return quire_stream_writer_statistic(o.c_writer, "commits", &number); }},
      {"statistics",
       [](O& o) {
         char* text = nullptr;
         const int code = quire_stream_writer_statistics(o.c_writer, &text);
         return Freed(code, text);
       }},
      {"finish", [](O& o) { return quire_stream_writer_finish(o.c_writer); }, reopen},
  };
}

std::vector<CStreamRow> CStreamReaderRows() {
  static int finished = 0;
  return {
      {"objects",
       [](O& o) {
         quire_bytes* keys = nullptr;
         const int code = quire_stream_reader_objects(o.c_reader, &keys, &size);
         return Freed(code, keys);
       }},
      {"versions",
       [](O& o) {
         quire_stream_version* versions = nullptr;
         const int code =
             quire_stream_reader_versions(o.c_reader, kKey, kKeyBytes, &versions, &size);
         return Freed(code, versions);
       }},
      {"last_snapshot",
       [](O& o) { return quire_stream_reader_last_snapshot(o.c_reader, &number); }},
      {"get",
       [](O& o) {
         memory = nullptr;
         const int code =
             quire_stream_reader_get(o.c_reader, kKey, kKeyBytes, 0, &memory, &size);
         return Freed(code, memory);
       }},
      {"get_at",
       [](O& o) {
         memory = nullptr;
         const int code =
             quire_stream_reader_get_at(o.c_reader, kKey, kKeyBytes, 1, &memory, &size);
         return Freed(code, memory);
       }},
      {"get_into",
       [](O& o) {
         size = sizeof buffer;
         return quire_stream_reader_get_into(o.c_reader, kKey, kKeyBytes, 0, buffer, &size);
       }},
      {"get_at_into",
       [](O& o) {
         size = sizeof buffer;
         return quire_stream_reader_get_at_into(o.c_reader, kKey, kKeyBytes, 1, buffer, &size);
       }},
      {"view",
       [](O& o) {
         quire_stream_view* view = nullptr;
         return Released(quire_stream_reader_view(o.c_reader, kKey, kKeyBytes, 0, &view), &view);
       }},
      {"view_at",
       [](O& o) {
         quire_stream_view* view = nullptr;
         return Released(quire_stream_reader_view_at(o.c_reader, kKey, kKeyBytes, 1, &view), &view);
       }},
      {"wait", [](O& o) { return quire_stream_reader_wait(o.c_reader, 0, 0, &number); }},
      {"finished", [](O& o) { return quire_stream_reader_finished(o.c_reader, &finished); }},
  };
}

std::vector<CStreamRow> CDatasetWriterRows() {
  const auto open = [](O& o) { o.OpenCSet(); };
  const auto begin = [](O& o) { o.BeginCEpoch(); };
  return {
      {"begin_epoch", [](O& o) { return quire_dataset_writer_begin_epoch(o.set, 2); }, open},
      {"put", [](O& o) { return quire_dataset_writer_put(o.set, kKey, kKeyBytes, "v", 1); }, begin},
      {"end_epoch", [](O& o) { return quire_dataset_writer_end_epoch(o.set); }, begin},
      {"last_epoch", [](O& o) { return quire_dataset_writer_last_epoch(o.set, &number); }},
      {"statistic",
       [](O& o) { return quire_dataset_writer_statistic(o.set, "pairs", &number); }},
      {"statistics",
       [](O& o) {
         char* text = nullptr;
         const int code = quire_dataset_writer_statistics(o.set, &text);
         return Freed(code, text);
       }},
      {"finish", [](O& o) { return quire_dataset_writer_finish(o.set); }, open},
  };
}

std::vector<CStreamRow> CDatasetReaderRows() {
  static quire_dataset_values* values = nullptr;
  return {
      {"refresh", [](O& o) { return quire_dataset_reader_refresh(o.set_reader); }},
      {"get",
       [](O& o) {
         return Destroyed(quire_dataset_reader_get(o.set_reader, 1, kKey, kKeyBytes, &values),
                          &values);
       }},
      {"get_many",
       [](O& o) {
         const int code =
             quire_dataset_reader_get_many(o.set_reader, 1, 1, kKeys, kSizes, &values);
         return Destroyed(code, &values);
       }},
      {"trajectory",
       [](O& o) {
         const int code =
             quire_dataset_reader_trajectory(o.set_reader, kKey, kKeyBytes, &values);
         return Destroyed(code, &values);
       }},
      {"verify", [](O& o) { return quire_dataset_reader_verify(o.set_reader, 1); }},
      {"epochs",
       [](O& o) {
         quire_dataset_epoch* epochs = nullptr;
         const int code = quire_dataset_reader_epochs(o.set_reader, &epochs, &size);
         return Freed(code, epochs);
       }},
      {"statistic",
       [](O& o) { return quire_dataset_reader_statistic(o.set_reader, "queries", &number); }},
      {"statistics",
       [](O& o) {
         char* text = nullptr;
         const int code = quire_dataset_reader_statistics(o.set_reader, &text);
         return Freed(code, text);
       }},
  };
}

std::vector<CStreamRow> CScanRows() {
  const auto rescan = [](O& o) {
    quire_dataset_scan_destroy(o.scan);
    o.scan = nullptr;
    Must(quire_dataset_scan_create(o.set_reader, 1, 0, 1, &o.scan) == QUIRE_OK);
  };
  return {
      {"create",
       [](O& o) {
         quire_dataset_scan* scan = nullptr;
         const int code = quire_dataset_scan_create(o.set_reader, 1, 0, 1, &scan);
         if (code == QUIRE_OK) quire_dataset_scan_destroy(scan);
         return code;
       }},
      {"status", [](O& o) { return quire_dataset_scan_status(o.scan); }},
      {"pair",
       [](O& o) {
         uint32_t rank = 0;
         quire_bytes key = {nullptr, 0};
         quire_bytes value = {nullptr, 0};
         return quire_dataset_scan_pair(o.scan, &rank, &key, &value);
       },
       rescan},
      {"next", [](O& o) { return quire_dataset_scan_next(o.scan); }, rescan},
  };
}

namespace {

int FirstInC(const void*, size_t, int, void*) {
  return 0;
}

// A call with options of its own.
template <typename Call>
int WithOptions(const Call& call) {
  quire_options* own = nullptr;
  int code = quire_options_create(&own);
  if (code == QUIRE_OK) code = call(own);
  quire_options_destroy(own);
  return code;
}

int FirstValueInC(O& o) {
  quire_dataset_values* values = nullptr;
  int code = quire_dataset_reader_get(o.set_reader, 1, kKey, kKeyBytes, &values);
  if (code != QUIRE_OK) return code;
  uint32_t rank = 0;
  quire_bytes value = {nullptr, 0};
  code = quire_dataset_values_at(values, 0, &number, &rank, &value);
  quire_dataset_values_destroy(values);
  return code;
}

}  // namespace

std::vector<CStreamRow> CDatasetOtherRows() {
  return {
      {"quire_options_set_dataset_partitioner",
       [](O&) {
         return WithOptions([](quire_options* own) {
           return quire_options_set_dataset_partitioner(own, "the first", FirstInC, nullptr);
         });
       }},
      {"quire_options_set_dataset_first_match",
       [](O&) {
         return WithOptions(
             [](quire_options* own) { return quire_options_set_dataset_first_match(own, 1); });
       }},
      {"quire_dataset_values_at", FirstValueInC},
  };
}

namespace {

int OpenStreamReaderInC(O& o, bool local) {
  quire_stream_reader* reader = nullptr;
  const char* const place = o.c_place.c_str();
  const int code = local ? quire_stream_reader_open_local(place, "store", 0, &reader)
                         : quire_stream_reader_open(place, "store", 0, nullptr, &reader);
  if (code == QUIRE_OK) quire_stream_reader_destroy(reader);
  return code;
}

int OpenStreamWriterInC(O& o) {
  quire_stream_writer* writer = nullptr;
  const int code =
      quire_stream_writer_open(o.c_place.c_str(), "another", 0, o.options, &writer);
  if (code == QUIRE_OK) quire_stream_writer_destroy(writer);
  return code;
}

int OpenDatasetWriterInC(O& o) {
  quire_dataset_writer* writer = nullptr;
  const int code = quire_dataset_writer_open(o.context, "another", nullptr, &writer);
  if (code == QUIRE_OK) quire_dataset_writer_destroy(writer);
  return code;
}

int OpenDatasetReaderInC(O& o) {
  quire_dataset_reader* reader = nullptr;
  const int code = quire_dataset_reader_open(o.set_directory.c_str(), nullptr, &reader);
  if (code == QUIRE_OK) quire_dataset_reader_destroy(reader);
  return code;
}

}  // namespace

std::vector<CStreamRow> CStreamDoorRows() {
  return {
      {"quire_stream_writer_open", OpenStreamWriterInC},
      {"quire_stream_reader_open", [](O& o) { return OpenStreamReaderInC(o, false); }},
      {"quire_stream_reader_open_local", [](O& o) { return OpenStreamReaderInC(o, true); }},
      {"quire_stream_ranks",
       [](O& o) {
         uint32_t* ranks = nullptr;
         const int code = quire_stream_ranks(o.c_place.c_str(), "store", &ranks, &size);
         return Freed(code, ranks);
       }},
      {"quire_stream_stores",
       [](O& o) {
         quire_bytes* names = nullptr;
         const int code = quire_stream_stores(o.c_place.c_str(), &names, &size);
         return Freed(code, names);
       }},
      {"quire_dataset_writer_open", OpenDatasetWriterInC},
      {"quire_dataset_reader_open", OpenDatasetReaderInC},
  };
}

}  // namespace quire::test
