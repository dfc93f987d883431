/* The C interface as a C99 program uses it: alone, on the ranks of MPI_COMM_WORLD, and on parts of
 * them. */
#include <mpi.h>
#include <pthread.h>
#include <quire/quire_dataset.h>
#include <quire/quire_mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;

#define CHECK(condition)                                                                \
  do {                                                                                  \
    if (!(condition)) {                                                                 \
      ++failures;                                                                       \
      fprintf(stderr, "%s:%d: %s (last message: %s)\n", __FILE__, __LINE__, #condition, \
              quire_error_message());                                                   \
    }                                                                                   \
  } while (0)

static int add(quire_bytes key, const quire_bytes* present, quire_bytes argument,
               quire_value* updated, void* user) {
  long sum = 0;
  char text[32];
  (void)key;
  ++*(int*)user;
  if (argument.size == 0) return QUIRE_NOT_FOUND;
  if (argument.size != sizeof(long)) return QUIRE_INVALID_ARGUMENT;
  memcpy(&sum, argument.data, sizeof sum);
  if (present != NULL) {
    char before[32] = {0};
    memcpy(before, present->data, present->size < 31 ? present->size : 31);
    sum += atol(before);
  }
  snprintf(text, sizeof text, "%ld", sum);
  return quire_value_set(updated, text, strlen(text));
}

/* As add, and the sum is the answer. */
static int add_and_tell(quire_bytes key, const quire_bytes* present, quire_bytes argument,
                        quire_value* updated, quire_value* answer, void* user) {
  char text[32];
  long sum = 0;
  (void)key;
  ++*(int*)user;
  if (argument.size == 0) {
    CHECK(quire_value_set(answer, "nothing", 7) == QUIRE_OK);
    return QUIRE_NOT_FOUND;
  }
  memcpy(&sum, argument.data, sizeof sum);
  if (present != NULL) {
    char before[32] = {0};
    memcpy(before, present->data, present->size < 31 ? present->size : 31);
    sum += atol(before);
  }
  if (sum > 1000) return QUIRE_NO_SPACE;
  snprintf(text, sizeof text, "%ld", sum);
  CHECK(quire_value_set(answer, text, strlen(text)) == QUIRE_OK);
  return quire_value_set(updated, text, strlen(text));
}

static int by_first_byte(const void* key, size_t key_size, int rank_count, void* user) {
  (void)user;
  return key_size == 0 ? 0 : *(const unsigned char*)key % rank_count;
}

static void check_library(void) {
  CHECK(strlen(quire_version()) >= 5);
  CHECK(strcmp(quire_code_name(QUIRE_NOT_FOUND), "not found") == 0);
  quire_free(NULL);
}

static void check_options(quire_options** options) {
  char* text = NULL;
  CHECK(quire_options_create(options) == QUIRE_OK);
  CHECK(quire_options_set(*options, "memtable_bytes", "1MiB") == QUIRE_OK);
  CHECK(quire_options_set(*options, "timeout_ms", "30000") == QUIRE_OK);
  CHECK(quire_options_get(*options, "memtable_bytes", &text) == QUIRE_OK);
  CHECK(strcmp(text, "1048576") == 0);
  quire_free(text);
  CHECK(quire_options_set(*options, "memtable_bite", "1") == QUIRE_INVALID_ARGUMENT);
  CHECK(strstr(quire_error_message(), "memtable_bytes") != NULL);
  CHECK(quire_options_set(*options, "memtable\x1b[2J", "1") == QUIRE_INVALID_ARGUMENT);
  CHECK(strstr(quire_error_message(), "memtable\\x1b[2J") != NULL);
  CHECK(quire_options_set(*options, "wal", "sometimes") == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_options_set(NULL, "wal", "on") == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_error_message()[0] != 0);
  CHECK(quire_options_explain(*options, &text) == QUIRE_OK);
  CHECK(quire_error_message()[0] == 0);  /* it belongs to the last call */
  CHECK(strstr(text, "memtable_bytes = 1048576  (program") != NULL);
  quire_free(text);
}

static void* fail_elsewhere(void* unused) {
  CHECK(quire_error_message()[0] == 0); /* not what failed in another thread */
  CHECK(quire_options_set(NULL, "wal", "on") == QUIRE_INVALID_ARGUMENT);
  CHECK(strstr(quire_error_message(), "null") != NULL);
  return unused;
}

