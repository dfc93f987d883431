/* A program of NVStream's: every call, its misuse, and an analysis in another process that reads
 * what a simulation stores: nvs_test */
#include <nvs/nvs.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int failures = 0;

#define CHECK(condition)                                                                \
  do {                                                                                  \
    if (!(condition)) {                                                                 \
      ++failures;                                                                       \
      fprintf(stderr, "%s:%d: %s (last message: %s)\n", __FILE__, __LINE__, #condition, \
              nvs_error_message());                                                     \
    }                                                                                   \
  } while (0)

enum { kCells = 1000, kSteps = 20, kWaitMs = 20000 };

/* Figure 3 of the paper. */
static void check_figure(void) {
  int* array = NULL;
  const int* got = NULL;
  int i = 0;
  CHECK(nvs_init("figure") == NVS_OK);
  array = (int*)nvs_create_obj("zeta", sizeof(int) * kCells);
  CHECK(array != NULL && (size_t)array % 4096 == 0 && array[kCells - 1] == 0);
  for (i = 0; i < kCells; ++i) array[i] = i;
  CHECK(nvs_put("zeta") == NVS_OK);
  array[5] = -5;
  CHECK(nvs_put("zeta") == NVS_OK);
  CHECK(nvs_sync() == NVS_OK);
  CHECK(nvs_free_obj("zeta") == NVS_OK);
  got = (const int*)nvs_get("zeta", 0);
  CHECK(got != NULL && got[5] == -5 && got[6] == 6);
  CHECK(nvs_finalize() == NVS_OK);
}

static void check_versions(void) {
  int* array = NULL;
  const int* newest = NULL;
  const int* again = NULL;
  const int* first = NULL;
  CHECK(nvs_init("figure/0") == NVS_OK);
  array = (int*)nvs_create_obj("zeta", sizeof(int) * kCells);
  CHECK(array != NULL && array[5] == 0); /* goes on with version 3 */
  CHECK(nvs_create_obj("eta", 16) != NULL);
  array[5] = 33;
  CHECK(nvs_snapshot() == NVS_OK);
  newest = (const int*)nvs_get("zeta", 0);
  again = (const int*)nvs_get("zeta", 3);
  first = (const int*)nvs_get_from("figure/0", "zeta", 2);
  CHECK(newest != NULL && again != NULL && first != NULL);
  CHECK(newest[5] == 33 && again[5] == 33 && first[5] == -5);
  CHECK(nvs_size(newest) == sizeof(int) * kCells);
  CHECK(nvs_version(newest) == 3 && nvs_version(first) == 2);
  CHECK(nvs_release(newest) == NVS_OK);
  CHECK(again[5] == 33 && nvs_size(again) == sizeof(int) * kCells);
  CHECK(nvs_release(again) == NVS_OK);
  CHECK(nvs_release(again) == NVS_INVALID_ARGUMENT);
  CHECK(nvs_size(again) == 0 && nvs_version(again) == 0);
  CHECK(nvs_finalize() == NVS_OK);
}

