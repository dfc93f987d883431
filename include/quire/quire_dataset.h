/* Partitioned datasets in C. quire/dataset.h describes the calls: quire::DatasetWriter and
 * quire::DatasetReader.
 *
 * Layer      public; C99
 * Threads    quire_dataset_writer_put: any number of threads; everything else of a writer: one
 * thread of each rank. A reader: any number of threads; values and scans belong to one at a time.
 *
 * Codes, messages and memory are those of quire/quire.h. Options are set by their names in
 * quire_options: "dataset_format", "dataset_batch_bytes" and so on. */
#ifndef QUIRE_QUIRE_DATASET_H_
#define QUIRE_QUIRE_DATASET_H_

#include <stddef.h>
#include <stdint.h>

#include "quire/quire.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct quire_dataset_writer quire_dataset_writer;
typedef struct quire_dataset_reader quire_dataset_reader;
typedef struct quire_dataset_values quire_dataset_values;
typedef struct quire_dataset_scan quire_dataset_scan;

/* Sets the partitioner of datasets that are written or read with these options, and its stored
 * name, which must not be "hash" (quire::DatasetOptions::partitioner). */
QUIRE_EXPORT int quire_options_set_dataset_partitioner(quire_options* options, const char* name,
                                                       quire_partitioner function, void* user);

/* ---- Writing: collective over the ranks of a context, except put ---- */

/* Opens the dataset `name` in the context's repository, or creates it. `options` may be null. */
QUIRE_EXPORT int quire_dataset_writer_open(quire_context* context, const char* name,
                                           const quire_options* options,
                                           quire_dataset_writer** writer);
/* Frees the writer and drops an unfinished epoch. Call it before the context is closed. Null is
 * allowed. */
QUIRE_EXPORT void quire_dataset_writer_destroy(quire_dataset_writer* writer);
/* Begins an epoch. Its number must be larger than all earlier ones. */
QUIRE_EXPORT int quire_dataset_writer_begin_epoch(quire_dataset_writer* writer, uint64_t number);
/* Adds a pair to the epoch. */
QUIRE_EXPORT int quire_dataset_writer_put(quire_dataset_writer* writer, const void* key,
                                          size_t key_size, const void* value, size_t value_size);
/* Ends the epoch. Either it is complete and durable on all ranks, or the call fails and the epoch
 * is dropped. */
QUIRE_EXPORT int quire_dataset_writer_end_epoch(quire_dataset_writer* writer);
/* Returns the last complete epoch. QUIRE_NOT_FOUND: there is none yet. */
QUIRE_EXPORT int quire_dataset_writer_last_epoch(const quire_dataset_writer* writer,
                                                 uint64_t* number);
/* Returns a counter of this rank's writer by name (docs/statistics.md). Not collective.
 * QUIRE_NOT_FOUND: there is no such counter. */
QUIRE_EXPORT int quire_dataset_writer_statistic(const quire_dataset_writer* writer,
                                                const char* name, uint64_t* value);
/* Returns all counters, a line "name value" for each. */
QUIRE_EXPORT int quire_dataset_writer_statistics(const quire_dataset_writer* writer, char** text);
/* Closes the dataset. Afterwards the last epoch and the counters can still be read; other calls
 * return QUIRE_INVALID_ARGUMENT. quire_dataset_writer_destroy must still free the handle. */
QUIRE_EXPORT int quire_dataset_writer_finish(quire_dataset_writer* writer);

/* ---- Reading: no context, no MPI ---- */

/* Sets whether readers opened with these options stop at the first rank that has the key
 * (`first_match` 1), or return the values of all ranks (0, the default):
 * quire::DatasetReaderOptions::first_match. */
QUIRE_EXPORT int quire_options_set_dataset_first_match(quire_options* options, int first_match);
/* Opens <repository>/<name>. `options` may be null; only cache_bytes, the dataset partitioner and
 * the first match are used. */
QUIRE_EXPORT int quire_dataset_reader_open(const char* directory, const quire_options* options,
                                           quire_dataset_reader** reader);
/* Frees the reader; its scans must have been destroyed before. Null is allowed. */
QUIRE_EXPORT void quire_dataset_reader_destroy(quire_dataset_reader* reader);
/* Looks for epochs that were completed since the reader was opened or refreshed. */
QUIRE_EXPORT int quire_dataset_reader_refresh(quire_dataset_reader* reader);

