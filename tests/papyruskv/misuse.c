/* Calls at the wrong time, with handles that are none and with nulls: an error, never a crash. */
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
  CHECK_OK(papyruskv_finalize());
  check_outside();
  return end();
}