static void check_misuse(void) {
  CHECK(nvs_put("zeta") == NVS_INVALID_ARGUMENT);
  CHECK(nvs_error() == NVS_INVALID_ARGUMENT && strstr(nvs_error_message(), "nvs_init") != NULL);
  CHECK(nvs_create_obj("zeta", 8) == NULL);
  CHECK(nvs_get("zeta", 0) == NULL);
  CHECK(nvs_wait("zeta", 1, 0) == NVS_INVALID_ARGUMENT);
  CHECK(nvs_finalize() == NVS_INVALID_ARGUMENT);
  CHECK(nvs_init(NULL) == NVS_INVALID_ARGUMENT);
  CHECK(nvs_init("../up/0") == NVS_INVALID_ARGUMENT);
  CHECK(nvs_init("misuse/one") == NVS_INVALID_ARGUMENT);
  CHECK(nvs_init("misuse/") == NVS_INVALID_ARGUMENT);
  CHECK(nvs_init("misuse/4294967296") == NVS_INVALID_ARGUMENT);
  CHECK(nvs_init("misuse/1/2") == NVS_INVALID_ARGUMENT);
  CHECK(nvs_init("misuse/1") == NVS_OK);
  CHECK(nvs_init("misuse/1") == NVS_INVALID_ARGUMENT);
  CHECK(nvs_put("zeta") == NVS_NOT_FOUND);
  CHECK(nvs_snapshot() == NVS_NOT_FOUND);
  CHECK(nvs_get("zeta", 0) == NULL && nvs_error() == NVS_NOT_FOUND);
  CHECK(nvs_get_from(NULL, "zeta", 0) == NULL && nvs_error() == NVS_INVALID_ARGUMENT);
  CHECK(nvs_wait("zeta", 1, 20) == NVS_TIMED_OUT);
  CHECK(nvs_create_obj(NULL, 8) == NULL && nvs_error() == NVS_INVALID_ARGUMENT);
  CHECK(nvs_create_obj("", 8) == NULL && nvs_error() == NVS_INVALID_ARGUMENT);
  CHECK(nvs_create_obj("zeta", 0) == NULL && nvs_error() == NVS_INVALID_ARGUMENT);
  CHECK(nvs_create_obj("zeta", (size_t)1 << 60) == NULL && nvs_error() == NVS_NO_SPACE);
  CHECK(nvs_create_obj("zeta", 8) != NULL);
  CHECK(nvs_create_obj("zeta", 8) == NULL && nvs_error() == NVS_INVALID_ARGUMENT);
  CHECK(nvs_put("eta") == NVS_NOT_FOUND);
  CHECK(nvs_free_obj("eta") == NVS_NOT_FOUND);
  CHECK(nvs_put(NULL) == NVS_INVALID_ARGUMENT);
  CHECK(nvs_get("zeta", 0) == NULL && nvs_error() == NVS_NOT_FOUND); /* no version yet */
  CHECK(nvs_put("zeta") == NVS_OK);
  CHECK(nvs_get("zeta", 2) == NULL && nvs_error() == NVS_NOT_FOUND);
  CHECK(nvs_release(&failures) == NVS_INVALID_ARGUMENT);
  CHECK(nvs_size(NULL) == 0);
  CHECK(nvs_finalize() == NVS_OK);
  CHECK(nvs_finalize() == NVS_INVALID_ARGUMENT);
}

/* Reads every step as soon as it is there; both objects of a step are of one snapshot. */
static void analyse(void) {
  uint64_t step = 0;
  CHECK(nvs_init("flow/2") == NVS_OK);
  for (step = 1; step <= kSteps; ++step) {
    const uint64_t* field = NULL;
    const uint64_t* time = NULL;
    CHECK(nvs_wait("time", step, kWaitMs) == NVS_OK);
    field = (const uint64_t*)nvs_get("field", step);
    time = (const uint64_t*)nvs_get("time", step);
    CHECK(field != NULL && time != NULL);
    if (field == NULL || time == NULL) break;
    CHECK(time[0] == step && field[0] == step * 100 &&
          field[kCells - 1] == step * 100 + kCells - 1);
    CHECK(nvs_release(field) == NVS_OK && nvs_release(time) == NVS_OK);
  }
  CHECK(nvs_wait("time", kSteps + 1, kWaitMs) == NVS_NOT_FOUND); /* the simulation has ended */
  CHECK(nvs_finalize() == NVS_OK);
}

static void simulate(void) {
  uint64_t* field = NULL;
  uint64_t* time = NULL;
  uint64_t step = 0;
  uint64_t i = 0;
  CHECK(nvs_init("flow/2") == NVS_OK);
  field = (uint64_t*)nvs_create_obj("field", sizeof(uint64_t) * kCells);
  time = (uint64_t*)nvs_create_obj("time", sizeof(uint64_t));
  CHECK(field != NULL && time != NULL);
  for (step = 1; field != NULL && time != NULL && step <= kSteps; ++step) {
    for (i = 0; i < kCells; ++i) field[i] = step * 100 + i;
    time[0] = step;
    CHECK(nvs_snapshot() == NVS_OK);
  }
  CHECK(nvs_finalize() == NVS_OK);
}

