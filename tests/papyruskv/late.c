/* A rank comes later than QUIRE_TIMEOUT_MS: all ranks receive the timeout, and each later call has
 * the same effect as without it. */
#include <time.h>

#include "check.h"

enum { kLateMs = 2000, kTries = 10 };
static int restored = -1;

/* One rank had ended a call at the moment in which another gave it up: all later calls say so. */
static void end_if_parted(int code) {
  if (code != PAPYRUSKV_PEER_FAILED) return;
  puts("skipped: the ranks parted within one call");
  papyruskv_finalize();
  remove_shared("checkpoints");
  remove_shared("repository");
  exit(end());
}

/* Once more where this machine was so busy that a rank came too late again. */
#define CHECK_LATER(call)                                                             \
  do {                                                                                \
    int code_ = PAPYRUSKV_TIMED_OUT;                                                  \
    int tries_ = 0;                                                                   \
    for (; tries_ < kTries && code_ == PAPYRUSKV_TIMED_OUT; ++tries_) code_ = (call); \
    end_if_parted(code_);                                                             \
    CHECK_OK(code_);                                                                  \
  } while (0)

static int append(const char* key, size_t keylen, char** val, size_t* vallen, void* userin,
                  size_t userinlen, void* userout, size_t useroutlen) {
  (void)key, (void)keylen, (void)userout, (void)useroutlen;
  memcpy(*val + *vallen, userin, userinlen);
  *vallen += userinlen;
  return 1;
}

static void let_a_barrier_time_out(int db) {
  const struct timespec late = {kLateMs / 1000, kLateMs % 1000 * 1000000L};
  int code;
  if (rank == size - 1) nanosleep(&late, NULL);
  code = papyruskv_barrier(db, PAPYRUSKV_MEMTABLE);
  end_if_parted(code);
  CHECK(code == PAPYRUSKV_TIMED_OUT);
  CHECK_LATER(papyruskv_barrier(db, PAPYRUSKV_MEMTABLE));
}

static void check_pairs(int db) {
  int next = (rank + 1) % size, before = (rank + size - 1) % size;
  char* got = NULL;
  papyruskv_pos_t pos;
  CHECK_LATER(papyruskv_put(db, (char*)&rank, sizeof rank, "put", 3));
  CHECK_LATER(papyruskv_fence(db, PAPYRUSKV_MEMTABLE));
  CHECK_LATER(papyruskv_signal_notify(1, &before, 1));
  CHECK_LATER(papyruskv_signal_wait(1, &next, 1));
  CHECK_LATER(papyruskv_get_pos(db, (char*)&next, sizeof next, &got, NULL, &pos));
  CHECK(memcmp(got, "put", 3) == 0);
  CHECK_OK(papyruskv_free(&got));
  CHECK_LATER(papyruskv_register_update(db, 1, append));
  CHECK_LATER(papyruskv_barrier(db, PAPYRUSKV_MEMTABLE));
  CHECK_LATER(papyruskv_update(db, (char*)&next, sizeof next, &pos, 1, "s", 1, NULL, 0));
  CHECK_LATER(papyruskv_barrier(db, PAPYRUSKV_SSTABLE));
  CHECK_LATER(papyruskv_get(db, (char*)&rank, sizeof rank, &got, NULL));
  CHECK(memcmp(got, "puts", 4) == 0);
  CHECK_OK(papyruskv_free(&got));
}

static void check_modes(int db) {
  papyruskv_iter_t walk = NULL;
  int seen = 0;
  CHECK_LATER(papyruskv_consistency(db, PAPYRUSKV_SEQUENTIAL));
  CHECK_LATER(papyruskv_protect(db, PAPYRUSKV_RDONLY));
  CHECK(papyruskv_delete(db, (char*)&rank, sizeof rank) == PAPYRUSKV_READ_ONLY);
  CHECK_LATER(papyruskv_protect(db, PAPYRUSKV_RDWR));
  CHECK_LATER(papyruskv_iter_local(db, &walk));
  while (walk != NULL) {
    ++seen;
    CHECK_OK(papyruskv_iter_next(db, &walk));
  }
  MPI_Allreduce(MPI_IN_PLACE, &seen, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(seen == size);
}

static void check_persistence(int db) {
  char checkpoints[300];
  char* got = NULL;
  snprintf(checkpoints, sizeof checkpoints, "%s/checkpoints", shared);
  CHECK_LATER(papyruskv_checkpoint(db, checkpoints, NULL));
  CHECK_LATER(papyruskv_delete(db, (char*)&rank, sizeof rank));
  CHECK_LATER(papyruskv_barrier(db, PAPYRUSKV_MEMTABLE));
  CHECK_LATER(papyruskv_close(db));
  CHECK_LATER(papyruskv_restart(checkpoints, "db", PAPYRUSKV_RDWR, NULL, &restored, NULL));
  CHECK_LATER(papyruskv_get(restored, (char*)&rank, sizeof rank, &got, NULL));
  CHECK_OK(papyruskv_free(&got));
}

int main(int argc, char** argv) {
  int db = -1;
  begin(&argc, &argv);
  CHECK_OK(papyruskv_init(&argc, &argv, "$PAPYRUSKV_REPOSITORY"));
  CHECK_LATER(papyruskv_open("db", PAPYRUSKV_CREATE | PAPYRUSKV_RELAXED, NULL, &db));
  let_a_barrier_time_out(db);
  check_pairs(db);
  check_modes(db);
  let_a_barrier_time_out(db);
  check_persistence(db);
  let_a_barrier_time_out(restored);
  CHECK_LATER(papyruskv_destroy(restored, NULL));
  CHECK_OK(papyruskv_finalize());
  remove_shared("checkpoints");
  remove_shared("repository");
  return end();
}
