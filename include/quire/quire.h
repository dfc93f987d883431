/* The C interface: opaque handles, numbered codes, one message per thread.
 *
 * Layer      public; C99
 * Threads    as in the C++ interface: any number of threads may make calls on a quire_db that are
 * not collective; collective calls are made by one thread of each rank, in the same order.
 * quire_options, quire_batch, quire_iter and quire_pending belong to one thread at a time.
 *
 * Every function that can fail returns a code: QUIRE_OK or an error, for which
 * quire_error_message() returns a sentence. quire/database.h describes each call once (visibility,
 * durability, order, errors, cost). Strings end in NUL; keys and values are bytes with a size. The
 * program owns the pointers that functions return and frees them with quire_free, unless the
 * function says otherwise. If a handle is null, or a value with a size above 0, the call returns
 * QUIRE_INVALID_ARGUMENT. */
#ifndef QUIRE_QUIRE_H_
#define QUIRE_QUIRE_H_

#include <stddef.h>
#include <stdint.h>

#include "quire/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The outcomes of a call. The numbers never change. */
enum {
  QUIRE_OK = 0,
  QUIRE_NOT_FOUND = 1,        /* the key is absent: a result, not a failure */
  QUIRE_INVALID_ARGUMENT = 2, /* input out of range, or a closed handle; nothing was done */
  QUIRE_READ_ONLY = 3,        /* writes are not allowed */
  QUIRE_NO_SPACE = 4,         /* the device or a quota is full; not applied */
  QUIRE_IO = 5,               /* the system refused a call on a file */
  QUIRE_CORRUPTION = 6,       /* stored or received bytes are damaged */
  QUIRE_BUSY = 7,             /* another program holds it */
  QUIRE_TIMED_OUT = 8,        /* a deadline passed; the outcome is unknown */
  QUIRE_PEER_FAILED = 9,      /* a rank died or left; the outcome there is unknown */
  QUIRE_OUT_OF_MEMORY = 10,   /* memory, descriptors or threads are short; nothing was done */
  QUIRE_UNSUPPORTED = 11      /* this build, machine or file version cannot do it */
};

/* When other ranks see writes: quire_db_set_consistency. */
enum { QUIRE_SEQUENTIAL = 1, QUIRE_RELAXED = 2 };
/* Which operations are allowed: quire_db_protect. */
enum {
  QUIRE_READ_WRITE = 8,
  QUIRE_WRITE_ONLY = 16,
  QUIRE_PROTECT_READ_ONLY = 32,
  QUIRE_UPDATE_ONLY = 64
};
/* The level of quire_db_barrier: writes are in their owners' MemTables, or in their tables. */
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

/* Returns the version of the linked library, such as "0.1.0". Never freed. */
QUIRE_EXPORT const char* quire_version(void);
/* Returns the name of a code, such as "not found". Never freed. */
QUIRE_EXPORT const char* quire_code_name(int code);
/* Returns why this thread's last call that returned a code failed; "" if it succeeded. Valid until
 * this thread's next such call. */
QUIRE_EXPORT const char* quire_error_message(void);
/* Frees a pointer that a function of this library returned. Null is allowed. */
QUIRE_EXPORT void quire_free(void* pointer);

/* The importance of a log message. */
enum { QUIRE_LOG_ERROR = 0, QUIRE_LOG_WARNING = 1, QUIRE_LOG_INFO = 2, QUIRE_LOG_DEBUG = 3 };
/* Receives one log message. Any thread of the library may call it, several at once, and while the
 * library holds locks. It must not call Quire, and must not take a lock that the program holds
 * during a call of Quire. `text` is valid during the call. */
typedef void (*quire_log_function)(int level, const char* text, void* user);
/* Makes `function` receive this process's log messages: failures that no call can return. Null
 * discards them. A message that is being delivered may still reach the previous function, so its
 * `user` must stay valid. As quire::SetLogSink (quire/log.h). */
QUIRE_EXPORT int quire_set_log(quire_log_function function, void* user);

/* ---- Options, by name and value: the table of quire/option_table.h ---- */