/* Each thread has a message of its own. */
static void check_messages(quire_options* options) {
  pthread_t other;
  CHECK(quire_options_set(options, "memtable_bite", "1") == QUIRE_INVALID_ARGUMENT);
  CHECK(pthread_create(&other, NULL, fail_elsewhere, NULL) == 0);
  CHECK(pthread_join(other, NULL) == 0);
  CHECK(strstr(quire_error_message(), "memtable_bytes") != NULL);
  CHECK(quire_options_set(options, "memtable_bytes", "1MiB") == QUIRE_OK);
  CHECK(quire_error_message()[0] == 0);
}

static void check_pairs(quire_db* db, int rank) {
  char key[32];
  void* value = NULL;
  size_t size = 0;
  char buffer[8];
  snprintf(key, sizeof key, "key of %d", rank);
  CHECK(quire_db_put(db, key, strlen(key), "a\0b", 3) == QUIRE_OK);
  CHECK(quire_db_get(db, key, strlen(key), &value, &size) == QUIRE_OK);
  CHECK(size == 3 && memcmp(value, "a\0b", 4) == 0);
  quire_free(value);
  CHECK(quire_db_get_into(db, key, strlen(key), buffer, sizeof buffer, &size) == QUIRE_OK);
  CHECK(size == 3 && memcmp(buffer, "a\0b", 3) == 0);
  CHECK(quire_db_get_into(db, key, strlen(key), buffer, 2, &size) == QUIRE_INVALID_ARGUMENT);
  CHECK(size == 3);
  CHECK(quire_db_get(db, "absent", 6, &value, &size) == QUIRE_NOT_FOUND);
  CHECK(quire_db_delete(db, key, strlen(key)) == QUIRE_OK);
  CHECK(quire_db_get(db, key, strlen(key), &value, &size) == QUIRE_NOT_FOUND);
  CHECK(quire_db_put(db, "", 0, "v", 1) == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_db_put(db, NULL, 3, "v", 1) == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_db_put(db, "k", 1, NULL, 1) == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_db_put(NULL, "k", 1, "v", 1) == QUIRE_INVALID_ARGUMENT);
}

static void check_many(quire_db* db, int rank) {
  enum { COUNT = 50 };
  char names[COUNT + 1][32];
  const void* keys[COUNT + 1];
  size_t key_sizes[COUNT + 1];
  void* values[COUNT + 1];
  size_t value_sizes[COUNT + 1];
  quire_pending* pending = NULL;
  void* value = NULL;
  size_t size = 0;
  int i;
  for (i = 0; i <= COUNT; ++i) {
    snprintf(names[i], sizeof names[i], "%d many %d", rank, i);
    keys[i] = names[i];
    key_sizes[i] = strlen(names[i]);
  }
  CHECK(quire_db_put_many(db, COUNT, keys, key_sizes, keys, key_sizes) == QUIRE_OK);
  CHECK(quire_db_get_many(db, COUNT + 1, keys, key_sizes, values, value_sizes) == QUIRE_OK);
  for (i = 0; i < COUNT; ++i) {
    CHECK(values[i] != NULL && value_sizes[i] == key_sizes[i]);
    CHECK(memcmp(values[i], names[i], value_sizes[i]) == 0);
    quire_free(values[i]);
  }
  CHECK(values[COUNT] == NULL);
  CHECK(quire_db_get_async(db, names[3], key_sizes[3], &pending) == QUIRE_OK);
  while (!quire_pending_ready(pending)) continue;
  CHECK(quire_pending_take(pending, &value, &size) == QUIRE_OK);
  CHECK(size == key_sizes[3] && memcmp(value, names[3], size) == 0);
  quire_free(value);
  CHECK(quire_db_get_async(db, names[4], key_sizes[4], &pending) == QUIRE_OK);
  quire_pending_destroy(pending);
  CHECK(quire_db_delete_many(db, COUNT, keys, key_sizes) == QUIRE_OK);
  CHECK(quire_db_get(db, names[0], key_sizes[0], &value, &size) == QUIRE_NOT_FOUND);
  CHECK(quire_db_put_many(db, 1, NULL, NULL, NULL, NULL) == QUIRE_INVALID_ARGUMENT);
  /* No value where there must be one is not an empty value: nothing is put. */
  const void* const lacking[2] = {names[0], NULL};
  const size_t lacking_sizes[2] = {key_sizes[0], 1};
  CHECK(quire_db_put_many(db, 2, keys, key_sizes, lacking, lacking_sizes) ==
        QUIRE_INVALID_ARGUMENT);
  CHECK(quire_db_get(db, names[0], key_sizes[0], &value, &size) == QUIRE_NOT_FOUND);
}

