/* The interface of NVStream over Quire: a simulation stores versions of its objects, an analysis
 * reads them.
 *
 * Layer      public; C99 and C++; no header of MPI. Link with -lnvs.
 * Source     NVStream, HPDC18, figure 3 and sections 5.1 to 5.3. docs/nvs.md describes the
 *            behaviour that these leave open, and the way to Quire's own interface
 * Threads    any; calls are serialized, but nvs_wait does not block other calls, and nvs_release,
 *            nvs_size and nvs_version do not wait for others, not even for a put that waits for
 *            space. No thread may write to an object while it is put. A child of fork() must not
 *            call these functions, unless its parent had not called nvs_init.
 *
 * Functions that return int return NVS_OK or a negative number; those that return a pointer return
 * null if they fail. nvs_error() and nvs_error_message() return the reason. Keys are strings of 1
 * to 1024 bytes. */
#ifndef NVS_NVS_H_
#define NVS_NVS_H_

#include <stddef.h>
#include <stdint.h>

#include "quire/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Return values. */
#define NVS_OK 0
#define NVS_NOT_FOUND (-1)        /* no such object, version or store; or none will come */
#define NVS_INVALID_ARGUMENT (-2) /* input out of range, or no nvs_init; nothing was done */
#define NVS_NO_SPACE (-4)    /* the log is full and nothing can be collected; nothing was stored */
#define NVS_IO (-5)          /* the system refused a call */
#define NVS_CORRUPTION (-6)  /* stored data are damaged */
#define NVS_BUSY (-7)        /* another process writes this store and rank */
#define NVS_TIMED_OUT (-8)   /* the given time is over */
#define NVS_PEER_FAILED (-9) /* the process that wrote the store died */
#define NVS_OUT_OF_MEMORY (-10)
#define NVS_UNSUPPORTED (-11) /* this build, machine or file cannot do it */

/* Sets the store that the calls below use: "name/rank", or "name" for rank 0. A name is
 * [A-Za-z0-9._-]{1,255} without a leading dot or dash. Stores are in the directory that
 * QUIRE_STREAM_PLACE names; by default in a directory of this user in /dev/shm. Writes nothing: the
 * first nvs_create_obj creates the store, or continues that of an earlier program. */
QUIRE_EXPORT int nvs_init(const char* store_id);
/* Ends the session: frees the objects and the pointers of nvs_get; waiting readers get
 * NVS_NOT_FOUND. To readers, a program that ends without it has died. */
QUIRE_EXPORT int nvs_finalize(void);

/* Creates an object: page-aligned, zeroed memory of `size` bytes for the program to compute in,
 * valid until nvs_free_obj. NVS_BUSY: another process writes this store and rank. */
QUIRE_EXPORT void* nvs_create_obj(const char* key, size_t size);
/* Frees an object's memory; its versions stay. */
QUIRE_EXPORT int nvs_free_obj(const char* key);
/* Stores the next version of an object: 1, 2 and so on. At return it survives the end of all
 * processes, and all readers of this node see it. */
QUIRE_EXPORT int nvs_put(const char* key);
/* Stores the next version of all objects, atomically: readers see all of them or none. */
QUIRE_EXPORT int nvs_snapshot(void);
/* Makes all stored versions survive loss of power, if the store is on a device. */
QUIRE_EXPORT int nvs_sync(void);

/* Returns a version (0: the newest) of an object of this session's store, of any writer. The bytes
 * have been compared with their checksum; they must not be written to, and stay valid until
 * nvs_release or nvs_finalize. nvs_size returns their number. */
QUIRE_EXPORT const void* nvs_get(const char* key, uint64_t version);
/* Returns a version of an object of another store. As nvs_get. */
QUIRE_EXPORT const void* nvs_get_from(const char* store_id, const char* key, uint64_t version);
/* Returns the size of what nvs_get returned; 0 if released, or if it is no such pointer. */
QUIRE_EXPORT size_t nvs_size(const void* got);
/* Returns the version of what nvs_get returned; 0 if released, or if it is no such pointer. */
QUIRE_EXPORT uint64_t nvs_version(const void* got);
/* Releases the bytes; call it once for each nvs_get. Until then their space cannot be collected. */
QUIRE_EXPORT int nvs_release(const void* got);
/* Sleeps until `version` of an object of this session's store, or a newer one, exists.
 * NVS_TIMED_OUT. NVS_NOT_FOUND: its writer has finalized. NVS_PEER_FAILED: its writer died. */
QUIRE_EXPORT int nvs_wait(const char* key, uint64_t version, uint64_t timeout_ms);

/* Returns the code of this thread's last call that failed; NVS_OK if none has. */
QUIRE_EXPORT int nvs_error(void);
/* Returns a sentence that says why it failed; valid until this thread's next failing call. */
QUIRE_EXPORT const char* nvs_error_message(void);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* NVS_NVS_H_ */