/* Creates options with their defaults. Opening sets each option that has its default from its
 * environment variable, QUIRE_ and the name in capitals; any other value that the program sets
 * wins. */
QUIRE_EXPORT int quire_options_create(quire_options** options);
/* Frees the options; databases opened with them keep theirs. Null is allowed. */
QUIRE_EXPORT void quire_options_destroy(quire_options* options);
/* Sets an option of contexts, databases or datasets: ("memtable_bytes", "16MiB"). If the name is
 * unknown, the error's text contains the nearest one. */
QUIRE_EXPORT int quire_options_set(quire_options* options, const char* name, const char* value);
/* Returns the value of an option, in the same form. */
QUIRE_EXPORT int quire_options_get(const quire_options* options, const char* name, char** value);
/* Returns a text with a line per option: value, source of the value, range, meaning. */
QUIRE_EXPORT int quire_options_explain(const quire_options* options, char** text);

/* Returns the owner rank of a key, in [0, rank_count). Must be a pure function, the same on all
 * ranks. */
typedef int (*quire_partitioner)(const void* key, size_t key_size, int rank_count, void* user);
/* Sets the partitioner of databases that are opened with these options, and its stored name.
 * Opening refuses the name "hash", which means that there is no partitioner. */
QUIRE_EXPORT int quire_options_set_partitioner(quire_options* options, const char* name,
                                               quire_partitioner function, void* user);

/* ---- Contexts ---- */

/* Opens a context of one rank, without MPI. `options` may be null. With MPI:
 * quire_context_open_mpi in quire/quire_mpi.h. QUIRE_NOT_FOUND: the repository and its parent
 * directory are absent. QUIRE_INVALID_ARGUMENT: it belongs to another user, is no directory, or is
 * a symbolic link. */
QUIRE_EXPORT int quire_context_open(const char* repository, const quire_options* options,
                                    quire_context** context);
/* Opens a context over the ranks of a communicator, given as its Fortran handle. Collective. */
QUIRE_EXPORT int quire_context_open_fortran(int communicator, const char* repository,
                                            const quire_options* options, quire_context** context);
/* Closes the context and its open databases, and frees all their handles. Call it before
 * MPI_Finalize. Null is allowed. */
QUIRE_EXPORT int quire_context_close(quire_context* context);
/* Returns this rank's number; -1 if `context` is null. */
QUIRE_EXPORT int quire_context_rank(const quire_context* context);
/* Returns the number of ranks; -1 if `context` is null. */
QUIRE_EXPORT int quire_context_size(const quire_context* context);
/* Returns the transport and threads in use: "shm+mpi, handler thread". */
QUIRE_EXPORT int quire_context_describe(const quire_context* context, char** text);
/* Waits for all ranks. Collective. */
QUIRE_EXPORT int quire_context_barrier(quire_context* context);
/* Sends `signal` to `count` ranks. */
QUIRE_EXPORT int quire_context_notify(quire_context* context, int signal, const int* ranks,
                                      int count);
/* Waits for one `signal` from each of `count` ranks. */
QUIRE_EXPORT int quire_context_wait_signal(quire_context* context, int signal, const int* ranks,
                                           int count);
/* Handles requests of other ranks. Needed if there is no handler thread. */
QUIRE_EXPORT int quire_context_progress(quire_context* context);
/* Removes the closed database `name` and all its files. Collective. */
QUIRE_EXPORT int quire_context_destroy_database(quire_context* context, const char* name);
/* Returns the names of the repository's databases, sorted, one per line. Collective. */
QUIRE_EXPORT int quire_context_list_databases(quire_context* context, char** names);
/* Returns one outcome on all ranks: QUIRE_OK if all ranks pass it, else the code of the lowest
 * failing rank; the message is that rank's `text` (may be null). Collective. */
QUIRE_EXPORT int quire_context_agree(quire_context* context, int code, const char* text);

/* ---- Persistence: as Database::Checkpoint, Context::Restart and Event (quire/database.h) ---- */

/* Starts a checkpoint of everything that all ranks have written so far, in
 * <path>/<name>/<number>, and keeps the newest `keep` checkpoints (0: all). Collective. The copying
 * continues in the background; `event` reports its end. If `event` is null, the call waits for
 * it. */