static void check_batch(quire_db* db, int rank) {
  quire_batch* batch = NULL;
  char key[32];
  void* value = NULL;
  size_t size = 0;
  snprintf(key, sizeof key, "batch of %d", rank);
  CHECK(quire_batch_create(&batch) == QUIRE_OK);
  CHECK(quire_batch_put(batch, "dropped", 7, "v", 1) == QUIRE_OK);
  CHECK(quire_batch_clear(batch) == QUIRE_OK);
  CHECK(quire_batch_put(batch, key, strlen(key), "one", 3) == QUIRE_OK);
  CHECK(quire_batch_delete(batch, "nothing", 7) == QUIRE_OK);
  CHECK(quire_db_write(db, batch) == QUIRE_OK);
  quire_batch_destroy(batch);
  CHECK(quire_db_get(db, key, strlen(key), &value, &size) == QUIRE_OK);
  CHECK(size == 3 && memcmp(value, "one", 3) == 0);
  quire_free(value);
}

static void check_updates(quire_context* context, quire_db* db) {
  int calls = 0;
  const long one = 1;
  char expected[32];
  void* value = NULL;
  size_t size = 0;
  int i;
  CHECK(quire_db_register_update(db, 9, add, &calls) == QUIRE_OK);
  CHECK(quire_db_register_update(db, 9, NULL, NULL) == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_context_barrier(context) == QUIRE_OK);
  CHECK(quire_db_protect(db, QUIRE_UPDATE_ONLY) == QUIRE_OK);
  CHECK(quire_db_put(db, "k", 1, "v", 1) == QUIRE_READ_ONLY);
  for (i = 0; i < 100; ++i) CHECK(quire_db_update(db, "sum", 3, 9, &one, sizeof one) == QUIRE_OK);
  CHECK(quire_db_update(db, "sum", 3, 9, NULL, 0) == QUIRE_OK);
  CHECK(quire_db_barrier(db, QUIRE_MEMTABLE) == QUIRE_OK);
  snprintf(expected, sizeof expected, "%d", 100 * quire_context_size(context));
  CHECK(quire_db_get(db, "sum", 3, &value, &size) == QUIRE_OK);
  CHECK(size == strlen(expected) && memcmp(value, expected, size) == 0);
  quire_free(value);
  CHECK(quire_db_protect(db, QUIRE_READ_WRITE) == QUIRE_OK);
  CHECK(quire_db_protect(db, 3) == QUIRE_INVALID_ARGUMENT);
}

/* Every rank adds one to a key of its own, of which it may not be the owner. */
static void check_answers(quire_context* context, quire_db* db) {
  int calls = 0, i;
  long step = 1;
  char name[32], expected[32];
  void* answer = NULL;
  size_t size = 0;
  quire_bytes key, argument, nothing = {NULL, 0};
  const quire_bytes broken = {NULL, 8};
  key.size = (size_t)snprintf(name, sizeof name, "told %d", quire_context_rank(context));
  key.data = name;
  argument.data = &step;
  argument.size = sizeof step;
  CHECK(quire_db_register_answering_update(db, 10, add_and_tell, &calls) == QUIRE_OK);
  CHECK(quire_db_register_answering_update(db, 10, NULL, NULL) == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_context_barrier(context) == QUIRE_OK);
  for (i = 1; i <= 20; ++i) {
    CHECK(quire_db_update_and_answer(db, key, 10, argument, &answer, &size) == QUIRE_OK);
    snprintf(expected, sizeof expected, "%d", i);
    CHECK(size == strlen(expected) && strcmp(answer, expected) == 0);
    quire_free(answer);
  }
  CHECK(quire_db_update_and_answer(db, key, 10, nothing, &answer, &size) == QUIRE_OK);
  CHECK(size == 7 && strcmp(answer, "nothing") == 0);
  quire_free(answer);
  step = 5000;
  CHECK(quire_db_update_and_answer(db, key, 10, argument, &answer, &size) == QUIRE_NO_SPACE);
  CHECK(quire_db_update_and_answer(db, key, 77, argument, &answer, &size) ==
        QUIRE_INVALID_ARGUMENT);
  CHECK(quire_db_update_and_answer(db, key, 10, broken, &answer, &size) == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_db_update_and_answer(db, key, 10, nothing, NULL, &size) == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_context_barrier(context) == QUIRE_OK);
}

