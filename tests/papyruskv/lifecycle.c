/* Repositories that stay or go, several jobs one after another, many databases, strange names. */
#include "check.h"

enum { kDatabases = 256, kLarge = 16 << 20 };

static void touch(const char* path) {
  FILE* const file = fopen(path, "w");
  CHECK(file != NULL && fclose(file) == 0);
}

static int exists(const char* path) {
  struct stat info;
  return stat(path, &info) == 0;
}

/* One job: every rank puts its number into `name`, or finds all numbers there. */
static void run(const char* name, int create) {
  int db = -1;
  CHECK_OK(papyruskv_init(NULL, NULL, "$PAPYRUSKV_REPOSITORY"));
  CHECK_OK(
      papyruskv_open(name, create ? PAPYRUSKV_CREATE | PAPYRUSKV_RDWR : PAPYRUSKV_RDWR, NULL, &db));
  if (create) CHECK_OK(papyruskv_put(db, (char*)&rank, sizeof rank, name, strlen(name)));
  CHECK_OK(papyruskv_barrier(db, PAPYRUSKV_MEMTABLE));
  for (int other = 0; other < size; ++other) {
    CHECK_VALUE(db, (char*)&other, sizeof other, name, strlen(name));
  }
  if (create) CHECK_OK(papyruskv_close(db)); /* else finalize closes it */
  CHECK_OK(papyruskv_finalize());
}

static void check_keeping(const char* repository) {
  char longest[256], strange[256]; /* the second is no file name */
  memset(longest, 'n', 255);
  memset(strange, ' ', 255);
  longest[255] = strange[255] = 0;
  setenv("PAPYRUSKV_DESTROY_REPOSITORY", "0", 1);
  for (int create = 1; create >= 0; --create) {
    run(longest, create);
    run(strange, create);
  }
  run("first", 1);
  run("../second/with all: \xC3\xA9", 1);
  run("first", 0);
  run("../second/with all: \xC3\xA9", 0);
  CHECK(exists(repository));
}

/* What is not a database of the library stays, and the directory with it. */
static void check_removing(const char* repository) {
  char foreign[400], first[400];
  snprintf(foreign, sizeof foreign, "%s/notes.txt", repository);
  snprintf(first, sizeof first, "%s/first", repository);
  MPI_Barrier(MPI_COMM_WORLD);
  touch(foreign);
  MPI_Barrier(MPI_COMM_WORLD);
  CHECK(exists(first));
  setenv("PAPYRUSKV_DESTROY_REPOSITORY", "1", 1);
  run("third", 1);
  CHECK(exists(foreign) && !exists(first));
  MPI_Barrier(MPI_COMM_WORLD);
  CHECK(unlink(foreign) == 0 || errno == ENOENT);
  MPI_Barrier(MPI_COMM_WORLD);
  unsetenv("PAPYRUSKV_DESTROY_REPOSITORY");
  run("fourth", 1);
  CHECK(!exists(repository));
}

/* A database that was "1" at its checkpoint, and is "2". */
static void make_saved(const char* checkpoints) {
  int db = 0;
  CHECK_OK(papyruskv_open("saved", PAPYRUSKV_CREATE, NULL, &db));
  CHECK_OK(papyruskv_put(db, "k", 1, "1", 1));
  CHECK_OK(papyruskv_checkpoint(db, checkpoints, NULL));
  CHECK_OK(papyruskv_put(db, "k", 1, "2", 1));
  CHECK_OK(papyruskv_close(db));
}

/* Without a handle for it no restart begins; with one it replaces the database. */
static void check_restart(const char* checkpoints, int* other) {
  int db = 7, event = 7;
  CHECK(papyruskv_restart(checkpoints, "saved", 0, NULL, &db, &event) == PAPYRUSKV_BUSY);
  CHECK(db == -1 && event == -1);
  CHECK_OK(papyruskv_close(*other));
  CHECK_OK(papyruskv_open("saved", 0, NULL, &db));
  CHECK_VALUE(db, "k", 1, "2", 1);
  CHECK_OK(papyruskv_close(db));
  CHECK(papyruskv_restart(checkpoints, "never saved", 0, NULL, &db, NULL) != PAPYRUSKV_OK);
  CHECK_OK(papyruskv_restart(checkpoints, "saved", 0, NULL, &db, NULL));
  CHECK_VALUE(db, "k", 1, "1", 1);
  CHECK_OK(papyruskv_close(db));
  CHECK_OK(papyruskv_open("one more", PAPYRUSKV_CREATE, NULL, other));
}

/* The handles are the same on all ranks, and no two are alike. */
static void check_many(const char* repository) {
  int handles[kDatabases], common[kDatabases], one_more = 0;
  char checkpoints[4096], removal[4200];
  char name[16], *large = calloc(1, kLarge);
  CHECK(large != NULL);
  setenv("PAPYRUSKV_MEMTABLE_SIZE", "65536", 1);
  CHECK_OK(papyruskv_init(NULL, NULL, "$PAPYRUSKV_REPOSITORY"));
  snprintf(checkpoints, sizeof checkpoints, "%s-saved", repository);
  make_saved(checkpoints);
  for (int i = 0; i < kDatabases; ++i) {
    sprintf(name, "db %d", i);
    CHECK_OK(papyruskv_open(name, PAPYRUSKV_CREATE, NULL, &handles[i]));
    for (int j = 0; j < i; ++j) CHECK(handles[i] != handles[j]);
  }
  CHECK(papyruskv_open("one more", PAPYRUSKV_CREATE, NULL, &one_more) == PAPYRUSKV_BUSY);
  memcpy(common, handles, sizeof common);
  MPI_Bcast(common, kDatabases, MPI_INT, 0, MPI_COMM_WORLD);
  CHECK(memcmp(common, handles, sizeof common) == 0);
  for (int i = 0; i < kDatabases; i += 50) {
    CHECK_OK(papyruskv_put(handles[i], "i", 1, (char*)&i, sizeof i));
  }
  for (int i = 0; i < kDatabases; i += 50) {
    CHECK_OK(papyruskv_barrier(handles[i], PAPYRUSKV_MEMTABLE));
    CHECK_VALUE(handles[i], "i", 1, (char*)&i, sizeof i);
  }
  CHECK_OK(papyruskv_put(handles[kDatabases - 1], large, 16 << 10, large, kLarge));
  CHECK_VALUE(handles[kDatabases - 1], large, 16 << 10, large, kLarge);
  free(large);
  check_restart(checkpoints, &handles[3]);
  CHECK_OK(papyruskv_finalize());
  snprintf(removal, sizeof removal, "rm -r '%s'", checkpoints);
  if (rank == 0) CHECK(system(removal) == 0);
}

int main(int argc, char** argv) {
  const char* repository;
  begin(&argc, &argv);
  repository = getenv("PAPYRUSKV_REPOSITORY");
  check_keeping(repository);
  check_removing(repository);
  if (argc > 1 && strcmp(argv[1], "many") == 0) check_many(repository);
  return end();
}
