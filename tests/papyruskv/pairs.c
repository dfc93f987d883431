/* Pairs of all kinds through PapyrusKV's interface: small, empty, large, replaced, deleted; read
 * back by every rank, from memory and from tables, into either kind of memory; and walked over. */
#include "check.h"

enum { kPairs = 500, kLarge = 16 << 20, kLongKey = 16 << 10 };

static size_t key_of(int owner, int i, char* key) {
  return (size_t)sprintf(key, "%d/%d", owner, i) + 1;
}

static size_t value_of(int owner, int i, char* value) {
  return (size_t)sprintf(value, "value %d of %d", i, owner) + 1;
}

static void put_all(int db) {
  char key[32], value[64];
  for (int i = 0; i < kPairs; ++i) {
    size_t keylen = key_of(rank, i, key);
    CHECK_OK(papyruskv_put(db, key, keylen, "old", 4));
    CHECK_OK(papyruskv_put(db, key, keylen, value, value_of(rank, i, value)));
    if (i % 10 == 9) CHECK_OK(papyruskv_delete(db, key, keylen));
  }
}

static void check_all(int db) {
  char key[32], value[64];
  for (int owner = 0; owner < size; ++owner) {
    for (int i = 0; i < kPairs; ++i) {
      size_t keylen = key_of(owner, i, key);
      if (i % 10 == 9) {
        CHECK_ABSENT(db, key, keylen);
      } else {
        CHECK_VALUE(db, key, keylen, value, value_of(owner, i, value));
      }
    }
  }
}

/* Bytes that are no text, no bytes at all, and many. */
static void check_shapes(int db) {
  const char zeros[] = {0, 1, 0, 2};
  char* large = malloc(kLarge);
  char key[32];
  size_t keylen = key_of(rank, -1, key);
  CHECK(large != NULL);
  memset(large, 'L' + rank, kLarge);
  CHECK_OK(papyruskv_put(db, zeros, 4, zeros, 4));
  CHECK_OK(papyruskv_put(db, "empty", 5, NULL, 0));
  CHECK_OK(papyruskv_put(db, key, keylen, large, kLarge));
  CHECK_OK(papyruskv_barrier(db, PAPYRUSKV_MEMTABLE));
  keylen = key_of((rank + 1) % size, -1, key);
  memset(large, 'L' + (rank + 1) % size, kLarge);
  CHECK_VALUE(db, zeros, 4, zeros, 4);
  CHECK_VALUE(db, "empty", 5, "", 0);
  CHECK_VALUE(db, key, keylen, large, kLarge);
  CHECK_OK(papyruskv_put(db, large, kLongKey, "long", 4));
  CHECK_VALUE(db, large, kLongKey, "long", 4);
  CHECK(papyruskv_put(db, key, 0, large, 1) == PAPYRUSKV_INVALID_ARGUMENT);
  free(large);
}

/* A buffer of the program is filled, and nothing behind the value is touched. */
static void check_buffers(int db) {
  char buffer[8] = "xxxxxxx";
  char* at = buffer;
  size_t length = 0;
  papyruskv_pos_t pos = {&pos};
  CHECK_OK(papyruskv_put(db, "k", 1, "abc", 3));
  CHECK_OK(papyruskv_get(db, "k", 1, &at, &length));
  CHECK(at == buffer && length == 3 && memcmp(buffer, "abcxxxx", 8) == 0);
  at = NULL;
  CHECK_OK(papyruskv_get(db, "k", 1, &at, NULL));
  CHECK(at != NULL && memcmp(at, "abc", 3) == 0);
  CHECK_OK(papyruskv_free(&at));
  CHECK_OK(papyruskv_free(&at));
  at = buffer;
  CHECK(papyruskv_get_pos(db, "none", 4, &at, &length, &pos) == PAPYRUSKV_NOT_FOUND);
  CHECK(pos.handle == NULL && at == buffer);
  CHECK_OK(papyruskv_get_pos(db, "k", 1, &at, &length, &pos));
  CHECK(pos.handle != NULL && length == 3);
  MPI_Barrier(MPI_COMM_WORLD);
}

/* Every pair that is there is seen by exactly one rank, in order. */
static void check_walks(int db) {
  papyruskv_iter_t iter = NULL;
  char last[64] = "";
  size_t last_length = 0;
  int seen = 0, all = 0;
  CHECK_OK(papyruskv_iter_local(db, &iter));
  while (iter != NULL) {
    size_t shorter = iter->keylen < last_length ? iter->keylen : last_length;
    int order = memcmp(last, iter->key, shorter);
    CHECK(order < 0 || (order == 0 && last_length < iter->keylen));
    CHECK(iter->handle != NULL && iter->keylen <= sizeof last);
    CHECK_VALUE(db, iter->key, iter->keylen, iter->val, iter->vallen);
    memcpy(last, iter->key, iter->keylen);
    last_length = iter->keylen;
    ++seen;
    CHECK_OK(papyruskv_iter_next(db, &iter));
  }
  CHECK(papyruskv_iter_next(db, &iter) == PAPYRUSKV_INVALID_ARGUMENT);
  MPI_Allreduce(&seen, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(all == size * (kPairs - kPairs / 10));
}

int main(int argc, char** argv) {
  int db = -1;
  papyruskv_iter_t unfinished = NULL;
  begin(&argc, &argv);
  CHECK_OK(papyruskv_init(&argc, &argv, "$PAPYRUSKV_REPOSITORY"));
  CHECK_OK(
      papyruskv_open("pairs", PAPYRUSKV_CREATE | PAPYRUSKV_RELAXED | PAPYRUSKV_RDWR, NULL, &db));
  CHECK_OK(papyruskv_iter_local(db, &unfinished));
  CHECK(unfinished == NULL);
  MPI_Barrier(MPI_COMM_WORLD);
  put_all(db);
  CHECK_OK(papyruskv_barrier(db, PAPYRUSKV_MEMTABLE));
  check_all(db);
  CHECK_OK(papyruskv_barrier(db, PAPYRUSKV_SSTABLE));
  check_all(db);
  check_walks(db);
  check_shapes(db);
  check_buffers(db);
  CHECK_OK(papyruskv_iter_local(db, &unfinished));
  CHECK_OK(papyruskv_close(db));

  CHECK_OK(papyruskv_open("pairs", PAPYRUSKV_RDONLY, NULL, &db));
  check_all(db);
  CHECK_OK(papyruskv_close(db));
  CHECK_OK(papyruskv_finalize());
  return end();
}
