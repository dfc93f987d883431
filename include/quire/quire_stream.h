/* Streams in C. quire/stream.h describes the calls: quire::StreamWriter and quire::StreamReader.
 *
 * Layer      public; C99
 * Threads    any; a view belongs to one at a time.
 *
 * Codes, messages and memory are those of quire/quire.h. Options are set by their names in
 * quire_options: "stream_log_bytes", "stream_keep_versions" and so on. Keys are 1 to 1024 bytes of
 * any value. No call is collective; an MPI program opens one writer for each rank. */
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

/* The types of an array's elements. */
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
/* Returns the size of one element [bytes]; 0: there is no such type. */
QUIRE_EXPORT size_t quire_element_size(int element);
/* Returns NumPy's name of the type, such as "float64"; "unknown": there is no such type. */
QUIRE_EXPORT const char* quire_element_name(int element);

/* The element type and extents of an object, for programs that display it. */
typedef struct quire_stream_shape {
  int element;           /* QUIRE_ELEMENT_... */
  uint32_t extent_count; /* 0 to 8; 0: one dimension with all elements */
  uint64_t extents[8];   /* the slowest-varying first */
} quire_stream_shape;

/* One version of one object. */
typedef struct quire_stream_version {
  uint64_t version;
  uint64_t snapshot;     /* the commit that stored it */
  uint64_t bytes;        /* size of the object */
  uint64_t stored_bytes; /* size in the log */
  uint64_t unix_time_ns;
  int whole; /* 0: stored as a delta to the previous version */
  quire_stream_shape shape;
} quire_stream_version;

/* The failures that a commit survives: quire_stream_writer_durability. IN_MEMORY: death of all
 * processes, but no crash of the machine, synced or not (tmpfs). KILL: death of all processes, and
 * loss of power after quire_stream_writer_sync. POWER_LOSS: loss of power at any time. */
enum { QUIRE_SURVIVES_IN_MEMORY = 0, QUIRE_SURVIVES_KILL = 1, QUIRE_SURVIVES_POWER_LOSS = 2 };

/* ---- Writing ---- */

/* Opens the part of rank `rank` in the store `name` at the directory `place`; creates it if it is
 * absent. `options` may be null. QUIRE_BUSY: another program writes it. QUIRE_NOT_FOUND: the
 * place and its parent directory are absent. QUIRE_INVALID_ARGUMENT: `rank` is larger than
 * INT32_MAX, or the place is a symbolic link. */
QUIRE_EXPORT int quire_stream_writer_open(const char* place, const char* name, uint32_t rank,
                                          const quire_options* options,
                                          quire_stream_writer** writer);
/* Ends the stream, unless quire_stream_writer_finish has ended it, and frees the writer and the
 * memory of the objects that it created. Null is allowed. */
QUIRE_EXPORT void quire_stream_writer_destroy(quire_stream_writer* writer);
/* Creates an object: `*memory` becomes page-aligned memory of `bytes` zeros, which the writer owns
 * until quire_stream_writer_free. `shape` may be null. */
QUIRE_EXPORT int quire_stream_writer_create(quire_stream_writer* writer, const void* key,
                                            size_t key_size, uint64_t bytes,
                                            const quire_stream_shape* shape, void** memory);
/* Makes an object of memory that the program owns; it must stay valid until
 * quire_stream_writer_free. */
QUIRE_EXPORT int quire_stream_writer_attach(quire_stream_writer* writer, const void* key,
                                            size_t key_size, void* memory, uint64_t bytes,
                                            const quire_stream_shape* shape);
/* Releases an object's memory. Its newest versions stay in the log forever (quire/stream.h). */
QUIRE_EXPORT int quire_stream_writer_free(quire_stream_writer* writer, const void* key,
                                          size_t key_size);
/* Commits the next version of one object; `version` (its number) may be null. */
QUIRE_EXPORT int quire_stream_writer_put(quire_stream_writer* writer, const void* key,
                                         size_t key_size, uint64_t* version);
/* Commits the next version of all objects, atomically; `snapshot` (its number) may be null. */
QUIRE_EXPORT int quire_stream_writer_snapshot(quire_stream_writer* writer, uint64_t* snapshot);
/* Commits the next version of `count` objects, atomically. */
QUIRE_EXPORT int quire_stream_writer_snapshot_some(quire_stream_writer* writer, size_t count,
                                                   const void* const* keys, const size_t* key_sizes,
                                                   uint64_t* snapshot);
