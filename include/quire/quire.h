/* The C interface: opaque handles, numbered codes, one message per thread.
 *
 * Layer      public; C99
 * Threads    as the C++ interface: calls on a quire_db that are not collective may be made from any
 * number of threads; collective ones by one thread of each rank, in the same order. quire_options,
 * quire_batch, quire_iter and quire_pending belong to one thread at a time.
 *
 * Every function that can fail returns a code: QUIRE_OK, or what went wrong, with a sentence in
 * quire_error_message(). What a call means (visibility, durability, order, errors, cost) is said
 * once, in quire/database.h. Strings end in NUL; keys and values are bytes with a size. Pointers
 * that a function gives out are the program's, to be freed with quire_free, unless it says
 * otherwise. Null where a handle must be, or a value of a size above 0, is
 * QUIRE_INVALID_ARGUMENT. */
#ifndef QUIRE_QUIRE_H_
#define QUIRE_QUIRE_H_

#include <stddef.h>
#include <stdint.h>

#include "quire/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What came of a call. The numbers never change. */
enum {
  QUIRE_OK = 0,
  QUIRE_NOT_FOUND = 1,        /* the key is absent: an answer, no failure */
  QUIRE_INVALID_ARGUMENT = 2, /* input out of range, or a closed handle; nothing was done */
  QUIRE_READ_ONLY = 3,        /* writes are not allowed */
  QUIRE_NO_SPACE = 4,         /* the device or a quota is full; not applied */
  QUIRE_IO = 5,               /* the system refused a call on a file */
  QUIRE_CORRUPTION = 6,       /* stored or received bytes are damaged */
  QUIRE_BUSY = 7,             /* somebody else holds it */
  QUIRE_TIMED_OUT = 8,        /* a deadline passed; the outcome is unknown */
  QUIRE_PEER_FAILED = 9,      /* a rank died or left; the outcome there is unknown */
  QUIRE_OUT_OF_MEMORY = 10,   /* memory, descriptors or threads are short; nothing was done */
  QUIRE_UNSUPPORTED = 11      /* this build, machine or file version cannot do it */
};

/* When remote writes are seen: quire_db_set_consistency. */
enum { QUIRE_SEQUENTIAL = 1, QUIRE_RELAXED = 2 };
/* What is allowed: quire_db_protect. */
enum {
  QUIRE_READ_WRITE = 8,
  QUIRE_WRITE_ONLY = 16,
  QUIRE_PROTECT_READ_ONLY = 32,
  QUIRE_UPDATE_ONLY = 64
};
/* How far a barrier goes: quire_db_barrier. */
enum { QUIRE_MEMTABLE = 1, QUIRE_SSTABLE = 2 };

typedef struct quire_options quire_options;
typedef struct quire_context quire_context;
typedef struct quire_db quire_db;
typedef struct quire_batch quire_batch;
typedef struct quire_iter quire_iter;
typedef struct quire_pending quire_pending;
typedef struct quire_event quire_event;
typedef struct quire_value quire_value;
typedef struct quire_reader quire_reader;

/* ---- The library ---- */

/* The version of the library that is linked, as "0.1.0". Lives for ever. */
QUIRE_EXPORT const char* quire_version(void);
/* The name of a code, as "not found". Lives for ever. */
QUIRE_EXPORT const char* quire_code_name(int code);
/* Why this thread's last call that returned a code failed; "" if it succeeded. Valid until this
 * thread's next such call. */
QUIRE_EXPORT const char* quire_error_message(void);
/* Frees what a function of this library gave out. Null is allowed. */
QUIRE_EXPORT void quire_free(void* pointer);

/* How much a line of the log matters. */
enum { QUIRE_LOG_ERROR = 0, QUIRE_LOG_WARNING = 1, QUIRE_LOG_INFO = 2, QUIRE_LOG_DEBUG = 3 };
/* Takes one line of the log. Called by any thread of the library, also by several at once, and
 * while the library holds locks of its own: it calls nothing of Quire, and takes no lock that is
 * held anywhere during a call of Quire. `text` is valid during the call. */
