/* Checkpoints, restarts and destruction through PapyrusKV's interface: with events and without,
 * while the ranks go on, under the old name, and on another number of ranks.
 *
 *   persist [write|read DIRECTORY]   write, by 2 ranks, leaves a checkpoint to be read by any */
#include "check.h"

enum { kPairs = 300, kMany = 12 };

static char checkpoints[300];

static size_t key_of(int i, char* key) {
  return (size_t)sprintf(key, "key %d", i);
}

/* Every rank puts its part of the pairs, with `generation` in the values. */
static void put_all(int db, int generation) {
  char key[32], value[64];
  for (int i = rank; i < kPairs; i += size) {
    size_t keylen = key_of(i, key);
    int length = sprintf(value, "value %d of generation %d", i, generation);
    CHECK_OK(papyruskv_put(db, key, keylen, value, (size_t)length));
  }
  if (rank == 7 % size) CHECK_OK(papyruskv_delete(db, "key 7", 5));
}

static void check_all(int db, int generation) {
  char key[32], value[64];
  for (int i = 0; i < kPairs; ++i) {
    size_t keylen = key_of(i, key);
    size_t length = (size_t)sprintf(value, "value %d of generation %d", i, generation);
    if (i == 7) {
      CHECK_ABSENT(db, key, keylen);
    } else {
      CHECK_VALUE(db, key, keylen, value, length);
    }
  }
}

static int open_it(const char* name) {
  int db = -1;
  CHECK_OK(papyruskv_open(name, PAPYRUSKV_CREATE | PAPYRUSKV_RELAXED | PAPYRUSKV_RDWR, NULL, &db));
  return db;
}

/* What is put while a checkpoint is under way is in no checkpoint. */
static void check_checkpoints(int db) {
  int first = -1, second = -1;
  put_all(db, 1);
  CHECK_OK(papyruskv_checkpoint(db, checkpoints, &first));
  put_all(db, 2);
  CHECK_OK(papyruskv_checkpoint(db, checkpoints, &second));
  put_all(db, 3);
  CHECK(first > 0 && second > 0 && first != second);
  CHECK(papyruskv_wait(db, second + 1) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_wait(db + 1, first) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK_OK(papyruskv_wait(db, second));
  CHECK_OK(papyruskv_wait(db, first));
  CHECK(papyruskv_wait(db, first) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK_OK(papyruskv_barrier(db, PAPYRUSKV_MEMTABLE));
  check_all(db, 3);
}

/* A handle at once, a database when the event has been waited for. */
static void check_restart(const char* name, int generation) {
  int db = -1, event = -1;
  char* value = NULL;
  CHECK_OK(papyruskv_restart(checkpoints, name, PAPYRUSKV_RDWR, NULL, &db, &event));
  CHECK(db > 0 && event > 0);
  CHECK(papyruskv_get(db, "key 1", 5, &value, NULL) == PAPYRUSKV_BUSY);
  CHECK(papyruskv_close(db) == PAPYRUSKV_BUSY);
  CHECK_OK(papyruskv_wait(db, event));
  CHECK(papyruskv_wait(db, event) == PAPYRUSKV_INVALID_ARGUMENT);
  check_all(db, generation);
  CHECK_OK(papyruskv_put(db, "more", 4, "x", 1));
  CHECK_OK(papyruskv_close(db));
}

/* Quire's number of the generation that is written to: it rises with each redistribution. */
static int generation_of(const char* name) {
  char path[400], line[300];
  int number = -1;
  FILE* file;
  snprintf(path, sizeof path, "%s/%s/DATABASE", getenv("PAPYRUSKV_REPOSITORY"), name);
  file = fopen(path, "r");
  CHECK(file != NULL);
  while (number < 0 && fgets(line, sizeof line, file) != NULL) {
    if (sscanf(line, "generation.%d =", &number) != 1) number = -1;
  }
  fclose(file);
  return number;
}

/* As many under way as a program likes: each is there, with what was put before it. */
static void check_many(void) {
  int events[kMany], db = open_it("many");
  for (int i = 0; i < kMany; ++i) {
    put_all(db, 100 + i);
    CHECK_OK(papyruskv_checkpoint(db, checkpoints, &events[i]));
  }
  for (int i = kMany - 1; i >= 0; --i) CHECK_OK(papyruskv_wait(db, events[i]));
  CHECK_OK(papyruskv_close(db));
  check_restart("many", 100 + kMany - 1);
}

static void check_destroy(const char* name) {
  int db = open_it(name), event = -1, other = open_it("other");
  CHECK_OK(papyruskv_put(other, "k", 1, "v", 1));
  CHECK_OK(papyruskv_destroy(db, &event));
  CHECK(papyruskv_put(db, "k", 1, "v", 1) == PAPYRUSKV_INVALID_DB);
  CHECK_OK(papyruskv_wait(db, event));
  CHECK(papyruskv_open(name, PAPYRUSKV_RDWR, NULL, &db) == PAPYRUSKV_NOT_FOUND);
  CHECK_OK(papyruskv_barrier(other, PAPYRUSKV_MEMTABLE));
  CHECK_VALUE(other, "k", 1, "v", 1);
  CHECK_OK(papyruskv_destroy(other, NULL));
  CHECK(papyruskv_open("other", PAPYRUSKV_RDWR, NULL, &db) == PAPYRUSKV_NOT_FOUND);
}

static void check_absent(void) {
  int db = 7, event = 7, open = open_it("my/db");
  put_all(open, 9);
  CHECK(papyruskv_restart(checkpoints, "my/db", 0, NULL, &db, &event) != PAPYRUSKV_OK);
  CHECK(db == -1 && event == -1);
  CHECK_OK(papyruskv_barrier(open, PAPYRUSKV_MEMTABLE));
  check_all(open, 9);
  CHECK_OK(papyruskv_destroy(open, NULL));
  db = event = 7;
  CHECK(papyruskv_restart(checkpoints, "never", 0, NULL, &db, &event) != PAPYRUSKV_OK);
  CHECK(db == -1 && event == -1);
}

static void empty_tables_of(const char* name) {
  char command[400];
  snprintf(command, sizeof command, "find '%s/%s' -name '*.sst' -exec truncate -s 10 '{}' ';'",
           checkpoints, name);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) CHECK(system(command) == 0);
  MPI_Barrier(MPI_COMM_WORLD);
}

/* A restart that cannot succeed leaves the database that is there. */
static void check_kept(void) {
  int db = open_it("kept"), event = -1;
  char other[310];
  snprintf(other, sizeof other, "%s%s", checkpoints, rank == 0 ? "" : "-other");
  put_all(db, 20);
  CHECK_OK(papyruskv_checkpoint(db, checkpoints, NULL));
  put_all(db, 21);
  CHECK_OK(papyruskv_close(db));
  if (size > 1) {
    CHECK(papyruskv_restart(other, "kept", PAPYRUSKV_RDWR, NULL, &db, &event) != PAPYRUSKV_OK);
    CHECK(db == -1 && event == -1);
  }
  empty_tables_of("kept");
  CHECK_OK(papyruskv_restart(checkpoints, "kept", PAPYRUSKV_RDWR, NULL, &db, &event));
  CHECK(papyruskv_wait(db, event) != PAPYRUSKV_OK);
  CHECK_OK(papyruskv_open("kept", PAPYRUSKV_RDWR, NULL, &db));
  check_all(db, 21);
  CHECK_OK(papyruskv_destroy(db, NULL));
}

/* Damages a table of that checkpoint, and none that it shares with others. */
static void damage_one(const char* name, int number) {
  char command[1000];
  snprintf(command, sizeof command,
           "set -e; table=$(ls '%s/%s/%d'/rank-*/t-*.sst | tail -n 1); cp \"$table\" \"$table.x\";"
           "printf XXXXXXXX | dd of=\"$table.x\" bs=1 seek=30 conv=notrunc status=none;"
           "mv \"$table.x\" \"$table\"",
           checkpoints, name, number);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) CHECK(system(command) == 0);
  MPI_Barrier(MPI_COMM_WORLD);
}

