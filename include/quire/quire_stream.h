/* Streams in C: as quire::StreamWriter and quire::StreamReader (quire/stream.h), which say what
 * each call means.
 *
 * Layer      public; C99
 * Threads    any; a view belongs to one at a time.
 *
 * Codes, messages and memory are those of quire/quire.h. Options are set by their names in
 * quire_options: "stream_log_bytes", "stream_keep_versions" and so on. Keys are 1 to 1024 bytes,
 * any. Nothing here is collective; programs in MPI open one writer per rank. */
#ifndef QUIRE_QUIRE_STREAM_H_
#define QUIRE_QUIRE_STREAM_H_

#include <stddef.h>
#include <stdint.h>

#include "quire/quire.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct quire_stream_writer quire_stream_writer;
typedef struct quire_stream_reader quire_stream_reader;
typedef struct quire_stream_view quire_stream_view;

/* What an array is made of. */
enum {
  QUIRE_ELEMENT_BYTES = 0,
  QUIRE_ELEMENT_INT8 = 1,
  QUIRE_ELEMENT_INT16 = 2,
  QUIRE_ELEMENT_INT32 = 3,
  QUIRE_ELEMENT_INT64 = 4,
  QUIRE_ELEMENT_UINT8 = 5,
  QUIRE_ELEMENT_UINT16 = 6,
  QUIRE_ELEMENT_UINT32 = 7,
  QUIRE_ELEMENT_UINT64 = 8,
  QUIRE_ELEMENT_FLOAT32 = 9,
  QUIRE_ELEMENT_FLOAT64 = 10,
  QUIRE_ELEMENT_COMPLEX64 = 11, /* two of FLOAT32 */
  QUIRE_ELEMENT_COMPLEX128 = 12 /* two of FLOAT64 */
};
/* [bytes] of one element; 0: there is none of this number. */
QUIRE_EXPORT size_t quire_element_size(int element);
/* As NumPy calls it: "float64"; "unknown" where there is none of this number. */
QUIRE_EXPORT const char* quire_element_name(int element);

/* What the bytes of an object are, for those who show them. */
typedef struct quire_stream_shape {
  int element;           /* QUIRE_ELEMENT_... */
  uint32_t extent_count; /* 0 to 8; 0: one dimension of as many elements as there are */
  uint64_t extents[8];   /* the slowest first */
} quire_stream_shape;

/* One version of one object. */
typedef struct quire_stream_version {
  uint64_t version;
  uint64_t snapshot;     /* the commit it came with */
  uint64_t bytes;        /* of the object */
  uint64_t stored_bytes; /* in the log */
  uint64_t unix_time_ns;
  int whole; /* 0: what changed since the version before */
  quire_stream_shape shape;
} quire_stream_version;

/* What one commit survives: quire_stream_writer_durability. Death of all processes, but nothing of
 * the machine's, synced or not (tmpfs); death of all processes, and loss of power after
 * quire_stream_writer_sync; loss of power at once. */
enum { QUIRE_SURVIVES_IN_MEMORY = 0, QUIRE_SURVIVES_KILL = 1, QUIRE_SURVIVES_POWER_LOSS = 2 };

/* ---- Writing ---- */

/* Opens rank `rank`'s part of the store `name` at the directory `place`, or makes it. `options` may
 * be null. QUIRE_BUSY: a program writes it. QUIRE_INVALID_ARGUMENT: `rank` is larger than
 * INT32_MAX. */
QUIRE_EXPORT int quire_stream_writer_open(const char* place, const char* name, uint32_t rank,
                                          const quire_options* options,
                                          quire_stream_writer** writer);
/* Ends the stream, if quire_stream_writer_finish has not, and frees it. Memory of objects that were
 * created goes. Null is allowed. */
QUIRE_EXPORT void quire_stream_writer_destroy(quire_stream_writer* writer);
/* Makes an object: `*memory` is `bytes` zeroes that start at a page, the writer's until free.
 * `shape` may be null. */
QUIRE_EXPORT int quire_stream_writer_create(quire_stream_writer* writer, const void* key,
                                            size_t key_size, uint64_t bytes,
                                            const quire_stream_shape* shape, void** memory);