typedef void (*quire_log_function)(int level, const char* text, void* user);
/* From now on `function` takes the log of this process: failures that no call can return. Null is
 * silence. A line on its way may still reach the function before: keep its `user`. As
 * quire::SetLogSink (quire/log.h). */
QUIRE_EXPORT int quire_set_log(quire_log_function function, void* user);

/* ---- Options, by name and value: the table of quire/option_table.h ---- */

/* Options with their defaults. */
QUIRE_EXPORT int quire_options_create(quire_options** options);
/* Frees the options; databases opened with them keep theirs. Null is allowed. */
QUIRE_EXPORT void quire_options_destroy(quire_options* options);
/* Sets an option of contexts, databases or datasets: ("memtable_bytes", "16MiB"). An unknown name
 * is an error with the nearest one. */
QUIRE_EXPORT int quire_options_set(quire_options* options, const char* name, const char* value);
/* The value of an option, in the same form. */
QUIRE_EXPORT int quire_options_get(const quire_options* options, const char* name, char** value);
/* A text with a line per option: value, where it comes from, range, meaning. */
QUIRE_EXPORT int quire_options_explain(const quire_options* options, char** text);

/* The owner rank of a key, in [0, rank_count): a pure function, the same on all ranks. */
typedef int (*quire_partitioner)(const void* key, size_t key_size, int rank_count, void* user);
/* Databases opened with these options use `function`, under the stored name `name`. */
QUIRE_EXPORT int quire_options_set_partitioner(quire_options* options, const char* name,
                                               quire_partitioner function, void* user);

/* ---- Contexts ---- */

/* One rank alone, without MPI. `options` may be null. With MPI: quire_context_open_mpi in
 * quire/quire_mpi.h. */
QUIRE_EXPORT int quire_context_open(const char* repository, const quire_options* options,
                                    quire_context** context);
/* The ranks of a communicator, given as its Fortran handle. Collective. */
QUIRE_EXPORT int quire_context_open_fortran(int communicator, const char* repository,
                                            const quire_options* options, quire_context** context);
/* Ends the runtime and frees its handle and those of its databases, which are closed if they were
 * not. Before MPI_Finalize. Null is allowed. */
QUIRE_EXPORT int quire_context_close(quire_context* context);
/* This rank's number; -1 where `context` is null. */
QUIRE_EXPORT int quire_context_rank(const quire_context* context);
/* The number of ranks; -1 where `context` is null. */
QUIRE_EXPORT int quire_context_size(const quire_context* context);
/* What was chosen: "shm+mpi, handler thread". */
QUIRE_EXPORT int quire_context_describe(const quire_context* context, char** text);
/* Waits for all ranks. Collective. */
QUIRE_EXPORT int quire_context_barrier(quire_context* context);
/* Sends `signal` to `count` ranks. */
QUIRE_EXPORT int quire_context_notify(quire_context* context, int signal, const int* ranks,
                                      int count);
/* Waits for one `signal` from each of `count` ranks. */
QUIRE_EXPORT int quire_context_wait_signal(quire_context* context, int signal, const int* ranks,
                                           int count);
/* Handles what other ranks asked, where there is no handler thread. */
QUIRE_EXPORT int quire_context_progress(quire_context* context);
/* Removes the closed database `name` and all its files. Collective. */
QUIRE_EXPORT int quire_context_destroy_database(quire_context* context, const char* name);
/* The names of the databases in the repository, in order, a line each. Collective. */
QUIRE_EXPORT int quire_context_list_databases(quire_context* context, char** names);
/* One outcome for all ranks: QUIRE_OK where all give it, else the code of the lowest failing rank,
 * and its `text` (may be null) with that rank as the message. Collective. */
QUIRE_EXPORT int quire_context_agree(quire_context* context, int code, const char* text);

/* ---- Persistence: as Database::Checkpoint, Context::Restart and Event (quire/database.h) ---- */

