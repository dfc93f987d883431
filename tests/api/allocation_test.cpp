// The n-th allocation of a process fails, for n = 0, 1, ...: calls answer with a code, or the
// program stops with a message (where what readers may still see would have to be freed), and
// nothing that was acknowledged is lost.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>

#include "child_process.h"
#include "failing_allocations.h"
#include "quire/quire.h"

namespace {

constexpr int kKeys = 60;

using quire::test::InProcess;
using quire::test::kRan;
using quire::test::kTooFar;
using quire::test::kWrong;
using quire::test::Outcome;

// What was tried and acknowledged of each key: the last round. Survives the process.
struct Record {
  int tried[kKeys];
  int acknowledged[kKeys];
};

std::string Key(int i) {
  return "key" + std::to_string(100 + i);
}
std::string Value(int i, int round) {
  return std::to_string(round) + std::string(i % 7 == 0 ? 2000 : 100, 'v');
}

class Workload {
 public:
  Workload(std::string repository, Record* record)
      : repository_(std::move(repository)), record_(record) {
    for (int i = 0; i < kKeys; ++i) {
      keys_[i] = Key(i);
      for (int round = 1; round <= 2; ++round) values_[i][round] = Value(i, round);
    }
  }

  Outcome Run(int64_t n) {
    quire::test::FailAllocation(n);
    if (Open()) WriteAndRead();
    const bool failed = quire::test::AllocationFailed();
    Close();
    if (wrong_) return kWrong;
    return failed ? kRan : kTooFar;
  }

  // With memory again, in another process: what was acknowledged is there.
  Outcome Verify() {
    if (!Open()) Complain(std::string("cannot be opened again: ") + quire_error_message());
    for (int i = 0; i < kKeys && !wrong_; ++i) VerifyKey(i);
    if (!Check(quire_db_put(db_, "more", 4, "x", 1))) Complain("refuses writes after reopening");
    Close();
    return wrong_ ? kWrong : kRan;
  }

 private:
  // What may come of a call while memory is short, after a background failure, and without a
  // database.
  bool Check(int code) {
    if (code == QUIRE_OK) return true;
    if (code != QUIRE_OUT_OF_MEMORY && code != QUIRE_READ_ONLY && code != QUIRE_NOT_FOUND &&
        code != QUIRE_INVALID_ARGUMENT) {
      std::fprintf(stderr, "%s: %s\n", quire_code_name(code), quire_error_message());
      wrong_ = true;
    }
    return false;
  }

  void Complain(const std::string& what) {
    std::fprintf(stderr, "%s\n", what.c_str());
    wrong_ = true;
  }

  bool Open() {
    quire_options* options = nullptr;
    if (!Check(quire_options_create(&options))) return false;
    const bool opened = Check(quire_options_set(options, "memtable_bytes", "64KiB")) &&
                        Check(quire_context_open(repository_.c_str(), options, &context_)) &&
                        Check(quire_db_open(context_, "db", options, &db_));
    quire_options_destroy(options);
    return opened;
  }

  void Close() {
    Check(quire_db_close(db_));
    Check(quire_context_close(context_));
    db_ = nullptr;
    context_ = nullptr;
  }

  void WriteAndRead() {
    for (int round = 1; round <= 2; ++round) {
      for (int i = 0; i < kKeys; ++i) {
        const std::string& value = values_[i][round];
        record_->tried[i] = round;
        if (Check(
                quire_db_put(db_, keys_[i].data(), keys_[i].size(), value.data(), value.size()))) {
          record_->acknowledged[i] = round;
        }
      }
      Check(quire_db_barrier(db_, QUIRE_SSTABLE));
      ReadAll();
    }
    Check(quire_db_compact(db_));
    ReadAll();
  }

  void ReadAll() {
    for (int i = 0; i < kKeys; i += 5) {
      void* value = nullptr;
      size_t size = 0;
      if (Check(quire_db_get(db_, keys_[i].data(), keys_[i].size(), &value, &size)))
        quire_free(value);
    }
    quire_iter* iter = nullptr;
    if (!Check(quire_iter_create(db_, &iter))) return;
    Check(quire_iter_seek_to_first(iter));
    for (int i = 0; i < kKeys && quire_iter_valid(iter) == 1; ++i) Check(quire_iter_next(iter));
    quire_iter_destroy(iter);
  }

  void VerifyKey(int i) {
    void* bytes = nullptr;
    size_t size = 0;
    const int code = quire_db_get(db_, keys_[i].data(), keys_[i].size(), &bytes, &size);
    const std::string found = code == QUIRE_OK ? std::string(static_cast<char*>(bytes), size) : "";
    quire_free(bytes);
    bool right = code == QUIRE_NOT_FOUND && record_->acknowledged[i] == 0;
    for (int round = std::max(1, record_->acknowledged[i]); round <= record_->tried[i]; ++round) {
      right = right || found == values_[i][round];
    }
    if (!right)
      Complain(keys_[i] + " is " + quire_code_name(code) + ", " + std::to_string(size) + " bytes");
  }

  const std::string repository_;
  Record* const record_;
  std::string keys_[kKeys];
  std::string values_[kKeys][3];
  quire_context* context_ = nullptr;
  quire_db* db_ = nullptr;
  bool wrong_ = false;
};

class Allocations : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(::mkdtemp(directory_.data()), nullptr);
    void* const shared =
        ::mmap(nullptr, sizeof(Record), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(shared, MAP_FAILED);
    record_ = static_cast<Record*>(shared);
  }
  void TearDown() override {
    ::munmap(record_, sizeof(Record));
    std::filesystem::remove_all(directory_);
  }

  Outcome RunWithout(int64_t n) {
    *record_ = Record{};
    const std::string repository = directory_ + "/db";
    const Outcome outcome = InProcess([&] { return Workload(repository, record_).Run(n); });
    const Outcome after = InProcess([&] { return Workload(repository, record_).Verify(); });
    std::filesystem::remove_all(repository);
    return after == kRan ? outcome : kWrong;
  }

  std::string directory_ = std::filesystem::temp_directory_path() / "quire-allocations-XXXXXX";
  Record* record_ = nullptr;
};

TEST_F(Allocations, OneFailsAndNothingAcknowledgedIsLost) {
  quire::test::FailInTurn([this](int64_t n) { return RunWithout(n); });
}

}  // namespace