static void check_agreement(quire_context* context) {
  const int last = quire_context_size(context) - 1;
  const int mine = quire_context_rank(context) == last ? QUIRE_BUSY : QUIRE_OK;
  char rank[32];
  CHECK(quire_context_agree(context, QUIRE_OK, "unheard") == QUIRE_OK);
  CHECK(quire_context_agree(context, mine, "not today") == QUIRE_BUSY);
  snprintf(rank, sizeof rank, "rank %d", last);
  CHECK(strstr(quire_error_message(), "not today") != NULL);
  if (last > 0) CHECK(strstr(quire_error_message(), rank) != NULL);
  CHECK(quire_context_agree(context, 99, NULL) == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_context_agree(NULL, 0, NULL) == QUIRE_INVALID_ARGUMENT);
}

static int pairs_below(quire_reader* reader) {
  quire_iter* iter = NULL;
  int count = 0;
  CHECK(quire_reader_iter_create(reader, &iter) == QUIRE_OK);
  for (quire_iter_seek_to_first(iter); quire_iter_valid(iter); quire_iter_next(iter)) ++count;
  CHECK(quire_iter_status(iter) == QUIRE_OK);
  quire_iter_destroy(iter);
  return count;
}

/* Every rank reads all pairs while they are written: what was published, and no more. */
static void check_reader(quire_context* context, quire_options* options, const char* repository) {
  quire_db* db = NULL;
  quire_reader* reader = NULL;
  quire_iter* iter = NULL;
  void* value = NULL;
  size_t size = 0;
  char path[300], key[32], buffer[8], *names = NULL;
  size_t key_size;
  CHECK(quire_db_open(context, "beside", options, &db) == QUIRE_OK);
  if (db == NULL) return;
  CHECK(quire_context_list_databases(context, &names) == QUIRE_OK);
  CHECK(names != NULL && strcmp(names, "beside\n") == 0);
  quire_free(names);
  snprintf(path, sizeof path, "%s/beside", repository);
  key_size = (size_t)snprintf(key, sizeof key, "key %d", quire_context_rank(context));
  CHECK(quire_db_put(db, key, key_size, "first", 5) == QUIRE_OK);
  CHECK(quire_db_barrier(db, QUIRE_MEMTABLE) == QUIRE_OK);
  CHECK(quire_db_flush(db) == QUIRE_OK);
  CHECK(quire_context_barrier(context) == QUIRE_OK);
  CHECK(quire_reader_open(path, options, &reader) == QUIRE_OK);
  if (reader == NULL) return;
  CHECK(pairs_below(reader) == quire_context_size(context));
  CHECK(quire_context_barrier(context) == QUIRE_OK);
  CHECK(quire_db_put(db, key, key_size, "second!", 7) == QUIRE_OK);
  CHECK(quire_db_barrier(db, QUIRE_SSTABLE) == QUIRE_OK);
  CHECK(quire_reader_get(reader, key, key_size, &value, &size) == QUIRE_OK);
  CHECK(size == 5 && strcmp(value, "first") == 0);
  quire_free(value);
  CHECK(quire_reader_refresh(reader) == QUIRE_OK);
  CHECK(quire_reader_get_into(reader, key, key_size, buffer, sizeof buffer, &size) == QUIRE_OK);
  CHECK(size == 7 && memcmp(buffer, "second!", 7) == 0);
  CHECK(quire_reader_get_into(reader, key, key_size, buffer, 3, &size) == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_reader_get(reader, "absent", 6, &value, &size) == QUIRE_NOT_FOUND);
  CHECK(quire_reader_get(reader, key, key_size, NULL, &size) == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_reader_get(NULL, key, key_size, &value, &size) == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_reader_iter_create(reader, NULL) == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_reader_iter_create(NULL, &iter) == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_reader_refresh(NULL) == QUIRE_INVALID_ARGUMENT);
  CHECK(pairs_below(reader) == quire_context_size(context));
  quire_reader_destroy(reader);
  quire_reader_destroy(NULL);
  CHECK(quire_reader_open(repository, NULL, &reader) == QUIRE_NOT_FOUND);
  CHECK(quire_reader_open(NULL, NULL, &reader) == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_db_flush(NULL) == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_db_close(db) == QUIRE_OK);
  CHECK(quire_context_destroy_database(context, "beside") == QUIRE_OK);
  CHECK(quire_context_list_databases(context, &names) == QUIRE_OK);
  CHECK(names != NULL && strcmp(names, "") == 0);
  quire_free(names);
  CHECK(quire_context_list_databases(context, NULL) == QUIRE_INVALID_ARGUMENT);
}