/* Begins a checkpoint of what all ranks have written so far, in <path>/<name>/<number>; the newest
 * `keep` stay (0: all). Collective. It goes on in the background; the event tells its end. `event`
 * null: waits for it. */
QUIRE_EXPORT int quire_db_checkpoint(quire_db* db, const char* path, int keep, quire_event** event);
/* How a checkpoint comes back; they add up. In place: nothing is copied, the checkpoint must stay.
 * Replace: a database of the name is replaced, in one step at the end; else its being there is
 * QUIRE_INVALID_ARGUMENT. */
enum { QUIRE_RESTART_IN_PLACE = 1, QUIRE_RESTART_REPLACE = 2 };
/* Begins to bring `name` back from checkpoint `number` below `path` (0: the newest that is sound);
 * once the event has ended well it can be opened, by any number of ranks. `flags`: of those above.
 * Collective. `event` null: waits for it. */
QUIRE_EXPORT int quire_context_restart(quire_context* context, const char* path, const char* name,
                                       uint64_t number, int flags, quire_event** event);
/* Removes the closed database `name`, in the background. Collective. `event` null: waits for it. */
QUIRE_EXPORT int quire_context_destroy_database_async(quire_context* context, const char* name,
                                                      quire_event** event);
/* 1 where it has ended, 0 where it goes on. */
QUIRE_EXPORT int quire_event_ready(quire_event* event);
/* Waits for its end on all ranks; the first failure of any rank, on all alike. May be called
 * again. */
QUIRE_EXPORT int quire_event_wait(quire_event* event);
/* This rank's part: bytes moved, and in total as far as known. Nulls are allowed. */
QUIRE_EXPORT int quire_event_progress(const quire_event* event, uint64_t* bytes_done,
                                      uint64_t* bytes_total);
/* Frees the handle; what it stands for goes on. Before quire_context_close. Null is allowed. */
QUIRE_EXPORT void quire_event_destroy(quire_event* event);

/* ---- Databases ---- */

/* Opens or creates a database. Collective. `options` may be null. */
QUIRE_EXPORT int quire_db_open(quire_context* context, const char* name,
                               const quire_options* options, quire_db** db);
/* Closes it and keeps all data, in tables. Collective. The handle stays valid, as that of a closed
 * database, until quire_context_close. */
QUIRE_EXPORT int quire_db_close(quire_db* db);
/* The rank that owns a key. */
QUIRE_EXPORT int quire_db_owner(const quire_db* db, const void* key, size_t key_size, int* owner);

/* Inserts a pair, or replaces the value of a key. Both are copied before return. */
QUIRE_EXPORT int quire_db_put(quire_db* db, const void* key, size_t key_size, const void* value,
                              size_t value_size);
/* Removes a key; QUIRE_OK also where it is absent. */
QUIRE_EXPORT int quire_db_delete(quire_db* db, const void* key, size_t key_size);
/* The value of a key. It is followed by a NUL that `value_size` does not count. */
QUIRE_EXPORT int quire_db_get(quire_db* db, const void* key, size_t key_size, void** value,
                              size_t* value_size);
/* The value of a key, into `buffer`. `value_size` gets its size; where that is more than `capacity`
 * nothing is stored and the answer is QUIRE_INVALID_ARGUMENT. */
QUIRE_EXPORT int quire_db_get_into(quire_db* db, const void* key, size_t key_size, void* buffer,
                                   size_t capacity, size_t* value_size);

/* Asks for a value now, to be taken later. */
QUIRE_EXPORT int quire_db_get_async(quire_db* db, const void* key, size_t key_size,
                                    quire_pending** pending);
/* 1 where the answer is here, 0 where it is not. */
QUIRE_EXPORT int quire_pending_ready(quire_pending* pending);
/* Waits for the value, as quire_db_get. Frees `pending`. */
QUIRE_EXPORT int quire_pending_take(quire_pending* pending, void** value, size_t* value_size);
/* Frees a get that nobody wants any more. Null is allowed. */
QUIRE_EXPORT void quire_pending_destroy(quire_pending* pending);

