#include <gtest/gtest.h>

#include "tests/api/database_calls.h"

namespace quire::test {
namespace {

constexpr uint32_t kUpdate = 7;

int KeepInC(quire_bytes, const quire_bytes*, quire_bytes, quire_value*, void*) {
  return QUIRE_NOT_FOUND;
}
int KeepAnsweringInC(quire_bytes, const quire_bytes*, quire_bytes, quire_value*, quire_value*,
                     void*) {
  return QUIRE_NOT_FOUND;
}

int FirstInC(const void*, size_t, int, void*) { return 0; }
void DropInC(int, const char*, void*) {}

// Calls that return a value, which is the caller's if they succeed.
template <typename Call>
int Given(const Call& call) {
  void* value = nullptr;
  size_t size = 0;
  const int code = call(&value, &size);
  if (code == QUIRE_OK) quire_free(value);
  return code;
}

// Calls that return a text, which is the caller's if they succeed.
template <typename Call>
int GivenText(const Call& call) {
  char* text = nullptr;
  const int code = call(&text);
  if (code == QUIRE_OK) quire_free(text);
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

void SaveAndCloseInC(CDatabaseObjects& o) {
  if (quire_db_fence(o.db) == QUIRE_INVALID_ARGUMENT) return;  // it was closed
  EXPECT_EQ(CheckpointInC(o), QUIRE_OK);
  quire_iter_destroy(o.iter);
  o.iter = nullptr;
  EXPECT_EQ(quire_db_close(o.db), QUIRE_OK);
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
  EXPECT_EQ(quire_db_checkpoint(db, checkpoints.c_str(), 0, &saved), QUIRE_OK);
  EXPECT_EQ(quire_batch_create(&batch), QUIRE_OK);
  EXPECT_EQ(quire_batch_put(batch, "k", 1, "v", 1), QUIRE_OK);
}

void CDatabaseObjects::Close() {
  quire_iter_destroy(iter);
  quire_batch_destroy(batch);
  quire_event_destroy(saved);
  EXPECT_EQ(quire_context_close(context), QUIRE_OK);
  iter = nullptr;
  saved = nullptr;
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
      {"owner",
       [](C& o) {
         int owner = -1;
         return quire_db_owner(o.db, "key", 3, &owner);
       }},
      {"statistic",
       [](C& o) {
         uint64_t value = 0;
         return quire_db_statistic(o.db, "puts.local", &value);
       }},
      {"statistics",
       [](C& o) {
         return GivenText([&](char** text) { return quire_db_statistics(o.db, text); });
       }},
      {"checkpoint", CheckpointInC, InsertInC},
      {"close", [](C& o) { return quire_db_close(o.db); }, [](C& o) { o.Reopen(); }},
  };
}

std::vector<CDatabaseRow> CDoorRows() {
  return {{"quire_context_open", OpenContextInC}, {"quire_reader_open", OpenReaderInC}};
}

namespace {

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
      {"quire_context_restart",
       [](C& o) {
         return Waited([&](quire_event** event) {
           return quire_context_restart(o.context, o.checkpoints.c_str(), "db", 0,
                                        QUIRE_RESTART_REPLACE, event);
         });
       },
       SaveAndCloseInC},
      {"quire_event_wait", [](C& o) { return quire_event_wait(o.saved); }},
      {"quire_event_progress",
       [](C& o) {
         uint64_t done = 0;
         uint64_t total = 0;
         return quire_event_progress(o.saved, &done, &total);
       }},
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
      {"quire_iter_status", [](C& o) { return quire_iter_status(o.iter); }},
      {"quire_iter_key",
       [](C& o) {
         const void* key = nullptr;
         size_t size = 0;
         return quire_iter_key(o.iter, &key, &size);
       },
       at_the_pair},
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
      {"quire_options_set_partitioner",
       [](C&) {
         return WithOptions([](quire_options* options) {
           return quire_options_set_partitioner(options, "the first", FirstInC, nullptr);
         });
       }},
      {"quire_set_log",
       [](C&) {
         const int set = quire_set_log(DropInC, nullptr);
         const int unset = quire_set_log(nullptr, nullptr);
         return set != QUIRE_OK ? set : unset;
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
