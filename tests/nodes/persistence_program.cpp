// The program that tests/nodes/persistence_test.py runs on simulated nodes.
//
//   persistence_program put REPOSITORY ROUND         puts all pairs, with values of the round, into
//                                                    "db", which is made if it does not exist
//   persistence_program checkpoint REPOSITORY PATH   opens "db" and takes a checkpoint
//   persistence_program restart REPOSITORY PATH      restarts the newest checkpoint as "db"
//   persistence_program in_place REPOSITORY PATH     like restart, without a copy
//   persistence_program check REPOSITORY ROUND       opens "db"; every rank reads all pairs
//   persistence_program group REPOSITORY ROUND       like check, with one storage group of all
//   persistence_program compact REPOSITORY GROUP     makes "compacted" with storage groups of
//                                                    GROUP ranks: compacting_owners.h
//   persistence_program beside REPOSITORY PATH ROUND puts, takes a checkpoint, and goes on after
//                                                    it has failed: puts the next round, and reads
//
// Each rank prints its result in one line. Exit status: 0, or 4 if a call failed; of beside: if the
// checkpoint failed and all other calls succeeded.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "quire/mpi.h"
#include "tests/nodes/compacting_owners.h"
#include "tests/support/mpi_program.h"
#include "tests/support/small_database.h"

namespace {

constexpr int kPairs = 400;
constexpr int kExitFailed = 4;

void Say(int rank, const std::string& text) {
  const std::string line = "rank " + std::to_string(rank) + ": " + text + "\n";
  std::fputs(line.c_str(), stdout);
  std::fflush(stdout);
}

// Values of about 1 MB in all.
std::string ValueOf(int i, int round) {
  return std::to_string(round) + " of " + std::to_string(i) +
         std::string(i % 10 == 0 ? 20'000 : 500, static_cast<char>('a' + round % 26));
}

class Program {
 public:
  Program(int rank, int size, quire::Context& context)
      : rank_(rank), size_(size), context_(context) {}

  quire::Status Run(const std::string& what, char** arguments) {
    if (what == "restart" || what == "in_place") {
      auto event = context_.Restart(arguments[0], "db", {.in_place = what == "in_place"});
      return event.ok() ? (*event)->Wait() : event.status();
    }
    if (what == "compact") return Compact(std::atoi(arguments[0]));
    const bool may_make = what == "put" || what == "beside";
    quire::DatabaseOptions options = quire::test::SmallDatabase(
        may_make ? quire::OpenMode::kOpenOrCreate : quire::OpenMode::kMustExist);
    if (what == "group") options.group_size = size_;
    auto db = context_.Open("db", options);
    if (!db.ok()) return db.status();
    QUIRE_RETURN_IF_ERROR(With(**db, what, arguments));
    return (*db)->Close();
  }

 private:
  quire::Status With(quire::Database& db, const std::string& what, char** arguments) {
    if (what == "put") return Put(db, std::atoi(arguments[0]));
    if (what == "checkpoint") return Checkpoint(db, arguments[0]);
    if (what == "beside") return Beside(db, arguments[0], std::atoi(arguments[1]));
    QUIRE_RETURN_IF_ERROR(Check(db, std::atoi(arguments[0])));
    if (what == "group") {
      Say(rank_, "gets.group " + std::to_string(db.GetStatistics().at("gets.group")));
    }
    return quire::Status();
  }

  quire::Status Compact(int group_size) {
    auto db = context_.Open("compacted", quire::test::CompactingDatabase(group_size));
    if (!db.ok()) return db.status();
    std::string told;
    QUIRE_RETURN_IF_ERROR(quire::test::ReadWhileOwnersCompact(group_size, context_, **db, &told));
    Say(rank_, told);
    return (*db)->Close();
  }

  quire::Status Put(quire::Database& db, int round) const {
    for (int i = rank_; i < kPairs; i += size_) {
      QUIRE_RETURN_IF_ERROR(db.Put("key " + std::to_string(i), ValueOf(i, round)));
    }
    return db.Barrier(quire::Level::kSsTable);
  }

  static quire::Status Check(quire::Database& db, int round) {
    for (int i = 0; i < kPairs; ++i) {
      std::string value;
      QUIRE_RETURN_IF_ERROR(db.Get("key " + std::to_string(i), &value));
      if (value == ValueOf(i, round)) continue;
      return quire::Status(quire::Code::kCorruption, "key " + std::to_string(i) + " has \"" +
                                                         value.substr(0, 20) + "\" in round " +
                                                         std::to_string(round));
    }
    return db.Barrier(quire::Level::kMemTable);
  }

  static quire::Status Checkpoint(quire::Database& db, const char* path) {
    auto event = db.Checkpoint(path, {});
    return event.ok() ? (*event)->Wait() : event.status();
  }

  quire::Status Beside(quire::Database& db, const char* path, int round) const {
    QUIRE_RETURN_IF_ERROR(Put(db, round));
    const quire::Status checkpointed = Checkpoint(db, path);
    for (const int next : {round, round + 1}) {
      const quire::Status put = next == round ? quire::Status() : Put(db, next);
      const quire::Status checked = put.ok() ? Check(db, next) : put;
      // Any code but that of the failed checkpoint.
      if (!checked.ok()) return quire::Status(quire::Code::kUnsupported, checked.ToString());
    }
    return checkpointed;
  }

  const int rank_;
  const int size_;
  quire::Context& context_;
};

int Run(int rank, int size, const std::string& what, char** arguments) {
  auto context = quire::OpenContext(MPI_COMM_WORLD, arguments[0]);
  quire::Status status = context.status();
  if (context.ok()) status = Program(rank, size, **context).Run(what, arguments + 1);
  if (context.ok()) context->reset();
  if (status.ok()) {
    Say(rank, what + ": done");
    return 0;
  }
  Say(rank, what + ": " + status.ToString());
  return kExitFailed;
}

}  // namespace

int main(int argc, char** argv) {
  const bool beside = argc > 1 && std::strcmp(argv[1], "beside") == 0;
  if (argc != (beside ? 5 : 4)) {
    std::fprintf(stderr, "usage: %s put|checkpoint|... REPOSITORY ARGUMENT...\n", argv[0]);
    return 2;
  }
  const auto [rank, size] = quire::test::StartMpi(&argc, &argv);
  return quire::test::FinishMpi(Run(rank, size, argv[1], argv + 2));
}
