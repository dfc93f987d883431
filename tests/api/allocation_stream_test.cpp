// The n-th allocation fails while a program writes a stream and reads it, for n = 0, 1, ...: calls
// answer with a code, what was acknowledged is there and whole, and nothing else is.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "failing_allocations.h"
#include "quire/quire_stream.h"
#include "tests/support/temp_directory.h"

namespace {

constexpr size_t kCells = 16'000;  // more than a tenth of the log, from which on it is collected
constexpr int kVersions = 3;

// One run, and its results. Allocates no memory itself.
class Workload {
 public:
  explicit Workload(const std::string& place) : place_(place) {
    EXPECT_EQ(quire_options_create(&options_), QUIRE_OK);
    EXPECT_EQ(quire_options_set(options_, "stream_log_bytes", "1MiB"), QUIRE_OK);
    EXPECT_EQ(quire_options_set(options_, "stream_collect_percent", "10"), QUIRE_OK);
    EXPECT_EQ(quire_options_set(options_, "stream_keep_versions", "8"), QUIRE_OK);
    EXPECT_EQ(quire_options_set(options_, "stream_deltas", "hash"), QUIRE_OK);
  }
  ~Workload() { quire_options_destroy(options_); }

  /// Whether the n-th allocation failed.
  bool Run(int64_t n) {
    quire::test::FailAllocation(n);
    Write();
    Read();
    quire_stream_reader_destroy(reader_);
    quire_stream_writer_destroy(writer_);
    reader_ = nullptr;
    writer_ = nullptr;
    return quire::test::AllocationFailed();
  }

  // With memory again.
  void ExpectWhatWasAcknowledged() {
    const int opened = quire_stream_reader_open(place_.c_str(), "s", 0, nullptr, &reader_);
    if (opened == QUIRE_NOT_FOUND && acknowledged_ == 0) return;
    ASSERT_EQ(opened, QUIRE_OK) << quire_error_message();
    for (int version = 1; version <= acknowledged_; ++version) {
      uint64_t cells[kCells] = {};
      size_t size = sizeof cells;
      EXPECT_EQ(Get(static_cast<uint64_t>(version), cells, &size), QUIRE_OK);
      EXPECT_EQ(size, sizeof cells);
      EXPECT_EQ(cells[version], static_cast<uint64_t>(version)) << version;
      EXPECT_EQ(cells[version + 1], 0u) << version;
    }
    uint64_t cells[kCells];
    size_t size = sizeof cells;
    EXPECT_EQ(Get(static_cast<uint64_t>(acknowledged_) + 1, cells, &size), QUIRE_NOT_FOUND);
    quire_stream_reader_destroy(reader_);
  }

 private:
  bool Check(int code) {
    if (code != QUIRE_OK && code != QUIRE_OUT_OF_MEMORY) wrong_code_ = code;
    EXPECT_EQ(wrong_code_, 0) << quire_error_message();
    return code == QUIRE_OK;
  }

  int Get(uint64_t version, void* cells, size_t* size) {
    return quire_stream_reader_get_into(reader_, "o", 1, version, cells, size);
  }

  void Write() {
    void* memory = nullptr;
    if (!Check(quire_stream_writer_open(place_.c_str(), "s", 0, options_, &writer_))) return;
    if (!Check(quire_stream_writer_create(writer_, "o", 1, sizeof(uint64_t) * kCells, nullptr,
                                          &memory))) {
      return;
    }
    auto* const cells = static_cast<uint64_t*>(memory);
    for (int version = 1; version <= kVersions; ++version) {
      cells[version] = static_cast<uint64_t>(version);
      if (!Check(quire_stream_writer_snapshot(writer_, nullptr))) return;
      acknowledged_ = version;
    }
  }

  void Read() {
    if (acknowledged_ == 0) return;
    if (!Check(quire_stream_reader_open(place_.c_str(), "s", 0, nullptr, &reader_))) return;
    quire_bytes* keys = nullptr;
    quire_stream_version* versions = nullptr;
    quire_stream_view* view = nullptr;
    void* bytes = nullptr;
    size_t count = 0;
    if (Check(quire_stream_reader_objects(reader_, &keys, &count))) quire_free(keys);
    if (Check(quire_stream_reader_versions(reader_, "o", 1, &versions, &count))) {
      quire_free(versions);
    }
    if (Check(quire_stream_reader_get(reader_, "o", 1, 0, &bytes, &count))) quire_free(bytes);
    if (Check(quire_stream_reader_view(reader_, "o", 1, 0, &view))) {
      Check(quire_stream_view_verify(view));
      quire_stream_view_release(view);
    }
  }

  const std::string place_;
  quire_options* options_ = nullptr;
  quire_stream_writer* writer_ = nullptr;
  quire_stream_reader* reader_ = nullptr;
  int acknowledged_ = 0;
  int wrong_code_ = 0;
};

TEST(StreamAllocations, AFailedOneIsACodeAndWhatWasAcknowledgedIsThere) {
  constexpr int64_t kAllocationsMax = 20'000;
  int64_t n = 0;
  for (bool failed = true; failed; ++n) {
    ASSERT_LT(n, kAllocationsMax);
    const quire::test::TempDirectory directory;
    Workload workload(directory / "place");
    failed = workload.Run(n);
    workload.ExpectWhatWasAcknowledged();
    ASSERT_FALSE(HasFailure()) << "allocation " << n;
  }
  EXPECT_GT(n, 20);
}

}  // namespace
