/* Functions that run at the owner, and keys that a function of the program gives to ranks, through
 * PapyrusKV's interface. */
#include "check.h"

enum {
  kKeys = 20,
  kRounds = 50,
  kAdd = 1,
  kClaim = (int)0xdeadcafe,
  kGrow = 3,
  kReplace = 4,
  kRefuse = 5
};

/* Adds to a number, in place; gives what it was. Says that it has changed something by 0. */
static int add(const char* key, size_t keylen, char** val, size_t* vallen, void* userin,
               size_t userinlen, void* userout, size_t useroutlen) {
  long number = 0;
  (void)key;
  if (keylen != sizeof(int) || userinlen != sizeof number) return -1;
  if (*vallen == sizeof number) memcpy(&number, *val, sizeof number);
  if (useroutlen == sizeof number) memcpy(userout, &number, sizeof number);
  number += *(long*)userin;
  memcpy(*val, &number, sizeof number);
  *vallen = sizeof number;
  return 0;
}

/* Takes a free value for a rank, and returns 1 if it did. The answer is the earlier value. */
static int claim(const char* key, size_t keylen, char** val, size_t* vallen, void* userin,
                 size_t userinlen, void* userout, size_t useroutlen) {
  (void)key, (void)keylen, (void)userinlen;
  if (*vallen != sizeof(int) || useroutlen != sizeof(int)) return -1;
  memcpy(userout, *val, sizeof(int));
  if (*(int*)userout != -1) return 0;
  memcpy(*val, userin, sizeof(int));
  return 1;
}

/* Doubles a value, in the library's memory. */
static int grow(const char* key, size_t keylen, char** val, size_t* vallen, void* userin,
                size_t userinlen, void* userout, size_t useroutlen) {
  (void)key, (void)keylen, (void)userin, (void)userinlen, (void)userout, (void)useroutlen;
  memcpy(*val + *vallen, *val, *vallen);
  *vallen *= 2;
  return 1;
}

/* Puts what it was given in place of the value. */
static int replace(const char* key, size_t keylen, char** val, size_t* vallen, void* userin,
                   size_t userinlen, void* userout, size_t useroutlen) {
  (void)key, (void)keylen, (void)userout, (void)useroutlen;
  *val = userin;
  *vallen = userinlen;
  return PAPYRUSKV_OK;
}

static int refuse(const char* key, size_t keylen, char** val, size_t* vallen, void* userin,
                  size_t userinlen, void* userout, size_t useroutlen) {
  (void)key, (void)keylen, (void)vallen, (void)userin, (void)userinlen, (void)userout;
  (void)useroutlen;
  (*val)[0] = '!';
  return PAPYRUSKV_ERR;
}

static void register_all(int db) {
  CHECK_OK(papyruskv_register_update(db, kAdd, add));
  CHECK_OK(papyruskv_register_update(db, kClaim, claim));
  CHECK_OK(papyruskv_register_update(db, kGrow, grow));
  CHECK_OK(papyruskv_register_update(db, kReplace, replace));
  CHECK_OK(papyruskv_register_update(db, kRefuse, refuse));
}

/* Half of the additions wait for an answer, which never goes down. */
static void check_sums(int db) {
  long one = 1, last[kKeys] = {0}, sum = 2L * kRounds * size;
  for (int round = 0; round < kRounds; ++round) {
    for (int key = 0; key < kKeys; ++key) {
      long was = -1;
      CHECK_OK(
          papyruskv_update(db, (char*)&key, sizeof key, NULL, kAdd, &one, sizeof one, NULL, 0));
      CHECK_OK(papyruskv_update(db, (char*)&key, sizeof key, NULL, kAdd, &one, sizeof one, &was,
                                sizeof was));
      CHECK(was > last[key] && was < sum); /* its own, staged before, has gone before it */
      last[key] = was;
    }
  }
  CHECK_OK(papyruskv_barrier(db, PAPYRUSKV_MEMTABLE));
  for (int key = 0; key < kKeys; ++key) {
    CHECK_VALUE(db, (char*)&key, sizeof key, (char*)&sum, sizeof sum);
  }
}

/* Each of the keys is claimed by one rank alone. */
static void check_claims(int db) {
  const int base = 1000, unused = -1;
  int mine = 0, all = 0;
  for (int i = 0; rank == 0 && i < kKeys; ++i) {
    int key = base + i;
    CHECK_OK(papyruskv_put(db, (char*)&key, sizeof key, (char*)&unused, sizeof unused));
  }
  CHECK_OK(papyruskv_barrier(db, PAPYRUSKV_MEMTABLE));
  CHECK_OK(papyruskv_protect(db, PAPYRUSKV_UDONLY));
  for (int i = 0; i < kKeys; ++i) {
    int key = base + i, was = 99, now = 99;
    char* at = (char*)&now;
    papyruskv_pos_t pos;
    CHECK_OK(papyruskv_get_pos(db, (char*)&key, sizeof key, &at, NULL, &pos));
    CHECK_OK(papyruskv_update(db, (char*)&key, sizeof key, &pos, kClaim, &rank, sizeof rank, &was,
                              sizeof was));
    CHECK(was >= -1 && was < size && was != rank);
    if (was == -1) ++mine;
  }
  MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(all == kKeys);
  CHECK_OK(papyruskv_protect(db, PAPYRUSKV_RDWR));
}

