/* A program that does not include papyrus/mpi.h: its MPI_Init asks for no threads, so that ranks
 * answer each other inside the library's calls alone. */
#define PLAIN_MPI_INIT
#include "check.h"

enum { kPairs = 150 };

static void put_all(int db, int round) {
  for (int i = 0; i < kPairs; ++i) {
    const int key[2] = {rank, i}, value = 1000 * rank + i + round;
    CHECK_OK(papyruskv_put(db, (char*)key, sizeof key, (char*)&value, sizeof value));
  }
}

/* The ranks are at different places here: some still ask while others wait in `close`. */
static void check_all(int db, int round) {
  for (int other = 0; other < size; ++other) {
    for (int i = 0; i < kPairs; ++i) {
      const int key[2] = {other, i};
      const int value = 1000 * other + i + round;
      CHECK_VALUE(db, (char*)key, sizeof key, (char*)&value, sizeof value);
    }
  }
}

/* Rank after rank takes its turn, when the one before it signals. */
static void take_turns(int db) {
  int next = rank + 1, before = rank - 1;
  if (rank > 0) CHECK_OK(papyruskv_signal_wait(1, &before, 1));
  CHECK_OK(papyruskv_put(db, "turn", 4, (char*)&rank, sizeof rank));
  CHECK_OK(papyruskv_fence(db, PAPYRUSKV_MEMTABLE));
  if (next < size) CHECK_OK(papyruskv_signal_notify(1, &next, 1));
}

static void run(void) {
  char checkpoints[300];
  int db = -1, event = -1, last = size - 1, pairs = 0, all = 0;
  papyruskv_iter_t iter;
  snprintf(checkpoints, sizeof checkpoints, "%s/checkpoints", shared);
  CHECK_OK(papyruskv_open("plain", PAPYRUSKV_CREATE | PAPYRUSKV_RELAXED, NULL, &db));
  put_all(db, 0);
  CHECK_OK(papyruskv_barrier(db, PAPYRUSKV_SSTABLE));
  check_all(db, 0);
  CHECK_OK(papyruskv_checkpoint(db, checkpoints, &event));
  put_all(db, 1);
  CHECK_OK(papyruskv_wait(db, event));
  take_turns(db);
  CHECK_OK(papyruskv_barrier(db, PAPYRUSKV_MEMTABLE));
  check_all(db, 1);
  CHECK_VALUE(db, "turn", 4, (char*)&last, sizeof last);
  CHECK_OK(papyruskv_close(db));
  MPI_Barrier(MPI_COMM_WORLD);

  CHECK_OK(papyruskv_restart(checkpoints, "plain", PAPYRUSKV_RDWR, NULL, &db, &event));
  CHECK_OK(papyruskv_wait(db, event));
  check_all(db, 0);
  CHECK_OK(papyruskv_iter_local(db, &iter));
  for (; iter != NULL; ++pairs) CHECK_OK(papyruskv_iter_next(db, &iter));
  CHECK_OK(papyruskv_close(db));
  MPI_Allreduce(&pairs, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(all == kPairs * size);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  CHECK_OK(papyruskv_init(&argc, &argv, "$PAPYRUSKV_REPOSITORY"));
  run();
  CHECK_OK(papyruskv_finalize());
  remove_shared("checkpoints");
  return end();
}
