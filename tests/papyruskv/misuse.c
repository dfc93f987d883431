/* Calls at the wrong time, with handles that are none and with nulls, and inside functions that the
 * library calls: an error, never a crash. And every call from a thread that blocks all signals. */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "check.h"

static int update(const char* key, size_t keylen, char** val, size_t* vallen, void* userin,
                  size_t userinlen, void* userout, size_t useroutlen) {
  (void)key, (void)keylen, (void)val, (void)vallen, (void)userin, (void)userinlen, (void)userout;
  (void)useroutlen;
  return 0;
}

/* Scripts and programs in other languages have these numbers written in them. */
static void check_constants(void) {
  CHECK(PAPYRUSKV_OK == 0 && PAPYRUSKV_SUCCESS == PAPYRUSKV_OK && PAPYRUSKV_ERR == -1);
  CHECK(PAPYRUSKV_NOT_FOUND == PAPYRUSKV_ERR && PAPYRUSKV_INVALID_DB < -1);
  CHECK(PAPYRUSKV_INVALID_ARGUMENT < PAPYRUSKV_INVALID_DB);
  CHECK(PAPYRUSKV_MEMTABLE == 1 && PAPYRUSKV_SSTABLE == 2);
  CHECK(PAPYRUSKV_SEQUENTIAL == 1 && PAPYRUSKV_RELAXED == 2);
  CHECK(PAPYRUSKV_CREATE == 4 && PAPYRUSKV_RDWR == 8 && PAPYRUSKV_WRONLY == 16);
  CHECK(PAPYRUSKV_RDONLY == 32 && PAPYRUSKV_UDONLY == 64);
}

/* Every call that takes a handle, with one that stands for nothing. */
static void check_all_answer(int db, int expected) {
  char* value = NULL;
  size_t length = 0;
  papyruskv_pos_t pos;
  papyruskv_iter_t iter = NULL;
  int event = 0;
  CHECK(papyruskv_put(db, "k", 1, "v", 1) == expected);
  CHECK(papyruskv_get(db, "k", 1, &value, &length) == expected);
  CHECK(papyruskv_get_pos(db, "k", 1, &value, &length, &pos) == expected);
  CHECK(papyruskv_delete(db, "k", 1) == expected);
  CHECK(papyruskv_fence(db, PAPYRUSKV_MEMTABLE) == expected);
  CHECK(papyruskv_barrier(db, PAPYRUSKV_MEMTABLE) == expected);
  CHECK(papyruskv_consistency(db, PAPYRUSKV_RELAXED) == expected);
  CHECK(papyruskv_protect(db, PAPYRUSKV_RDWR) == expected);
  CHECK(papyruskv_hash(db, NULL) == expected);
  CHECK(papyruskv_iter_local(db, &iter) == expected);
  CHECK(papyruskv_iter_next(db, &iter) == expected);
  CHECK(papyruskv_register_update(db, 1, update) == expected);
  CHECK(papyruskv_update(db, "k", 1, NULL, 1, NULL, 0, NULL, 0) == expected);
  CHECK(papyruskv_checkpoint(db, "/tmp", &event) == expected);
  CHECK(papyruskv_destroy(db, &event) == expected);
  CHECK(papyruskv_wait(db, 1) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_close(db) == expected);
}

static void check_outside(void) {
  int db = 0;
  int zero = 0;
  check_all_answer(1, PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_open("db", PAPYRUSKV_CREATE, NULL, &db) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_restart("/tmp", "db", 0, NULL, &db, &zero) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_signal_notify(1, &zero, 1) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_signal_wait(1, &zero, 1) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_finalize() == PAPYRUSKV_INVALID_ARGUMENT);
}

