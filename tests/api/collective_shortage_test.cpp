// One of three ranks is refused its n-th allocation, for n = 0, 1, ...: all ranks receive the same
// code from a collective call. All calls work when there is memory again, and no acknowledged pair
// is lost.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/core/out_of_memory.h"
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
constexpr int kOtherPairs = 5;  // that calls but Put write
constexpr uint32_t kUpdate = 1;
constexpr int kTries = 2;  // one allocation fails: what failed works when it is tried again

// The calls of the job, in their order.
enum Step {
  kOpenContext, kOpen, kMemTable, kSsTable, kRelaxed, kReadOnly, kReadWrite, kCheckpoint, kWait,
  kClose, kRestart, kRestarted, kRestartInPlace, kList, kAgree, kDestroyAsync, kDestroyed,
  kRecreate, kDestroy, kOpenDataset, kBegin, kEnd, kFinish, kSteps
};
constexpr std::array<const char*, kSteps> kNames = {
    "OpenContext", "Open", "Barrier(kMemTable)", "Barrier(kSsTable)", "SetConsistency",
    "Protect(kReadOnly)", "Protect(kReadWrite)", "Checkpoint", "Event::Wait", "Close", "Restart",
    "the restart's Wait", "Restart in place", "ListDatabases", "Agree", "DestroyAsync",
    "DestroyAsync's Wait", "Open of a new one", "Destroy", "DatasetWriter::Open", "BeginEpoch",
    "EndEpoch", "Finish"};

const std::string kCheckpoints = "/checkpoints";
const std::string kValue = "v";
const std::string kDb = "db";
const std::string kSet = "set";

// The codes of all ranks, in the order of their calls. Takes no memory after it is made.
struct Record {
  struct Call {
    Step step;
    Code code;
    char text[400];
  };
  std::array<std::array<Call, 96>, kRanks> calls = {};
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
  // Prints the first call whose code differs between ranks.
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
  using Key = std::array<char, 8>;
  Job(Record* record, int rank, Context& context)
      : record_(record), rank_(rank), context_(context) {}

  void Run() {
    if (!Again(kOpen, [this] { return OpenDatabase(); })) return;
    std::array<bool, kPairs> put = {};
    for (int i = 0; i < kPairs; ++i) put[static_cast<size_t>(i)] = Put(i);
    const size_t before = record_->count[static_cast<size_t>(rank_)];
    Again(kMemTable, [this] { return database_->Barrier(Level::kMemTable); });
    // A barrier that failed may have reported pairs that did not reach their owners.
    const bool all_there = record_->count[static_cast<size_t>(rank_)] == before + 1;
    Again(kSsTable, [this] { return database_->Barrier(Level::kSsTable); });
    for (int i = 0; all_there && i < kPairs; ++i) {
      record_->lost += put[static_cast<size_t>(i)] && !Has(i) ? 1 : 0;
    }
    CallOthers();
    Again(kRelaxed, [this] { return database_->SetConsistency(Consistency::kRelaxed); });
    Again(kReadOnly, [this] { return database_->Protect(Protection::kReadOnly); });
    Again(kReadWrite, [this] { return database_->Protect(Protection::kReadWrite); });
    if (Again(kCheckpoint, [this] { return TakeCheckpoint(); })) {
      Again(kWait, [this] { return event_->Wait(); });
      event_.reset();
    }
    Again(kClose, [this] { return database_->Close(); });
    database_.reset();
    if (Again(kRestart, [this] { return RestartDatabase(false); })) {
      Again(kRestarted, [this] { return event_->Wait(); });
      event_.reset();
    }
    Again(kRestartInPlace, [this] { return RestartDatabase(true); });
    if (event_ != nullptr) Again(kRestarted, [this] { return event_->Wait(); });
    event_.reset();
    Again(kList, [this] { return context_.ListDatabases().status(); });
    Again(kAgree, [this] { return context_.Agree(Status()); });
    Destroy();
    WriteDataset();
  }