QUIRE_EXPORT int quire_db_checkpoint(quire_db* db, const char* path, int keep, quire_event** event);
/* Flags of a restart. IN_PLACE: copy nothing; the checkpoint must stay. REPLACE: replace an
 * existing database of this name, in one step at the end; without this flag, the restart of an
 * existing database fails with QUIRE_INVALID_ARGUMENT. */
enum { QUIRE_RESTART_IN_PLACE = 1, QUIRE_RESTART_REPLACE = 2 };
/* Starts to restore `name` from checkpoint `number` below `path` (0: the newest undamaged one).
 * Once the event has ended with QUIRE_OK, any number of ranks can open the database. `flags`: a sum
 * of the flags above, or 0. Collective. If `event` is null, the call waits for the end. */
QUIRE_EXPORT int quire_context_restart(quire_context* context, const char* path, const char* name,
                                       uint64_t number, int flags, quire_event** event);
/* Removes the closed database `name` in the background. Collective. If `event` is null, the call
 * waits for the end. */
QUIRE_EXPORT int quire_context_destroy_database_async(quire_context* context, const char* name,
                                                      quire_event** event);
/* Returns 1 if the operation has ended, else 0. */
QUIRE_EXPORT int quire_event_ready(quire_event* event);
/* Waits until the operation has ended on all ranks. Returns the first failure of any rank, the same
 * on all ranks. May be called again. */
QUIRE_EXPORT int quire_event_wait(quire_event* event);
/* Returns this rank's progress: bytes moved, and in total as far as known. Nulls are allowed. */
QUIRE_EXPORT int quire_event_progress(const quire_event* event, uint64_t* bytes_done,
                                      uint64_t* bytes_total);
/* Frees the handle; the operation continues. Call it before quire_context_close. Null is
 * allowed. */
QUIRE_EXPORT void quire_event_destroy(quire_event* event);

/* ---- Databases ---- */

/* Opens or creates a database. Collective. `options` may be null. */
QUIRE_EXPORT int quire_db_open(quire_context* context, const char* name,
                               const quire_options* options, quire_db** db);
/* Closes a database; its data stay, in tables. Collective. The handle of the closed database stays
 * valid until quire_context_close. */
QUIRE_EXPORT int quire_db_close(quire_db* db);
/* Returns the rank that owns a key. */
QUIRE_EXPORT int quire_db_owner(const quire_db* db, const void* key, size_t key_size, int* owner);

/* Inserts a pair, or replaces the value of a key. Both are copied before return. */
QUIRE_EXPORT int quire_db_put(quire_db* db, const void* key, size_t key_size, const void* value,
                              size_t value_size);
/* Removes a key; also QUIRE_OK if the key is absent. */
QUIRE_EXPORT int quire_db_delete(quire_db* db, const void* key, size_t key_size);
/* Returns the value of a key. A NUL follows it, which `value_size` does not count. */
QUIRE_EXPORT int quire_db_get(quire_db* db, const void* key, size_t key_size, void** value,
                              size_t* value_size);
/* Copies the value of a key into `buffer`, and its size into `value_size`. If the size exceeds
 * `capacity`, nothing is copied, and the call returns QUIRE_INVALID_ARGUMENT. */
QUIRE_EXPORT int quire_db_get_into(quire_db* db, const void* key, size_t key_size, void* buffer,
                                   size_t capacity, size_t* value_size);

/* Sends the request for a value and returns; quire_pending_take returns the value. */
QUIRE_EXPORT int quire_db_get_async(quire_db* db, const void* key, size_t key_size,
                                    quire_pending** pending);
/* Returns 1 if the value has arrived, else 0. */
QUIRE_EXPORT int quire_pending_ready(quire_pending* pending);
/* Waits for the value and returns it, as quire_db_get. Frees `pending`. */
QUIRE_EXPORT int quire_pending_take(quire_pending* pending, void** value, size_t* value_size);
/* Cancels a get and frees its handle. Null is allowed. */
QUIRE_EXPORT void quire_pending_destroy(quire_pending* pending);

