// If MPI receives into objects whose changes are tracked, the next version contains the bytes,
// however they arrived: eagerly, by rendezvous, from the neighbour's memory, or one-sidedly.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "quire/stream.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"

namespace quire {
namespace {

constexpr int kSteps = 4;

// Bytes that rank `from` sends in a step.
std::string Sent(int from, int step, size_t bytes) {
  std::string message(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) {
    message[i] = static_cast<char>(i * 31 + i / 251 + static_cast<size_t>(from * 7 + step * 13));
  }
  return message;
}

using Receive = void (*)(char* into, int bytes, const std::string& message, int from, int to);

void Blocking(char* into, int bytes, const std::string& message, int from, int to) {
  MPI_Sendrecv(message.data(), bytes, MPI_BYTE, to, 0, into, bytes, MPI_BYTE, from, 0,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

void Posted(char* into, int bytes, const std::string& message, int from, int to) {
  MPI_Request request;
  MPI_Irecv(into, bytes, MPI_BYTE, from, 0, MPI_COMM_WORLD, &request);
  MPI_Barrier(MPI_COMM_WORLD);  // it is there before the message
  MPI_Send(message.data(), bytes, MPI_BYTE, to, 0, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

void OneSided(char* into, int bytes, const std::string& message, int /*from*/, int to) {
  MPI_Win window;
  MPI_Win_create(into, bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  MPI_Win_fence(0, window);
  MPI_Put(message.data(), bytes, MPI_BYTE, to, 0, bytes, MPI_BYTE, window);
  MPI_Win_fence(0, window);
  MPI_Win_free(&window);
}

struct Case {
  const char* name;
  StreamDeltas deltas;
  Receive receive;
};

class StreamReceive : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }

  // Steps in which the neighbour's message comes into the middle of an object, and nothing else.
  void Follow(size_t bytes) {
    const test::TempDirectory directory;
    StreamOptions options;
    options.log_bytes = 16 * bytes + (4 << 20);
    options.keep_versions = kSteps + 1;
    options.deltas = GetParam().deltas;
    options.audit_every = 1;
    const auto writer = StreamWriter::Open(directory / "place", "halo", 0, options);
    ASSERT_OK(writer.status());
    const size_t margin = 10'000;
    const Result<char*> made = (*writer)->Create("field", bytes + 2 * margin);
    ASSERT_OK(made.status());
    std::string expected(bytes + 2 * margin, '\0');
    ASSERT_OK((*writer)->Put("field").status());
    const auto reader = StreamReader::Open(directory / "place", "halo", 0);
    ASSERT_OK(reader.status());
    const int from = (rank_ + size_ - 1) % size_;
    for (int step = 1; step <= kSteps; ++step) {
      GetParam().receive(*made + margin, static_cast<int>(bytes), Sent(rank_, step, bytes), from,
                         (rank_ + 1) % size_);
      expected.replace(margin, bytes, Sent(from, step, bytes));
      ASSERT_OK((*writer)->Put("field").status());
      std::string got;
      ASSERT_OK((*reader)->Get("field", 0, &got));
      EXPECT_TRUE(got == expected)
          << bytes << " bytes, step " << step << ", found by " << *(*writer)->Tracking("field");
    }
  }

  int rank_ = 0;
  int size_ = 1;
};

TEST_P(StreamReceive, IsInTheNextVersion) {
  for (const size_t bytes : {size_t{100}, size_t{4096}, size_t{70'000}, size_t{16} << 20}) {
    Follow(bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, StreamReceive,
                         ::testing::Values(Case{"auto_blocking", StreamDeltas::kAuto, Blocking},
                                           Case{"auto_posted", StreamDeltas::kAuto, Posted},
                                           Case{"auto_one_sided", StreamDeltas::kAuto, OneSided},
                                           Case{"hash_blocking", StreamDeltas::kHash, Blocking},
                                           Case{"watch_blocking", StreamDeltas::kWatch, Blocking},
                                           Case{"watch_posted", StreamDeltas::kWatch, Posted},
                                           Case{"watch_one_sided", StreamDeltas::kWatch, OneSided}),
                         [](const ::testing::TestParamInfo<Case>& test) {
                           return std::string(test.param.name);
                         });

}  // namespace
}  // namespace quire
