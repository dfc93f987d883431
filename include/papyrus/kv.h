/* The interface of PapyrusKV over Quire: programs written for it compile and run as they are.
 *
 * Layer      public; C99 and C++; no header of MPI. Link with -lpapyruskv.
 * Source     PapyrusKV, SC17, table 1, and its released interface; docs/papyruskv.md tells what
 *            Quire does where these leave it open, and how to go on to Quire's own interface
 * Threads    as Quire: calls that are not collective from any number of threads, where the program
 *            asked MPI for MPI_THREAD_MULTIPLE (papyrus/mpi.h). Collective calls: all ranks of
 *            MPI_COMM_WORLD, one thread each, in the same order.
 *
 * Every function returns PAPYRUSKV_OK or a negative number. An absent key is PAPYRUSKV_NOT_FOUND,
 * which is PAPYRUSKV_ERR: programs compare with either. Every failure has another number; without
 * papyruskv_init, after papyruskv_finalize, and with a null where something must be it is
 * PAPYRUSKV_INVALID_ARGUMENT. Why a call failed is said by the log (QUIRE_LOG=warning). Lengths are
 * bytes; keys and values are any bytes. */
#ifndef PAPYRUS_KV_H_
#define PAPYRUS_KV_H_

#include <stddef.h>

#include "quire/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the functions answer. */
#define PAPYRUSKV_OK 0
#define PAPYRUSKV_SUCCESS PAPYRUSKV_OK
#define PAPYRUSKV_ERR (-1)
#define PAPYRUSKV_NOT_FOUND PAPYRUSKV_ERR /* the key, or the database to be opened, is absent */
#define PAPYRUSKV_INVALID_DB (-2)         /* no database is open under this handle */
#define PAPYRUSKV_INVALID_ARGUMENT (-3)   /* the program asked for what cannot be */
#define PAPYRUSKV_READ_ONLY (-4)          /* protected, or read-only after a failure */
#define PAPYRUSKV_NO_SPACE (-5)           /* the device is full */
#define PAPYRUSKV_IO (-6)                 /* the system refused a call on a file */
#define PAPYRUSKV_CORRUPTION (-7)         /* stored or received bytes are damaged */
#define PAPYRUSKV_BUSY (-8)               /* open elsewhere, or here already */
#define PAPYRUSKV_TIMED_OUT (-9)          /* a rank did not answer: the outcome is unknown */
#define PAPYRUSKV_PEER_FAILED (-10)       /* a rank died: the outcome is unknown */
#define PAPYRUSKV_OUT_OF_MEMORY (-11)     /* memory, descriptors or threads are short */
#define PAPYRUSKV_UNSUPPORTED (-12)       /* made by a newer version */

/* Levels of fence and barrier. */
#define PAPYRUSKV_MEMTABLE (1 << 0)
#define PAPYRUSKV_SSTABLE (1 << 1)

/* Consistency: flags of papyruskv_open, or for papyruskv_consistency. */
#define PAPYRUSKV_SEQUENTIAL (1 << 0)
#define PAPYRUSKV_RELAXED (1 << 1)

/* Flag of papyruskv_open: make the database where it is not there. */
#define PAPYRUSKV_CREATE (1 << 2)

/* Protection: flags of papyruskv_open, or for papyruskv_protect. */
#define PAPYRUSKV_RDWR (1 << 3)
#define PAPYRUSKV_WRONLY (1 << 4)
#define PAPYRUSKV_RDONLY (1 << 5)
#define PAPYRUSKV_UDONLY (1 << 6)

/* The owner rank of a key, in [0, nranks): a pure function, the same on all ranks. */
typedef int (*papyruskv_hash_fn_t)(const char* key, size_t keylen, size_t nranks);

/* Changes the value of a key, at its owner. `*val` has `*vallen` bytes (0: the key is absent) and
 * room for 16 MiB. The function changes them, and `*vallen`, or makes `*val` point to other bytes,
 * which stay its own: they are copied when it returns. It never frees `*val`. It answers a positive
 * number to store, 0 to store where something has changed, or a negative one to refuse. `userout`
 * is zero at first, and travels back to the rank that asked. Must not call this library. */
typedef int (*papyruskv_update_fn_t)(const char* key, size_t keylen, char** val, size_t* vallen,
                                     void* userin, size_t userinlen, void* userout,
                                     size_t useroutlen);

/* What a program says of a database; null in place of it: all defaults. */
typedef struct papyruskv_option_t {
  size_t keylen;            /* of all keys, 0: any. A hint: other lengths are stored as well. */
  size_t vallen;            /* of all values, 0: any. A hint, too. */
  papyruskv_hash_fn_t hash; /* null: Quire's own */
} papyruskv_option_t;

/* Where a walk over the pairs of this rank stands; its bytes are good until it moves on. */
typedef struct papyruskv_iter {
  char* key;
  size_t keylen;
  char* val;
  size_t vallen;
  void* handle;
} * papyruskv_iter_t;

/* Where a get has found a pair. */
typedef struct papyruskv_pos_t {
  void* handle; /* null: the key was not found */
} papyruskv_pos_t;

/* Begins, in the directory `repository`, which is made where it is absent; "$NAME" at its beginning
 * reads an environment variable. `argc` and `argv` may be null. Collective. Starts MPI, too, with
 * MPI_THREAD_MULTIPLE, where the program has not. */
QUIRE_EXPORT int papyruskv_init(int* argc, char*** argv, const char* repository);
/* Closes what is open, removes the databases of the repository, and the repository where nothing
 * else is in it, unless PAPYRUSKV_DESTROY_REPOSITORY is 0; ends MPI where papyruskv_init started
 * it. Collective. */
QUIRE_EXPORT int papyruskv_finalize(void);