/* Puts `count` pairs. Tries all of them and returns the code of the first failure. */
QUIRE_EXPORT int quire_db_put_many(quire_db* db, size_t count, const void* const* keys,
                                   const size_t* key_sizes, const void* const* values,
                                   const size_t* value_sizes);
/* Deletes `count` keys. As quire_db_put_many. */
QUIRE_EXPORT int quire_db_delete_many(quire_db* db, size_t count, const void* const* keys,
                                      const size_t* key_sizes);
/* Returns `values[i]` (to be freed one by one) and `value_sizes[i]` for each `keys[i]`; null if the
 * key is absent. */
QUIRE_EXPORT int quire_db_get_many(quire_db* db, size_t count, const void* const* keys,
                                   const size_t* key_sizes, void** values, size_t* value_sizes);

/* Creates an empty batch. */
QUIRE_EXPORT int quire_batch_create(quire_batch** batch);
/* Adds a put; key and value are copied. */
QUIRE_EXPORT int quire_batch_put(quire_batch* batch, const void* key, size_t key_size,
                                 const void* value, size_t value_size);
/* Adds a delete. */
QUIRE_EXPORT int quire_batch_delete(quire_batch* batch, const void* key, size_t key_size);
/* Removes all operations from the batch. */
QUIRE_EXPORT int quire_batch_clear(quire_batch* batch);
/* Frees the batch. Null is allowed. */
QUIRE_EXPORT void quire_batch_destroy(quire_batch* batch);
/* Applies a batch: all or nothing per owner. */
QUIRE_EXPORT int quire_db_write(quire_db* db, const quire_batch* batch);

/* A reference to bytes, without ownership. */
typedef struct quire_bytes {
  const void* data;
  size_t size;
} quire_bytes;

/* Changes a value at its owner. `present` is null if the key is absent. Set the new value with
 * quire_value_set and return QUIRE_OK, or return QUIRE_NOT_FOUND to write nothing; any other code
 * is a failure. Must not call the database. */
typedef int (*quire_update)(quire_bytes key, const quire_bytes* present, quire_bytes argument,
                            quire_value* updated, void* user);
/* Sets the new value, inside an update function. The bytes are copied. */
QUIRE_EXPORT int quire_value_set(quire_value* value, const void* bytes, size_t size);
/* Registers `function` under `id` on this rank. All ranks must register the same functions before
 * the first update. */
QUIRE_EXPORT int quire_db_register_update(quire_db* db, uint32_t id, quire_update function,
                                          void* user);
/* Runs update `id` at the owner of the key, atomically for the key. */
QUIRE_EXPORT int quire_db_update(quire_db* db, const void* key, size_t key_size, uint32_t id,
                                 const void* argument, size_t argument_size);
/* As quire_update; also sets an answer for the calling rank, with quire_value_set. */
typedef int (*quire_answering_update)(quire_bytes key, const quire_bytes* present,
                                      quire_bytes argument, quire_value* updated,
                                      quire_value* answer, void* user);
/* As quire_db_register_update; both kinds share the ids. */
QUIRE_EXPORT int quire_db_register_answering_update(quire_db* db, uint32_t id,
                                                    quire_answering_update function, void* user);
/* Runs an update as quire_db_update, waits for it, and returns the function's answer; empty if the
 * function is a quire_update. A NUL follows `answer`, which `answer_size` does not count. */
QUIRE_EXPORT int quire_db_update_and_answer(quire_db* db, quire_bytes key, uint32_t id,
                                            quire_bytes argument, void** answer,
                                            size_t* answer_size);

/* Sends all staged writes and waits until their owners have applied them. */
QUIRE_EXPORT int quire_db_fence(quire_db* db);
/* Writes this rank's MemTables into tables, durable. */
QUIRE_EXPORT int quire_db_flush(quire_db* db);
/* Fences all ranks; with QUIRE_SSTABLE also writes all MemTables into tables. Collective. */
QUIRE_EXPORT int quire_db_barrier(quire_db* db, int level);
/* Sets QUIRE_SEQUENTIAL or QUIRE_RELAXED. Collective. */
QUIRE_EXPORT int quire_db_set_consistency(quire_db* db, int consistency);
/* Sets QUIRE_READ_WRITE, QUIRE_WRITE_ONLY, QUIRE_PROTECT_READ_ONLY or QUIRE_UPDATE_ONLY.
 * Collective. */