static void check_iteration(quire_db* db) {
  quire_iter* iter = NULL;
  const void* bytes = NULL;
  size_t size = 0;
  int forward = 0, backward = 0;
  CHECK(quire_iter_create(db, &iter) == QUIRE_OK);
  for (quire_iter_seek_to_first(iter); quire_iter_valid(iter); quire_iter_next(iter)) ++forward;
  CHECK(quire_iter_status(iter) == QUIRE_OK);
  CHECK(quire_iter_key(iter, &bytes, &size) == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_iter_next(iter) == QUIRE_INVALID_ARGUMENT);
  for (quire_iter_seek_to_last(iter); quire_iter_valid(iter); quire_iter_prev(iter)) {
    CHECK(quire_iter_key(iter, &bytes, &size) == QUIRE_OK && size > 0);
    CHECK(quire_iter_value(iter, &bytes, &size) == QUIRE_OK);
    ++backward;
  }
  CHECK(forward == backward);
  CHECK(quire_iter_seek(iter, "", 0) == QUIRE_OK);
  quire_iter_destroy(iter);
}

static void check_signals(quire_context* context) {
  const int rank = quire_context_rank(context), size = quire_context_size(context);
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  const int nobody = size;
  CHECK(quire_context_notify(context, 5, &next, 1) == QUIRE_OK);
  CHECK(quire_context_wait_signal(context, 5, &before, 1) == QUIRE_OK);
  CHECK(quire_context_notify(context, 5, &nobody, 1) == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_context_progress(context) == QUIRE_OK);
}

static void check_database(quire_context* context, quire_options* options) {
  quire_db* db = NULL;
  uint64_t count = 0;
  char* text = NULL;
  int owner = -1;
  const int rank = quire_context_rank(context);
  CHECK(quire_db_open(context, "a/b", options, &db) == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_options_set_partitioner(options, "hash", by_first_byte, NULL) == QUIRE_OK);
  CHECK(quire_db_open(context, "db", options, &db) == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_options_set_partitioner(options, "first byte", by_first_byte, NULL) == QUIRE_OK);
  CHECK(quire_db_open(context, "db", options, &db) == QUIRE_OK);
  if (db == NULL) return;
  CHECK(quire_db_owner(db, "\x05", 1, &owner) == QUIRE_OK);
  CHECK(owner == 5 % quire_context_size(context));
  check_pairs(db, rank);
  check_many(db, rank);
  check_batch(db, rank);
  check_updates(context, db);
  check_answers(context, db);
  check_iteration(db);
  check_signals(context);
  CHECK(quire_db_set_consistency(db, QUIRE_SEQUENTIAL) == QUIRE_OK);
  check_pairs(db, rank);
  CHECK(quire_db_set_consistency(db, QUIRE_RELAXED) == QUIRE_OK);
  CHECK(quire_db_fence(db) == QUIRE_OK);
  CHECK(quire_db_barrier(db, QUIRE_SSTABLE) == QUIRE_OK);
  CHECK(quire_db_compact(db) == QUIRE_OK);
  CHECK(quire_db_statistic(db, "bytes.user", &count) == QUIRE_OK);
  CHECK(quire_db_statistic(db, "no such", &count) == QUIRE_NOT_FOUND);
  CHECK(quire_db_statistics(db, &text) == QUIRE_OK);
  CHECK(strstr(text, "bytes.user ") != NULL);
  quire_free(text);
  CHECK(quire_db_close(db) == QUIRE_OK);
  CHECK(quire_db_put(db, "k", 1, "v", 1) == QUIRE_INVALID_ARGUMENT);
  CHECK(strstr(quire_error_message(), "closed") != NULL);
  CHECK(quire_db_close(db) == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_context_destroy_database(context, "db") == QUIRE_OK);
  CHECK(quire_context_destroy_database(context, "db") == QUIRE_NOT_FOUND);
}

