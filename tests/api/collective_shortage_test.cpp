// Three ranks of which one is refused its n-th allocation, for n = 0, 1, ...: whatever collective
// call it is in, all ranks hear the same code, the same calls work once there is memory again, and
// nothing that was acknowledged is lost.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string>

#include "base/out_of_memory.h"
#include "child_process.h"
#include "failing_allocations.h"
#include "kv/database/sim_cluster_testing.h"
#include "quire/database.h"
#include "quire/dataset.h"

namespace quire::kv {
namespace {

using test::InProcess;
using test::kRan;
using test::kTooFar;
using test::kWrong;
using test::Outcome;

constexpr int kRanks = 3;
constexpr int kPairs = 20;
constexpr int kTries = 2;  // one allocation fails: what failed works when it is tried again

// The calls of the job, in their order.
enum Step {
  kOpenContext, kOpen, kMemTable, kSsTable, kRelaxed, kReadOnly, kReadWrite, kCheckpoint, kWait,
  kClose, kRestart, kRestarted, kList, kAgree, kDestroy, kOpenDataset, kBegin, kEnd, kFinish,
  kSteps
};
constexpr std::array<const char*, kSteps> kNames = {
    "OpenContext", "Open", "Barrier(kMemTable)", "Barrier(kSsTable)", "SetConsistency",
    "Protect(kReadOnly)", "Protect(kReadWrite)", "Checkpoint", "Event::Wait", "Close", "Restart",
    "the restart's Wait", "ListDatabases", "Agree", "Destroy", "DatasetWriter::Open", "BeginEpoch",
    "EndEpoch", "Finish"};

const std::string kCheckpoints = "/checkpoints";
const std::string kValue = "v";
const std::string kDb = "db";
const std::string kSet = "set";

// What all ranks heard, in the order of their calls. Takes no memory once it is made.
struct Record {
  struct Call {
    Step step;
    Code code;
    char text[160];
  };
  std::array<std::array<Call, 64>, kRanks> calls = {};
  std::array<size_t, kRanks> count = {};
  int lost = 0;  // pairs that were acknowledged

  void Add(int rank, Step step, const Status& status) {
    const auto r = static_cast<size_t>(rank);
    Call& call = calls[r][count[r]++];
    call.step = step;
    call.code = status.code();
    const Slice text = status.message();
    text.copy(call.text, sizeof call.text - 1);
  }
  // Prints the first call of which ranks heard otherwise.
  bool Agree() const {
    for (size_t i = 0; i < count[0]; ++i) {
      for (size_t r = 1; r < kRanks; ++r) {
        const bool same = i < count[r] && calls[r][i].step == calls[0][i].step &&
                          calls[r][i].code == calls[0][i].code;
        if (same) continue;
        for (size_t rank = 0; rank < kRanks; ++rank) {
          if (i >= count[rank]) continue;
          const Call& call = calls[rank][i];
          std::fprintf(stderr, "rank %zu, %s: %s %s\n", rank, kNames[call.step],
                       CodeName(call.code), call.text);
        }
        return false;
      }
    }
    return true;
  }
};

class Job {
 public:
  Job(Record* record, int rank, Context& context)
      : record_(record), rank_(rank), context_(context) {}

  void Run() {
    if (!Again(kOpen, [this] { return OpenDatabase(); })) return;
    std::array<bool, kPairs> put = {};
    for (int i = 0; i < kPairs; ++i) put[static_cast<size_t>(i)] = Put(i);
    const size_t before = record_->count[static_cast<size_t>(rank_)];
    Again(kMemTable, [this] { return database_->Barrier(Level::kMemTable); });
    // A barrier that failed may have told of pairs that did not reach their owners.
    const bool all_there = record_->count[static_cast<size_t>(rank_)] == before + 1;
    Again(kSsTable, [this] { return database_->Barrier(Level::kSsTable); });
    for (int i = 0; all_there && i < kPairs; ++i) {
      record_->lost += put[static_cast<size_t>(i)] && !Has(i) ? 1 : 0;
    }
    Again(kRelaxed, [this] { return database_->SetConsistency(Consistency::kRelaxed); });
    Again(kReadOnly, [this] { return database_->Protect(Protection::kReadOnly); });
    Again(kReadWrite, [this] { return database_->Protect(Protection::kReadWrite); });
    if (Again(kCheckpoint, [this] { return TakeCheckpoint(); })) {
      Again(kWait, [this] { return event_->Wait(); });
      event_.reset();
    }
    Again(kClose, [this] { return database_->Close(); });
    database_.reset();
    if (Again(kRestart, [this] { return RestartDatabase(); })) {
      Again(kRestarted, [this] { return event_->Wait(); });
      event_.reset();
    }
    Again(kList, [this] { return context_.ListDatabases().status(); });
    Again(kAgree, [this] { return context_.Agree(Status()); });
    Again(kDestroy, [this] { return context_.Destroy(kDb); });
    WriteDataset();
  }