static void check_nulls(int db) {
  char* value = NULL;
  char bytes[4] = "";
  int again = 7;
  papyruskv_iter_t stray = NULL;
  struct papyruskv_iter foreign;
  memset(&foreign, 0, sizeof foreign);
  CHECK(papyruskv_open(NULL, PAPYRUSKV_CREATE, NULL, &db) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_open("db", PAPYRUSKV_CREATE, NULL, NULL) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_checkpoint(db, NULL, NULL) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_restart(NULL, "db", 0, NULL, &again, NULL) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_restart("/tmp", NULL, 0, NULL, &again, NULL) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(again == -1);
  CHECK(papyruskv_restart("/tmp", "db", 0, NULL, NULL, NULL) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_put(db, NULL, 1, "v", 1) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_put(db, "k", 1, NULL, 1) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_get(db, NULL, 1, &value, NULL) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_get(db, "k", 1, NULL, NULL) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_delete(db, NULL, 1) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_free(NULL) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_iter_local(db, NULL) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_iter_next(db, NULL) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_iter_next(db, &stray) == PAPYRUSKV_INVALID_ARGUMENT);
  stray = &foreign;
  CHECK(papyruskv_iter_next(db, &stray) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_signal_notify(1, NULL, 1) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_signal_wait(1, NULL, 1) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_signal_wait(1, &db, -1) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_update(db, NULL, 1, NULL, 1, NULL, 0, NULL, 0) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_update(db, "k", 1, NULL, 1, NULL, 1, NULL, 0) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_update(db, "k", 1, NULL, 1, NULL, 0, bytes, (size_t)1 << 40) ==
        PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_register_update(db, 1, NULL) == PAPYRUSKV_INVALID_ARGUMENT);
}

static void check_open(void) {
  int db = 7, again = 7;
  char name[300];
  memset(name, 'n', sizeof name);
  name[256] = 0;
  CHECK(papyruskv_open("absent", PAPYRUSKV_RDWR, NULL, &db) == PAPYRUSKV_NOT_FOUND && db == -1);
  CHECK(papyruskv_open(name, PAPYRUSKV_CREATE, NULL, &db) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_open("", PAPYRUSKV_CREATE, NULL, &db) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_open("db", PAPYRUSKV_CREATE | 1 << 9, NULL, &db) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK_OK(papyruskv_open("db", PAPYRUSKV_CREATE, NULL, &db));
  CHECK(papyruskv_open("db", PAPYRUSKV_CREATE, NULL, &again) == PAPYRUSKV_BUSY && again == -1);
  check_nulls(db);
  CHECK_OK(papyruskv_close(db));
  CHECK_OK(papyruskv_open("other", PAPYRUSKV_CREATE, NULL, &again));
  CHECK(again != db); /* a closed handle is never taken for a later one */
  check_all_answer(db, PAPYRUSKV_INVALID_DB);
  check_all_answer(-1, PAPYRUSKV_INVALID_DB);
  check_all_answer(0, PAPYRUSKV_INVALID_DB);
  check_all_answer(1 << 30, PAPYRUSKV_INVALID_DB);
}

/* A forked child is refused, and ends without harm to its parent. */
static void check_forked(void) {
  int db = 0, status = 0;
  pid_t child;
  CHECK_OK(papyruskv_open("forked", PAPYRUSKV_CREATE, NULL, &db));
  CHECK_OK(papyruskv_put(db, "k", 1, "v", 1));
  fflush(NULL);
  child = fork();
  if (child == 0) {
    alarm(20);
    check_all_answer(db, PAPYRUSKV_INVALID_ARGUMENT);
    CHECK(papyruskv_finalize() == PAPYRUSKV_INVALID_ARGUMENT);
    _exit(0);
  }
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK_VALUE(db, "k", 1, "v", 1);
  CHECK_OK(papyruskv_close(db));
}

/* The database that the functions below belong to, and how often the hash function ran. */
static int called_db = 0;
static volatile int hash_calls = 0;

/* All that a function must not call. */
static void check_all_inside(void) {
  int db = 0, event = 0, zero = 0;
  char key[] = "k";
  papyruskv_iter_t iter = NULL;
  check_all_answer(called_db, PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_update(called_db, key, 1, NULL, 1, key, 1, key, 1) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_iter_next(called_db, &iter) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_open("other", PAPYRUSKV_CREATE, NULL, &db) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_restart("/tmp", "other", 0, NULL, &db, &event) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_signal_notify(1, &zero, 1) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_signal_wait(1, &zero, 1) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_init(NULL, NULL, "$PAPYRUSKV_REPOSITORY") == PAPYRUSKV_BUSY);
  CHECK(papyruskv_finalize() == PAPYRUSKV_INVALID_ARGUMENT);
}

static int update_that_calls(const char* key, size_t keylen, char** val, size_t* vallen,
                             void* userin, size_t userinlen, void* userout, size_t useroutlen) {
  (void)key, (void)keylen;
  check_all_inside();
  if (userinlen > 0) memcpy(*val + *vallen, userin, userinlen);
  *vallen += userinlen;
  if (useroutlen > 0) memset(userout, 'o', useroutlen);
  return 1;
}

static int hash_that_calls(const char* key, size_t keylen, size_t nranks) {
  check_all_inside();
  ++hash_calls;
  return keylen == 0 ? 0 : (int)((unsigned char)key[0] % nranks);
}

/* Each rank has a pair of its own at every rank: where it runs, the update calls all it can. */
static void check_called(int db) {
  char out[4] = "";
  for (int owner = 0; owner < size; ++owner) {
    const char key[2] = {(char)owner, (char)rank};
    CHECK_OK(papyruskv_put(db, key, sizeof key, "a", 1));
    CHECK_OK(papyruskv_update(db, key, sizeof key, NULL, 1, "b", 1, out, 1));
    CHECK(out[0] == 'o');
    CHECK_OK(papyruskv_update(db, key, sizeof key, NULL, 1, "c", 1, NULL, 0)); /* staged */
    CHECK_OK(papyruskv_fence(db, PAPYRUSKV_MEMTABLE));
    CHECK_VALUE(db, key, sizeof key, "abc", 3);
  }
  CHECK_OK(papyruskv_barrier(db, PAPYRUSKV_SSTABLE));
}

static void check_inside(void) {
  papyruskv_option_t opt;
  int db = 0;
  CHECK_OK(papyruskv_open("inside", PAPYRUSKV_CREATE, NULL, &db));
  called_db = db;
  CHECK_OK(papyruskv_register_update(db, 1, update_that_calls));
  check_called(db);
  CHECK_OK(papyruskv_close(db));
  memset(&opt, 0, sizeof opt);
  opt.hash = hash_that_calls;
  CHECK_OK(papyruskv_open("inside hash", PAPYRUSKV_CREATE, &opt, &db));
  called_db = db;
  CHECK_OK(papyruskv_register_update(db, 1, update_that_calls));
  check_called(db);
  CHECK(hash_calls > 0);
  CHECK_OK(papyruskv_close(db));
}

/* The calls of each rank between its open and its close. */
static void make_calls_on_pairs(int db) {
  const int next = (rank + 1) % size;
  int before = (rank + size - 1) % size, after = next;
  char out[4] = "";
  papyruskv_pos_t pos = {NULL};
  papyruskv_iter_t walk = NULL;
  char* got = NULL;
  size_t bytes = 0;
  CHECK_OK(papyruskv_hash(db, hash_that_calls));
  CHECK_OK(papyruskv_consistency(db, PAPYRUSKV_SEQUENTIAL));
  CHECK_OK(papyruskv_register_update(db, 1, update_that_calls));
  CHECK_OK(papyruskv_put(db, (char*)&rank, sizeof rank, "put", 3));
  CHECK_OK(papyruskv_fence(db, PAPYRUSKV_MEMTABLE));
  CHECK_OK(papyruskv_signal_notify(1, &before, 1));
  CHECK_OK(papyruskv_signal_wait(1, &after, 1));
  CHECK_VALUE(db, (char*)&next, sizeof next, "put", 3); /* get, free */
  CHECK_OK(papyruskv_get_pos(db, (char*)&next, sizeof next, &got, &bytes, &pos));
  CHECK(bytes == 3 && memcmp(got, "put", 3) == 0);
  CHECK_OK(papyruskv_free(&got));
  CHECK_OK(papyruskv_barrier(db, PAPYRUSKV_MEMTABLE));
  CHECK_OK(papyruskv_update(db, (char*)&next, sizeof next, &pos, 1, "s", 1, out, 1));
  CHECK(out[0] == 'o');
  CHECK_OK(papyruskv_barrier(db, PAPYRUSKV_SSTABLE));
  CHECK_OK(papyruskv_iter_local(db, &walk));
  CHECK(walk != NULL && walk->vallen == 4 && memcmp(walk->val, "puts", 4) == 0);
  CHECK(memcmp(walk->key, &rank, sizeof rank) == 0);
  CHECK_OK(papyruskv_iter_next(db, &walk));
  CHECK(walk == NULL);
  CHECK_OK(papyruskv_protect(db, PAPYRUSKV_RDONLY));
  CHECK(papyruskv_delete(db, (char*)&rank, sizeof rank) == PAPYRUSKV_READ_ONLY);
  CHECK_OK(papyruskv_protect(db, PAPYRUSKV_RDWR));
}

static void* make_every_call(void* unused) {
  papyruskv_option_t opt;
  int db = 0, event = 0;
  char checkpoints[300];
  sigset_t all;
  sigfillset(&all);
  CHECK(pthread_sigmask(SIG_BLOCK, &all, NULL) == 0);
  snprintf(checkpoints, sizeof checkpoints, "%s/checkpoints", shared);
  CHECK_OK(papyruskv_init(NULL, NULL, "$PAPYRUSKV_REPOSITORY"));
  CHECK_OK(papyruskv_open("db", PAPYRUSKV_CREATE | PAPYRUSKV_RELAXED, NULL, &db));
  called_db = db;
  make_calls_on_pairs(db);
  CHECK_OK(papyruskv_checkpoint(db, checkpoints, &event));
  CHECK_OK(papyruskv_wait(db, event));
  CHECK_OK(papyruskv_delete(db, (char*)&rank, sizeof rank));
  CHECK_ABSENT(db, (char*)&rank, sizeof rank);
  CHECK_OK(papyruskv_close(db));
  memset(&opt, 0, sizeof opt);
  opt.hash = hash_that_calls;
  CHECK_OK(papyruskv_restart(checkpoints, "db", PAPYRUSKV_RDWR, &opt, &db, &event));
  called_db = db;
  CHECK_OK(papyruskv_wait(db, event));
  CHECK_VALUE(db, (char*)&rank, sizeof rank, "puts", 4);
  CHECK_OK(papyruskv_destroy(db, &event));
  CHECK_OK(papyruskv_wait(db, event));
  CHECK_OK(papyruskv_finalize());
  return unused;
}

/* As in a program that handles its signals in a thread of their own. */
static void check_signals_blocked(void) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, make_every_call, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  remove_shared("checkpoints");
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  check_constants();
  check_outside();
  CHECK(papyruskv_init(NULL, NULL, NULL) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_init(NULL, NULL, "$QUIRE_NO_SUCH_VARIABLE") == PAPYRUSKV_INVALID_ARGUMENT);
  check_outside();
  CHECK_OK(papyruskv_init(NULL, NULL, "$PAPYRUSKV_REPOSITORY"));
  CHECK(papyruskv_init(NULL, NULL, "$PAPYRUSKV_REPOSITORY") == PAPYRUSKV_BUSY);
  check_open();
  check_forked();
  check_inside();
  CHECK_OK(papyruskv_finalize());
  check_outside();
  check_signals_blocked();
  check_outside();
  return end();
}
