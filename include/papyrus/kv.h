/* The interface of PapyrusKV over Quire: programs written for it compile and run as they are.
 *
 * Layer      public; C99 and C++; no header of MPI. Link with -lpapyruskv.
 * Source     PapyrusKV, SC17, table 1, and its released interface. docs/papyruskv.md describes the
 *            behaviour that these leave open, and the way to Quire's own interface
 * Threads    as Quire: calls that are not collective from any number of threads, if the program
 *            initialized MPI with MPI_THREAD_MULTIPLE (papyrus/mpi.h). Collective calls: all ranks
 *            of MPI_COMM_WORLD, one thread each, in the same order.
 *
 * Every function returns PAPYRUSKV_OK or a negative number. An absent key is PAPYRUSKV_NOT_FOUND,
 * which equals PAPYRUSKV_ERR: programs compare with either. Every failure has another number.
 * Before papyruskv_init, after papyruskv_finalize, and if a required pointer is null, a call
 * returns PAPYRUSKV_INVALID_ARGUMENT. The log says why a call failed (QUIRE_LOG=warning). Lengths
 * are in bytes; keys and values are bytes of any value. */
#ifndef PAPYRUS_KV_H_
#define PAPYRUS_KV_H_

#include <stddef.h>

#include "quire/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Return values. */
#define PAPYRUSKV_OK 0
#define PAPYRUSKV_SUCCESS PAPYRUSKV_OK
#define PAPYRUSKV_ERR (-1)
#define PAPYRUSKV_NOT_FOUND PAPYRUSKV_ERR /* the key, or the database to be opened, is absent */
#define PAPYRUSKV_INVALID_DB (-2)         /* no database is open under this handle */
#define PAPYRUSKV_INVALID_ARGUMENT (-3)   /* an argument is out of range */
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

/* Flag of papyruskv_open: create the database if it is absent. */
#define PAPYRUSKV_CREATE (1 << 2)

/* Protection: flags of papyruskv_open, or for papyruskv_protect. */
#define PAPYRUSKV_RDWR (1 << 3)
#define PAPYRUSKV_WRONLY (1 << 4)
#define PAPYRUSKV_RDONLY (1 << 5)
#define PAPYRUSKV_UDONLY (1 << 6)

/* Returns the owner rank of a key, in [0, nranks). Must be a pure function, the same on all
 * ranks. */
typedef int (*papyruskv_hash_fn_t)(const char* key, size_t keylen, size_t nranks);

/* Changes the value of a key at its owner. `*val` has `*vallen` bytes (0: the key is absent) and
 * space for 16 MiB. The function changes them and `*vallen`, or sets `*val` to other bytes, which
 * it owns and which are copied when it returns. It must not free `*val`. It returns a positive
 * number to store, 0 to store if something changed, or a negative number to refuse. `userout` is
 * zero at first and is sent back to the calling rank. Must not call this library. */
typedef int (*papyruskv_update_fn_t)(const char* key, size_t keylen, char** val, size_t* vallen,
                                     void* userin, size_t userinlen, void* userout,
                                     size_t useroutlen);

/* Options of a database. A null pointer to it stands for the defaults. */
typedef struct papyruskv_option_t {
  size_t keylen;            /* length of all keys, 0: any. A hint: other lengths work, too. */
  size_t vallen;            /* length of all values, 0: any. A hint, too. */
  papyruskv_hash_fn_t hash; /* null: Quire's own */
} papyruskv_option_t;

/* The position of a walk over the pairs of this rank. Its bytes are valid until it moves on. */
typedef struct papyruskv_iter {
  char* key;
  size_t keylen;
  char* val;
  size_t vallen;
  void* handle;
} * papyruskv_iter_t;

/* The position at which a get found a pair. */
typedef struct papyruskv_pos_t {
  void* handle; /* null: the key was not found */
} papyruskv_pos_t;

/* Starts the library in the directory `repository`, which is created if it is absent. A leading
 * "$NAME" is replaced by the environment variable. `argc` and `argv` may be null. Collective. Also
 * initializes MPI with MPI_THREAD_MULTIPLE if the program has not. */
QUIRE_EXPORT int papyruskv_init(int* argc, char*** argv, const char* repository);
/* Closes all databases. Unless PAPYRUSKV_DESTROY_REPOSITORY is 0, also removes the repository's
 * databases, and the repository if it contains nothing else. Finalizes MPI if papyruskv_init
 * initialized it. Collective. */
QUIRE_EXPORT int papyruskv_finalize(void);

/* Opens the database `name` (1 to 255 bytes); `*db` is its handle, the same on all ranks, or -1.
 * `flags`: PAPYRUSKV_CREATE or not; a consistency or not (PAPYRUSKV_CONSISTENCY); a protection or
 * not (PAPYRUSKV_RDWR). Up to 256 are open at a time. Collective. */
QUIRE_EXPORT int papyruskv_open(const char* name, int flags, papyruskv_option_t* opt, int* db);
/* Closes a database; its data stay. The program keeps the values that it got; unfinished walks end.
 * Collective. */
QUIRE_EXPORT int papyruskv_close(int db);

