/* Streams as a C99 program uses them, every call and its misuse: c_stream_test PLACE */
#include <quire/quire_stream.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;

#define CHECK(condition)                                                                \
  do {                                                                                  \
    if (!(condition)) {                                                                 \
      ++failures;                                                                       \
      fprintf(stderr, "%s:%d: %s (last message: %s)\n", __FILE__, __LINE__, #condition, \
              quire_error_message());                                                   \
    }                                                                                   \
  } while (0)

enum { kCells = 1000 };
static const char kPart[] = {'p', 0, 'q'}; /* a key is any bytes */
static double attached[64];

static quire_stream_writer* open_writer(const char* place) {
  quire_stream_writer* writer = NULL;
  quire_options* options = NULL;
  char* text = NULL;
  CHECK(quire_options_create(&options) == QUIRE_OK);
  CHECK(quire_options_set(options, "stream_log_bytes", "4MiB") == QUIRE_OK);
  CHECK(quire_options_set(options, "stream_keep_versions", "8") == QUIRE_OK);
  CHECK(quire_options_set(options, "stream_deltas", "sometimes") == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_options_get(options, "stream_log_bytes", &text) == QUIRE_OK);
  CHECK(strcmp(text, "4194304") == 0);
  quire_free(text);
  CHECK(quire_options_explain(options, &text) == QUIRE_OK);
  CHECK(strstr(text, "stream_keep_versions = 8") != NULL);
  quire_free(text);
  CHECK(quire_stream_writer_open(place, "heat", 3, options, &writer) == QUIRE_OK);
  quire_options_destroy(options);
  return writer;
}

static void check_elements(void) {
  CHECK(quire_element_size(QUIRE_ELEMENT_FLOAT64) == sizeof(double));
  CHECK(quire_element_size(QUIRE_ELEMENT_COMPLEX128) == 2 * sizeof(double));
  CHECK(strcmp(quire_element_name(QUIRE_ELEMENT_UINT16), "uint16") == 0);
  CHECK(quire_element_size(-1) == 0 && quire_element_size(13) == 0);
  CHECK(strcmp(quire_element_name(13), "unknown") == 0);
}

static void check_writing(quire_stream_writer* writer) {
  const void* keys[2] = {"zeta", kPart};
  const size_t key_sizes[2] = {4, sizeof kPart};
  const quire_stream_shape grid = {QUIRE_ELEMENT_INT32, 2, {10, kCells / 10}};
  const quire_stream_shape line = {QUIRE_ELEMENT_FLOAT64, 0, {0}};
  void* memory = NULL;
  int* cells = NULL;
  uint64_t number = 0;
  char* text = NULL;
  int durability = 0;
  CHECK(quire_stream_writer_last_snapshot(writer, &number) == QUIRE_OK && number == 0);
  CHECK(quire_stream_writer_create(writer, "zeta", 4, sizeof(int) * kCells, &grid, &memory) ==
        QUIRE_OK);
  cells = (int*)memory;
  CHECK((size_t)memory % 4096 == 0 && cells[0] == 0 && cells[kCells - 1] == 0);
  CHECK(quire_stream_writer_attach(writer, kPart, sizeof kPart, attached, sizeof attached, &line) ==
        QUIRE_OK);
  cells[7] = 70;
  attached[1] = 1.5;
  CHECK(quire_stream_writer_put(writer, "zeta", 4, &number) == QUIRE_OK && number == 1);
  cells[7] = 71;
  CHECK(quire_stream_writer_snapshot(writer, &number) == QUIRE_OK && number == 2);
  cells[7] = 72;
  CHECK(quire_stream_writer_mark_dirty(writer, "zeta", 4, 0, 64) == QUIRE_OK);
  CHECK(quire_stream_writer_snapshot_some(writer, 2, keys, key_sizes, NULL) == QUIRE_OK);
  CHECK(quire_stream_writer_put(writer, kPart, sizeof kPart, NULL) == QUIRE_OK);
  CHECK(quire_stream_writer_last_snapshot(writer, &number) == QUIRE_OK && number == 4);
  CHECK(quire_stream_writer_keep(writer, 2) == QUIRE_OK);
  CHECK(quire_stream_writer_release(writer, 2) == QUIRE_OK);
  CHECK(quire_stream_writer_collect(writer) == QUIRE_OK);
  CHECK(quire_stream_writer_sync(writer) == QUIRE_OK);
  CHECK(quire_stream_writer_durability(writer, &durability) == QUIRE_OK);
  CHECK(durability >= QUIRE_SURVIVES_IN_MEMORY && durability <= QUIRE_SURVIVES_POWER_LOSS);
  CHECK(quire_stream_writer_tracking(writer, "zeta", 4, &text) == QUIRE_OK);
  CHECK(strcmp(text, "whole") == 0);
  quire_free(text);
  CHECK(quire_stream_writer_statistic(writer, "commits", &number) == QUIRE_OK && number == 4);
  CHECK(quire_stream_writer_statistic(writer, "nothing", &number) == QUIRE_NOT_FOUND);
  CHECK(quire_stream_writer_statistics(writer, &text) == QUIRE_OK);
  CHECK(strstr(text, "commits 4\n") != NULL && strstr(text, "live_bytes ") != NULL);
  quire_free(text);
  cells[7] = 0;
  CHECK(quire_stream_writer_restore(writer, 2, "zeta", 4) == QUIRE_OK && cells[7] == 71);
  attached[1] = 0;
  CHECK(quire_stream_writer_restore(writer, 0, NULL, 0) == QUIRE_OK);
  CHECK(cells[7] == 72 && attached[1] == 1.5);
}