static void check_shapes(int db) {
  char key[16], out[4] = "xxx";
  size_t keylen = (size_t)sprintf(key, "shape %d", rank);
  CHECK_OK(papyruskv_put(db, key, keylen, "ab", 2));
  CHECK_OK(papyruskv_update(db, key, keylen, NULL, kGrow, NULL, 0, out, sizeof out));
  CHECK(memcmp(out, "\0\0\0", 4) == 0);
  CHECK_VALUE(db, key, keylen, "abab", 4);
  CHECK_OK(papyruskv_update(db, key, keylen, NULL, kReplace, "other", 5, NULL, 0));
  CHECK_VALUE(db, key, keylen, "other", 5);
  CHECK(papyruskv_update(db, key, keylen, NULL, kRefuse, NULL, 0, out, 1) ==
        PAPYRUSKV_INVALID_ARGUMENT);
  CHECK(papyruskv_update(db, key, keylen, NULL, 77, NULL, 0, out, 1) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK_VALUE(db, key, keylen, "other", 5);
  CHECK_OK(papyruskv_update(db, "absent", 6, NULL, kGrow, NULL, 0, out, 1));
  CHECK_ABSENT(db, "absent", 6);
  CHECK_OK(papyruskv_barrier(db, PAPYRUSKV_MEMTABLE));
}

/* A value that lies apart from its key in the tables grows, by another rank, to nearly all the room
 * that the function has. */
static void check_large(int db) {
  enum { kBytes = 120000, kDoublings = 7 };
  const size_t end = (size_t)kBytes << kDoublings;
  const int mine = 2000 + rank, next = 2000 + (rank + 1) % size;
  char* const bytes = malloc(end);
  CHECK(bytes != NULL);
  memset(bytes, 'L', end);
  CHECK_OK(papyruskv_put(db, (char*)&mine, sizeof mine, bytes, kBytes));
  CHECK_OK(papyruskv_barrier(db, PAPYRUSKV_SSTABLE));
  for (int i = 0; i < kDoublings; ++i) {
    CHECK_OK(papyruskv_update(db, (char*)&next, sizeof next, NULL, kGrow, NULL, 0, NULL, 0));
  }
  CHECK_OK(papyruskv_barrier(db, PAPYRUSKV_MEMTABLE));
  CHECK_VALUE(db, (char*)&mine, sizeof mine, bytes, end);
  CHECK_OK(papyruskv_barrier(db, PAPYRUSKV_SSTABLE));
  CHECK_VALUE(db, (char*)&next, sizeof next, bytes, end);
  free(bytes);
}

/* The first byte of a key is the number of its owner. */
static int first_byte(const char* key, size_t keylen, size_t nranks) {
  return keylen == 0 ? 0 : (int)((unsigned char)key[0] % nranks);
}

/* This rank owns `count` pairs, all of them its own by the function. */
static void check_owned(int db, int count) {
  papyruskv_iter_t iter;
  CHECK_OK(papyruskv_iter_local(db, &iter));
  while (iter != NULL) {
    CHECK(first_byte(iter->key, iter->keylen, (size_t)size) == rank);
    --count;
    CHECK_OK(papyruskv_iter_next(db, &iter));
  }
  CHECK(count == 0);
  MPI_Barrier(MPI_COMM_WORLD);
}

static void put_three_each(int db) {
  for (int owner = 0; owner < size; ++owner) {
    char key[3] = {(char)owner, (char)rank, 0};
    for (int i = 0; i < 3; ++i) {
      key[2] = (char)i;
      CHECK_OK(papyruskv_put(db, key, sizeof key, "v", 1));
    }
  }
  CHECK_OK(papyruskv_barrier(db, PAPYRUSKV_MEMTABLE));
}

static void check_hashes(void) {
  papyruskv_option_t opt;
  int db = -1;
  long one = 1;
  opt.keylen = 3;
  opt.vallen = 1;
  opt.hash = first_byte;
  CHECK_OK(papyruskv_open("hash at open", PAPYRUSKV_CREATE, &opt, &db));
  put_three_each(db);
  check_owned(db, 3 * size);
  CHECK(papyruskv_hash(db, NULL) == PAPYRUSKV_INVALID_ARGUMENT);
  check_owned(db, 3 * size);
  CHECK_OK(papyruskv_close(db));

  CHECK_OK(papyruskv_open("hash later", PAPYRUSKV_CREATE | PAPYRUSKV_WRONLY, NULL, &db));
  CHECK_OK(papyruskv_register_update(db, kAdd, add));
  CHECK_OK(papyruskv_hash(db, first_byte));
  put_three_each(db);
  CHECK_OK(papyruskv_protect(db, PAPYRUSKV_RDWR));
  check_owned(db, 3 * size);
  CHECK_OK(papyruskv_update(db, "\0\0\0\0", 4, NULL, kAdd, &one, sizeof one, &one, sizeof one));
  CHECK(one == 0 || size > 1);
  CHECK_OK(papyruskv_close(db));
  CHECK(papyruskv_open("hash later", PAPYRUSKV_RDWR, NULL, &db) == PAPYRUSKV_INVALID_ARGUMENT);
  CHECK_OK(papyruskv_open("hash later", PAPYRUSKV_RDWR, &opt, &db));
  CHECK_OK(papyruskv_close(db));
}

int main(int argc, char** argv) {
  int db = -1;
  begin(&argc, &argv);
  CHECK_OK(papyruskv_init(&argc, &argv, "$PAPYRUSKV_REPOSITORY"));
  CHECK_OK(papyruskv_open("updates", PAPYRUSKV_CREATE | PAPYRUSKV_RELAXED, NULL, &db));
  register_all(db);
  check_sums(db);
  check_claims(db);
  check_shapes(db);
  check_large(db);
  CHECK_OK(papyruskv_close(db));
  check_hashes();
  CHECK_OK(papyruskv_finalize());
  return end();
}
