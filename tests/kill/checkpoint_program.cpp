// Takes one checkpoint after another until it is killed, or restarts from the newest one.
//
//   checkpoint_program run REPOSITORY CHECKPOINTS TOLD
//   checkpoint_program restart REPOSITORY CHECKPOINTS
//
// run first looks up all pairs: a round that is older than the last barrier is a failure. Then it
// works in rounds. In each round every pair gets a value of this round; after a barrier a
// checkpoint begins, and the next round is written meanwhile. Rank 0 appends "barrier <round>" and
// "complete <round>" to TOLD/told when the barrier or the checkpoint has returned; each rank writes
// its process id to TOLD/pid-<rank> when it begins. restart, into an empty repository, checks that
// all pairs are of one round, and prints "round <round>". Exit status: 3 if a pair is lost, 4 if a
// call failed.
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "quire/mpi.h"
#include "tests/support/mpi_program.h"
#include "tests/support/small_database.h"

namespace {

constexpr int kPairs = 1200;
constexpr int kExitLost = 3;
constexpr int kExitFailed = 4;

std::string KeyOf(int i) {
  return "key " + std::to_string(i);
}

// Values of about 6 MB in all.
std::string ValueOf(int i, int round) {
  const std::string said = std::to_string(round) + " of " + KeyOf(i) + " ";
  return said + std::string(i % 10 == 0 ? 30'000 : 2'000, static_cast<char>('a' + round % 26));
}

class Program {
 public:
  Program(int rank, int size) : rank_(rank), size_(size) {}

  int Run(char** arguments) {
    const std::string told = arguments[3];
    auto context = quire::OpenContext(MPI_COMM_WORLD, arguments[1]);
    if (!context.ok()) return Fail("context", context.status());
    auto db = (*context)->Open("db", quire::test::SmallDatabase(quire::OpenMode::kOpenOrCreate));
    if (!db.ok()) return Fail("open", db.status());
    if (!LookUp(**db, LastBarrier(told + "/told"))) return kExitLost;
    std::ofstream(told + "/pid-" + std::to_string(rank_)) << ::getpid() << std::endl;
    told_.open(told + "/told", std::ios::app);
    const quire::Status status = TakeCheckpoints(**db, arguments[2]);
    return Fail("run", status);
  }

  int Restart(char** arguments) {
    auto context = quire::OpenContext(MPI_COMM_WORLD, arguments[1]);
    if (!context.ok()) return Fail("context", context.status());
    auto event = (*context)->Restart(arguments[2], "db", {});
    const quire::Status ended = event.ok() ? (*event)->Wait() : event.status();
    if (!ended.ok()) return Fail("restart", ended);
    auto db = (*context)->Open("db", quire::test::SmallDatabase(quire::OpenMode::kMustExist));
    if (!db.ok()) return Fail("open", db.status());
    if (!LookUp(**db, 0)) return kExitLost;
    if (oldest_ != newest_) {
      std::printf("rank %d: LOST pairs of rounds %d to %d\n", rank_, oldest_, newest_);
      return kExitLost;
    }
    const quire::Status closed = (*db)->Close();
    if (!closed.ok()) return Fail("close", closed);
    if (rank_ == 0) std::printf("round %d\n", oldest_);
    return 0;
  }

 private:
  int Fail(const char* what, const quire::Status& status) const {
    std::printf("rank %d: %s: %s\n", rank_, what, status.ToString().c_str());
    return kExitFailed;
  }

  static int LastBarrier(const std::string& path) {
    std::ifstream file(path);
    int last = 0;
    int round = 0;
    for (std::string what; file >> what >> round;) {
      if (what == "barrier") last = round;
    }
    return last;
  }

  // Finds the oldest and the newest round of all ranks together. Returns false if a pair of this
  // rank's share is older than `wanted`, or has no value of a round.
  bool LookUp(quire::Database& db, int wanted) {
    int rounds[2] = {wanted == 0 ? 1 << 30 : wanted, 0};
    bool good = true;
    for (int i = rank_; i < kPairs; i += size_) {
      std::string value;
      const quire::Status got = db.Get(KeyOf(i), &value);
      const int round = std::atoi(value.c_str());
      if (got.ok() && value == ValueOf(i, round) && round >= wanted) {
        rounds[0] = std::min(rounds[0], round);
        rounds[1] = std::max(rounds[1], round);
      } else if (!got.ok() && got.code() == quire::Code::kNotFound && wanted == 0) {
        rounds[0] = 0;
      } else {
        std::printf("rank %d: LOST %s: at least round %d was told, found %s \"%.30s\"\n", rank_,
                    KeyOf(i).c_str(), wanted, got.ToString().c_str(), value.c_str());
        good = false;
      }
    }
    MPI_Allreduce(&rounds[0], &oldest_, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(&rounds[1], &newest_, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return good;
  }

  quire::Status Put(quire::Database& db, int round) const {
    for (int i = rank_; i < kPairs; i += size_) {
      QUIRE_RETURN_IF_ERROR(db.Put(KeyOf(i), ValueOf(i, round)));
    }
    return quire::Status();
  }

  void Tell(const char* what, int round) {
    if (rank_ == 0) told_ << what << " " << round << std::endl;
  }

  // Takes checkpoints until a call fails, or for ever.
  quire::Status TakeCheckpoints(quire::Database& db, const char* path) {
    int round = newest_ + 1;
    QUIRE_RETURN_IF_ERROR(Put(db, round));
    while (true) {
      QUIRE_RETURN_IF_ERROR(db.Barrier(quire::Level::kMemTable));
      Tell("barrier", round);
      auto event = db.Checkpoint(path, {.keep = 3});
      if (!event.ok()) return event.status();
      QUIRE_RETURN_IF_ERROR(Put(db, round + 1));
      QUIRE_RETURN_IF_ERROR((*event)->Wait());
      Tell("complete", round);
      ++round;
    }
  }

  const int rank_;
  const int size_;
  int oldest_ = 0;
  int newest_ = 0;
  std::ofstream told_;
};

}  // namespace

int main(int argc, char** argv) {
  const bool run = argc == 5 && std::strcmp(argv[1], "run") == 0;
  if (!run && (argc != 4 || std::strcmp(argv[1], "restart") != 0)) {
    std::fprintf(stderr, "usage: %s run REPOSITORY CHECKPOINTS TOLD | restart ...\n", argv[0]);
    return 2;
  }
  const auto [rank, size] = quire::test::StartMpi(&argc, &argv);
  Program program(rank, size);
  const int result = run ? program.Run(argv + 1) : program.Restart(argv + 1);
  std::fflush(stdout);
  // After the death of a rank MPI_Finalize would wait for ever.
  if (result != 0) std::_Exit(result);
  return quire::test::FinishMpi(result);
}