 private:
  // A collective call, and once more where it failed. False: it fails for good.
  template <typename Call>
  bool Again(Step step, const Call& call) {
    for (int tries = 0; tries < kTries; ++tries) {
      // A C++ call may throw std::bad_alloc in place of the code (docs/limitations.md).
      const Status status = base::OrOutOfMemory(call);
      record_->Add(rank_, step, status);
      if (status.ok()) return true;
    }
    return false;
  }
  Status OpenDatabase() {
    QUIRE_ASSIGN_OR_RETURN(database_, context_.Open(kDb, SimCluster::SmallDatabase()));
    return Status();
  }
  Status TakeCheckpoint() {
    QUIRE_ASSIGN_OR_RETURN(event_, database_->Checkpoint(kCheckpoints, {}));
    return Status();
  }
  Status RestartDatabase() {
    RestartOptions options;
    options.replace = true;
    QUIRE_ASSIGN_OR_RETURN(event_, context_.Restart(kCheckpoints, kDb, options));
    return Status();
  }
  using Key = std::array<char, 8>;
  Key KeyOf(int i) const {
    Key key;
    std::snprintf(key.data(), key.size(), "%d/%d", rank_, i);
    return key;
  }
  bool Put(int i) {
    return base::OrOutOfMemory([&] { return database_->Put(KeyOf(i).data(), kValue); }).ok();
  }
  bool Has(int i) {
    std::string value;
    for (int tries = 0; tries < kTries; ++tries) {
      const auto get = [&] { return database_->Get(KeyOf(i).data(), &value); };
      if (base::OrOutOfMemory(get).ok()) return value == kValue;
    }
    return false;
  }
  void WriteDataset() {
    std::unique_ptr<DatasetWriter> writer;
    const auto open = [&]() -> Status {
      QUIRE_ASSIGN_OR_RETURN(writer, DatasetWriter::Open(context_, kSet));
      return Status();
    };
    if (!Again(kOpenDataset, open)) return;
    Again(kBegin, [&] { return writer->BeginEpoch(1); });
    static_cast<void>(base::OrOutOfMemory([&] { return writer->Put(kDb, kValue); }));
    Again(kEnd, [&] { return writer->EndEpoch(); });
    Again(kFinish, [&] { return writer->Finish(); });
  }

  Record* const record_;
  const int rank_;
  Context& context_;
  std::unique_ptr<Database> database_;
  std::unique_ptr<Event> event_;
};

Outcome RunWithout(int64_t n) {
  SimCluster::Options options;
  options.rank_count = kRanks;
  options.context.timeout_ms = 20'000;
  const auto disk = io::NewSimFileSystem();
  bool armed = false;
  // The first rank asks for its disk once all ranks run.
  options.file_system = [&](int) {
    if (!armed) test::FailAllocation(n);
    armed = true;
    return disk.get();
  };
  SimCluster cluster(options);
  const auto record = std::make_unique<Record>();
  cluster.RunRaw([&](int rank, Result<std::unique_ptr<Context>> context) {
    record->Add(rank, kOpenContext, context.status());
    if (context.ok()) Job(record.get(), rank, **context).Run();
  });
  if (!test::AllocationFailed()) return kTooFar;
  if (record->lost > 0) std::fprintf(stderr, "%d pairs were lost\n", record->lost);
  return record->Agree() && record->lost == 0 ? kRan : kWrong;
}

TEST(CollectiveShortage, OneAllocationFailsAndAllRanksHearTheSame) {
  test::FailInTurn([](int64_t n) { return InProcess([n] { return RunWithout(n); }); });
}

}  // namespace
}  // namespace quire::kv