  // The database is one of fewer ranks: its pairs move to those that own them now.
  void RunGrown() {
    if (!Again(kOpen, [this] { return OpenDatabase(); })) return Stuck();
    if (Again(kCheckpoint, [this] { return TakeCheckpoint(); })) {
      Again(kWait, [this] { return event_->Wait(); });
      event_.reset();
    } else {
      Stuck();
    }
    if (!Again(kMemTable, [this] { return database_->Barrier(Level::kMemTable); })) Stuck();
    const bool closed = Again(kClose, [this] { return database_->Close(); });
    database_.reset();
    // Closed it is after an error, too.
    if (!Again(kAgree, [&] { return context_.Agree(Status()); })) return Stuck();
    if (!Again(kRecreate, [this] { return OpenDatabase(); })) return Stuck();
    for (int i = 0; closed && i < kPairs; ++i) record_->lost += Has(i) ? 0 : 1;
    if (!Again(kAgree, [&] { return context_.Agree(Status()); })) return Stuck();
    Again(kClose, [this] { return database_->Close(); });
  }

  static Key MakeKey(int rank, int i) {
    Key key;
    std::snprintf(key.data(), key.size(), "%d/%d", rank, i);
    return key;
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
  Status RestartDatabase(bool in_place) {
    RestartOptions options;
    options.replace = true;
    options.in_place = in_place;
    QUIRE_ASSIGN_OR_RETURN(event_, context_.Restart(kCheckpoints, kDb, options));
    return Status();
  }
  // First in the background, then a new one at once.
  void Destroy() {
    const auto begin = [this]() -> Status {
      QUIRE_ASSIGN_OR_RETURN(event_, context_.DestroyAsync(kDb));
      return Status();
    };
    if (Again(kDestroyAsync, begin)) Again(kDestroyed, [this] { return event_->Wait(); });
    event_.reset();
    if (!Again(kRecreate, [this] { return OpenDatabase(); })) return;
    Again(kClose, [this] { return database_->Close(); });
    database_.reset();
    Again(kDestroy, [this] { return context_.Destroy(kDb); });
  }
  Key KeyOf(int i) const { return MakeKey(rank_, i); }
  // A call that failed for lack of memory fails again when there is memory.
  void Stuck() {
    const auto rank = static_cast<size_t>(rank_);
    const Record::Call& last = record_->calls[rank][record_->count[rank] - 1];
    std::fprintf(stderr, "rank %d, %s fails for good: %s %s\n", rank_, kNames[last.step],
                 CodeName(last.code), last.text);
    record_->lost += 1;
  }
  bool Put(int i) {
    return base::OrOutOfMemory([&] { return database_->Put(KeyOf(i).data(), kValue); }).ok();
  }
  // Makes a call that is not collective. It must work when it is tried again.
  template <typename Call>
  bool Retry(const char* name, const Call& call) {
    Status status;
    for (int tries = 0; tries < kTries; ++tries) {
      status = base::OrOutOfMemory(call);
      if (status.ok()) return true;
    }
    std::fprintf(stderr, "rank %d, %s: %s %s\n", rank_, name, CodeName(status.code()),
                 status.message().data());
    record_->lost += 1;
    return false;
  }
  static Status Store(Slice /*key*/, const Slice* /*present*/, Slice argument,
                      std::string* updated) {
    updated->assign(argument);
    return Status();
  }
  // The calls that are not collective, each to keys of all ranks: what they wrote is there.
  void CallOthers() {
    Retry("RegisterUpdate", [this] { return database_->RegisterUpdate(kUpdate, Store); });
    if (!Again(kMemTable, [this] { return database_->Barrier(Level::kMemTable); })) return;
    std::array<Key, kOtherPairs> keys;
    for (int i = 0; i < kOtherPairs; ++i) keys[static_cast<size_t>(i)] = KeyOf(kPairs + i);
    const auto key = [&](size_t i) { return Slice(keys[i].data()); };
    std::vector<Slice> there;
    there.reserve(kOtherPairs);
    const auto written = [&](bool done, size_t first, size_t end) {
      for (size_t i = first; done && i < end; ++i) there.push_back(key(i));
    };
    const auto put = [&] { return database_->PutMany({{key(0), kValue}, {key(1), kValue}}); };
    written(Retry("PutMany", put), 0, 2);
    const auto write = [&] {
      Batch batch;
      batch.Put(key(2), kValue);
      return database_->Write(batch);
    };
    written(Retry("Write", write), 2, 3);
    const auto update = [&] { return database_->Update(key(3), kUpdate, kValue); };
    written(Retry("Update", update), 3, 4);
    const auto answer = [&] {
      std::string text;
      return database_->UpdateAndAnswer(key(4), kUpdate, kValue, &text);
    };
    written(Retry("UpdateAndAnswer", answer), 4, 5);
    // The first may report a staged write that is lost for good.
    const bool fenced = base::OrOutOfMemory([this] { return database_->Fence(); }).ok();
    if (!fenced) Retry("Fence", [this] { return database_->Fence(); });
    Retry("Flush", [this] { return database_->Flush(); });
    Retry("Compact", [this] { return database_->Compact(); });
    if (fenced) ReadOthers(there);
    Retry("DeleteMany", [&] { return database_->DeleteMany({key(0), key(1)}); });
    const int next = (rank_ + 1) % kRanks;
    const int previous = (rank_ + kRanks - 1) % kRanks;
    Retry("Notify", [&] { return context_.Notify(1, {next}); });
    Retry("WaitSignal", [&] { return context_.WaitSignal(1, {previous}); });
  }
  void ReadOthers(const std::vector<Slice>& keys) {
    Retry("GetMany", [&] {
      std::vector<std::string> values;
      std::vector<bool> found;
      const Status status = database_->GetMany(keys, &values, &found);
      for (size_t i = 0; status.ok() && i < keys.size(); ++i) {
        record_->lost += found[i] && values[i] == kValue ? 0 : 1;
      }
      return status;
    });
    for (const Slice key : keys) {
      Retry("GetAsync", [&] {
        const Result<std::string> value = database_->GetAsync(key)->Take();
        record_->lost += value.ok() && *value != kValue ? 1 : 0;
        return value.status();
      });
    }
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

// Runs `run` as a job whose n-th allocation fails.
template <typename Run>
Outcome RunWithout(int64_t n, const std::shared_ptr<io::FileSystem>& disk, const Run& run) {
  SimCluster::Options options;
  options.rank_count = kRanks;
  options.context.timeout_ms = 20'000;
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
    if (!context.ok()) return;
    Job job(record.get(), rank, **context);
    run(job);
  });
  if (!test::AllocationFailed()) return kTooFar;
  if (record->lost > 0) std::fprintf(stderr, "%d pairs were lost\n", record->lost);
  return record->Agree() && record->lost == 0 ? kRan : kWrong;
}

TEST(CollectiveShortage, AFailedAllocationIsReportedAlikeOnAllRanks) {
  test::FailInTurn([](int64_t n) {
    return InProcess([n] {
      return RunWithout(n, io::NewSimFileSystem(), [](Job& job) { job.Run(); });
    });
  });
}

// Has a database of two ranks with the pairs of all.
std::shared_ptr<io::FileSystem> DiskOfFewer() {
  std::shared_ptr<io::FileSystem> disk = io::NewSimFileSystem();
  SimCluster::Options options;
  options.rank_count = kRanks - 1;
  options.file_system = [&](int) { return disk.get(); };
  SimCluster cluster(options);
  cluster.RunDatabase(SimCluster::SmallDatabase(), [](int rank, Context&, Database& database) {
    for (int i = 0; i < kPairs * kRanks && rank == 0; ++i) {
      ASSERT_TRUE(database.Put(Job::MakeKey(i % kRanks, i / kRanks).data(), kValue).ok());
    }
    ASSERT_TRUE(database.Close().ok());
  });
  return disk;
}

TEST(CollectiveShortage, AFailedAllocationWhilePairsMoveToMoreRanksIsReportedAlike) {
  test::FailInTurn([](int64_t n) {
    return InProcess(
        [n] { return RunWithout(n, DiskOfFewer(), [](Job& job) { job.RunGrown(); }); });
  });
}

}  // namespace
}  // namespace quire::kv