/* The same of memory that the program has and keeps until free. */
QUIRE_EXPORT int quire_stream_writer_attach(quire_stream_writer* writer, const void* key,
                                            size_t key_size, void* memory, uint64_t bytes,
                                            const quire_stream_shape* shape);
/* Lets go of an object's memory; its versions stay. */
QUIRE_EXPORT int quire_stream_writer_free(quire_stream_writer* writer, const void* key,
                                          size_t key_size);
/* Commits the next version of one object; `version` (its number) may be null. */
QUIRE_EXPORT int quire_stream_writer_put(quire_stream_writer* writer, const void* key,
                                         size_t key_size, uint64_t* version);
/* Commits the next version of all objects, all or none; `snapshot` (its number) may be null. */
QUIRE_EXPORT int quire_stream_writer_snapshot(quire_stream_writer* writer, uint64_t* snapshot);
/* The same of `count` objects. */
QUIRE_EXPORT int quire_stream_writer_snapshot_some(quire_stream_writer* writer, size_t count,
                                                   const void* const* keys, const size_t* key_sizes,
                                                   uint64_t* snapshot);
/* Bytes [offset, offset + bytes) changed that no store of a processor wrote. */
QUIRE_EXPORT int quire_stream_writer_mark_dirty(quire_stream_writer* writer, const void* key,
                                                size_t key_size, uint64_t offset, uint64_t bytes);
/* Fills an object with what it was at `snapshot` (0: the newest); all objects if `key` is null and
 * `key_size` 0. */
QUIRE_EXPORT int quire_stream_writer_restore(quire_stream_writer* writer, uint64_t snapshot,
                                             const void* key, size_t key_size);
/* The newest snapshot; 0: none. */
QUIRE_EXPORT int quire_stream_writer_last_snapshot(const quire_stream_writer* writer,
                                                   uint64_t* snapshot);
/* What was committed survives loss of power, unless it lies in memory alone. */
QUIRE_EXPORT int quire_stream_writer_sync(quire_stream_writer* writer);
/* What one commit survives without it: QUIRE_SURVIVES_... */
QUIRE_EXPORT int quire_stream_writer_durability(const quire_stream_writer* writer, int* durability);
/* A snapshot is kept whatever the policy, until release. */
QUIRE_EXPORT int quire_stream_writer_keep(quire_stream_writer* writer, uint64_t snapshot);
/* Ends that. */
QUIRE_EXPORT int quire_stream_writer_release(quire_stream_writer* writer, uint64_t snapshot);
/* Collects now what the policy does not keep. */
QUIRE_EXPORT int quire_stream_writer_collect(quire_stream_writer* writer);
/* How changes of an object are found: "whole", "hash", "protect", "watch"; for quire_free. */
QUIRE_EXPORT int quire_stream_writer_tracking(const quire_stream_writer* writer, const void* key,
                                              size_t key_size, char** text);
/* One count of quire::StreamStatistics by name. QUIRE_NOT_FOUND: there is none of that name. */
QUIRE_EXPORT int quire_stream_writer_statistic(const quire_stream_writer* writer, const char* name,
                                               uint64_t* value);
/* All of them, a line "name value" each. */
QUIRE_EXPORT int quire_stream_writer_statistics(const quire_stream_writer* writer, char** text);
/* Readers that wait hear that no version will come. Nothing but destroy may follow:
 * QUIRE_INVALID_ARGUMENT. */
QUIRE_EXPORT int quire_stream_writer_finish(quire_stream_writer* writer);

/* ---- Reading ---- */

/* Opens rank `rank`'s part of a store. Of `options` (may be null) timeout_ms counts: how long the
 * answer of another node may take; 60000 where nobody says otherwise. QUIRE_NOT_FOUND: there is no
 * such store. QUIRE_INVALID_ARGUMENT: `rank` is larger than INT32_MAX. */
QUIRE_EXPORT int quire_stream_reader_open(const char* place, const char* name, uint32_t rank,
                                          const quire_options* options,
                                          quire_stream_reader** reader);
/* The same of what lies at this place, and nowhere else. */
QUIRE_EXPORT int quire_stream_reader_open_local(const char* place, const char* name, uint32_t rank,
                                                quire_stream_reader** reader);