/* A checkpoint, while writes go on; back from it under the same name; where it lies. */
static void check_persistence(quire_context* context, quire_options* options,
                              const char* checkpoints) {
  quire_db* db = NULL;
  quire_event* event = NULL;
  uint64_t done = 1, total = 0;
  void* value = NULL;
  size_t value_size = 0;
  int in_place;
  CHECK(quire_db_open(context, "kept", options, &db) == QUIRE_OK);
  if (db == NULL) return;
  CHECK(quire_db_put(db, "k", 1, "before", 6) == QUIRE_OK);
  CHECK(quire_db_checkpoint(db, "relative", 0, &event) == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_db_checkpoint(db, checkpoints, 2, &event) == QUIRE_OK);
  CHECK(quire_db_put(db, "k", 1, "after", 5) == QUIRE_OK);
  CHECK(quire_event_wait(event) == QUIRE_OK);
  CHECK(quire_event_ready(event) == 1);
  CHECK(quire_event_progress(event, &done, &total) == QUIRE_OK);
  CHECK(done == total);
  quire_event_destroy(event);
  CHECK(quire_db_close(db) == QUIRE_OK);
  for (in_place = 0; in_place < 2; ++in_place) {
    CHECK(quire_context_restart(context, checkpoints, "kept", 0, in_place, NULL) ==
          QUIRE_INVALID_ARGUMENT);
    event = NULL;
    CHECK(quire_context_destroy_database_async(context, "kept", &event) == QUIRE_OK);
    CHECK(quire_event_wait(event) == QUIRE_OK);
    quire_event_destroy(event);
    CHECK(quire_context_restart(context, checkpoints, "kept", 7, in_place, NULL) ==
          QUIRE_NOT_FOUND);
    CHECK(quire_context_restart(context, checkpoints, "kept", 0, in_place, NULL) == QUIRE_OK);
    CHECK(quire_db_open(context, "kept", options, &db) == QUIRE_OK);
    CHECK(quire_db_get(db, "k", 1, &value, &value_size) == QUIRE_OK);
    CHECK(value_size == 6 && memcmp(value, "before", 6) == 0);
    quire_free(value);
    CHECK(quire_context_barrier(context) == QUIRE_OK);
    CHECK(quire_db_put(db, "k", 1, "later", 5) == QUIRE_OK);
    CHECK(quire_db_close(db) == QUIRE_OK);
    CHECK(quire_context_restart(context, checkpoints, "kept", 0, 4, NULL) ==
          QUIRE_INVALID_ARGUMENT);
    CHECK(quire_context_restart(context, checkpoints, "kept", 0, in_place | QUIRE_RESTART_REPLACE,
                                NULL) == QUIRE_OK);
    CHECK(quire_db_open(context, "kept", options, &db) == QUIRE_OK);
    CHECK(quire_db_get(db, "k", 1, &value, &value_size) == QUIRE_OK);
    CHECK(value_size == 6 && memcmp(value, "before", 6) == 0);
    quire_free(value);
    CHECK(quire_db_close(db) == QUIRE_OK);
  }
  CHECK(quire_event_wait(NULL) == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_event_ready(NULL) == 0);
  quire_event_destroy(NULL);
  CHECK(quire_context_destroy_database_async(context, "kept", NULL) == QUIRE_OK);
}

/* Many keys of an epoch: one that all ranks put, and one that no rank did. */
static void check_many_of_dataset(const quire_dataset_reader* reader, size_t ranks) {
  const void* const keys[] = {"all", "none"};
  const size_t key_sizes[] = {3, 4};
  quire_dataset_values* values[2] = {NULL, NULL};
  quire_bytes value = {NULL, 0};
  uint64_t epoch = 0;
  uint32_t rank = 0;
  size_t i;
  CHECK(quire_dataset_reader_get_many(reader, 3, 2, keys, key_sizes, values) == QUIRE_OK);
  CHECK(quire_dataset_values_count(values[0]) == ranks);
  for (i = 0; i < ranks; ++i) {
    CHECK(quire_dataset_values_at(values[0], i, &epoch, &rank, &value) == QUIRE_OK);
    CHECK(epoch == 3 && rank == i && value.size == sizeof rank);
    CHECK(value.size == sizeof rank && memcmp(value.data, &rank, sizeof rank) == 0);
  }
  CHECK(values[1] == NULL);
  quire_dataset_values_destroy(values[0]);
  CHECK(quire_dataset_reader_get_many(reader, 4, 2, keys, key_sizes, values) == QUIRE_NOT_FOUND);
}

