// The n-th allocation of a process fails while it takes a checkpoint and restarts from an earlier
// one, for n = 0, 1, ...: calls and events answer with a code, the checkpoint of before stays good,
// and what was there is there.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "child_process.h"
#include "failing_allocations.h"
#include "quire/quire.h"

namespace {

using quire::test::InProcess;
using quire::test::kRan;
using quire::test::kTooFar;
using quire::test::kWrong;
using quire::test::Outcome;

constexpr int kKeys = 16;

// How far the process came. Survives it.
struct Record {
  int tried = 0;         // so many keys were to have their second value
  int acknowledged = 0;  // so many have it
  bool checkpointed = false;
  bool restart_tried = false;
  bool restarted = false;
};

std::string Key(int i) {
  return "key" + std::to_string(100 + i);
}
std::string Value(int i, int round) {
  return std::to_string(round) + std::string(i % 5 == 0 ? 2000 : 100, 'v');
}

// A database with first values, and checkpoint 1 of that; then second values.
class Workload {
 public:
  Workload(const std::string& directory, Record* record)
      : repository_(directory + "/repository"), checkpoints_(directory + "/pfs"), record_(record) {
    for (int i = 0; i < kKeys; ++i) {
      keys_[i] = Key(i);
      for (const int round : {1, 2}) values_[i][round] = Value(i, round);
    }
  }

  Outcome Make() {
    if (OpenContext() && OpenDatabase()) {
      for (int i = 0; i < kKeys; ++i) Put(i, 1);
      Check(quire_db_checkpoint(db_, checkpoints_.c_str(), 0, nullptr));
    }
    CloseAll();
    return failed_ ? kWrong : kRan;
  }

  Outcome Run(int64_t n) {
    quire::test::FailAllocation(n);
    if (OpenContext()) {
      if (OpenDatabase()) WriteAndCheckpoint();
      CloseDatabase();
      record_->restart_tried = true;
      record_->restarted = Restart(1);
      if (OpenDatabase()) Read();
    }
    const bool failed = quire::test::AllocationFailed();
    CloseAll();
    if (wrong_) return kWrong;
    return failed ? kRan : kTooFar;
  }

  // With memory again, in another process.
  Outcome Verify() {
    if (!OpenContext() || !OpenDatabase()) Complain("cannot be opened again");
    for (int i = 0; i < kKeys; ++i) {
      const int round = RoundOf(i);
      const bool old = record_->restarted || (i >= record_->acknowledged || record_->restart_tried);
      const bool fresh = !record_->restarted && i < record_->tried;
      if (!(round == 1 && old) && !(round == 2 && fresh)) ComplainOf(i, round, "the database");
    }
    Put(0, 2);
    CloseDatabase();
    if (record_->checkpointed) ExpectRestarted(0, record_->acknowledged);
    ExpectRestarted(1, 0);
    CloseAll();
    return wrong_ || failed_ ? kWrong : kRan;
  }

 private:
  // What may come of a call while memory is short, after a background failure, and without a
  // database.
  bool Check(int code) {
    if (code == QUIRE_OK) return true;
    failed_ = true;
    if (code != QUIRE_OUT_OF_MEMORY && code != QUIRE_READ_ONLY && code != QUIRE_NOT_FOUND &&
        code != QUIRE_INVALID_ARGUMENT && !(code == QUIRE_BUSY && restart_failed_)) {
      Complain(quire_code_name(code));
    }
    return false;
  }

  void Complain(const std::string& what) {
    std::fprintf(stderr, "%s: %s\n", what.c_str(), quire_error_message());
    wrong_ = true;
  }
  void ComplainOf(int i, int round, const std::string& where) {
    Complain("key " + std::to_string(i) + " of " + where + " has value " + std::to_string(round));
  }

  bool OpenContext() { return Check(quire_context_open(repository_.c_str(), nullptr, &context_)); }
  bool OpenDatabase() {
    quire_options* options = nullptr;
    if (!Check(quire_options_create(&options))) return false;
    const bool opened = Check(quire_options_set(options, "memtable_bytes", "64KiB")) &&
                        Check(quire_db_open(context_, "db", options, &db_));
    quire_options_destroy(options);
    return opened;
  }
  void CloseDatabase() {
    Check(quire_db_close(db_));
    db_ = nullptr;
  }
  void CloseAll() {
    if (db_ != nullptr) CloseDatabase();
    Check(quire_context_close(context_));
    context_ = nullptr;
  }