/* If the newest checkpoint is damaged, a restart uses the one before it. */
static void check_passed_over(void) {
  int db = open_it("two");
  put_all(db, 30);
  CHECK_OK(papyruskv_checkpoint(db, checkpoints, NULL));
  put_all(db, 31);
  CHECK_OK(papyruskv_checkpoint(db, checkpoints, NULL));
  CHECK_OK(papyruskv_close(db));
  check_restart("two", 31);
  damage_one("two", 2);
  check_restart("two", 30);
}

/* One job after another in one program, and what is left at the end. */
static void run_alone(void) {
  int db = -1;
  CHECK_OK(papyruskv_init(NULL, NULL, "$PAPYRUSKV_REPOSITORY"));
  db = open_it("my/db");
  check_checkpoints(db);
  CHECK_OK(papyruskv_destroy(db, NULL));
  check_restart("my/db", 2);
  check_restart("my/db", 2); /* in place of the one that is there */
  check_destroy("my/db");
  check_absent();
  check_many();
  check_kept();
  check_passed_over();
  CHECK_OK(papyruskv_finalize());

  CHECK_OK(papyruskv_init(NULL, NULL, "$PAPYRUSKV_REPOSITORY"));
  CHECK_OK(papyruskv_restart(checkpoints, "my/db", PAPYRUSKV_RDWR, NULL, &db, NULL));
  check_all(db, 2);
  MPI_Barrier(MPI_COMM_WORLD);
  put_all(db, 4);
  CHECK_OK(papyruskv_checkpoint(db, checkpoints, NULL));
  CHECK_OK(papyruskv_finalize());

  CHECK_OK(papyruskv_init(NULL, NULL, "$PAPYRUSKV_REPOSITORY"));
  check_restart("my/db", 4);
  CHECK_OK(papyruskv_finalize()); /* nobody waits for what is under way */
}

int main(int argc, char** argv) {
  int db = -1, event = -1;
  begin(&argc, &argv);
  if (argc > 2) {
    snprintf(checkpoints, sizeof checkpoints, "%s", argv[2]);
  } else {
    snprintf(checkpoints, sizeof checkpoints, "%s/checkpoints", shared);
  }
  if (argc < 3) {
    run_alone();
    remove_shared("checkpoints");
    return end();
  }
  CHECK_OK(papyruskv_init(NULL, NULL, "$PAPYRUSKV_REPOSITORY"));
  if (strcmp(argv[1], "write") == 0) {
    db = open_it("shared");
    put_all(db, 5);
    CHECK_OK(papyruskv_checkpoint(db, checkpoints, &event));
  } else {
    const char* force = getenv("PAPYRUSKV_FORCE_REDISTRIBUTE");
    const int moved = size != 2 || (force != NULL && atoi(force) > 0);
    check_restart("shared", 5);
    if (rank == 0) CHECK(generation_of("shared") == (moved ? 2 : 1));
  }
  CHECK_OK(papyruskv_finalize());
  return end();
}
