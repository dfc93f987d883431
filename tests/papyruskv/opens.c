/* Arguments of an open and a restart: protections as flags, lengths that are hints or nothing,
 * paths relative to the working directory. */
#include "check.h"

enum { kPastLimit = (64 << 10) + 1 };

static int open_with(int flags, papyruskv_option_t* opt) {
  int db = -1;
  CHECK_OK(papyruskv_open("opened", flags, opt, &db));
  return db;
}

/* Pairs of all lengths are stored, whatever the option says. */
static void check_lengths(size_t keylen, size_t vallen, int consistency) {
  papyruskv_option_t opt;
  char* const large = calloc(1, kPastLimit);
  int db;
  opt.keylen = keylen;
  opt.vallen = vallen;
  opt.hash = NULL;
  CHECK(large != NULL);
  db = open_with(PAPYRUSKV_CREATE | consistency, &opt);
  CHECK_OK(papyruskv_put(db, "k", 1, "as long as it is", 16));
  CHECK_OK(papyruskv_put(db, "a longer key", 12, "", 0));
  CHECK_OK(papyruskv_put(db, large, 16 << 10, large, 40000));
  CHECK_VALUE(db, "k", 1, "as long as it is", 16);
  CHECK_VALUE(db, "a longer key", 12, "", 0);
  CHECK_VALUE(db, large, 16 << 10, large, 40000);
  CHECK_OK(papyruskv_put(db, large, kPastLimit - 1, "v", 1));
  CHECK_VALUE(db, large, kPastLimit - 1, "v", 1);
  /* Past the limit: an error, and nothing else is wrong. */
  CHECK(papyruskv_put(db, large, kPastLimit, "v", 1) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_put(db, large, 0, "v", 1) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_delete(db, large, kPastLimit) != PAPYRUSKV_OK);
  CHECK_VALUE(db, "k", 1, "as long as it is", 16);
  CHECK_OK(papyruskv_close(db));
  free(large);
}

/* A protection among the flags holds from the beginning. */
static void check_protections(void) {
  char* value = NULL;
  int db = open_with(PAPYRUSKV_RDONLY, NULL);
  CHECK_VALUE(db, "k", 1, "as long as it is", 16);
  CHECK(papyruskv_put(db, "k", 1, "v", 1) == PAPYRUSKV_READ_ONLY);
  CHECK(papyruskv_delete(db, "k", 1) == PAPYRUSKV_READ_ONLY);
  CHECK_OK(papyruskv_close(db));
  db = open_with(PAPYRUSKV_UDONLY | PAPYRUSKV_SEQUENTIAL, NULL);
  CHECK_VALUE(db, "k", 1, "as long as it is", 16);
  CHECK(papyruskv_put(db, "k", 1, "v", 1) == PAPYRUSKV_READ_ONLY);
  CHECK_OK(papyruskv_close(db));
  db = open_with(PAPYRUSKV_WRONLY, NULL);
  CHECK(papyruskv_get(db, "k", 1, &value, NULL) == PAPYRUSKV_INVALID_ARGUMENT && value == NULL);
  CHECK_OK(papyruskv_put(db, "k", 1, "as long as it is", 16));
  CHECK_OK(papyruskv_close(db));
}

/* Put back as `protection` says: the flags of a restart are those of an open. */
static void check_restart(int protection) {
  int db = -1, event = -1;
  const int put = protection == PAPYRUSKV_RDWR ? PAPYRUSKV_OK : PAPYRUSKV_READ_ONLY;
  papyruskv_option_t opt = {0, 0, NULL};
  CHECK_OK(papyruskv_restart("./checkpoints", "opened",
                             PAPYRUSKV_CREATE | PAPYRUSKV_SEQUENTIAL | protection, &opt, &db,
                             &event));
  CHECK_OK(papyruskv_wait(db, event));
  CHECK_VALUE(db, "k", 1, "as long as it is", 16);
  CHECK(papyruskv_put(db, "other", 5, "v", 1) == put);
  CHECK_OK(papyruskv_close(db));
}

/* The repository stays where it was when the program went somewhere else. */
static void check_working_directory(void) {
  int db = open_with(PAPYRUSKV_CREATE, NULL);
  CHECK(chdir("/") == 0);
  CHECK_OK(papyruskv_put(db, "from afar", 9, "v", 1));
  CHECK_OK(papyruskv_close(db));
  db = open_with(PAPYRUSKV_RDWR, NULL);
  CHECK_VALUE(db, "from afar", 9, "v", 1);
  CHECK_OK(papyruskv_close(db));
  CHECK(chdir(directory) == 0);
  CHECK(access("repository/opened", F_OK) == 0);
}

int main(int argc, char** argv) {
  int db;
  begin(&argc, &argv);
  CHECK(chdir(directory) == 0);
  CHECK_OK(papyruskv_init(NULL, NULL, "repository"));
  check_lengths(0, 0, PAPYRUSKV_RELAXED);
  check_lengths(4, 8, PAPYRUSKV_SEQUENTIAL);
  check_protections();
  check_working_directory();
  db = open_with(PAPYRUSKV_RDWR, NULL);
  CHECK_OK(papyruskv_checkpoint(db, "checkpoints", NULL));
  CHECK_OK(papyruskv_close(db));
  check_restart(PAPYRUSKV_RDONLY);
  check_restart(PAPYRUSKV_UDONLY);
  check_restart(PAPYRUSKV_RDWR);
  CHECK_OK(papyruskv_finalize());
  remove_shared("checkpoints");
  return end();
}
