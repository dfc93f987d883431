/* Keys that a function of the program gives to ranks stay with it on other numbers of ranks: where
 * the repository is opened again, and where a checkpoint is brought back.
 *
 *   owners write|read DIRECTORY   write leaves what any ranks read */
#include "check.h"

enum { kPairs = 400 };

static char repository[300], checkpoints[300];

/* By the last digit of a number in the key: not as a hash of Quire's would. */
static int by_digit(const char* key, size_t keylen, size_t nranks) {
  return keylen == 0 ? 0 : (key[keylen - 1] - '0') % (int)nranks;
}

static size_t key_of(int i, char* key) {
  return (size_t)sprintf(key, "key %d", i);
}

/* Each tenth pair is deleted. */
static void put_all(int db) {
  char key[32], value[64];
  for (int i = rank; i < kPairs; i += size) {
    size_t keylen = key_of(i, key);
    CHECK_OK(papyruskv_put(db, key, keylen, value, (size_t)sprintf(value, "value %d", i)));
    if (i % 10 == 0) CHECK_OK(papyruskv_delete(db, key, keylen));
  }
}

/* All ranks find all pairs, and each walks over those that the function gives it. */
static void check_all(int db) {
  char key[32], value[64];
  int own = 0;
  papyruskv_iter_t iter;
  for (int i = 0; i < kPairs; ++i) {
    size_t keylen = key_of(i, key);
    size_t vallen = (size_t)sprintf(value, "value %d", i);
    if (i % 10 == 0) {
      CHECK_ABSENT(db, key, keylen);
      continue;
    }
    CHECK_VALUE(db, key, keylen, value, vallen);
    if (by_digit(key, keylen, (size_t)size) == rank) ++own;
  }
  CHECK_OK(papyruskv_iter_local(db, &iter));
  while (iter != NULL) {
    CHECK(by_digit(iter->key, iter->keylen, (size_t)size) == rank);
    --own;
    CHECK_OK(papyruskv_iter_next(db, &iter));
  }
  CHECK(own == 0);
  MPI_Barrier(MPI_COMM_WORLD);
}

static void begin_in(const char* where, const char* destroy) {
  setenv("PAPYRUSKV_DESTROY_REPOSITORY", destroy, 1);
  CHECK_OK(papyruskv_init(NULL, NULL, where));
}

static void write_both(papyruskv_option_t* opt) {
  int db = -1;
  begin_in(repository, "0");
  CHECK_OK(papyruskv_open("owned", PAPYRUSKV_CREATE, opt, &db));
  put_all(db);
  CHECK_OK(papyruskv_checkpoint(db, checkpoints, NULL));
  CHECK_OK(papyruskv_close(db));
  CHECK_OK(papyruskv_finalize());
}

/* A function that is not given is an error, and nothing is lost by it. */
static void check_open(papyruskv_option_t* opt) {
  int db = 7;
  CHECK(papyruskv_open("owned", PAPYRUSKV_RDWR, NULL, &db) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(db == -1);
  CHECK_OK(papyruskv_open("owned", PAPYRUSKV_RDWR, opt, &db));
  check_all(db);
  CHECK_OK(papyruskv_close(db));
}

static void check_restart(papyruskv_option_t* opt) {
  int db = -1, event = -1;
  CHECK_OK(papyruskv_restart(checkpoints, "owned", PAPYRUSKV_RDWR, opt, &db, &event));
  CHECK_OK(papyruskv_wait(db, event));
  check_all(db);
  CHECK_OK(papyruskv_close(db));
  CHECK_OK(papyruskv_restart(checkpoints, "owned", PAPYRUSKV_RDWR, NULL, &db, &event));
  CHECK(papyruskv_wait(db, event) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_close(db) == PAPYRUSKV_INVALID_DB);
  check_open(opt);
}

int main(int argc, char** argv) {
  papyruskv_option_t opt;
  begin(&argc, &argv);
  CHECK(argc == 3);
  snprintf(repository, sizeof repository, "%s/repository", argv[2]);
  snprintf(checkpoints, sizeof checkpoints, "%s/checkpoints", argv[2]);
  opt.keylen = 0;
  opt.vallen = 0;
  opt.hash = by_digit;
  if (strcmp(argv[1], "write") == 0) {
    if (rank == 0) CHECK(mkdir(argv[2], 0700) == 0);
    MPI_Barrier(MPI_COMM_WORLD);
    write_both(&opt);
    return end();
  }
  begin_in(repository, "0");
  check_open(&opt);
  CHECK_OK(papyruskv_finalize());
  begin_in("$PAPYRUSKV_REPOSITORY", "1");
  check_restart(&opt);
  CHECK_OK(papyruskv_finalize());
  return end();
}