QUIRE_EXPORT int quire_db_protect(quire_db* db, int protection);
/* Merges this rank's tables into one run. */
QUIRE_EXPORT int quire_db_compact(quire_db* db);

/* Returns one of this rank's counters by name (docs/statistics.md). QUIRE_NOT_FOUND: there is no
 * such counter. */
QUIRE_EXPORT int quire_db_statistic(quire_db* db, const char* name, uint64_t* value);
/* Returns all counters, a line "name value" for each. */
QUIRE_EXPORT int quire_db_statistics(quire_db* db, char** text);

/* Creates an ordered walk over the pairs that this rank owns now. It begins before the first pair:
 * seek first. */
QUIRE_EXPORT int quire_iter_create(quire_db* db, quire_iter** iter);
/* Frees the iterator. Null is allowed. */
QUIRE_EXPORT void quire_iter_destroy(quire_iter* iter);
/* Moves to the first pair. */
QUIRE_EXPORT int quire_iter_seek_to_first(quire_iter* iter);
/* Moves to the last pair. */
QUIRE_EXPORT int quire_iter_seek_to_last(quire_iter* iter);
/* Moves to the first pair whose key is at or above `key`. */
QUIRE_EXPORT int quire_iter_seek(quire_iter* iter, const void* key, size_t key_size);
/* Moves to the next pair. */
QUIRE_EXPORT int quire_iter_next(quire_iter* iter);
/* Moves to the previous pair. */
QUIRE_EXPORT int quire_iter_prev(quire_iter* iter);
/* Returns 1 if the iterator is at a pair, else 0; then quire_iter_status returns QUIRE_OK at the
 * end, or the failure. */
QUIRE_EXPORT int quire_iter_valid(const quire_iter* iter);
/* Returns QUIRE_OK, or the failure that ended the walk. */
QUIRE_EXPORT int quire_iter_status(const quire_iter* iter);
/* Returns the key; the iterator owns it, and it is valid until the iterator moves. */
QUIRE_EXPORT int quire_iter_key(const quire_iter* iter, const void** key, size_t* key_size);
/* Returns the value; the iterator owns it, and it is valid until the iterator moves. */
QUIRE_EXPORT int quire_iter_value(quire_iter* iter, const void** value, size_t* value_size);

/* ---- Reading beside a writer: as quire::DatabaseReader (quire/reader.h) ---- */

/* Opens <repository>/<name>, or a checkpoint, <path>/<name>/<number>, in its last published state.
 * Needs no context, no MPI and no lock, and writes nothing. Uses cache_bytes and the partitioner of
 * `options` (may be null). The partitioner must be that of the database; there must be none if the
 * database uses the hash. One thread at a time. */
QUIRE_EXPORT int quire_reader_open(const char* directory, const quire_options* options,
                                   quire_reader** reader);
/* Frees the reader; its iterators must have been freed before. Null is allowed. */
QUIRE_EXPORT void quire_reader_destroy(quire_reader* reader);
/* Returns the value of a key of any rank, as quire_db_get. QUIRE_BUSY: refresh and retry. */
QUIRE_EXPORT int quire_reader_get(const quire_reader* reader, const void* key, size_t key_size,
                                  void** value, size_t* value_size);
/* Copies the value into `buffer`, as quire_db_get_into. */
QUIRE_EXPORT int quire_reader_get_into(const quire_reader* reader, const void* key, size_t key_size,
                                       void* buffer, size_t capacity, size_t* value_size);
/* Creates an ordered walk over the pairs of all ranks. It begins before the first pair: seek
 * first. */
QUIRE_EXPORT int quire_reader_iter_create(const quire_reader* reader, quire_iter** iter);
/* Moves on to the newest published state. After an error the reader keeps its previous state. */
QUIRE_EXPORT int quire_reader_refresh(quire_reader* reader);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* QUIRE_QUIRE_H_ */
