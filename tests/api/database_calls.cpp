#include "tests/api/database_calls.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "quire/stream.h"
#include "tests/support/status_asserts.h"

namespace quire::test {
namespace {

using O = DatabaseObjects;

constexpr uint32_t kUpdate = 7;

void Must(const Status& status) {
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  ASSERT_OK(status);
}

Status Keep(Slice, const Slice*, Slice, std::string*) {
  return Status(Code::kNotFound);
}
Status KeepAnswering(Slice, const Slice*, Slice, std::string*, std::string*) {
  return Status(Code::kNotFound);
}

// What a call without a Status must be, told as one.
Status Is(bool right) {
  return right ? Status(Code::kInvalidArgument, "forked") : Status();
}

// The outcome of a call that must have found the pair that is there.
Status Found(const Status& status, bool right) {
  return status.ok() && !right ? Status(Code::kCorruption, "another value") : status;
}

Status Waited(const Result<std::unique_ptr<Event>>& event) {
  return event.ok() ? (*event)->Wait() : event.status();
}

Status Restart(O& o, bool in_place) {
  RestartOptions options;
  options.replace = true;
  options.in_place = in_place;
  return Waited(o.context->Restart(o.home + "/checkpoints", "db", options));
}

Status GetMany(O& o) {
  std::vector<std::string> values;
  std::vector<bool> found;
  const Status status = o.database->GetMany({"key"}, &values, &found);
  return Found(status, status.ok() && found[0] && values[0] == "value");
}

Status WriteBatch(O& o) {
  Batch batch;
  batch.Put("k", "v");
  return o.database->Write(batch);
}

void Remove(O& o) {
  Must(o.database->Delete("k"));
}
void Insert(O& o) {
  Must(o.database->Put("k", "v"));
}

// Each rank has put one.
bool IsTheValue(const std::vector<DatasetValue>& values) {
  const auto right = [](const DatasetValue& value) { return value.value == "value"; };
  return !values.empty() && std::all_of(values.begin(), values.end(), right);
}

// A small log: a store's is allocated as a whole.
StreamOptions SmallStream() {
  StreamOptions options;
  options.log_bytes = 1 << 20;
  return options;
}

std::vector<DatabaseRow> ContextRows() {
  const auto close = [](O& o) { o.CloseDatabase(); };
  const auto make_second = [](O& o) { o.MakeSecond(); };
  return {
      {"Context::Open", [](O& o) { return o.context->Open("db2", {}).status(); }},
      {"Context::Destroy", [](O& o) { return o.context->Destroy("db2"); }, make_second},
      {"Context::DestroyAsync", [](O& o) { return Waited(o.context->DestroyAsync("db2")); },
       make_second},
      {"Context::Restart", [](O& o) { return Restart(o, false); }, close},
      {"Context::Restart in place", [](O& o) { return Restart(o, true); }, close},
      {"Context::ListDatabases",
       [](O& o) {
         const auto names = o.context->ListDatabases();
         return Found(names.status(), names.ok() && !names->empty());
       }},
      {"Context::Agree", [](O& o) { return o.context->Agree(Status()); }},
      {"Context::Barrier", [](O& o) { return o.context->Barrier(); }},
      {"Context::Notify", [](O& o) { return o.context->Notify(1, {o.context->rank()}); }},
      {"Context::WaitSignal", [](O& o) { return o.context->WaitSignal(1, {o.context->rank()}); },
       [](O& o) { Must(o.context->Notify(1, {o.context->rank()})); }},
      {"Context::Progress",
       [](O& o) {
         o.context->Progress();
         return Is(true);
       }},
  };
}

}  // namespace

DatabaseObjects::DatabaseObjects(const std::string& directory)
    : DatabaseObjects(directory, *Context::OpenSerial(directory + "/repository", {})) {}

DatabaseObjects::DatabaseObjects(const std::string& directory, std::unique_ptr<Context> of)
    : home(directory), context(std::move(of)) {
  OpenDatabase();
  Must(database->Put("key", "value"));
  std::string own = "own";  // where its iterators are
  while (database->Owner(own) != context->rank()) own += "n";
  Must(database->Put(own, "value"));
  checkpoint = *database->Checkpoint(directory + "/checkpoints", {});
  Must(checkpoint->Wait());
  pending = database->GetAsync("key");
  iterator = database->NewLocalIterator();
  iterator->SeekToFirst();
  OpenDatasetWriter();
  Must(writer->BeginEpoch(1));
  Must(writer->Put("key", "value"));
  Must(writer->EndEpoch());
  reader = *DatabaseReader::Open(directory + "/checkpoints/db/1", {});
  walk = reader->NewIterator();
  dataset = *DatasetReader::Open(directory + "/repository/set", {});
  scan = dataset->Scan(1);
}

void DatabaseObjects::OpenDatabase() {
  database.reset();
  database = *context->Open("db", {});
  Must(database->RegisterUpdate(kUpdate, Keep));
}

void DatabaseObjects::OpenDatasetWriter() {
  writer.reset();
  DatasetOptions options;
  options.table_bytes = 1 << 20;
  options.partition_bytes = 1 << 20;
  writer = *DatasetWriter::Open(*context, "set", options);
}

void DatabaseObjects::BeginEpoch() {
  OpenDatasetWriter();
  Must(writer->BeginEpoch(writer->LastEpoch().value_or(0) + 1));
  Must(writer->Put("key", "value"));
}

void DatabaseObjects::WalkFromTheFirst() {
  iterator = database->NewLocalIterator();
  iterator->SeekToFirst();
  walk = reader->NewIterator();
  walk->SeekToFirst();
}

void DatabaseObjects::CloseDatabase() {
  if (database == nullptr) return;
  pending.reset();
  iterator.reset();
  Must(database->Close());
  database.reset();
}

void DatabaseObjects::MakeSecond() {
  const auto second = context->Open("db2", {});
  Must(second.status());
  Must((*second)->Close());
}

void DatabaseObjects::MakeStore() {
  const auto store = StreamWriter::Open(home + "/place", "store", 0, SmallStream());
  Must(store.status());
}

std::string DatabaseObjects::State() {
  std::string value;
  if (database == nullptr) return "closed";
  const Status status = database->Get("k", &value);
  return status.ok() ? value : CodeName(status.code());
}

void DatabaseObjects::ExpectAllThere(const std::string& directory) {
  const auto again = Context::OpenSerial(directory + "/repository", {});
  ASSERT_OK(again.status());
  DatabaseOptions options;
  options.mode = OpenMode::kMustExist;
  const auto db = (*again)->Open("db", options);
  ASSERT_OK(db.status());
  std::string value;
  ASSERT_OK((*db)->Get("key", &value));
  EXPECT_EQ(value, "value");
  ASSERT_OK((*db)->Close());
  const auto set = DatasetReader::Open(directory + "/repository/set", {});
  ASSERT_OK(set.status());
  std::vector<DatasetValue> values;
  ASSERT_OK((*set)->Get(1, "key", &values));
  EXPECT_TRUE(IsTheValue(values));
}

std::vector<DatabaseRow> DatabaseRows() {
  return {
      {"Put", [](O& o) { return o.database->Put("k", "v"); }, Remove},
      {"Delete", [](O& o) { return o.database->Delete("k"); }, Insert},
      {"Get",
       [](O& o) {
         std::string value;
         const Status status = o.database->Get("key", &value);
         return Found(status, value == "value");
       }},
      {"GetAsync",
       [](O& o) {
         const Result<std::string> value = o.database->GetAsync("key")->Take();
         return Found(value.status(), value.ok() && *value == "value");
       }},
      {"PutMany", [](O& o) { return o.database->PutMany({{"k", "v"}}); }, Remove},
      {"DeleteMany", [](O& o) { return o.database->DeleteMany({"k"}); }, Insert},
      {"GetMany", GetMany},
      {"Write", WriteBatch, Remove},
      {"RegisterUpdate", [](O& o) { return o.database->RegisterUpdate(kUpdate, Keep); }},
      {"RegisterAnsweringUpdate",
       [](O& o) { return o.database->RegisterAnsweringUpdate(kUpdate, KeepAnswering); }},
      {"Update", [](O& o) { return o.database->Update("k", kUpdate, ""); }},
      {"UpdateAndAnswer",
       [](O& o) {
         std::string answer;
         return o.database->UpdateAndAnswer("k", kUpdate, "", &answer);
       }},
      {"Fence", [](O& o) { return o.database->Fence(); }},
      {"Flush", [](O& o) { return o.database->Flush(); }, Insert},
      {"Barrier", [](O& o) { return o.database->Barrier(Level::kSsTable); }, Insert},
      {"SetConsistency", [](O& o) { return o.database->SetConsistency(Consistency::kRelaxed); }},
      {"Protect", [](O& o) { return o.database->Protect(Protection::kReadWrite); }},
      {"Checkpoint",
       [](O& o) { return Waited(o.database->Checkpoint(o.home + "/checkpoints", {})); }, Insert},
      {"NewLocalIterator", [](O& o) { return o.database->NewLocalIterator()->status(); }},
      {"Compact", [](O& o) { return o.database->Compact(); },
       [](O& o) {
         Insert(o);
         Must(o.database->Flush());
       }},
      {"Close", [](O& o) { return o.database->Close(); },
       [](O& o) {
         o.pending.reset();
         o.iterator.reset();
         o.OpenDatabase();
         Insert(o);
       }},
  };
}

std::vector<DatabaseRow> HeldRows() {
  const auto walk = [](O& o) { o.WalkFromTheFirst(); };
  const auto get = [](O& o) { o.pending = o.database->GetAsync("key"); };
  return {
      {"Database::GetStatistics", [](O& o) { return Is(o.database->GetStatistics().empty()); }},
      {"Event::Ready", [](O& o) { return Is(o.checkpoint->Ready()); }},
      {"Event::Wait", [](O& o) { return o.checkpoint->Wait(); }},
      {"Event::Progress", [](O& o) { return Is(o.checkpoint->Progress().bytes_done == 0); }},
      {"PendingGet::Ready", [](O& o) { return Is(o.pending->Ready()); }, get},
      {"PendingGet::Take", [](O& o) { return o.pending->Take().status(); }, get},
      {"LocalIterator::SeekToFirst",
       [](O& o) {
         o.iterator->SeekToFirst();
         return o.iterator->status();
       },
       walk},
      {"LocalIterator::SeekToLast",
       [](O& o) {
         o.walk->SeekToLast();
         return o.walk->status();
       },
       walk},
      {"LocalIterator::Seek",
       [](O& o) {
         o.walk->Seek("k");
         return o.walk->status();
       },
       walk},
      {"LocalIterator::Valid", [](O& o) { return Is(!o.iterator->Valid() && !o.walk->Valid()); },
       walk},
      {"LocalIterator::Next",
       [](O& o) {
         o.iterator->Next();
         o.walk->Next();
         return o.walk->status();
       },
       walk},
      {"LocalIterator::Prev",
       [](O& o) {
         o.iterator->Prev();
         o.walk->Prev();
         return o.walk->status();
       },
       walk},
      {"LocalIterator::value", [](O& o) { return Is(o.iterator->value().empty()); }, walk},
      {"LocalIterator::status", [](O& o) { return o.iterator->status(); }, walk},
      {"DatabaseReader::Get",
       [](O& o) {
         std::string value;
         const Status status = o.reader->Get("key", &value);
         return Found(status, value == "value");
       }},
      {"DatabaseReader::NewIterator", [](O& o) { return o.reader->NewIterator()->status(); }},
      {"DatabaseReader::Refresh", [](O& o) { return o.reader->Refresh(); }},
  };
}

std::vector<DatabaseRow> DatasetRows() {
  const auto open = [](O& o) { o.OpenDatasetWriter(); };
  const auto begin = [](O& o) { o.BeginEpoch(); };
  const auto rescan = [](O& o) { o.scan = o.dataset->Scan(1); };
  return {
      {"DatasetWriter::Open",
       [](O& o) { return DatasetWriter::Open(*o.context, "set2").status(); }},
      {"DatasetWriter::BeginEpoch", [](O& o) { return o.writer->BeginEpoch(2); }, open},
      {"DatasetWriter::Put", [](O& o) { return o.writer->Put("k", "v"); }, begin},
      {"DatasetWriter::EndEpoch", [](O& o) { return o.writer->EndEpoch(); }, begin},
      {"DatasetWriter::Finish", [](O& o) { return o.writer->Finish(); }, open},
      {"DatasetWriter::Statistics", [](O& o) { return Is(o.writer->Statistics().pairs == 0); }},
      {"DatasetReader::Epochs", [](O& o) { return Is(o.dataset->Epochs().empty()); }},
      {"DatasetReader::Get",
       [](O& o) {
         std::vector<DatasetValue> values;
         const Status status = o.dataset->Get(1, "key", &values);
         return Found(status, IsTheValue(values));
       }},
      {"DatasetReader::GetTrajectory",
       [](O& o) {
         std::vector<DatasetValue> values;
         const Status status = o.dataset->GetTrajectory("key", &values);
         return Found(status, IsTheValue(values));
       }},
      {"DatasetReader::GetMany",
       [](O& o) {
         std::vector<std::vector<DatasetValue>> values;
         const Status status = o.dataset->GetMany(1, {"key"}, &values);
         return Found(status, values.size() == 1 && IsTheValue(values[0]));
       }},
      {"DatasetReader::Scan",
       [](O& o) {
         const auto scan = o.dataset->Scan(1);
         return Found(scan->status(), scan->Valid());
       }},
      {"DatasetReader::Verify", [](O& o) { return o.dataset->Verify(1); }},
      {"DatasetReader::Refresh", [](O& o) { return o.dataset->Refresh(); }},
      {"DatasetReader::Statistics",
       [](O& o) { return Is(o.dataset->Statistics().queries == 0); }},
      {"DatasetScan::Valid", [](O& o) { return Is(!o.scan->Valid()); }},
      {"DatasetScan::Next",
       [](O& o) {
         o.scan->Next();
         return o.scan->status();
       },
       rescan},
      {"DatasetScan::status", [](O& o) { return o.scan->status(); }},
  };
}

std::vector<DatabaseRow> AllRows() {
  std::vector<DatabaseRow> all = ContextRows();
  for (DatabaseRow& row : DatabaseRows()) {
    row.call = "Database::" + row.call;
    all.push_back(row);
  }
  for (const DatabaseRow& row : HeldRows()) all.push_back(row);
  for (const DatabaseRow& row : DatasetRows()) all.push_back(row);
  return all;
}

std::vector<DatabaseRow> DoorRows() {
  const auto make_store = [](O& o) { o.MakeStore(); };
  return {
      {"Context::OpenSerial",
       [](O& o) { return Context::OpenSerial(o.home + "/other", {}).status(); }},
      {"DatabaseReader::Open",
       [](O& o) { return DatabaseReader::Open(o.home + "/checkpoints/db/1", {}).status(); }},
      {"DatasetReader::Open",
       [](O& o) { return DatasetReader::Open(o.home + "/repository/set", {}).status(); }},
      {"StreamWriter::Open",
       [](O& o) {
         return StreamWriter::Open(o.home + "/place", "store", 0, SmallStream()).status();
       }},
      {"StreamReader::Open",
       [](O& o) { return StreamReader::Open(o.home + "/place", "store", 0).status(); },
       make_store},
      {"StreamStores", [](O& o) { return StreamStores(o.home + "/place").status(); }, make_store},
      {"StreamRanks", [](O& o) { return StreamRanks(o.home + "/place", "store").status(); },
       make_store},
  };
}

// ---- C ----

namespace {

int KeepInC(quire_bytes, const quire_bytes*, quire_bytes, quire_value*, void*) {
  return QUIRE_NOT_FOUND;
}
int KeepAnsweringInC(quire_bytes, const quire_bytes*, quire_bytes, quire_value*, quire_value*,
                     void*) {
  return QUIRE_NOT_FOUND;
}

// Calls that return a value, which is the caller's if they succeed.
template <typename Call>
int Given(const Call& call) {
  void* value = nullptr;
  size_t size = 0;
  const int code = call(&value, &size);
  if (code == QUIRE_OK) quire_free(value);
  return code;
}

int TakeInC(CDatabaseObjects& o) {
  quire_pending* pending = nullptr;
  const int made = quire_db_get_async(o.db, "key", 3, &pending);
  if (made != QUIRE_OK) return made;
  return Given([&](void** value, size_t* size) {
    return quire_pending_take(pending, value, size);
  });
}

int CheckpointInC(CDatabaseObjects& o) {
  quire_event* event = nullptr;
  const int begun = quire_db_checkpoint(o.db, o.checkpoints.c_str(), 0, &event);
  if (begun != QUIRE_OK) return begun;
  const int code = quire_event_wait(event);
  quire_event_destroy(event);
  return code;
}

// A pair where the rank's iterators are.
int PutOwnInC(quire_db* db, int rank) {
  std::string own = "own";
  int owner = -1;
  while (true) {
    const int code = quire_db_owner(db, own.data(), own.size(), &owner);
    if (code != QUIRE_OK) return code;
    if (owner == rank) return quire_db_put(db, own.data(), own.size(), "value", 5);
    own += "n";
  }
}

quire_context* OpenSerialInC(const std::string& repository) {
  quire_context* opened = nullptr;
  EXPECT_EQ(quire_context_open(repository.c_str(), nullptr, &opened), QUIRE_OK);
  return opened;
}

int OpenContextInC(CDatabaseObjects& o) {
  quire_context* other = nullptr;
  const int code = quire_context_open(o.other.c_str(), nullptr, &other);
  return code != QUIRE_OK ? code : quire_context_close(other);
}

int OpenReaderInC(CDatabaseObjects& o) {
  quire_reader* reader = nullptr;
  const int code = quire_reader_open(o.directory.c_str(), nullptr, &reader);
  if (code == QUIRE_OK) quire_reader_destroy(reader);
  return code;
}

void RemoveInC(CDatabaseObjects& o) {
  EXPECT_EQ(quire_db_delete(o.db, "k", 1), QUIRE_OK);
}
void InsertInC(CDatabaseObjects& o) {
  EXPECT_EQ(quire_db_put(o.db, "k", 1, "v", 1), QUIRE_OK);
}

}  // namespace

CDatabaseObjects::CDatabaseObjects(const std::string& at)
    : CDatabaseObjects(at, OpenSerialInC(at + "/repository")) {}

CDatabaseObjects::CDatabaseObjects(const std::string& at, quire_context* of)
    : home(at),
      checkpoints(at + "/checkpoints"),
      other(at + "/other"),
      directory(home + "/repository/db"),
      context(of) {
  EXPECT_EQ(quire_db_open(context, "db", nullptr, &db), QUIRE_OK);
  EXPECT_EQ(quire_db_register_update(db, kUpdate, KeepInC, nullptr), QUIRE_OK);
  EXPECT_EQ(quire_db_put(db, "key", 3, "value", 5), QUIRE_OK);
  EXPECT_EQ(PutOwnInC(db, quire_context_rank(context)), QUIRE_OK);
  EXPECT_EQ(quire_iter_create(db, &iter), QUIRE_OK);
  EXPECT_EQ(quire_batch_create(&batch), QUIRE_OK);
  EXPECT_EQ(quire_batch_put(batch, "k", 1, "v", 1), QUIRE_OK);
}

void CDatabaseObjects::Close() {
  quire_iter_destroy(iter);
  quire_batch_destroy(batch);
  EXPECT_EQ(quire_context_close(context), QUIRE_OK);
  iter = nullptr;
  batch = nullptr;
  context = nullptr;
}

void CDatabaseObjects::Reopen() {
  quire_iter_destroy(iter);
  iter = nullptr;
  quire_db_close(db);
  EXPECT_EQ(quire_db_open(context, "db", nullptr, &db), QUIRE_OK);
}

std::string CDatabaseObjects::State() const {
  char buffer[8];
  size_t size = 0;
  const int code = quire_db_get_into(db, "k", 1, buffer, sizeof buffer, &size);
  return code == QUIRE_OK ? std::string(buffer, size) : quire_code_name(code);
}

void CDatabaseObjects::ExpectAllThere(const std::string& directory) {
  quire_context* again = nullptr;
  quire_db* opened = nullptr;
  char buffer[8] = {};
  size_t size = 0;
  ASSERT_EQ(quire_context_open((directory + "/repository").c_str(), nullptr, &again), QUIRE_OK);
  ASSERT_EQ(quire_db_open(again, "db", nullptr, &opened), QUIRE_OK);
  EXPECT_EQ(quire_db_get_into(opened, "key", 3, buffer, sizeof buffer, &size), QUIRE_OK);
  EXPECT_EQ(std::string(buffer, size), "value");
  EXPECT_EQ(quire_context_close(again), QUIRE_OK);
}

std::vector<CDatabaseRow> CDatabaseRows() {
  using C = CDatabaseObjects;
  static const void* const keys[] = {"k"};
  static const size_t sizes[] = {1};
  return {
      {"put", [](C& o) { return quire_db_put(o.db, "k", 1, "v", 1); }, RemoveInC},
      {"delete", [](C& o) { return quire_db_delete(o.db, "k", 1); }, InsertInC},
      {"get",
       [](C& o) {
         return Given([&](void** value, size_t* size) {
           return quire_db_get(o.db, "key", 3, value, size);
         });
       }},
      {"get_into",
       [](C& o) {
         char buffer[16];
         size_t size = 0;
         return quire_db_get_into(o.db, "key", 3, buffer, sizeof buffer, &size);
       }},
      {"get_async", TakeInC},
      {"put_many", [](C& o) { return quire_db_put_many(o.db, 1, keys, sizes, keys, sizes); },
       RemoveInC},
      {"delete_many", [](C& o) { return quire_db_delete_many(o.db, 1, keys, sizes); }, InsertInC},
      {"get_many",
       [](C& o) {
         return Given([&](void** value, size_t* size) {
           return quire_db_get_many(o.db, 1, keys, sizes, value, size);
         });
       },
       InsertInC},
      {"write", [](C& o) { return quire_db_write(o.db, o.batch); }, RemoveInC},
      {"register_update",
       [](C& o) { return quire_db_register_update(o.db, kUpdate, KeepInC, nullptr); }},
      {"update", [](C& o) { return quire_db_update(o.db, "k", 1, kUpdate, nullptr, 0); }},
      {"register_answering_update",
       [](C& o) {
         return quire_db_register_answering_update(o.db, kUpdate, KeepAnsweringInC, nullptr);
       }},
      {"update_and_answer",
       [](C& o) {
         return Given([&](void** value, size_t* size) {
           return quire_db_update_and_answer(o.db, {"k", 1}, kUpdate, {nullptr, 0}, value, size);
         });
       }},
      {"fence", [](C& o) { return quire_db_fence(o.db); }},
      {"flush", [](C& o) { return quire_db_flush(o.db); }, InsertInC},
      {"barrier", [](C& o) { return quire_db_barrier(o.db, QUIRE_SSTABLE); }, InsertInC},
      {"set_consistency", [](C& o) { return quire_db_set_consistency(o.db, QUIRE_RELAXED); }},
      {"protect", [](C& o) { return quire_db_protect(o.db, QUIRE_READ_WRITE); }},
      {"compact", [](C& o) { return quire_db_compact(o.db); }, InsertInC},
      {"checkpoint", CheckpointInC, InsertInC},
      {"close", [](C& o) { return quire_db_close(o.db); }, [](C& o) { o.Reopen(); }},
  };
}

std::vector<CDatabaseRow> CDoorRows() {
  return {{"quire_context_open", OpenContextInC}, {"quire_reader_open", OpenReaderInC}};
}

namespace {

// Calls that return a text, which is the caller's if they succeed.
template <typename Call>
int GivenText(const Call& call) {
  char* text = nullptr;
  const int code = call(&text);
  if (code == QUIRE_OK) quire_free(text);
  return code;
}

// A call with options, or with a reader, of its own.
template <typename Call>
int WithOptions(const Call& call) {
  quire_options* options = nullptr;
  const int made = quire_options_create(&options);
  if (made != QUIRE_OK) return made;
  const int code = call(options);
  quire_options_destroy(options);
  return code;
}
template <typename Call>
int WithReader(const CDatabaseObjects& o, const Call& call) {
  quire_reader* reader = nullptr;
  const int opened = quire_reader_open(o.directory.c_str(), nullptr, &reader);
  if (opened != QUIRE_OK) return opened;
  const int code = call(reader);
  quire_reader_destroy(reader);
  return code;
}
// A call that makes an iterator, which is moved.
template <typename Call>
int Walk(const Call& call) {
  quire_iter* iter = nullptr;
  int code = call(&iter);
  if (code != QUIRE_OK) return code;
  code = quire_iter_seek_to_first(iter);
  quire_iter_destroy(iter);
  return code;
}

int OpenSecondInC(CDatabaseObjects& o) {
  quire_db* second = nullptr;
  const int code = quire_db_open(o.context, "second", nullptr, &second);
  return code != QUIRE_OK ? code : quire_db_close(second);
}
void MakeSecondInC(CDatabaseObjects& o) { EXPECT_EQ(OpenSecondInC(o), QUIRE_OK); }

template <typename Call>
int Waited(const Call& call) {
  quire_event* event = nullptr;
  int code = call(&event);
  if (code != QUIRE_OK) return code;
  code = quire_event_wait(event);
  quire_event_destroy(event);
  return code;
}

std::vector<CDatabaseRow> CContextRows() {
  using C = CDatabaseObjects;
  const auto notify = [](C& o) {
    const int self = quire_context_rank(o.context);
    return quire_context_notify(o.context, 1, &self, 1);
  };
  return {
      {"quire_context_describe",
       [](C& o) {
         return GivenText([&](char** text) { return quire_context_describe(o.context, text); });
       }},
      {"quire_context_barrier", [](C& o) { return quire_context_barrier(o.context); }},
      {"quire_context_notify", notify},
      {"quire_context_wait_signal",
       [](C& o) {
         const int self = quire_context_rank(o.context);
         return quire_context_wait_signal(o.context, 1, &self, 1);
       },
       [notify](C& o) { EXPECT_EQ(notify(o), QUIRE_OK); }},
      {"quire_context_progress", [](C& o) { return quire_context_progress(o.context); }},
      {"quire_context_list_databases",
       [](C& o) {
         return GivenText([&](char** text) {
           return quire_context_list_databases(o.context, text);
         });
       }},
      {"quire_context_agree", [](C& o) { return quire_context_agree(o.context, 0, nullptr); }},
      {"quire_context_destroy_database",
       [](C& o) { return quire_context_destroy_database(o.context, "second"); }, MakeSecondInC},
      {"quire_context_destroy_database_async",
       [](C& o) {
         return Waited([&](quire_event** event) {
           return quire_context_destroy_database_async(o.context, "second", event);
         });
       },
       MakeSecondInC},
  };
}

std::vector<CDatabaseRow> CIteratorRows() {
  using C = CDatabaseObjects;
  const auto at_the_pair = [](C& o) { EXPECT_EQ(quire_iter_seek_to_first(o.iter), QUIRE_OK); };
  return {
      {"quire_iter_create",
       [](C& o) { return Walk([&](quire_iter** iter) { return quire_iter_create(o.db, iter); }); }},
      {"quire_iter_seek_to_first", [](C& o) { return quire_iter_seek_to_first(o.iter); }},
      {"quire_iter_seek_to_last", [](C& o) { return quire_iter_seek_to_last(o.iter); }},
      {"quire_iter_seek", [](C& o) { return quire_iter_seek(o.iter, "k", 1); }},
      {"quire_iter_next", [](C& o) { return quire_iter_next(o.iter); }, at_the_pair},
      {"quire_iter_prev", [](C& o) { return quire_iter_prev(o.iter); }, at_the_pair},
      {"quire_iter_value",
       [](C& o) {
         const void* value = nullptr;
         size_t size = 0;
         return quire_iter_value(o.iter, &value, &size);
       },
       at_the_pair},
  };
}

std::vector<CDatabaseRow> CReaderRows() {
  using C = CDatabaseObjects;
  const auto flush = [](C& o) { EXPECT_EQ(quire_db_barrier(o.db, QUIRE_SSTABLE), QUIRE_OK); };
  return {
      {"quire_reader_get",
       [](C& o) {
         return WithReader(o, [](quire_reader* reader) {
           return Given([&](void** value, size_t* size) {
             return quire_reader_get(reader, "key", 3, value, size);
           });
         });
       },
       flush},
      {"quire_reader_get_into",
       [](C& o) {
         return WithReader(o, [](quire_reader* reader) {
           char buffer[16];
           size_t size = 0;
           return quire_reader_get_into(reader, "key", 3, buffer, sizeof buffer, &size);
         });
       },
       flush},
      {"quire_reader_iter_create",
       [](C& o) {
         return WithReader(o, [](quire_reader* reader) {
           return Walk([&](quire_iter** iter) { return quire_reader_iter_create(reader, iter); });
         });
       },
       flush},
      {"quire_reader_refresh",
       [](C& o) {
         return WithReader(o, [](quire_reader* reader) { return quire_reader_refresh(reader); });
       },
       flush},
  };
}

std::vector<CDatabaseRow> COptionRows() {
  using C = CDatabaseObjects;
  return {
      {"quire_options_create", [](C&) { return WithOptions([](quire_options*) { return 0; }); }},
      {"quire_options_set",
       [](C&) {
         return WithOptions([](quire_options* options) {
           return quire_options_set(options, "memtable_bytes", "16MiB");
         });
       }},
      {"quire_options_get",
       [](C&) {
         return WithOptions([](quire_options* options) {
           return GivenText([&](char** text) {
             return quire_options_get(options, "memtable_bytes", text);
           });
         });
       }},
      {"quire_options_explain",
       [](C&) {
         return WithOptions([](quire_options* options) {
           return GivenText([&](char** text) { return quire_options_explain(options, text); });
         });
       }},
      {"quire_batch_create",
       [](C&) {
         quire_batch* batch = nullptr;
         const int code = quire_batch_create(&batch);
         quire_batch_destroy(batch);
         return code;
       }},
      {"quire_batch_put", [](C& o) { return quire_batch_put(o.batch, "k", 1, "v", 1); }},
      {"quire_batch_delete", [](C& o) { return quire_batch_delete(o.batch, "k", 1); }},
      {"quire_batch_clear", [](C& o) { return quire_batch_clear(o.batch); }},
  };
}

}  // namespace

std::vector<CDatabaseRow> CHeldRows() {
  std::vector<CDatabaseRow> all = CContextRows();
  all.push_back({"quire_db_open", OpenSecondInC});
  for (const auto& rows : {CIteratorRows(), CReaderRows(), COptionRows()}) {
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

}  // namespace quire::test
