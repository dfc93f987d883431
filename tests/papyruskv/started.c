/* A program that leaves MPI to papyruskv_init, and takes all defaults; it has no argument but the
 * directory to work in. */
#include <mpi.h>
#include <papyrus/kv.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char** argv) {
  char value[8] = "";
  char* at = value;
  size_t length = 0;
  int db = -1, initialized = 0, finalized = 0;
  if (argc < 2) return 2;
  if (papyruskv_init(&argc, &argv, argv[1]) != PAPYRUSKV_OK) return 3;
  MPI_Initialized(&initialized);
  if (!initialized) return 4;
  if (papyruskv_open("db", PAPYRUSKV_CREATE, NULL, &db) != PAPYRUSKV_OK) return 5;
  if (papyruskv_put(db, "key", 3, "value", 5) != PAPYRUSKV_OK) return 6;
  if (papyruskv_barrier(db, PAPYRUSKV_SSTABLE) != PAPYRUSKV_OK) return 7;
  if (papyruskv_get(db, "key", 3, &at, &length) != PAPYRUSKV_OK) return 8;
  if (length != 5 || memcmp(value, "value", 5) != 0) return 9;
  if (papyruskv_close(db) != PAPYRUSKV_OK) return 10;
  if (papyruskv_finalize() != PAPYRUSKV_OK) return 11;
  MPI_Finalized(&finalized);
  return finalized ? 0 : 12;
}