  bool Put(int i, int round) {
    const std::string& value = values_[i][round];
    return Check(quire_db_put(db_, keys_[i].data(), keys_[i].size(), value.data(), value.size()));
  }

  void WriteAndCheckpoint() {
    bool all = true;
    for (int i = 0; i < kKeys && all; ++i) {
      record_->tried = i + 1;
      all = Put(i, 2);
      if (all) record_->acknowledged = i + 1;
    }
    quire_event* event = nullptr;
    if (!Check(quire_db_checkpoint(db_, checkpoints_.c_str(), 0, &event))) return;
    record_->checkpointed = Check(quire_event_wait(event));
    quire_event_destroy(event);
  }

  // Where only the wait for it failed, it goes on.
  bool Restart(uint64_t number) {
    restart_failed_ = !Check(quire_context_restart(context_, checkpoints_.c_str(), "db", number,
                                                   QUIRE_RESTART_REPLACE, nullptr));
    return !restart_failed_;
  }

  void Read() {
    for (int i = 0; i < kKeys; ++i) {
      void* value = nullptr;
      size_t size = 0;
      if (Check(quire_db_get(db_, keys_[i].data(), keys_[i].size(), &value, &size))) {
        quire_free(value);
      }
    }
  }

  // 1 or 2; 0: neither value.
  int RoundOf(int i) {
    void* bytes = nullptr;
    size_t size = 0;
    const int code = quire_db_get(db_, keys_[i].data(), keys_[i].size(), &bytes, &size);
    const std::string found = code == QUIRE_OK ? std::string(static_cast<char*>(bytes), size) : "";
    quire_free(bytes);
    if (found == values_[i][1]) return 1;
    return found == values_[i][2] ? 2 : 0;
  }

  // Checkpoint `number` (0: the newest) has second values of so many keys.
  void ExpectRestarted(uint64_t number, int second) {
    if (!Restart(number) || !OpenDatabase()) return Complain("cannot be restarted from");
    for (int i = 0; i < kKeys; ++i) {
      const int round = RoundOf(i);
      const bool maybe_second = number == 0 && i < record_->tried;
      if (i < second ? round != 2 : round != 1 && !(round == 2 && maybe_second)) {
        ComplainOf(i, round, "checkpoint " + std::to_string(number));
      }
    }
    CloseDatabase();
  }

  const std::string repository_;
  const std::string checkpoints_;
  Record* const record_;
  std::string keys_[kKeys];
  std::string values_[kKeys][3];
  quire_context* context_ = nullptr;
  quire_db* db_ = nullptr;
  bool wrong_ = false;
  bool failed_ = false;
  bool restart_failed_ = false;
};

class PersistenceAllocations : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(::mkdtemp(directory_.data()), nullptr);
    void* const shared =
        ::mmap(nullptr, sizeof(Record), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(shared, MAP_FAILED);
    record_ = static_cast<Record*>(shared);
    const std::string made = directory_ + "/made";
    ASSERT_TRUE(std::filesystem::create_directory(made));
    ASSERT_EQ(InProcess([&] { return Workload(made, record_).Make(); }), kRan);
  }
  void TearDown() override {
    ::munmap(record_, sizeof(Record));
    std::filesystem::remove_all(directory_);
  }

  Outcome RunWithout(int64_t n) {
    *record_ = Record{};
    const std::string copy = directory_ + "/copy";
    std::filesystem::copy(directory_ + "/made", copy, std::filesystem::copy_options::recursive);
    const Outcome outcome = InProcess([&] { return Workload(copy, record_).Run(n); });
    const Outcome after = InProcess([&] { return Workload(copy, record_).Verify(); });
    std::filesystem::remove_all(copy);
    return after == kRan ? outcome : kWrong;
  }

  // In memory where there is such a place: what is synced here need not survive anything.
  static std::filesystem::path Scratch() {
    const char* const memory = "/dev/shm";
    return ::access(memory, W_OK) == 0 ? memory : std::filesystem::temp_directory_path();
  }

  std::string directory_ = Scratch() / "quire-allocations-XXXXXX";
  Record* record_ = nullptr;
};

TEST_F(PersistenceAllocations, OneFailsAndNoCheckpointAndNoDatabaseIsLost) {
  quire::test::FailInTurn([this](int64_t n) { return RunWithout(n); });
}

}  // namespace
