// The calls of PapyrusKV that return events, and those that wait, if one rank of the job lacks
// memory for one allocation: all ranks receive the same code, and no pair is lost.
#include "tests/support/starved_rank.h"

#include "check.h"

namespace {

using quire::test::StarvedCalls;

constexpr int kPairs = 20;
char checkpoints[300];

/* Sweeps a call that may need no memory. Returns how often it failed. */
template <typename Call, typename Restore>
int SweepAny(const char* name, const Call& call, const Restore& restore) {
  const StarvedCalls calls = quire::test::StarveLastRank(name, call, restore);
  CHECK(calls.parted == 0);
  return calls.failed;
}

template <typename Call, typename Restore>
void Sweep(const char* name, const Call& call, const Restore& restore) {
  const int failed = SweepAny(name, call, restore);
  if (failed == 0) fprintf(stderr, "no memory was missing in %s\n", name);
  CHECK(failed > 0);
}

int OpenIt() {
  int db = -1;
  CHECK_OK(papyruskv_open("db", PAPYRUSKV_CREATE | PAPYRUSKV_RELAXED, nullptr, &db));
  return db;
}

void CheckPairs(int db) {
  char key[32];
  for (int i = 0; i < kPairs; ++i) {
    const auto length = static_cast<size_t>(snprintf(key, sizeof key, "key %d", i));
    CHECK_VALUE(db, key, length, key, length);
  }
}

void PutPairs(int db) {
  char key[32];
  for (int i = rank; i < kPairs; i += size) {
    const auto length = static_cast<size_t>(snprintf(key, sizeof key, "key %d", i));
    CHECK_OK(papyruskv_put(db, key, length, key, length));
  }
  CHECK_OK(papyruskv_barrier(db, PAPYRUSKV_MEMTABLE));
}

void SweepPhases(int db) {
  const auto put = [&](bool) { CHECK_OK(papyruskv_put(db, "key 0", 5, "key 0", 5)); };
  const auto leave = [](bool) {};
  for (const int level : {PAPYRUSKV_MEMTABLE, PAPYRUSKV_SSTABLE}) {
    put(true);
    SweepAny(
        "barrier", [&] { return papyruskv_barrier(db, level); }, put);
  }
  for (const int consistency : {PAPYRUSKV_SEQUENTIAL, PAPYRUSKV_RELAXED}) {
    SweepAny(
        "consistency", [&] { return papyruskv_consistency(db, consistency); }, leave);
  }
  for (const int protection : {PAPYRUSKV_RDONLY, PAPYRUSKV_UDONLY, PAPYRUSKV_RDWR}) {
    SweepAny(
        "protect", [&] { return papyruskv_protect(db, protection); }, leave);
  }
  /* A fence is each rank's own: where it fails, the next one does its work. */
  SweepAny(
      "fence",
      [&] {
        const int code = papyruskv_fence(db, PAPYRUSKV_SSTABLE);
        return code == PAPYRUSKV_OUT_OF_MEMORY ? papyruskv_fence(db, PAPYRUSKV_SSTABLE) : code;
      },
      put);
  CHECK_OK(papyruskv_barrier(db, PAPYRUSKV_MEMTABLE));
}

void SweepOpenings() {
  int db = -1;
  Sweep(
      "open",
      [&] { return papyruskv_open("db", PAPYRUSKV_CREATE | PAPYRUSKV_RELAXED, nullptr, &db); },
      [&](bool done) {
        if (done) CHECK_OK(papyruskv_close(db));
      });
  db = OpenIt();
  SweepAny(
      "close", [&] { return papyruskv_close(db); },
      [&](bool) {
        db = OpenIt();
        CheckPairs(db);
      });
  CHECK_OK(papyruskv_close(db));
}

void SweepCheckpoints(int db) {
  int event = -1;
  Sweep(
      "checkpoint that waits", [&] { return papyruskv_checkpoint(db, checkpoints, nullptr); },
      [](bool) {});
  Sweep(
      "checkpoint", [&] { return papyruskv_checkpoint(db, checkpoints, &event); },
      [&](bool done) {
        if (!done) return;
        /* The allocation may also have failed behind the call, in what it began. */
        const int ended = papyruskv_wait(db, event);
        CHECK(ended == PAPYRUSKV_OK || ended == PAPYRUSKV_OUT_OF_MEMORY);
      });
  const auto begin_one = [&](bool) { CHECK_OK(papyruskv_checkpoint(db, checkpoints, &event)); };
  begin_one(true);
  /* A checkpoint that has ended before is waited for without memory. */
  SweepAny(
      "wait", [&] { return papyruskv_wait(db, event); }, begin_one);
  CHECK_OK(papyruskv_wait(db, event));
}

void SweepRestarts() {
  int db = -1;
  const auto check = [&](bool done) {
    if (!done) return;
    CheckPairs(db);
    CHECK_OK(papyruskv_close(db));
  };
  Sweep(
      "restart",
      [&] { return papyruskv_restart(checkpoints, "db", PAPYRUSKV_RDWR, nullptr, &db, nullptr); },
      check);
}

void SweepDestruction() {
  int db = OpenIt();
  Sweep(
      "destroy", [&] { return papyruskv_destroy(db, nullptr); }, [&](bool) { db = OpenIt(); });
  CHECK_OK(papyruskv_destroy(db, nullptr));
}

}  // namespace

int main(int argc, char** argv) {
  begin(&argc, &argv);
  CHECK_OK(papyruskv_init(&argc, &argv, "$PAPYRUSKV_REPOSITORY"));
  snprintf(checkpoints, sizeof checkpoints, "%s/checkpoints", directory);
  const int db = OpenIt();
  PutPairs(db);
  SweepPhases(db);
  SweepCheckpoints(db);
  CheckPairs(db);
  CHECK_OK(papyruskv_close(db));
  SweepOpenings();
  SweepRestarts();
  SweepDestruction();
  CHECK_OK(papyruskv_finalize());
  remove_shared("checkpoints");
  remove_shared("repository");
  return end();
}