static void check_objects(quire_stream_reader* reader) {
  quire_bytes* keys = NULL;
  quire_stream_version* versions = NULL;
  size_t count = 0;
  size_t i = 0;
  int seen = 0;
  CHECK(quire_stream_reader_objects(reader, &keys, &count) == QUIRE_OK && count == 2);
  for (i = 0; i < count; ++i) {
    if (keys[i].size == 4 && strcmp((const char*)keys[i].data, "zeta") == 0) seen |= 1;
    if (keys[i].size == sizeof kPart && memcmp(keys[i].data, kPart, sizeof kPart) == 0) seen |= 2;
  }
  CHECK(seen == 3);
  quire_free(keys);
  CHECK(quire_stream_reader_versions(reader, "zeta", 4, &versions, &count) == QUIRE_OK);
  CHECK(count == 3 && versions[0].version == 3 && versions[0].snapshot == 3);
  CHECK(versions[2].version == 1 && versions[2].snapshot == 1 && versions[2].whole == 1);
  CHECK(versions[0].bytes == sizeof(int) * kCells && versions[0].unix_time_ns > 0);
  CHECK(versions[0].shape.element == QUIRE_ELEMENT_INT32 && versions[0].shape.extent_count == 2);
  CHECK(versions[0].shape.extents[0] == 10 && versions[0].shape.extents[1] == kCells / 10);
  quire_free(versions);
  CHECK(quire_stream_reader_versions(reader, "none", 4, &versions, &count) == QUIRE_NOT_FOUND);
}

static void check_copies(quire_stream_reader* reader) {
  static int cells[kCells];
  void* bytes = NULL;
  size_t size = 0;
  CHECK(quire_stream_reader_get(reader, "zeta", 4, 0, &bytes, &size) == QUIRE_OK);
  CHECK(size == sizeof cells && ((int*)bytes)[7] == 72);
  quire_free(bytes);
  CHECK(quire_stream_reader_get(reader, "zeta", 4, 1, &bytes, &size) == QUIRE_OK);
  CHECK(((int*)bytes)[7] == 70);
  quire_free(bytes);
  CHECK(quire_stream_reader_get(reader, "zeta", 4, 9, &bytes, &size) == QUIRE_NOT_FOUND);
  CHECK(quire_stream_reader_get_at(reader, "zeta", 4, 2, &bytes, &size) == QUIRE_OK);
  CHECK(((int*)bytes)[7] == 71);
  quire_free(bytes);
  size = sizeof cells;
  CHECK(quire_stream_reader_get_into(reader, "zeta", 4, 2, cells, &size) == QUIRE_OK);
  CHECK(size == sizeof cells && cells[7] == 71);
  CHECK(quire_stream_reader_get_at_into(reader, "zeta", 4, 1, cells, &size) == QUIRE_OK);
  CHECK(cells[7] == 70);
  size = sizeof cells - 1;
  CHECK(quire_stream_reader_get_into(reader, "zeta", 4, 2, cells, &size) == QUIRE_INVALID_ARGUMENT);
  CHECK(size == sizeof cells && cells[7] == 70);
}

