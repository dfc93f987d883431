/* The interface of NVStream over Quire: a simulation stores versions of its objects, an analysis
 * reads them.
 *
 * Layer      public; C99 and C++; no header of MPI. Link with -lnvs.
 * Source     NVStream, HPDC18, figure 3 and sections 5.1 to 5.3; docs/nvs.md tells what Quire does
 *            where these leave it open, and how to go on to Quire's own interface
 * Threads    any, one call at a time waits for the other; but nobody writes to an object while it
 *            is put. nvs_wait holds up nobody, and nvs_release, nvs_size and nvs_version wait for
 *            nobody: not for a put that waits for the room that they give back. A child of fork()
 *            calls nothing here, unless its parent had not called nvs_init.
 *
 * Functions that return int return NVS_OK or a negative number; those that return a pointer, null
 * for a failure. nvs_error() and nvs_error_message() tell which it was. Keys are strings of 1 to
 * 1024 bytes. */
#ifndef NVS_NVS_H_
#define NVS_NVS_H_

#include <stddef.h>
#include <stdint.h>

#include "quire/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the functions return. */
#define NVS_OK 0
#define NVS_NOT_FOUND (-1)        /* no such object, version or store; or none will come */
#define NVS_INVALID_ARGUMENT (-2) /* input out of range, or no nvs_init; nothing was done */
#define NVS_NO_SPACE (-4)    /* the log is full, and nothing of it can go; nothing was stored */
#define NVS_IO (-5)          /* the system refused a call */
#define NVS_CORRUPTION (-6)  /* what was stored is damaged */
#define NVS_BUSY (-7)        /* another process writes this store and rank */
#define NVS_TIMED_OUT (-8)   /* the time that was given is over */
#define NVS_PEER_FAILED (-9) /* the process that wrote the store died */
#define NVS_OUT_OF_MEMORY (-10)
#define NVS_UNSUPPORTED (-11) /* this build, machine or file cannot do it */

/* Names the store that the calls below are about: "name/rank", or "name" for rank 0. A name is
 * [A-Za-z0-9._-]{1,255} without a leading dot or dash. Stores lie in the directory that
 * QUIRE_STREAM_PLACE names, else in one of this user's in /dev/shm. Writes nothing: the first
 * nvs_create_obj makes the store, or goes on with what an earlier program stored. */
QUIRE_EXPORT int nvs_init(const char* store_id);
/* Ends the session: objects are freed, pointers of nvs_get end, and readers that wait hear that no
 * version will come. A program that ends without it has died, to them. */
QUIRE_EXPORT int nvs_finalize(void);

/* Zeroed memory of `size` bytes that starts at a page, for the program to compute in, until
 * nvs_free_obj. One process writes a store and rank: NVS_BUSY. */
QUIRE_EXPORT void* nvs_create_obj(const char* key, size_t size);
/* Its memory goes; its versions stay. */
QUIRE_EXPORT int nvs_free_obj(const char* key);
/* Stores the next version of an object: 1, 2 and so on. At return it survives the end of all
 * processes, and all readers of this node find it. */
QUIRE_EXPORT int nvs_put(const char* key);
/* The same of all objects, as one: readers find all or none. */
QUIRE_EXPORT int nvs_snapshot(void);
/* What was stored survives loss of power, too, where the place is a device's. */
QUIRE_EXPORT int nvs_sync(void);

/* A version (0: the newest) of an object of this session's store, whoever wrote it. The bytes are
 * compared with their checksum, are not to be written to, and stay as they are until nvs_release or
 * nvs_finalize; how many there are is said by nvs_size. */
QUIRE_EXPORT const void* nvs_get(const char* key, uint64_t version);
/* The same of another store. */
QUIRE_EXPORT const void* nvs_get_from(const char* store_id, const char* key, uint64_t version);
/* The bytes of what nvs_get returned, until it is released. 0: it is nothing of the kind. */
QUIRE_EXPORT size_t nvs_size(const void* got);
/* Which version that is. 0: it is nothing of the kind. */
QUIRE_EXPORT uint64_t nvs_version(const void* got);
/* Lets go of it, once for each nvs_get. Until then its room in the store is taken. */
QUIRE_EXPORT int nvs_release(const void* got);
/* Sleeps until there is `version` of an object of this session's store, or a newer one.
 * NVS_TIMED_OUT; NVS_NOT_FOUND: its writer has finalized; NVS_PEER_FAILED: it died. */
QUIRE_EXPORT int nvs_wait(const char* key, uint64_t version, uint64_t timeout_ms);

/* The code of the last call of this thread that failed; NVS_OK where none has. */
QUIRE_EXPORT int nvs_error(void);
/* A sentence that says why; the thread's until its next call that fails. */
QUIRE_EXPORT const char* nvs_error_message(void);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* NVS_NVS_H_ */
