/* A C99 program that uses an installed Quire on one rank: puts, closes, opens again, gets; and
 * links datasets.
 *
 *   consumer REPOSITORY */
#include <quire/quire.h>
#include <quire/quire_dataset.h>
#include <stdio.h>
#include <string.h>

static const char kKey[] = "key\0with NUL";

static int put(quire_context* context) {
  quire_db* db = NULL;
  int code = quire_db_open(context, "numbers", NULL, &db);
  if (code != QUIRE_OK) return code;
  code = quire_db_put(db, kKey, sizeof kKey, "42", 2);
  if (code != QUIRE_OK) return code;
  return quire_db_close(db);
}

static int get(quire_context* context) {
  quire_db* db = NULL;
  void* value = NULL;
  size_t size = 0;
  int code = quire_db_open(context, "numbers", NULL, &db);
  if (code != QUIRE_OK) return code;
  code = quire_db_get(db, kKey, sizeof kKey, &value, &size);
  if (code != QUIRE_OK) return code;
  if (size != 2 || memcmp(value, "42", 2) != 0) return QUIRE_CORRUPTION;
  quire_free(value);
  if (quire_db_get(db, "absent", 6, &value, &size) != QUIRE_NOT_FOUND) return QUIRE_CORRUPTION;
  return quire_db_close(db);
}

/* Datasets need what databases do not, from the mathematical library. */
static int look_for_dataset(void) {
  quire_dataset_reader* reader = NULL;
  const int code = quire_dataset_reader_open("no-such-dataset", NULL, &reader);
  return code == QUIRE_NOT_FOUND ? QUIRE_OK : QUIRE_CORRUPTION;
}

int main(int argc, char** argv) {
  quire_context* context = NULL;
  int code = quire_context_open(argc > 1 ? argv[1] : "consumer-repository", NULL, &context);
  if (code == QUIRE_OK) code = put(context);
  if (code == QUIRE_OK) code = get(context);
  if (code == QUIRE_OK) code = look_for_dataset();
  if (code == QUIRE_OK) code = quire_context_close(context);
  printf("%s\n", code == QUIRE_OK ? "the consumer works" : quire_error_message());
  printf("version %s\n", quire_version());
  return code == QUIRE_OK ? 0 : 1;
}