/* Stores a pair; replaces the key's earlier value. Other ranks see it at once if the database is
 * sequential, else after papyruskv_fence or papyruskv_barrier. */
QUIRE_EXPORT int papyruskv_put(int db, const char* key, size_t keylen, const char* val,
                               size_t vallen);
/* Returns the value of a key. If `*val` is null, the library allocates memory, to be freed with
 * papyruskv_free; otherwise the value is copied to `*val`, which must be large enough. Stores the
 * length in `*vallen` unless `vallen` is null. */
QUIRE_EXPORT int papyruskv_get(int db, const char* key, size_t keylen, char** val, size_t* vallen);
/* As papyruskv_get; also returns the pair's position, for a papyruskv_update of this key. `pos` may
 * be null. */
QUIRE_EXPORT int papyruskv_get_pos(int db, const char* key, size_t keylen, char** val,
                                   size_t* vallen, papyruskv_pos_t* pos);
/* Removes a pair; also PAPYRUSKV_OK if the key is absent. Other ranks see it as they see a put. */
QUIRE_EXPORT int papyruskv_delete(int db, const char* key, size_t keylen);
/* Frees a value that papyruskv_get allocated, and sets `*val` to null. */
QUIRE_EXPORT int papyruskv_free(char** val);

/* Sends all staged writes of this rank and waits until their owners have applied them; with
 * PAPYRUSKV_SSTABLE also until the pairs that this rank owns are in tables. Fails if an earlier
 * relaxed put was lost. */
QUIRE_EXPORT int papyruskv_fence(int db, int level);
/* Fences all ranks: afterwards all see the same data, with PAPYRUSKV_SSTABLE in tables that survive
 * power loss. Collective. */
QUIRE_EXPORT int papyruskv_barrier(int db, int level);
/* Sends the signal `signum` to `count` ranks. */
QUIRE_EXPORT int papyruskv_signal_notify(int signum, int* ranks, int count);
/* Waits for the signal `signum` from each of `count` ranks. */
QUIRE_EXPORT int papyruskv_signal_wait(int signum, int* ranks, int count);
/* Sets PAPYRUSKV_SEQUENTIAL or PAPYRUSKV_RELAXED. Collective. */
QUIRE_EXPORT int papyruskv_consistency(int db, int consistency);
/* Sets PAPYRUSKV_RDWR, PAPYRUSKV_WRONLY, PAPYRUSKV_RDONLY or PAPYRUSKV_UDONLY. Collective. */
QUIRE_EXPORT int papyruskv_protect(int db, int prot);

/* Removes the database and its files in the background. From now on only papyruskv_wait accepts its
 * handle. If `event` is null, the call waits for the end. Collective. */
QUIRE_EXPORT int papyruskv_destroy(int db, int* event);
/* Writes a checkpoint of everything that all ranks have put so far, below the directory `path`,
 * which all ranks must see. The copying goes on in the background; the checkpoint is complete after
 * papyruskv_wait. `path` may begin with "$NAME". If `event` is null, the call waits for the end.
 * Collective. */
QUIRE_EXPORT int papyruskv_checkpoint(int db, const char* path, int* event);
/* Restores `name` from its newest complete checkpoint below `path`, in the background; replaces a
 * closed database of that name. `*db` is its handle. Until papyruskv_wait has returned, calls with
 * it return PAPYRUSKV_BUSY. If `event` is null, the call waits for the end. Collective. */
QUIRE_EXPORT int papyruskv_restart(const char* path, const char* name, int flags,
                                   papyruskv_option_t* opt, int* db, int* event);
/* Waits for an event of the database, once. Fails if the event's operation failed. Several events
 * may be in progress. Collective. */
QUIRE_EXPORT int papyruskv_wait(int db, int event);

/* Sets the function that distributes the keys of an empty database (null: Quire's own hash).
 * PAPYRUSKV_INVALID_ARGUMENT if it has pairs: pass the function to papyruskv_open. Collective. */
QUIRE_EXPORT int papyruskv_hash(int db, papyruskv_hash_fn_t fn);

/* Begins a walk, in key order, over the pairs that this rank owns now. `*iter` is at the first
 * pair, or null if there is none. */
QUIRE_EXPORT int papyruskv_iter_local(int db, papyruskv_iter_t* iter);
/* Moves to the next pair. After the last one `*iter` is null and the walk's memory is freed. */
QUIRE_EXPORT int papyruskv_iter_next(int db, papyruskv_iter_t* iter);

/* Registers `fn` under `fnid` (any number) on this rank; replaces an earlier one. All ranks must
 * register the same functions. Collective. */
QUIRE_EXPORT int papyruskv_register_update(int db, int fnid, papyruskv_update_fn_t fn);
/* Runs a registered function on the value of a key, at its owner, atomically for the key. `pos`:
 * from papyruskv_get_pos for this key, or null. With a `userout` the call waits for the function's
 * output. Without one, other ranks see it as they see a put, and if the function refuses, the next
 * fence fails. */
QUIRE_EXPORT int papyruskv_update(int db, const char* key, size_t keylen, papyruskv_pos_t* pos,
                                  int fnid, void* userin, size_t userinlen, void* userout,
                                  size_t useroutlen);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* PAPYRUS_KV_H_ */