static void check_views(quire_stream_reader* reader) {
  quire_stream_view* newest = NULL;
  quire_stream_view* second = NULL;
  quire_stream_version version;
  quire_bytes bytes;
  CHECK(quire_stream_reader_view(reader, "zeta", 4, 0, &newest) == QUIRE_OK);
  CHECK(quire_stream_reader_view_at(reader, kPart, sizeof kPart, 2, &second) == QUIRE_OK);
  CHECK(quire_stream_view_bytes(newest, &bytes) == QUIRE_OK);
  CHECK(bytes.size == sizeof(int) * kCells && ((const int*)bytes.data)[7] == 72);
  CHECK(quire_stream_view_version(second, &version) == QUIRE_OK);
  CHECK(version.version == 1 && version.snapshot == 2 && version.bytes == sizeof attached);
  CHECK(version.shape.element == QUIRE_ELEMENT_FLOAT64);
  CHECK(quire_stream_view_in_place(newest) == 1);
  CHECK(quire_stream_view_verify(newest) == QUIRE_OK);
  quire_stream_view_release(newest);
  quire_stream_view_release(second);
  quire_stream_view_release(NULL);
  CHECK(quire_stream_reader_view(reader, "none", 4, 0, &newest) == QUIRE_NOT_FOUND);
}

static void check_places(const char* place) {
  uint32_t* ranks = NULL;
  quire_bytes* names = NULL;
  size_t count = 0;
  CHECK(quire_stream_ranks(place, "heat", &ranks, &count) == QUIRE_OK);
  CHECK(count == 1 && ranks[0] == 3);
  quire_free(ranks);
  CHECK(quire_stream_stores(place, &names, &count) == QUIRE_OK);
  CHECK(count == 1 && strcmp((const char*)names[0].data, "heat") == 0);
  quire_free(names);
  CHECK(quire_stream_ranks(place, "cold", &ranks, &count) == QUIRE_NOT_FOUND);
}

static void check_misused_writing(quire_stream_writer* writer, const char* place) {
  const quire_stream_shape wrong = {QUIRE_ELEMENT_FLOAT64, 1, {3}};
  const quire_stream_shape long_one = {QUIRE_ELEMENT_FLOAT64, 9, {1}};
  const quire_stream_shape strange = {77, 0, {0}};
  quire_stream_writer* other = NULL;
  void* memory = NULL;
  CHECK(quire_stream_writer_open(NULL, "heat", 3, NULL, &other) == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_stream_writer_open(place, "../heat", 3, NULL, &other) == QUIRE_INVALID_ARGUMENT);
  CHECK(strlen(quire_error_message()) > 0);
  CHECK(quire_stream_writer_put(NULL, "zeta", 4, NULL) == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_stream_writer_put(writer, "none", 4, NULL) == QUIRE_NOT_FOUND);
  CHECK(quire_stream_writer_free(writer, "none", 4) == QUIRE_NOT_FOUND);
  CHECK(quire_stream_writer_create(writer, "zeta", 4, 8, NULL, &memory) == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_stream_writer_create(writer, "a", 1, 8, NULL, NULL) == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_stream_writer_create(writer, "a", 1, 0, NULL, &memory) == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_stream_writer_create(writer, NULL, 0, 8, NULL, &memory) == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_stream_writer_create(writer, "a", 1, 8, &wrong, &memory) == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_stream_writer_create(writer, "a", 1, 8, &long_one, &memory) ==
        QUIRE_INVALID_ARGUMENT);
  CHECK(quire_stream_writer_create(writer, "a", 1, 8, &strange, &memory) == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_stream_writer_attach(writer, "a", 1, NULL, 8, NULL) == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_stream_writer_snapshot_some(writer, 1, NULL, NULL, NULL) == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_stream_writer_restore(writer, 0, "", 0) == QUIRE_INVALID_ARGUMENT);
  /* A key that is missing does not stand for all objects. */
  CHECK(quire_stream_writer_restore(writer, 0, NULL, 4) == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_stream_writer_mark_dirty(writer, "zeta", 4, sizeof(int) * kCells, 1) ==
        QUIRE_INVALID_ARGUMENT);
  CHECK(quire_stream_writer_last_snapshot(writer, NULL) == QUIRE_INVALID_ARGUMENT);
}

