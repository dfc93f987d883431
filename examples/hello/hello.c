/* hello.cpp in C: every rank puts a greeting, and gets that of rank 0. */
#include <quire/quire_mpi.h>
#include <stdio.h>
#include <string.h>

static int greet(quire_context* context) {
  quire_db* greetings = NULL;
  void* value = NULL;
  size_t size = 0;
  char key[32];
  int code = quire_db_open(context, "greetings", NULL, &greetings);
  if (code != QUIRE_OK) return code;
  snprintf(key, sizeof key, "rank %d", quire_context_rank(context));
  code = quire_db_put(greetings, key, strlen(key), "hello", 5);
  if (code == QUIRE_OK) code = quire_db_barrier(greetings, QUIRE_MEMTABLE);
  if (code == QUIRE_OK) code = quire_db_get(greetings, "rank 0", 6, &value, &size);
  if (code != QUIRE_OK) return code;
  printf("rank 0 says %.*s to %s\n", (int)size, (const char*)value, key);
  quire_free(value);
  return quire_db_close(greetings);
}

int main(int argc, char** argv) {
  quire_context* context = NULL;
  int code;
  int threads;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &threads);
  code = quire_context_open_mpi(MPI_COMM_WORLD, "hello-repository", NULL, &context);
  if (code == QUIRE_OK) code = greet(context);
  if (code != QUIRE_OK) fprintf(stderr, "%s\n", quire_error_message());
  quire_context_close(context);
  return MPI_Finalize() != MPI_SUCCESS || code != QUIRE_OK;
}