/* Frees it, after its views. Null is allowed. */
QUIRE_EXPORT void quire_stream_reader_destroy(quire_stream_reader* reader);
/* The keys of all objects; an array for quire_free, which takes the keys with it. A NUL stands
 * behind each. */
QUIRE_EXPORT int quire_stream_reader_objects(quire_stream_reader* reader, quire_bytes** keys,
                                             size_t* count);
/* The versions of an object, newest first; an array for quire_free. */
QUIRE_EXPORT int quire_stream_reader_versions(quire_stream_reader* reader, const void* key,
                                              size_t key_size, quire_stream_version** versions,
                                              size_t* count);
/* The newest snapshot; 0: none yet. */
QUIRE_EXPORT int quire_stream_reader_last_snapshot(quire_stream_reader* reader, uint64_t* snapshot);
/* A checked copy of a version (0: the newest), for quire_free. */
QUIRE_EXPORT int quire_stream_reader_get(quire_stream_reader* reader, const void* key,
                                         size_t key_size, uint64_t version, void** bytes,
                                         size_t* size);
/* The same as the object was at `snapshot` (0: the newest). */
QUIRE_EXPORT int quire_stream_reader_get_at(quire_stream_reader* reader, const void* key,
                                            size_t key_size, uint64_t snapshot, void** bytes,
                                            size_t* size);
/* As get, into memory of the program: `*size` is its size, and becomes the object's.
 * QUIRE_INVALID_ARGUMENT where it is too small. After another error it may have any bytes. */
QUIRE_EXPORT int quire_stream_reader_get_into(quire_stream_reader* reader, const void* key,
                                              size_t key_size, uint64_t version, void* buffer,
                                              size_t* size);
/* As get_at, in the same way. */
QUIRE_EXPORT int quire_stream_reader_get_at_into(quire_stream_reader* reader, const void* key,
                                                 size_t key_size, uint64_t snapshot, void* buffer,
                                                 size_t* size);
/* A version (0: the newest) without a copy, and unchecked: quire_stream_view_verify. */
QUIRE_EXPORT int quire_stream_reader_view(quire_stream_reader* reader, const void* key,
                                          size_t key_size, uint64_t version,
                                          quire_stream_view** view);
/* The same as the object was at `snapshot` (0: the newest). */
QUIRE_EXPORT int quire_stream_reader_view_at(quire_stream_reader* reader, const void* key,
                                             size_t key_size, uint64_t snapshot,
                                             quire_stream_view** view);
/* Sleeps until there is a snapshot after `after`; `*newest` is the newest. QUIRE_TIMED_OUT,
 * QUIRE_NOT_FOUND: the writer has finished, QUIRE_PEER_FAILED: it is gone. */
QUIRE_EXPORT int quire_stream_reader_wait(quire_stream_reader* reader, uint64_t after,
                                          uint64_t timeout_ms, uint64_t* newest);
/* 1 where the writer has finished, else 0. */
QUIRE_EXPORT int quire_stream_reader_finished(quire_stream_reader* reader, int* finished);

/* The bytes of a view, until its release. */
QUIRE_EXPORT int quire_stream_view_bytes(const quire_stream_view* view, quire_bytes* bytes);
/* Which version it shows. */
QUIRE_EXPORT int quire_stream_view_version(const quire_stream_view* view,
                                           quire_stream_version* version);
/* 1 where the bytes lie in the log, 0 where they are a copy, or `view` is null. */
QUIRE_EXPORT int quire_stream_view_in_place(const quire_stream_view* view);
/* Reads the bytes and compares their checksum: QUIRE_CORRUPTION. */
QUIRE_EXPORT int quire_stream_view_verify(const quire_stream_view* view);
/* Lets go of the bytes, before the reader goes. Null is allowed. */
QUIRE_EXPORT void quire_stream_view_release(quire_stream_view* view);

/* ---- What there is ---- */

/* The ranks that have a part of a store, in order; an array for quire_free. */
QUIRE_EXPORT int quire_stream_ranks(const char* place, const char* name, uint32_t** ranks,
                                    size_t* count);
/* The names of the stores at a place, as quire_stream_reader_objects gives keys. */
QUIRE_EXPORT int quire_stream_stores(const char* place, quire_bytes** names, size_t* count);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* QUIRE_QUIRE_STREAM_H_ */