static void check_misused_reading(quire_stream_reader* reader, const char* place) {
  quire_stream_reader* other = NULL;
  void* bytes = NULL;
  size_t size = 0;
  CHECK(quire_stream_reader_open(place, "heat", 3, NULL, NULL) == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_stream_reader_open_local(place, "heat", 4, &other) == QUIRE_NOT_FOUND);
  CHECK(quire_stream_reader_open_local(place, "cold", 3, &other) == QUIRE_NOT_FOUND);
  CHECK(quire_stream_reader_get(NULL, "zeta", 4, 0, &bytes, &size) == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_stream_reader_get(reader, "zeta", 4, 0, NULL, &size) == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_stream_reader_get_into(reader, "zeta", 4, 0, NULL, NULL) == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_stream_reader_view(reader, "zeta", 4, 0, NULL) == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_stream_view_bytes(NULL, NULL) == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_stream_view_in_place(NULL) == 0);
  quire_stream_reader_destroy(NULL);
  quire_stream_writer_destroy(NULL);
}

static void check_end(quire_stream_writer* writer, quire_stream_reader* reader) {
  uint64_t newest = 0;
  int finished = 1;
  void* memory = NULL;
  CHECK(quire_stream_reader_last_snapshot(reader, &newest) == QUIRE_OK && newest == 4);
  CHECK(quire_stream_reader_wait(reader, 3, 1000, &newest) == QUIRE_OK && newest == 4);
  CHECK(quire_stream_reader_wait(reader, 4, 10, &newest) == QUIRE_TIMED_OUT);
  CHECK(quire_stream_reader_finished(reader, &finished) == QUIRE_OK && finished == 0);
  CHECK(quire_stream_writer_free(writer, "zeta", 4) == QUIRE_OK);
  CHECK(quire_stream_writer_create(writer, "last", 4, 8, NULL, &memory) == QUIRE_OK);
  CHECK(quire_stream_writer_finish(writer) == QUIRE_OK);
  CHECK(quire_stream_writer_put(writer, kPart, sizeof kPart, NULL) == QUIRE_INVALID_ARGUMENT);
  CHECK(quire_stream_writer_finish(writer) == QUIRE_INVALID_ARGUMENT);
  CHECK(memory != NULL && *(const char*)memory == 0); /* it is there until destroy */
  quire_stream_writer_destroy(writer);
  CHECK(quire_stream_reader_wait(reader, 4, 10000, &newest) == QUIRE_NOT_FOUND);
  CHECK(quire_stream_reader_finished(reader, &finished) == QUIRE_OK && finished == 1);
}

int main(int argc, char** argv) {
  quire_stream_writer* writer = NULL;
  quire_stream_reader* reader = NULL;
  if (argc != 2) {
    fprintf(stderr, "usage: c_stream_test PLACE\n");
    return 2;
  }
  check_elements();
  writer = open_writer(argv[1]);
  if (writer == NULL) return 1;
  check_writing(writer);
  CHECK(quire_stream_reader_open(argv[1], "heat", 3, NULL, &reader) == QUIRE_OK);
  if (reader == NULL) return 1;
  check_objects(reader);
  check_copies(reader);
  check_views(reader);
  check_places(argv[1]);
  check_misused_writing(writer, argv[1]);
  check_misused_reading(reader, argv[1]);
  check_end(writer, reader);
  quire_stream_reader_destroy(reader);
  printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