/* A wait that timed out changes nothing: every call does what it does without it. */
static void check_after_timeout(void) {
  int* object = NULL;
  const int* got = NULL;
  CHECK(nvs_init("late") == NVS_OK);
  object = (int*)nvs_create_obj("x", sizeof(int));
  CHECK(object != NULL && nvs_create_obj("y", 16) != NULL && nvs_put("x") == NVS_OK);
  CHECK(nvs_wait("x", 2, 20) == NVS_TIMED_OUT && nvs_error() == NVS_TIMED_OUT);
  if (object != NULL) *object = 2;
  CHECK(nvs_put("x") == NVS_OK && nvs_wait("x", 2, 0) == NVS_OK);
  CHECK(nvs_wait("x", 3, 20) == NVS_TIMED_OUT);
  if (object != NULL) *object = 3;
  CHECK(nvs_snapshot() == NVS_OK && nvs_sync() == NVS_OK && nvs_wait("y", 1, 0) == NVS_OK);
  got = (const int*)nvs_get("x", 3);
  CHECK(got != NULL && *got == 3);
  CHECK(nvs_wait("x", 4, 20) == NVS_TIMED_OUT);
  CHECK(nvs_size(got) == sizeof(int) && nvs_version(got) == 3 && nvs_release(got) == NVS_OK);
  got = (const int*)nvs_get_from("late", "x", 2);
  CHECK(got != NULL && *got == 2 && nvs_release(got) == NVS_OK);
  CHECK(nvs_wait("x", 4, 20) == NVS_TIMED_OUT);
  CHECK(nvs_free_obj("x") == NVS_OK);
  CHECK(nvs_wait("y", 2, 20) == NVS_TIMED_OUT);
  CHECK(nvs_finalize() == NVS_OK);
}

static void* make_every_call(void* unused) {
  const size_t bytes = 4 * sizeof(int) * kCells; /* some pages */
  int* object = NULL;
  const int* got = NULL;
  sigset_t all;
  sigfillset(&all);
  CHECK(pthread_sigmask(SIG_BLOCK, &all, NULL) == 0);
  CHECK(nvs_init("blocked") == NVS_OK);
  object = (int*)nvs_create_obj("x", bytes);
  CHECK(object != NULL);
  if (object == NULL) return unused;
  object[5] = 55;
  CHECK(nvs_put("x") == NVS_OK && nvs_wait("x", 1, 0) == NVS_OK);
  CHECK(nvs_snapshot() == NVS_OK && nvs_sync() == NVS_OK);
  got = (const int*)nvs_get("x", 2);
  CHECK(got != NULL && got[5] == 55 && got[6] == 0);
  CHECK(nvs_size(got) == bytes && nvs_version(got) == 2);
  CHECK(nvs_release(got) == NVS_OK);
  got = (const int*)nvs_get_from("blocked", "x", 1);
  CHECK(got != NULL && got[5] == 55 && nvs_version(got) == 1);
  CHECK(nvs_wait("x", 3, 20) == NVS_TIMED_OUT && nvs_error() == NVS_TIMED_OUT);
  CHECK(strstr(nvs_error_message(), "no snapshot") != NULL);
  CHECK(nvs_free_obj("x") == NVS_OK);
  CHECK(nvs_finalize() == NVS_OK);
  return unused;
}

/* From a thread that blocks all signals, as in a program that handles them in another one. */
static void check_signals_blocked(void) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, make_every_call, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
}

/* Whether a child that does `work` ended well. */
static int child_failed(pid_t child) {
  int state = 0;
  CHECK(waitpid(child, &state, 0) == child);
  return !WIFEXITED(state) || WEXITSTATUS(state) != 0;
}