/* `count` pairs at once; where some fail the code of the first failure. */
QUIRE_EXPORT int quire_db_put_many(quire_db* db, size_t count, const void* const* keys,
                                   const size_t* key_sizes, const void* const* values,
                                   const size_t* value_sizes);
/* `count` keys at once. */
QUIRE_EXPORT int quire_db_delete_many(quire_db* db, size_t count, const void* const* keys,
                                      const size_t* key_sizes);
/* `values[i]` (each to be freed) and `value_sizes[i]` for `keys[i]`; null where the key is absent.
 */
QUIRE_EXPORT int quire_db_get_many(quire_db* db, size_t count, const void* const* keys,
                                   const size_t* key_sizes, void** values, size_t* value_sizes);

/* An empty batch. */
QUIRE_EXPORT int quire_batch_create(quire_batch** batch);
/* Adds a put; key and value are copied. */
QUIRE_EXPORT int quire_batch_put(quire_batch* batch, const void* key, size_t key_size,
                                 const void* value, size_t value_size);
/* Adds a delete. */
QUIRE_EXPORT int quire_batch_delete(quire_batch* batch, const void* key, size_t key_size);
/* Empties it. */
QUIRE_EXPORT int quire_batch_clear(quire_batch* batch);
/* Frees it. Null is allowed. */
QUIRE_EXPORT void quire_batch_destroy(quire_batch* batch);
/* Applies a batch: all or nothing per owner. */
QUIRE_EXPORT int quire_db_write(quire_db* db, const quire_batch* batch);

/* Bytes of somebody else. */
typedef struct quire_bytes {
  const void* data;
  size_t size;
} quire_bytes;

/* Changes a value at its owner. `present` is null where the key is absent. Give the new value with
 * quire_value_set and return QUIRE_OK, or return QUIRE_NOT_FOUND to write nothing; any other code
 * is a failure. Must not call the database. */
typedef int (*quire_update)(quire_bytes key, const quire_bytes* present, quire_bytes argument,
                            quire_value* updated, void* user);
/* Inside an update function: the new value, which is copied. */
QUIRE_EXPORT int quire_value_set(quire_value* value, const void* bytes, size_t size);
/* Registers `function` under `id`, on this rank. All ranks register the same ones before they are
 * used. */
QUIRE_EXPORT int quire_db_register_update(quire_db* db, uint32_t id, quire_update function,
                                          void* user);
/* Runs update `id` at the owner of the key, atomically for the key. */
QUIRE_EXPORT int quire_db_update(quire_db* db, const void* key, size_t key_size, uint32_t id,
                                 const void* argument, size_t argument_size);
/* A quire_update that also gives an answer, in the same way, for who asked. */
typedef int (*quire_answering_update)(quire_bytes key, const quire_bytes* present,
                                      quire_bytes argument, quire_value* updated,
                                      quire_value* answer, void* user);
/* As quire_db_register_update; both kinds share their numbers. */
QUIRE_EXPORT int quire_db_register_answering_update(quire_db* db, uint32_t id,
                                                    quire_answering_update function, void* user);
/* As quire_db_update, waits for it, and gives what the function answered: empty where it is of the
 * kind that does not. `answer` is followed by a NUL that `answer_size` does not count. */
QUIRE_EXPORT int quire_db_update_and_answer(quire_db* db, quire_bytes key, uint32_t id,
                                            quire_bytes argument, void** answer,
                                            size_t* answer_size);