/* Records that something other than a processor's store changed bytes [offset, offset + bytes). */
QUIRE_EXPORT int quire_stream_writer_mark_dirty(quire_stream_writer* writer, const void* key,
                                                size_t key_size, uint64_t offset, uint64_t bytes);
/* Fills an object with its bytes at `snapshot` (0: the newest); all objects if `key` is null and
 * `key_size` is 0. The next snapshot still gets the number after the newest: ranks that continue
 * from an older snapshot must compare steps that they store in an object, not snapshot numbers
 * (quire/stream.h). */
QUIRE_EXPORT int quire_stream_writer_restore(quire_stream_writer* writer, uint64_t snapshot,
                                             const void* key, size_t key_size);
/* Returns the newest snapshot; 0: there is none. */
QUIRE_EXPORT int quire_stream_writer_last_snapshot(const quire_stream_writer* writer,
                                                   uint64_t* snapshot);
/* Makes all commits so far survive loss of power, unless the place is in memory. */
QUIRE_EXPORT int quire_stream_writer_sync(quire_stream_writer* writer);
/* Returns QUIRE_SURVIVES_...: the failures that a commit survives without a sync. */
QUIRE_EXPORT int quire_stream_writer_durability(const quire_stream_writer* writer, int* durability);
/* Keeps all versions of a snapshot, whatever the policy, until quire_stream_writer_release. */
QUIRE_EXPORT int quire_stream_writer_keep(quire_stream_writer* writer, uint64_t snapshot);
/* Ends quire_stream_writer_keep: the snapshot is subject to the policy again. */
QUIRE_EXPORT int quire_stream_writer_release(quire_stream_writer* writer, uint64_t snapshot);
/* Collects all versions that the policy does not keep. */
QUIRE_EXPORT int quire_stream_writer_collect(quire_stream_writer* writer);
/* Returns how changes of an object are found: "whole", "hash", "protect" or "watch"; free it with
 * quire_free. */
QUIRE_EXPORT int quire_stream_writer_tracking(const quire_stream_writer* writer, const void* key,
                                              size_t key_size, char** text);
/* Returns a counter of quire::StreamStatistics by name. QUIRE_NOT_FOUND: no such counter. */
QUIRE_EXPORT int quire_stream_writer_statistic(const quire_stream_writer* writer, const char* name,
                                               uint64_t* value);
/* Returns all counters, a line "name value" for each. */
QUIRE_EXPORT int quire_stream_writer_statistics(const quire_stream_writer* writer, char** text);
/* Ends the stream: waiting readers get QUIRE_NOT_FOUND. Only quire_stream_writer_destroy may
 * follow; other calls return QUIRE_INVALID_ARGUMENT. */
QUIRE_EXPORT int quire_stream_writer_finish(quire_stream_writer* writer);

/* ---- Reading ---- */

/* Opens rank `rank`'s part of a store. `options` may be null; only timeout_ms is used: the deadline
 * of each answer from another node, 60000 by default. QUIRE_NOT_FOUND: there is no such store; to
 * wait for a writer that has not started yet, call it again after a pause. QUIRE_INVALID_ARGUMENT:
 * `rank` is larger than INT32_MAX. */
QUIRE_EXPORT int quire_stream_reader_open(const char* place, const char* name, uint32_t rank,
                                          const quire_options* options,
                                          quire_stream_reader** reader);
/* Opens a part that is at this place, without asking other nodes. */
QUIRE_EXPORT int quire_stream_reader_open_local(const char* place, const char* name, uint32_t rank,
                                                quire_stream_reader** reader);
/* Frees the reader; its views must have been released before. Null is allowed. */
QUIRE_EXPORT void quire_stream_reader_destroy(quire_stream_reader* reader);
/* Returns the keys of all objects, each followed by a NUL. One quire_free of the array also frees
 * the keys. */
QUIRE_EXPORT int quire_stream_reader_objects(quire_stream_reader* reader, quire_bytes** keys,
                                             size_t* count);