/* Opens the database `name` (1 to 255 bytes); `*db` is its handle, the same on all ranks, or -1.
 * `flags`: PAPYRUSKV_CREATE or not; a consistency or not (PAPYRUSKV_CONSISTENCY); a protection or
 * not (PAPYRUSKV_RDWR). Up to 256 are open at a time. Collective. */
QUIRE_EXPORT int papyruskv_open(const char* name, int flags, papyruskv_option_t* opt, int* db);
/* Closes it and keeps its data. Values stay the program's; walks that have not ended end.
 * Collective. */
QUIRE_EXPORT int papyruskv_close(int db);

/* Stores a pair, in place of the value that the key had. Other ranks see it at once where the
 * database is sequential, else after papyruskv_fence or papyruskv_barrier. */
QUIRE_EXPORT int papyruskv_put(int db, const char* key, size_t keylen, const char* val,
                               size_t vallen);
/* Gives the value of a key: where `*val` is null in memory that the library allocates and
 * papyruskv_free takes back, else copied to `*val`, which must have room. Its length goes to
 * `*vallen` unless `vallen` is null. */
QUIRE_EXPORT int papyruskv_get(int db, const char* key, size_t keylen, char** val, size_t* vallen);
/* The same, and where the pair was found, for a papyruskv_update of this key. `pos` may be null. */
QUIRE_EXPORT int papyruskv_get_pos(int db, const char* key, size_t keylen, char** val,
                                   size_t* vallen, papyruskv_pos_t* pos);
/* Removes a pair; PAPYRUSKV_OK also where there is none. Seen by others as a put. */
QUIRE_EXPORT int papyruskv_delete(int db, const char* key, size_t keylen);
/* Frees a value that papyruskv_get has allocated, and sets `*val` to null. */
QUIRE_EXPORT int papyruskv_free(char** val);

/* Sends what this rank has staged and waits until the owners have it; with PAPYRUSKV_SSTABLE also
 * until the pairs that this rank owns are in tables. Tells what earlier relaxed puts have lost. */
QUIRE_EXPORT int papyruskv_fence(int db, int level);
/* A fence by all ranks: all see the same data afterwards, with PAPYRUSKV_SSTABLE in tables that
 * survive power loss. Collective. */
QUIRE_EXPORT int papyruskv_barrier(int db, int level);
/* Sends the signal `signum` to `count` ranks. */
QUIRE_EXPORT int papyruskv_signal_notify(int signum, int* ranks, int count);
/* Waits for the signal `signum` from each of `count` ranks. */
QUIRE_EXPORT int papyruskv_signal_wait(int signum, int* ranks, int count);
/* PAPYRUSKV_SEQUENTIAL or PAPYRUSKV_RELAXED from now on. Collective. */
QUIRE_EXPORT int papyruskv_consistency(int db, int consistency);
/* One of PAPYRUSKV_RDWR, WRONLY, RDONLY and UDONLY from now on. Collective. */
QUIRE_EXPORT int papyruskv_protect(int db, int prot);

/* Removes the database and its files, in the background. Its handle is free at once, but for
 * papyruskv_wait. With a null `event` it waits here. Collective. */
QUIRE_EXPORT int papyruskv_destroy(int db, int* event);
/* Writes a checkpoint of what all ranks have put so far below the directory `path`, which all ranks
 * see, in the background: the ranks go on. It is complete when its event has been waited for.
 * `path` may begin with "$NAME". With a null `event` it waits here. Collective. */
QUIRE_EXPORT int papyruskv_checkpoint(int db, const char* path, int* event);
/* Brings `name` back from its newest complete checkpoint below `path`, in the background, in place
 * of a closed database of that name. `*db` is its handle, which is good once the event has been
 * waited for; until then calls with it are PAPYRUSKV_BUSY. With a null `event` it waits here.
 * Collective. */
QUIRE_EXPORT int papyruskv_restart(const char* path, const char* name, int flags,
                                   papyruskv_option_t* opt, int* db, int* event);
/* Waits for an event of the database, once. It fails also if what the event stands for has failed.
 * Several may be under way. Collective. */
QUIRE_EXPORT int papyruskv_wait(int db, int event);

/* Distributes the keys of an empty database by `fn` from now on (null: Quire's own hash).
 * PAPYRUSKV_INVALID_ARGUMENT if it has pairs: give papyruskv_open the function then. Collective. */
QUIRE_EXPORT int papyruskv_hash(int db, papyruskv_hash_fn_t fn);

/* Begins a walk over the pairs that this rank owns, in order of keys, as they are now; `*iter`
 * stands on the first one, or is null where there is none. */
QUIRE_EXPORT int papyruskv_iter_local(int db, papyruskv_iter_t* iter);
/* To the next pair; `*iter` is null behind the last one, and the walk's memory is freed. */
QUIRE_EXPORT int papyruskv_iter_next(int db, papyruskv_iter_t* iter);

/* Makes `fn` known under `fnid`, any number, on this rank, in place of one that had it. The ranks
 * give the same functions. Collective. */
QUIRE_EXPORT int papyruskv_register_update(int db, int fnid, papyruskv_update_fn_t fn);
/* Runs a registered function on the value of a key, at its owner, atomically for the key. `pos`: as
 * papyruskv_get_pos gave it for this key, or null. With a `userout` the call waits for what the
 * function has written there; without it is seen by others as a put. Where an answer is not waited
 * for, what the function refuses is told by the next fence. */
QUIRE_EXPORT int papyruskv_update(int db, const char* key, size_t keylen, papyruskv_pos_t* pos,
                                  int fnid, void* userin, size_t userinlen, void* userout,
                                  size_t useroutlen);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* PAPYRUS_KV_H_ */
