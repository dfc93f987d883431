#include "tests/api/database_calls.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "quire/log.h"
#include "quire/option_table.h"
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

// Returns a Status for the result of a call that has none.
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

std::vector<DatabaseRow> LibraryRows() {
  return {
      {"SetLogSink",
       [](O&) {
         SetLogSink([](LogLevel, const std::string&) {});
         SetLogSink({});
         return Status();
       }},
      {"OptionTable::Rows",
       [](O&) { return Found(Status(), OptionTable::Rows()[0].type == "number"); }},
      {"OptionTable::Set",
       [](O&) {
         DatabaseOptions options;
         const Status status = OptionTable::Set("memtable_bytes", "16MiB", &options);
         return Found(status, options.storage.memtable_bytes == 16 << 20);
       }},
      {"OptionTable::SetFromText",
       [](O&) {
         StreamOptions options;
         const Status status = OptionTable::SetFromText("stream_log_bytes=2MiB", &options);
         return Found(status, options.log_bytes == 2 << 20);
       }},
      {"OptionTable::Get",
       [](O&) {
         const auto value = OptionTable::Get("timeout_ms", ContextOptions());
         return Found(value.status(), value.ok() && !value->empty());
       }},
      {"OptionTable::ApplyEnvironment",
       [](O&) {
         DatasetOptions options;
         return OptionTable::ApplyEnvironment(&options);
       }},
      {"OptionTable::Check", [](O&) { return OptionTable::Check(DatabaseOptions()); }},
      {"OptionTable::Explain",
       [](O&) {
         const std::string text =
             OptionTable::Explain(ContextOptions(), DatabaseOptions(), DatasetOptions());
         return Found(Status(), text.find("memtable_bytes") != std::string::npos);
       }},
  };
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

}  // namespace quire::test