/* Read by its partitioner, by none, and by another. */
static void check_partitioned_dataset(quire_context* context, const char* repository) {
  quire_options* options = NULL;
  quire_dataset_writer* writer = NULL;
  quire_dataset_reader* reader = NULL;
  char path[4096];
  CHECK(quire_options_create(&options) == QUIRE_OK);
  CHECK(quire_options_set_dataset_partitioner(options, "hash", by_first_byte, NULL) == QUIRE_OK);
  CHECK(quire_dataset_writer_open(context, "ranges", options, &writer) == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_options_set_dataset_partitioner(options, "first byte", NULL, NULL) ==
        QUIRE_INVALID_ARGUMENT);
  CHECK(quire_options_set_dataset_partitioner(options, "first byte", by_first_byte, NULL) ==
        QUIRE_OK);
  CHECK(quire_dataset_writer_open(context, "ranges", options, &writer) == QUIRE_OK);
  CHECK(quire_dataset_writer_begin_epoch(writer, 3) == QUIRE_OK);
  CHECK(quire_dataset_writer_put(writer, "all", 3, NULL, 5) == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_dataset_writer_put(writer, "all", 3, "value", 5) == QUIRE_OK);
  CHECK(quire_dataset_writer_end_epoch(writer) == QUIRE_OK);
  CHECK(quire_dataset_writer_finish(writer) == QUIRE_OK);
  quire_dataset_writer_destroy(writer);
  snprintf(path, sizeof path, "%s/ranges", repository);
  for (int with = 0; with < 2; ++with) {
    quire_dataset_values* values = NULL;
    CHECK(quire_dataset_reader_open(path, with ? options : NULL, &reader) == QUIRE_OK);
    CHECK(quire_dataset_reader_get(reader, 3, "all", 3, &values) == QUIRE_OK);
    CHECK(quire_dataset_values_count(values) == (size_t)quire_context_size(context));
    quire_dataset_values_destroy(values);
    quire_dataset_reader_destroy(reader);
  }
  CHECK(quire_options_set_dataset_first_match(NULL, 1) == QUIRE_INVALID_ARGUMENT);
  for (int first = 1; first >= 0; --first) {
    quire_dataset_values* values = NULL;
    CHECK(quire_options_set_dataset_first_match(options, first) == QUIRE_OK);
    CHECK(quire_dataset_reader_open(path, options, &reader) == QUIRE_OK);
    CHECK(quire_dataset_reader_get(reader, 3, "all", 3, &values) == QUIRE_OK);
    CHECK(quire_dataset_values_count(values) ==
          (first ? 1 : (size_t)quire_context_size(context)));
    quire_dataset_values_destroy(values);
    quire_dataset_reader_destroy(reader);
  }
  CHECK(quire_options_set_dataset_partitioner(options, "another", by_first_byte, NULL) ==
        QUIRE_OK);
  CHECK(quire_dataset_reader_open(path, options, &reader) == QUIRE_INVALID_ARGUMENT);
  quire_options_destroy(options);
}

static void check_dataset(quire_context* context, const char* repository) {
  quire_dataset_writer* writer = NULL;
  quire_dataset_reader* reader = NULL;
  const uint32_t rank = (uint32_t)quire_context_rank(context);
  uint64_t count = 0;
  char path[300];
  CHECK(quire_dataset_writer_open(context, "steps", NULL, &writer) == QUIRE_OK);
  CHECK(quire_dataset_writer_begin_epoch(writer, 3) == QUIRE_OK);
  CHECK(quire_dataset_writer_put(writer, "all", 3, &rank, sizeof rank) == QUIRE_OK);
  CHECK(quire_dataset_writer_end_epoch(writer) == QUIRE_OK);
  CHECK(quire_dataset_writer_statistic(writer, "pair_bytes", &count) == QUIRE_OK);
  CHECK(count == 3 + sizeof rank);
  CHECK(quire_dataset_writer_finish(writer) == QUIRE_OK);
  quire_dataset_writer_destroy(writer);
  snprintf(path, sizeof path, "%s/steps", repository);
  CHECK(quire_dataset_reader_open(path, NULL, &reader) == QUIRE_OK);
  check_many_of_dataset(reader, (size_t)quire_context_size(context));
  CHECK(quire_dataset_reader_verify(reader, 3) == QUIRE_OK);
  CHECK(quire_dataset_reader_statistic(reader, "queries", &count) == QUIRE_OK);
  CHECK(count == 2);
  quire_dataset_reader_destroy(reader);
}