/* Sends what is staged and waits until the owners have applied it. */
QUIRE_EXPORT int quire_db_fence(quire_db* db);
/* Writes this rank's MemTables into tables, durable. */
QUIRE_EXPORT int quire_db_flush(quire_db* db);
/* Collective fence; QUIRE_SSTABLE also makes everything durable in tables. */
QUIRE_EXPORT int quire_db_barrier(quire_db* db, int level);
/* QUIRE_SEQUENTIAL or QUIRE_RELAXED. Collective. */
QUIRE_EXPORT int quire_db_set_consistency(quire_db* db, int consistency);
/* QUIRE_READ_WRITE, QUIRE_WRITE_ONLY, QUIRE_PROTECT_READ_ONLY or QUIRE_UPDATE_ONLY. Collective. */
QUIRE_EXPORT int quire_db_protect(quire_db* db, int protection);
/* Merges this rank's tables into one run. */
QUIRE_EXPORT int quire_db_compact(quire_db* db);

/* One count of this rank by name (docs/statistics.md). QUIRE_NOT_FOUND: there is none of that name.
 */
QUIRE_EXPORT int quire_db_statistic(quire_db* db, const char* name, uint64_t* value);
/* All of them, a line "name value" each. */
QUIRE_EXPORT int quire_db_statistics(quire_db* db, char** text);

/* An ordered walk over the pairs that this rank owns, as they are now. Begins before the first:
 * seek. */
QUIRE_EXPORT int quire_iter_create(quire_db* db, quire_iter** iter);
/* Frees it. Null is allowed. */
QUIRE_EXPORT void quire_iter_destroy(quire_iter* iter);
/* To the first pair. */
QUIRE_EXPORT int quire_iter_seek_to_first(quire_iter* iter);
/* To the last pair. */
QUIRE_EXPORT int quire_iter_seek_to_last(quire_iter* iter);
/* To the first pair whose key is not less. */
QUIRE_EXPORT int quire_iter_seek(quire_iter* iter, const void* key, size_t key_size);
/* To the next pair. */
QUIRE_EXPORT int quire_iter_next(quire_iter* iter);
/* To the pair before. */
QUIRE_EXPORT int quire_iter_prev(quire_iter* iter);
/* 1 where it stands on a pair, else 0: then quire_iter_status tells the end from a failure. */
QUIRE_EXPORT int quire_iter_valid(const quire_iter* iter);
/* QUIRE_OK, or the failure that ended the walk. */
QUIRE_EXPORT int quire_iter_status(const quire_iter* iter);
/* The key it stands on; the iterator's until it moves. */
QUIRE_EXPORT int quire_iter_key(const quire_iter* iter, const void** key, size_t* key_size);
/* The value it stands on; the iterator's until it moves. */
QUIRE_EXPORT int quire_iter_value(quire_iter* iter, const void** value, size_t* value_size);

/* ---- Reading beside a writer: as quire::DatabaseReader (quire/reader.h) ---- */

/* Opens <repository>/<name>, or a checkpoint, <path>/<name>/<number>, as it was last published: no
 * context, no MPI, no lock, nothing written. Of `options` (may be null) cache_bytes and the
 * partitioner count. One thread at a time. */
QUIRE_EXPORT int quire_reader_open(const char* directory, const quire_options* options,
                                   quire_reader** reader);
/* Frees it, after its iterators. Null is allowed. */
QUIRE_EXPORT void quire_reader_destroy(quire_reader* reader);
/* The value of a key, of any rank's, as quire_db_get. QUIRE_BUSY: stale, refresh and ask again. */
QUIRE_EXPORT int quire_reader_get(const quire_reader* reader, const void* key, size_t key_size,
                                  void** value, size_t* value_size);
/* The same into `buffer`, as quire_db_get_into. */
QUIRE_EXPORT int quire_reader_get_into(const quire_reader* reader, const void* key, size_t key_size,
                                       void* buffer, size_t capacity, size_t* value_size);
/* An ordered walk over the pairs of all ranks. Begins before the first: seek. */
QUIRE_EXPORT int quire_reader_iter_create(const quire_reader* reader, quire_iter** iter);
/* Looks at what is published now. Where it fails what was seen before stays. */
QUIRE_EXPORT int quire_reader_refresh(quire_reader* reader);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* QUIRE_QUIRE_H_ */
