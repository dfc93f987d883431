/* Consistency, fences, signals and protection through PapyrusKV's interface. */
#include "check.h"

enum { kReady = 0xbeef, kTaken = -7 };

/* Rank 0 writes, and signals to the other ranks, which read. */
static void hand_over(int db, const char* value) {
  int zero = 0;
  int others[64];
  for (int i = 1; i < size; ++i) others[i - 1] = i;
  if (rank == 0) {
    for (int i = 0; i < 50; ++i) {
      CHECK_OK(papyruskv_put(db, (char*)&i, sizeof i, value, strlen(value)));
    }
    CHECK_OK(papyruskv_fence(db, PAPYRUSKV_MEMTABLE));
    CHECK_OK(papyruskv_signal_notify(kReady, others, size - 1));
    CHECK_OK(papyruskv_signal_wait(kTaken, others, size - 1));
  } else {
    CHECK_OK(papyruskv_signal_wait(kReady, &zero, 1));
    for (int i = 0; i < 50; ++i) CHECK_VALUE(db, (char*)&i, sizeof i, value, strlen(value));
    CHECK_OK(papyruskv_signal_notify(kTaken, &zero, 1));
  }
  CHECK_OK(papyruskv_barrier(db, PAPYRUSKV_MEMTABLE));
}

static void check_sequential(int db) {
  int next = (rank + 1) % size, before = (rank + size - 1) % size;
  CHECK_OK(papyruskv_consistency(db, PAPYRUSKV_SEQUENTIAL));
  CHECK_OK(papyruskv_put(db, (char*)&rank, sizeof rank, "here", 4));
  CHECK_OK(papyruskv_signal_notify(1, &before, 1));
  CHECK_OK(papyruskv_signal_wait(1, &next, 1));
  CHECK_VALUE(db, (char*)&next, sizeof next, "here", 4);
  CHECK_OK(papyruskv_consistency(db, PAPYRUSKV_RELAXED));
}

static void check_protection(int db) {
  char* value = NULL;
  size_t length = 0;
  int key = 7;
  CHECK_OK(papyruskv_protect(db, PAPYRUSKV_RDONLY));
  CHECK(papyruskv_put(db, (char*)&key, sizeof key, "x", 1) == PAPYRUSKV_READ_ONLY);
  CHECK(papyruskv_delete(db, (char*)&key, sizeof key) == PAPYRUSKV_READ_ONLY);
  CHECK_VALUE(db, (char*)&key, sizeof key, "protected", 9);
  CHECK_VALUE(db, (char*)&key, sizeof key, "protected", 9);
  CHECK_OK(papyruskv_protect(db, PAPYRUSKV_WRONLY));
  CHECK_OK(papyruskv_put(db, (char*)&key, sizeof key, "written", 7));
  CHECK(papyruskv_get(db, (char*)&key, sizeof key, &value, &length) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK_OK(papyruskv_protect(db, PAPYRUSKV_UDONLY));
  CHECK(papyruskv_put(db, (char*)&key, sizeof key, "x", 1) == PAPYRUSKV_READ_ONLY);
  CHECK_VALUE(db, (char*)&key, sizeof key, "written", 7);
  CHECK(papyruskv_protect(db, PAPYRUSKV_RDONLY | PAPYRUSKV_WRONLY) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK_OK(papyruskv_protect(db, PAPYRUSKV_RDWR));
}

/* How many SSTables there are, of all ranks. */
static int count_tables(void) {
  char command[400];
  int count = -1;
  FILE* found;
  MPI_Barrier(MPI_COMM_WORLD);
  snprintf(command, sizeof command, "find '%s' -name '*.sst' | wc -l",
           getenv("PAPYRUSKV_REPOSITORY"));
  found = popen(command, "r");
  CHECK(found != NULL && fscanf(found, "%d", &count) == 1 && pclose(found) == 0);
  MPI_Barrier(MPI_COMM_WORLD);
  return count;
}

int main(int argc, char** argv) {
  int db = -1;
  int nobody = size + 1000;
  begin(&argc, &argv);
  CHECK_OK(papyruskv_init(&argc, &argv, "$PAPYRUSKV_REPOSITORY"));
  CHECK_OK(papyruskv_open("phases", PAPYRUSKV_CREATE, NULL, &db));
  hand_over(db, "relaxed");
  CHECK_OK(papyruskv_consistency(db, PAPYRUSKV_SEQUENTIAL));
  hand_over(db, "sequential");
  check_sequential(db);
  hand_over(db, "protected");
  check_protection(db);
  CHECK(count_tables() == 0);
  CHECK_OK(papyruskv_fence(db, PAPYRUSKV_SSTABLE));
  CHECK(count_tables() >= 1);
  CHECK(papyruskv_fence(db, 4) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_barrier(db, 0) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_consistency(db, 3) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_signal_notify(1, &nobody, 1) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK_OK(papyruskv_finalize());
  return end();
}