/* A complete epoch. */
typedef struct quire_dataset_epoch {
  uint64_t number;
  uint64_t pair_count;
  uint64_t unix_time; /* when it was completed [s] */
  uint32_t rank_count;
} quire_dataset_epoch;
/* Returns the complete epochs, in order; free the array with quire_free. */
QUIRE_EXPORT int quire_dataset_reader_epochs(const quire_dataset_reader* reader,
                                             quire_dataset_epoch** epochs, size_t* count);
/* Returns the values of a key in one epoch, sorted by rank. QUIRE_NOT_FOUND: no rank put the key,
 * or there is no such epoch. */
QUIRE_EXPORT int quire_dataset_reader_get(const quire_dataset_reader* reader, uint64_t epoch,
                                          const void* key, size_t key_size,
                                          quire_dataset_values** values);
/* Returns the values of `count` keys in one epoch: `values[i]` (to be destroyed one by one) for
 * `keys[i]`; null if no rank put the key. If the call fails, `values` is unchanged.
 * QUIRE_NOT_FOUND: there is no such epoch. Cheaper than a get for each key, because keys of one
 * partition are searched together. */
QUIRE_EXPORT int quire_dataset_reader_get_many(const quire_dataset_reader* reader, uint64_t epoch,
                                               size_t count, const void* const* keys,
                                               const size_t* key_sizes,
                                               quire_dataset_values** values);
/* Returns the values of a key in all epochs, in order. */
QUIRE_EXPORT int quire_dataset_reader_trajectory(const quire_dataset_reader* reader,
                                                 const void* key, size_t key_size,
                                                 quire_dataset_values** values);
/* Returns the number of values; 0 if `values` is null. */
QUIRE_EXPORT size_t quire_dataset_values_count(const quire_dataset_values* values);
/* Returns one value: its epoch, the rank that put it, and its bytes, valid as long as `values`. */
QUIRE_EXPORT int quire_dataset_values_at(const quire_dataset_values* values, size_t index,
                                         uint64_t* epoch, uint32_t* rank, quire_bytes* value);
/* Frees the values. Null is allowed. */
QUIRE_EXPORT void quire_dataset_values_destroy(quire_dataset_values* values);

/* Reads one epoch in full, compares every checksum, and looks up every pair. QUIRE_CORRUPTION: the
 * message names the file. QUIRE_NOT_FOUND: there is no such epoch. */
QUIRE_EXPORT int quire_dataset_reader_verify(const quire_dataset_reader* reader, uint64_t epoch);
/* Returns a counter of this reader by name (docs/statistics.md). QUIRE_NOT_FOUND: there is no such
 * counter. */
QUIRE_EXPORT int quire_dataset_reader_statistic(const quire_dataset_reader* reader,
                                                const char* name, uint64_t* value);
/* Returns all counters, a line "name value" for each. */
QUIRE_EXPORT int quire_dataset_reader_statistics(const quire_dataset_reader* reader, char** text);

/* Creates a walk over the pairs that ranks [rank_begin, rank_end) put in an epoch (rank_end
 * UINT32_MAX: to the last rank); with the formats base and pointer, over the pairs stored in the
 * partitions of these numbers, whichever ranks put them. It begins at the first pair. */
QUIRE_EXPORT int quire_dataset_scan_create(const quire_dataset_reader* reader, uint64_t epoch,
                                           uint32_t rank_begin, uint32_t rank_end,
                                           quire_dataset_scan** scan);
/* Frees the scan. Null is allowed. */
QUIRE_EXPORT void quire_dataset_scan_destroy(quire_dataset_scan* scan);
/* Returns 1 if the scan is at a pair, else 0; then quire_dataset_scan_status returns QUIRE_OK at
 * the end, or the failure. */
QUIRE_EXPORT int quire_dataset_scan_valid(const quire_dataset_scan* scan);
/* Returns QUIRE_OK, or the failure that ended the walk. */
QUIRE_EXPORT int quire_dataset_scan_status(const quire_dataset_scan* scan);
/* Moves to the next pair. */
QUIRE_EXPORT int quire_dataset_scan_next(quire_dataset_scan* scan);
/* Returns the pair, and the rank that put it. The scan owns the bytes; they are valid until it
 * moves. */
QUIRE_EXPORT int quire_dataset_scan_pair(const quire_dataset_scan* scan, uint32_t* rank,
                                         quire_bytes* key, quire_bytes* value);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* QUIRE_QUIRE_DATASET_H_ */
