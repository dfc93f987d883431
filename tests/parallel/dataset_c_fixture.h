// What tests of datasets by the C interface share: one epoch, written by all ranks.
//
// Threads: one thread of each rank; collective.
#ifndef QUIRE_TESTS_PARALLEL_DATASET_C_FIXTURE_H_
#define QUIRE_TESTS_PARALLEL_DATASET_C_FIXTURE_H_

#include <cstdint>
#include <string>

#include "parallel_fixture.h"
#include "quire/quire_dataset.h"

namespace quire::test {

constexpr uint64_t kEpoch = 7;
constexpr int kOwnPairs = 50;
constexpr size_t kPairs = kOwnPairs + 1;

inline std::string OwnKey(int rank, int i) {
  return "own " + std::to_string(rank) + "." + std::to_string(i);
}
inline std::string OwnValue(int rank, int i) {
  return "value " + std::to_string(rank * 1000 + i);
}
inline std::string SharedValue(int rank) {
  return "of rank " + std::to_string(rank);
}

class DatasetInC : public Parallel {
 protected:
  // A dataset of this name: epoch kEpoch, in which each rank puts pairs of its own and one whose
  // key all put.
  void Write(const std::string& format) {
    dataset_ = directory_ + "/repository/" + format;
    quire_options* options = nullptr;
    ASSERT_EQ(quire_options_create(&options), QUIRE_OK);
    ASSERT_EQ(quire_options_set(options, "dataset_format", format.c_str()), QUIRE_OK);
    ASSERT_EQ(quire_context_open_fortran(MPI_Comm_c2f(MPI_COMM_WORLD),
                                         (directory_ + "/repository").c_str(), options, &context_),
              QUIRE_OK);
    ASSERT_EQ(quire_dataset_writer_open(context_, format.c_str(), options, &writer_), QUIRE_OK)
        << quire_error_message();
    quire_options_destroy(options);
    ASSERT_EQ(quire_dataset_writer_begin_epoch(writer_, kEpoch), QUIRE_OK);
    for (int i = 0; i < kOwnPairs; ++i) Put(OwnKey(rank_, i), OwnValue(rank_, i));
    Put("shared", SharedValue(rank_));
    ASSERT_EQ(quire_dataset_writer_end_epoch(writer_), QUIRE_OK) << quire_error_message();
  }

  void Put(const std::string& key, const std::string& value) {
    ASSERT_EQ(quire_dataset_writer_put(writer_, key.data(), key.size(), value.data(), value.size()),
              QUIRE_OK);
    pair_bytes_ += key.size() + value.size();
  }

  void Read() {
    ASSERT_EQ(quire_dataset_reader_open(dataset_.c_str(), nullptr, &reader_), QUIRE_OK)
        << quire_error_message();
  }

  void Close() {
    quire_dataset_reader_destroy(reader_);
    ASSERT_EQ(quire_dataset_writer_finish(writer_), QUIRE_OK);
    quire_dataset_writer_destroy(writer_);
    ASSERT_EQ(quire_context_close(context_), QUIRE_OK);
  }

  std::string dataset_;
  quire_context* context_ = nullptr;
  quire_dataset_writer* writer_ = nullptr;
  quire_dataset_reader* reader_ = nullptr;
  uint64_t pair_bytes_ = 0;
};

}  // namespace quire::test

#endif  // QUIRE_TESTS_PARALLEL_DATASET_C_FIXTURE_H_