/* Returns the versions of an object, newest first; free the array with quire_free. */
QUIRE_EXPORT int quire_stream_reader_versions(quire_stream_reader* reader, const void* key,
                                              size_t key_size, quire_stream_version** versions,
                                              size_t* count);
/* Returns the newest snapshot; 0: there is none yet. */
QUIRE_EXPORT int quire_stream_reader_last_snapshot(quire_stream_reader* reader, uint64_t* snapshot);
/* Returns a verified copy of a version (0: the newest); free it with quire_free. */
QUIRE_EXPORT int quire_stream_reader_get(quire_stream_reader* reader, const void* key,
                                         size_t key_size, uint64_t version, void** bytes,
                                         size_t* size);
/* Returns a verified copy of the version that the object had at `snapshot` (0: the newest). */
QUIRE_EXPORT int quire_stream_reader_get_at(quire_stream_reader* reader, const void* key,
                                            size_t key_size, uint64_t snapshot, void** bytes,
                                            size_t* size);
/* Copies a version into memory of the program. `*size` is the size of the memory and becomes that
 * of the object. QUIRE_INVALID_ARGUMENT: it is too small. After any other error the memory's
 * content is undefined. */
QUIRE_EXPORT int quire_stream_reader_get_into(quire_stream_reader* reader, const void* key,
                                              size_t key_size, uint64_t version, void* buffer,
                                              size_t* size);
/* Copies the version that the object had at `snapshot`. As quire_stream_reader_get_into. */
QUIRE_EXPORT int quire_stream_reader_get_at_into(quire_stream_reader* reader, const void* key,
                                                 size_t key_size, uint64_t snapshot, void* buffer,
                                                 size_t* size);
/* Returns a version (0: the newest) without a copy, unverified: quire_stream_view_verify. */
QUIRE_EXPORT int quire_stream_reader_view(quire_stream_reader* reader, const void* key,
                                          size_t key_size, uint64_t version,
                                          quire_stream_view** view);
/* Returns a view of the version that the object had at `snapshot` (0: the newest). */
QUIRE_EXPORT int quire_stream_reader_view_at(quire_stream_reader* reader, const void* key,
                                             size_t key_size, uint64_t snapshot,
                                             quire_stream_view** view);
/* Sleeps until a snapshot after `after` exists; `*newest` becomes the newest one. QUIRE_TIMED_OUT:
 * no snapshot came in `timeout_ms`. QUIRE_NOT_FOUND: the writer has finished. QUIRE_PEER_FAILED: it
 * ended without finishing. */
QUIRE_EXPORT int quire_stream_reader_wait(quire_stream_reader* reader, uint64_t after,
                                          uint64_t timeout_ms, uint64_t* newest);
/* Sets `*finished` to 1 if the writer has finished, else to 0. */
QUIRE_EXPORT int quire_stream_reader_finished(quire_stream_reader* reader, int* finished);

/* Returns the bytes of a view; valid until its release. */
QUIRE_EXPORT int quire_stream_view_bytes(const quire_stream_view* view, quire_bytes* bytes);
/* Returns the version of a view. */
QUIRE_EXPORT int quire_stream_view_version(const quire_stream_view* view,
                                           quire_stream_version* version);
/* Returns 1 if the bytes are in the log; 0 if they are a copy, or if `view` is null. */
QUIRE_EXPORT int quire_stream_view_in_place(const quire_stream_view* view);
/* Reads the bytes and compares their checksum: QUIRE_CORRUPTION. */
QUIRE_EXPORT int quire_stream_view_verify(const quire_stream_view* view);
/* Releases the bytes; must precede quire_stream_reader_destroy. Null is allowed. */
QUIRE_EXPORT void quire_stream_view_release(quire_stream_view* view);

/* ---- Stores and ranks at a place ---- */

/* Returns the ranks that have a part of a store, sorted; free the array with quire_free. */
QUIRE_EXPORT int quire_stream_ranks(const char* place, const char* name, uint32_t** ranks,
                                    size_t* count);
/* Returns the names of the stores at a place, in the form of quire_stream_reader_objects. */
QUIRE_EXPORT int quire_stream_stores(const char* place, quire_bytes** names, size_t* count);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* QUIRE_QUIRE_STREAM_H_ */
