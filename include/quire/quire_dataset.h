/* Partitioned datasets in C: as quire::DatasetWriter and quire::DatasetReader (quire/dataset.h),
 * which say what each call means.
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

/* Datasets written or read with these options have their partitions by `function`, under the stored
 * name `name`, which is not "hash" (quire::DatasetOptions::partitioner). */
QUIRE_EXPORT int quire_options_set_dataset_partitioner(quire_options* options, const char* name,
                                                       quire_partitioner function, void* user);

/* ---- Writing: collective over the ranks of a context, but for put ---- */

/* Opens the dataset `name` in the context's repository, or creates it. `options` may be null. */
QUIRE_EXPORT int quire_dataset_writer_open(quire_context* context, const char* name,
                                           const quire_options* options,
                                           quire_dataset_writer** writer);
/* Frees it; an epoch that was not ended is dropped. Before the context is closed. Null is allowed.
 */
QUIRE_EXPORT void quire_dataset_writer_destroy(quire_dataset_writer* writer);
/* Begins an epoch, of a larger number than all before. */
QUIRE_EXPORT int quire_dataset_writer_begin_epoch(quire_dataset_writer* writer, uint64_t number);
/* Adds a pair to the epoch. */
QUIRE_EXPORT int quire_dataset_writer_put(quire_dataset_writer* writer, const void* key,
                                          size_t key_size, const void* value, size_t value_size);
/* Ends the epoch: it is complete and durable, or gone on all ranks. */
QUIRE_EXPORT int quire_dataset_writer_end_epoch(quire_dataset_writer* writer);
/* The last complete epoch. QUIRE_NOT_FOUND: there is none yet. */
QUIRE_EXPORT int quire_dataset_writer_last_epoch(const quire_dataset_writer* writer,
                                                 uint64_t* number);
/* One count of this rank's writer by name (docs/statistics.md). Not collective. QUIRE_NOT_FOUND:
 * there is none of that name. */
QUIRE_EXPORT int quire_dataset_writer_statistic(const quire_dataset_writer* writer,
                                                const char* name, uint64_t* value);
/* All of them, a line "name value" each. */
QUIRE_EXPORT int quire_dataset_writer_statistics(const quire_dataset_writer* writer, char** text);
/* Lets go of the dataset; the handle is still to be destroyed. */
QUIRE_EXPORT int quire_dataset_writer_finish(quire_dataset_writer* writer);

/* ---- Reading: no context, no MPI ---- */

/* Readers opened with these options stop at the first rank that has the key (`first_match` 1), or
 * give the values of all ranks (0, the default): quire::DatasetReaderOptions::first_match. */
QUIRE_EXPORT int quire_options_set_dataset_first_match(quire_options* options, int first_match);
/* Opens <repository>/<name>. Of `options` (may be null) cache_bytes, the dataset partitioner and
 * the first match count. */
QUIRE_EXPORT int quire_dataset_reader_open(const char* directory, const quire_options* options,
                                           quire_dataset_reader** reader);
/* Frees it. A scan must not outlive its reader: destroy those first. Null is allowed. */
QUIRE_EXPORT void quire_dataset_reader_destroy(quire_dataset_reader* reader);
/* Looks for epochs that were completed since. */
QUIRE_EXPORT int quire_dataset_reader_refresh(quire_dataset_reader* reader);

/* A complete epoch. */
typedef struct quire_dataset_epoch {
  uint64_t number;
  uint64_t pair_count;
  uint64_t unix_time; /* when it was completed [s] */
  uint32_t rank_count;
} quire_dataset_epoch;
/* The complete epochs, in order; an array for quire_free. */
QUIRE_EXPORT int quire_dataset_reader_epochs(const quire_dataset_reader* reader,
                                             quire_dataset_epoch** epochs, size_t* count);
/* The values of a key in one epoch, by rank. QUIRE_NOT_FOUND: nobody put it, or there is no such
 * epoch. */
QUIRE_EXPORT int quire_dataset_reader_get(const quire_dataset_reader* reader, uint64_t epoch,
                                          const void* key, size_t key_size,
                                          quire_dataset_values** values);
/* The values of `count` keys in one epoch: `values[i]` (each to be destroyed) for `keys[i]`, null
 * where nobody put the key. Where the call fails `values` is as it was. QUIRE_NOT_FOUND: there is
 * no such epoch. Cheaper than a get for each: keys of one partition are looked for together. */
QUIRE_EXPORT int quire_dataset_reader_get_many(const quire_dataset_reader* reader, uint64_t epoch,
                                               size_t count, const void* const* keys,
                                               const size_t* key_sizes,
                                               quire_dataset_values** values);
/* The values of a key in all epochs, in order. */
QUIRE_EXPORT int quire_dataset_reader_trajectory(const quire_dataset_reader* reader,
                                                 const void* key, size_t key_size,
                                                 quire_dataset_values** values);
/* How many values there are; 0 where `values` is null. */
QUIRE_EXPORT size_t quire_dataset_values_count(const quire_dataset_values* values);
/* One of them: who put it when, and its bytes, which live as long as `values`. */
QUIRE_EXPORT int quire_dataset_values_at(const quire_dataset_values* values, size_t index,
                                         uint64_t* epoch, uint32_t* rank, quire_bytes* value);
/* Frees them. Null is allowed. */
QUIRE_EXPORT void quire_dataset_values_destroy(quire_dataset_values* values);

/* Reads all of one epoch, compares every checksum, and asks for every pair. QUIRE_CORRUPTION: the
 * message names the file. QUIRE_NOT_FOUND: there is no such epoch. */
QUIRE_EXPORT int quire_dataset_reader_verify(const quire_dataset_reader* reader, uint64_t epoch);
/* One count of this reader by name (docs/statistics.md). QUIRE_NOT_FOUND: there is none of that
 * name. */
QUIRE_EXPORT int quire_dataset_reader_statistic(const quire_dataset_reader* reader,
                                                const char* name, uint64_t* value);
/* All of them, a line "name value" each. */
QUIRE_EXPORT int quire_dataset_reader_statistics(const quire_dataset_reader* reader, char** text);

/* A walk over the pairs of ranks [rank_begin, rank_end) of an epoch (rank_end UINT32_MAX: to the
 * last); it stands on the first. */
QUIRE_EXPORT int quire_dataset_scan_create(const quire_dataset_reader* reader, uint64_t epoch,
                                           uint32_t rank_begin, uint32_t rank_end,
                                           quire_dataset_scan** scan);
/* Frees it. Null is allowed. */
QUIRE_EXPORT void quire_dataset_scan_destroy(quire_dataset_scan* scan);
/* 1 where it stands on a pair, else 0: then quire_dataset_scan_status tells the end from a
 * failure. */
QUIRE_EXPORT int quire_dataset_scan_valid(const quire_dataset_scan* scan);
/* QUIRE_OK, or the failure that ended the walk. */
QUIRE_EXPORT int quire_dataset_scan_status(const quire_dataset_scan* scan);
/* To the next pair. */
QUIRE_EXPORT int quire_dataset_scan_next(quire_dataset_scan* scan);
/* The pair it stands on, and who put it; the scan's until it moves. */
QUIRE_EXPORT int quire_dataset_scan_pair(const quire_dataset_scan* scan, uint32_t* rank,
                                         quire_bytes* key, quire_bytes* value);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* QUIRE_QUIRE_DATASET_H_ */
