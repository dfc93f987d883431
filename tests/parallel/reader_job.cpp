// The job that reader_test.py runs beside a reader: opens the database "db", which other numbers of
// ranks may have written, and writes some rounds of all pairs while they move.
//
//   reader_job REPOSITORY TOLD ROUNDS
//
// All ranks put each round, bring it into tables, and record it in the file TOLD (reader_pairs.h);
// then all ranks compact. Exit status: 0, or 4 if a call failed.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>

#include "quire/mpi.h"
#include "tests/parallel/reader_pairs.h"
#include "tests/support/mpi_program.h"
#include "tests/support/small_database.h"

namespace {

using quire::Status;

class Job {
 public:
  Job(int rank, int size, std::string told) : rank_(rank), size_(size), told_(std::move(told)) {}

  Status Run(const std::string& repository, int rounds) {
    auto context = quire::OpenContext(MPI_COMM_WORLD, repository);
    QUIRE_RETURN_IF_ERROR(context.status());
    auto options = quire::test::SmallDatabase(quire::OpenMode::kOpenOrCreate);
    options.storage.memtable_bytes = 256 << 10;
    auto db = (*context)->Open("db", options);
    QUIRE_RETURN_IF_ERROR(db.status());
    const int last = quire::test::ReadTold(told_).flushed;
    for (int round = last + 1; round <= last + rounds; ++round) {
      QUIRE_RETURN_IF_ERROR((*context)->Barrier());
      Tell("begin", round);
      QUIRE_RETURN_IF_ERROR((*context)->Barrier());
      QUIRE_RETURN_IF_ERROR(Put(**db, round));
      QUIRE_RETURN_IF_ERROR((*db)->Barrier(quire::Level::kSsTable));
      Tell("flushed", round);
      QUIRE_RETURN_IF_ERROR((*db)->Compact());
    }
    return (*db)->Close();
  }

 private:
  void Tell(const char* what, int round) const {
    if (rank_ == 0) std::ofstream(told_, std::ios::app) << what << " " << round << "\n";
  }

  Status Put(quire::Database& db, int round) const {
    for (int i = rank_; i < quire::test::kReaderPairs; i += size_) {
      const std::string key = quire::test::ReaderKey(i);
      QUIRE_RETURN_IF_ERROR(quire::test::IsAbsent(i, round)
                                ? db.Delete(key)
                                : db.Put(key, quire::test::ReaderValue(i, round)));
    }
    return Status();
  }

  const int rank_;
  const int size_;
  const std::string told_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s REPOSITORY TOLD ROUNDS\n", argv[0]);
    return 2;
  }
  const auto [rank, size] = quire::test::StartMpi(&argc, &argv);
  const Status status = Job(rank, size, argv[2]).Run(argv[1], std::atoi(argv[3]));
  if (!status.ok()) std::printf("rank %d: %s\n", rank, status.ToString().c_str());
  return quire::test::FinishMpi(status.ok() ? 0 : 4);
}
