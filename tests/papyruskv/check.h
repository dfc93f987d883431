/* What the programs here share: checks that end the whole job, ranks, and a fresh repository in
 * PAPYRUSKV_REPOSITORY. The programs are written from the facts of PapyrusKV's interface alone. On
 * simulated nodes (tests/nodes) the repository is in each node's own storage.
 *
 * Threads: one thread of each rank. */
#ifndef QUIRE_TESTS_PAPYRUSKV_CHECK_H_
#define QUIRE_TESTS_PAPYRUSKV_CHECK_H_

#include <errno.h>
#include <papyrus/kv.h>
#ifdef PLAIN_MPI_INIT /* the program wants it so */
#include <mpi.h>
#else
#include <papyrus/mpi.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../support/node_end.h"

static int rank, size;
static char directory[256]; /* of the job's own, and of the node's where these share nothing */
static char shared[256];    /* the same one for all ranks */

#define CHECK(condition)                                                              \
  do {                                                                                \
    if (!(condition)) {                                                               \
      fprintf(stderr, "[rank %d] %s:%d: %s\n", rank, __FILE__, __LINE__, #condition); \
      MPI_Abort(MPI_COMM_WORLD, 1);                                                   \
    }                                                                                 \
  } while (0)

#define CHECK_OK(call)                                                                        \
  do {                                                                                        \
    int code_ = (call);                                                                       \
    if (code_ != PAPYRUSKV_OK) {                                                              \
      fprintf(stderr, "[rank %d] %s:%d: %s is %d\n", rank, __FILE__, __LINE__, #call, code_); \
      MPI_Abort(MPI_COMM_WORLD, 1);                                                           \
    }                                                                                         \
  } while (0)

/* MPI, and directories for a repository and for checkpoints to be in. */
static void begin(int* argc, char*** argv) {
  char repository[300];
  int level;
  MPI_Init(argc, argv);
  MPI_Query_thread(&level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
#ifdef PLAIN_MPI_INIT
  CHECK(level < MPI_THREAD_MULTIPLE);
#else
  CHECK(level == MPI_THREAD_MULTIPLE);
#endif
  if (getenv("QUIRE_NODES_STORAGE") != NULL) {
    snprintf(directory, sizeof directory, "%s/papyruskv", getenv("QUIRE_NODES_STORAGE"));
    snprintf(shared, sizeof shared, "%s", getenv("QUIRE_NODES_SHARED"));
    CHECK(mkdir(directory, 0700) == 0 || errno == EEXIST);
  } else {
    strcpy(directory, "/tmp/quire-papyruskv-XXXXXX");
    if (rank == 0) CHECK(mkdtemp(directory) != NULL);
    MPI_Bcast(directory, sizeof directory, MPI_CHAR, 0, MPI_COMM_WORLD);
    strcpy(shared, directory);
  }
  snprintf(repository, sizeof repository, "%s/repository", directory);
  setenv("PAPYRUSKV_REPOSITORY", repository, 1);
}

/* Removes what a program has left where all ranks see it. */
static inline void remove_shared(const char* name) {
  char command[400];
  snprintf(command, sizeof command, "rm -rf '%s/%s'", shared, name);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) CHECK(system(command) == 0);
}

/* The repository is gone, of every node: so is the directory then. Between simulated nodes MPICH's
 * own MPI_Finalize may wait for ever (tests/support/mpi_program.h): there programs end without. */
static int end(void) {
  MPI_Barrier(MPI_COMM_WORLD);
  CHECK(rmdir(directory) == 0 || errno == ENOENT);
  MPI_Barrier(MPI_COMM_WORLD);
  end_on_nodes(0);
  return MPI_Finalize() == MPI_SUCCESS ? 0 : 1;
}

/* The value of a key in memory of the library; the program fails where it is another. */
#define CHECK_VALUE(db, key, keylen, expected, expectedlen)    \
  do {                                                         \
    char* got_ = NULL;                                         \
    size_t gotlen_ = 12345;                                    \
    CHECK_OK(papyruskv_get(db, key, keylen, &got_, &gotlen_)); \
    CHECK(got_ != NULL && gotlen_ == (expectedlen));           \
    CHECK(memcmp(got_, expected, gotlen_) == 0);               \
    CHECK_OK(papyruskv_free(&got_));                           \
    CHECK(got_ == NULL);                                       \
  } while (0)

#define CHECK_ABSENT(db, key, keylen)                                              \
  do {                                                                             \
    char* got_ = NULL;                                                             \
    size_t gotlen_ = 12345;                                                        \
    CHECK(papyruskv_get(db, key, keylen, &got_, &gotlen_) == PAPYRUSKV_NOT_FOUND); \
    CHECK(got_ == NULL && gotlen_ == 0);                                           \
  } while (0)

#endif /* QUIRE_TESTS_PAPYRUSKV_CHECK_H_ */