static void check_two_processes(void) {
  const pid_t child = fork();
  if (child == 0) {
    analyse();
    exit(failures == 0 ? 0 : 1);
  }
  simulate();
  CHECK(!child_failed(child));
}

/* Stored versions survive a process that is killed, and a reader that waits for more learns of its
 * death. */
static void check_killed(void) {
  pid_t child = 0;
  const int* got = NULL;
  int ready[2] = {-1, -1};
  char byte = 0;
  CHECK(pipe(ready) == 0);
  child = fork();
  if (child == 0) {
    int* object = NULL;
    CHECK(nvs_init("killed") == NVS_OK);
    object = (int*)nvs_create_obj("x", sizeof(int));
    if (object != NULL) *object = 7;
    CHECK(nvs_put("x") == NVS_OK);
    if (failures > 0 || write(ready[1], "r", 1) != 1) exit(1);
    pause();
  }
  CHECK(close(ready[1]) == 0);
  CHECK(read(ready[0], &byte, 1) == 1);
  CHECK(nvs_init("killed") == NVS_OK);
  CHECK(nvs_create_obj("x", sizeof(int)) == NULL && nvs_error() == NVS_BUSY);
  CHECK(kill(child, SIGKILL) == 0);
  CHECK(child_failed(child));
  got = (const int*)nvs_get("x", 1);
  CHECK(got != NULL && *got == 7);
  CHECK(nvs_wait("x", 2, kWaitMs) == NVS_PEER_FAILED);
  CHECK(nvs_finalize() == NVS_OK);
  CHECK(close(ready[0]) == 0);
}

/* A place that is named from the working directory stays the one that it was at nvs_init. */
static void check_working_directory(void) {
  char from[] = "/tmp/quire-nvs-from-XXXXXX";
  char to[] = "/tmp/quire-nvs-to-XXXXXX";
  char path[64];
  char* const before = getcwd(NULL, 0);
  const char* const variable = getenv("QUIRE_STREAM_PLACE");
  char* const place = strdup(variable == NULL ? "" : variable);
  CHECK(before != NULL && place != NULL && mkdtemp(from) != NULL && mkdtemp(to) != NULL);
  CHECK(chdir(from) == 0 && setenv("QUIRE_STREAM_PLACE", "relative", 1) == 0);
  CHECK(nvs_init("moves/0") == NVS_OK);
  CHECK(chdir(to) == 0);
  CHECK(nvs_create_obj("x", 16) != NULL && nvs_put("x") == NVS_OK);
  CHECK(nvs_get("x", 1) != NULL);
  CHECK(nvs_finalize() == NVS_OK);
  sprintf(path, "%s/relative/moves", from);
  CHECK(access(path, F_OK) == 0);
  CHECK(access("relative", F_OK) != 0);
  CHECK(setenv("QUIRE_STREAM_PLACE", place, 1) == 0);
  CHECK(chdir(before) == 0);
  sprintf(path, "rm -rf %s", from);
  CHECK(system(path) == 0 && rmdir(to) == 0);
  free(place);
  free(before);
}