static void check_context(quire_context* context, quire_options* options, const char* repository,
                          const char* checkpoints) {
  char* text = NULL;
  CHECK(quire_context_describe(context, &text) == QUIRE_OK);
  quire_free(text);
  check_database(context, options);
  check_persistence(context, options, checkpoints);
  check_agreement(context);
  check_reader(context, options, repository);
  check_dataset(context, repository);
  check_partitioned_dataset(context, repository);
  CHECK(quire_context_close(context) == QUIRE_OK);
  CHECK(quire_context_close(NULL) == QUIRE_OK);
  CHECK(quire_context_rank(NULL) == -1);
}

static void check_serial(quire_options* options, const char* scratch) {
  quire_context* context = NULL;
  char path[256], checkpoints[300];
  snprintf(path, sizeof path, "%s/serial", scratch);
  snprintf(checkpoints, sizeof checkpoints, "%s-checkpoints", path);
  CHECK(quire_context_open_mpi(MPI_COMM_WORLD, path, options, &context) == QUIRE_INVALID_ARGUMENT);
  CHECK(strstr(quire_error_message(), "MPI_Init") != NULL);
  CHECK(quire_context_open(path, options, &context) == QUIRE_OK);
  if (context != NULL) check_context(context, options, path, checkpoints);
}

/* The ranks of a communicator, which goes as soon as it was given. */
static void check_parallel(MPI_Comm* communicator, quire_options* options, const char* path) {
  quire_context* context = NULL;
  char checkpoints[300];
  int rank = 0, size = 0;
  MPI_Comm_rank(*communicator, &rank);
  MPI_Comm_size(*communicator, &size);
  snprintf(checkpoints, sizeof checkpoints, "%s-checkpoints", path);
  CHECK(quire_context_open_mpi(*communicator, path, options, &context) == QUIRE_OK);
  if (*communicator != MPI_COMM_WORLD) MPI_Comm_free(communicator);
  if (context == NULL) return;
  CHECK(quire_context_rank(context) == rank);
  CHECK(quire_context_size(context) == size);
  check_context(context, options, path, checkpoints);
}

/* Two parts of the ranks, each with a repository of its own, at the same time, their ranks the
 * other way round. */
static void check_split(quire_options* options, const char* scratch) {
  MPI_Comm part = MPI_COMM_NULL;
  char path[256];
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  snprintf(path, sizeof path, "%s/split-%d-%d", scratch, size, rank % 2);
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, size - rank, &part);
  check_parallel(&part, options, path);
  CHECK(part == MPI_COMM_NULL);
}

static void check_world(quire_options* options, const char* scratch) {
  MPI_Comm world = MPI_COMM_WORLD;
  char path[256];
  int size = 0;
  MPI_Comm_size(world, &size);
  snprintf(path, sizeof path, "%s/mpi-%d", scratch, size);
  check_parallel(&world, options, path);
}

int main(int argc, char** argv) {
  quire_options* options = NULL;
  int provided = 0, rank = 0, all = 0;
  if (argc < 3) {
    fprintf(stderr, "usage: %s SCRATCH_DIRECTORY serial|mpi|split\n", argv[0]);
    return 2;
  }
  check_library();
  check_options(&options);
  check_messages(options);
  if (strcmp(argv[2], "serial") == 0) {
    check_serial(options, argv[1]);
    all = failures;
  } else {
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (strcmp(argv[2], "split") == 0) {
      check_split(options, argv[1]);
    } else {
      check_world(options, argv[1]);
    }
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
  }
  quire_options_destroy(options);
  if (rank == 0) printf("%d failures\n", all);
  return all == 0 ? 0 : 1;
}
