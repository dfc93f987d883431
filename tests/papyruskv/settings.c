/* The environment variables of PapyrusKV: a bad value is an error on all ranks, wherever it is; and
 * what a program opens follows them. */
#include "check.h"

static const char* const kBad[][2] = {{"PAPYRUSKV_GROUP_SIZE", "0"},
                                      {"PAPYRUSKV_GROUP_SIZE", "-2"},
                                      {"PAPYRUSKV_CONSISTENCY", "3"},
                                      {"PAPYRUSKV_SSTABLE", "0"},
                                      {"PAPYRUSKV_BIN_SEARCH", "3"},
                                      {"PAPYRUSKV_CACHE_LOCAL", "on"},
                                      {"PAPYRUSKV_CACHE_REMOTE", "1.5"},
                                      {"PAPYRUSKV_CACHE_SIZE", "-1"},
                                      {"PAPYRUSKV_BLOOM", "yes"},
                                      {"PAPYRUSKV_MEMTABLE_SIZE", "1g"},
                                      {"PAPYRUSKV_REMOTE_BUFFER_SIZE", "99999999999999999999"},
                                      {"PAPYRUSKV_REMOTE_BUFFER_ENTRY_MAX", "4k"},
                                      {"PAPYRUSKV_FORCE_REDISTRIBUTE", "no"},
                                      {"PAPYRUSKV_DESTROY_REPOSITORY", "0 "}};
enum { kBadCount = sizeof kBad / sizeof kBad[0] };

/* On one rank alone, then on all of them. */
static void check_bad(void) {
  int db = -1;
  for (int i = 0; i < 2 * kBadCount; ++i) {
    const char* const name = kBad[i / 2][0];
    const char* const before = getenv(name);
    char* const kept = before == NULL ? NULL : strdup(before);
    if (i % 2 == 1 || rank == i / 2 % size) setenv(name, kBad[i / 2][1], 1);
    CHECK(papyruskv_init(NULL, NULL, "$PAPYRUSKV_REPOSITORY") == PAPYRUSKV_INVALID_ARGUMENT);
    CHECK(papyruskv_open("db", PAPYRUSKV_CREATE, NULL, &db) == PAPYRUSKV_INVALID_ARGUMENT);
    if (kept == NULL) {
      unsetenv(name);
    } else {
      setenv(name, kept, 1);
    }
    free(kept);
  }
}

/* The next rank sees a put into a sequential database at once; only a message of MPI itself says
 * when to look. */
static void check_consistency(const char* variable, int flags) {
  int db = -1, next = (rank + 1) % size;
  setenv("PAPYRUSKV_CONSISTENCY", variable, 1);
  CHECK_OK(papyruskv_init(NULL, NULL, "$PAPYRUSKV_REPOSITORY"));
  CHECK_OK(papyruskv_open(variable, PAPYRUSKV_CREATE | flags, NULL, &db));
  for (int round = 0; round < 50; ++round) {
    const int mine[2] = {rank, round}, other[2] = {next, round};
    CHECK_OK(papyruskv_put(db, (char*)mine, sizeof mine, (char*)mine, sizeof mine));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_VALUE(db, (char*)other, sizeof other, (char*)other, sizeof other);
  }
  CHECK_OK(papyruskv_close(db));
  CHECK_OK(papyruskv_finalize());
  unsetenv("PAPYRUSKV_CONSISTENCY");
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  check_bad();
  check_consistency("1", 0);
  check_consistency("2", PAPYRUSKV_SEQUENTIAL);
  return end();
}