/* Every call of a forked child is refused, and its end leaves the parent's session alone. */
static void check_forked_child(void) {
  const int* got = NULL;
  pid_t child = 0;
  CHECK(nvs_init("forked") == NVS_OK);
  CHECK(nvs_create_obj("x", 16) != NULL && nvs_put("x") == NVS_OK);
  got = (const int*)nvs_get("x", 1);
  CHECK(got != NULL);
  child = fork();
  if (child == 0) {
    alarm(20);
    CHECK(nvs_init("child") == NVS_INVALID_ARGUMENT);
    CHECK(nvs_create_obj("y", 16) == NULL && nvs_error() == NVS_INVALID_ARGUMENT);
    CHECK(nvs_put("x") == NVS_INVALID_ARGUMENT && strstr(nvs_error_message(), "forked") != NULL);
    CHECK(nvs_snapshot() == NVS_INVALID_ARGUMENT);
    CHECK(nvs_sync() == NVS_INVALID_ARGUMENT);
    CHECK(nvs_free_obj("x") == NVS_INVALID_ARGUMENT);
    CHECK(nvs_get("x", 1) == NULL && nvs_error() == NVS_INVALID_ARGUMENT);
    CHECK(nvs_get_from("forked", "x", 1) == NULL && nvs_error() == NVS_INVALID_ARGUMENT);
    CHECK(nvs_wait("x", 1, 0) == NVS_INVALID_ARGUMENT);
    CHECK(nvs_size(got) == 0 && nvs_version(got) == 0);
    CHECK(nvs_release(got) == NVS_INVALID_ARGUMENT);
    CHECK(nvs_finalize() == NVS_INVALID_ARGUMENT);
    exit(failures == 0 ? 0 : 1);
  }
  CHECK(!child_failed(child));
  CHECK(nvs_put("x") == NVS_OK && nvs_size(got) == 16 && nvs_release(got) == NVS_OK);
  CHECK(nvs_finalize() == NVS_OK);
  /* Nor after the end of the session. */
  CHECK(nvs_create_obj("x", 16) == NULL && nvs_error() == NVS_INVALID_ARGUMENT);
  CHECK(nvs_put("x") == NVS_INVALID_ARGUMENT);
  CHECK(nvs_snapshot() == NVS_INVALID_ARGUMENT);
  CHECK(nvs_sync() == NVS_INVALID_ARGUMENT);
  CHECK(nvs_free_obj("x") == NVS_INVALID_ARGUMENT);
  CHECK(nvs_get_from("forked", "x", 1) == NULL && nvs_error() == NVS_INVALID_ARGUMENT);
  CHECK(nvs_release(got) == NVS_INVALID_ARGUMENT);
  CHECK(nvs_size(got) == 0 && nvs_version(got) == 0);
}

/* The allocator of AddressSanitizer does not survive a fork beside a thread that allocates. */
#ifdef __SANITIZE_ADDRESS__
enum { kMayForkAmidCalls = 0 };
#else
enum { kMayForkAmidCalls = 1 };
#endif

static int* busy_object = NULL;
static volatile int putter_stops = 0;

static void* put_until_told(void* unused) {
  while (!putter_stops) {
    ++*busy_object;
    CHECK(nvs_put("x") == NVS_OK);
  }
  return unused;
}

/* A child is refused, and does not hang, also if another thread was within a call at the fork. */
static void check_forked_amid_calls(void) {
  enum { kForks = 20, kHangSeconds = 10, kBusyBytes = 1 << 16 };
  pthread_t putter;
  int i = 0;
  if (!kMayForkAmidCalls) {
    puts("skipped: the sanitizer's allocator does not survive a fork amid calls");
    return;
  }
  CHECK(nvs_init("forks") == NVS_OK);
  busy_object = (int*)nvs_create_obj("x", kBusyBytes);
  CHECK(busy_object != NULL && pthread_create(&putter, NULL, put_until_told, NULL) == 0);
  for (i = 0; i < kForks; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(kHangSeconds);
      _exit(nvs_put("x") == NVS_INVALID_ARGUMENT && nvs_init("other") == NVS_INVALID_ARGUMENT &&
                    nvs_wait("x", 1, 10) == NVS_INVALID_ARGUMENT && nvs_get("x", 1) == NULL
                ? 0
                : 1);
    }
    CHECK(!child_failed(child));
  }
  putter_stops = 1;
  CHECK(pthread_join(putter, NULL) == 0);
  CHECK(nvs_finalize() == NVS_OK);
}

int main(void) {
  check_signals_blocked();
  check_forked_child();
  check_forked_amid_calls();
  check_working_directory();
  check_two_processes();
  check_killed();
  check_after_timeout();
  check_misuse();
  check_figure();
  check_versions();
  printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
