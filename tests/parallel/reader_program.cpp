// A separate process, without MPI, that reads the database of reader_job.cpp until no further job
// will come.
//
//   reader_program DATABASE TOLD
//
// It looks again and again: with a reader that it keeps and refreshes, and with new ones; by gets
// and by walks in turn; now and then some time after the reader was refreshed. Each look must show
// for every pair a state that was written: at least that of the round that was in tables when the
// look began, and never an older one than was seen before. When all is written, that is exactly the
// last round. If a call reports "stale", the program calls Refresh. At its end it prints how often
// it looked, how often beside pairs that were moving, and how often the reader was stale. Exit
// status: 0; 3 if it read a wrong state; 4 if a call failed.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "quire/reader.h"
#include "tests/parallel/reader_pairs.h"

namespace {

using quire::Code;
using quire::DatabaseReader;
using quire::Status;
using quire::test::kReaderPairs;
using quire::test::Told;

constexpr int kExitWrong = 3;
constexpr int kExitFailed = 4;
constexpr int kLastLooks = 6;  // by either reader, in either way
constexpr std::chrono::milliseconds kOldAfter(200);
constexpr int kStaleMax = 10'000;  // one after the other

// The state of each pair in one look; empty if absent.
using Look = std::vector<std::optional<std::string>>;

class Program {
 public:
  Program(std::string directory, std::string told)
      : directory_(std::move(directory)), told_(std::move(told)), seen_(kReaderPairs, 0) {}

  int Run() {
    for (int last = 0; last < kLastLooks; ++looks_) {
      const Told before = quire::test::ReadTold(told_);
      const bool moving = IsMoving();
      Look look(kReaderPairs);
      const Status status = LookUntilNotStale(&look);
      if (!status.ok()) {
        std::printf("look %d: %s\n", looks_, status.ToString().c_str());
        return kExitFailed;
      }
      if (moving && IsMoving()) ++beside_moving_;
      if (!Check(look, before.flushed, quire::test::ReadTold(told_).begun)) return kExitWrong;
      if (before.end) ++last;
    }
    std::printf("looks %d, beside moving pairs %d, stale %d\n", looks_, beside_moving_, stale_);
    return 0;
  }

 private:
  // Pairs are of several generations.
  bool IsMoving() const {
    int generations = 0;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(directory_, ignored)) {
      if (entry.path().filename().string().rfind("gen-", 0) == 0) ++generations;
    }
    return generations > 1;
  }

  Status LookUntilNotStale(Look* look) {
    const bool anew = looks_ % 3 == 2;
    std::unique_ptr<DatabaseReader> other;
    Status status = Status(Code::kBusy);
    for (int tries = 0; status.code() == Code::kBusy && tries < kStaleMax; ++tries) {
      if (tries > 0) ++stale_;
      status = Renew(anew ? other : kept_);
      if (!status.ok()) continue;
      DatabaseReader& reader = anew ? *other : *kept_;
      status = tries == 0 && looks_ % 16 == 5 ? GrowOld(reader) : Status();
      if (status.ok()) status = LookOnce(reader, look);
    }
    return status;
  }

  Status Renew(std::unique_ptr<DatabaseReader>& reader) const {
    if (reader != nullptr) return reader->Refresh();
    auto opened = DatabaseReader::Open(directory_);
    if (opened.ok()) reader = std::move(*opened);
    return opened.status();
  }

  // Looks at every part, then lets the job remove files of which nothing was opened.
  Status GrowOld(const DatabaseReader& reader) const {
    for (int i = 1; i < kReaderPairs; i += 10) {
      std::string value;
      const Status status = reader.Get(quire::test::ReaderKey(i), &value);
      if (!status.ok() && status.code() != Code::kNotFound) return status;
    }
    const Told before = quire::test::ReadTold(told_);
    const auto begin = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - begin < kOldAfter) {
      const Told now = quire::test::ReadTold(told_);
      if (now.end || now.flushed > before.flushed + 1) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return Status();
  }

  Status LookOnce(const DatabaseReader& reader, Look* look) {
    look->assign(kReaderPairs, std::nullopt);
    return looks_ % 2 == 0 ? Walk(reader, look) : Get(reader, look);
  }

  static Status Get(const DatabaseReader& reader, Look* look) {
    for (int i = 0; i < kReaderPairs; ++i) {
      std::string value;
      const Status status = reader.Get(quire::test::ReaderKey(i), &value);
      if (status.code() == Code::kNotFound) continue;
      QUIRE_RETURN_IF_ERROR(status);
      (*look)[static_cast<size_t>(i)] = std::move(value);
    }
    return Status();
  }

  static Status Walk(const DatabaseReader& reader, Look* look) {
    const auto iterator = reader.NewIterator();
    int i = 0;
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
      while (i < kReaderPairs && iterator->key() != quire::Slice(quire::test::ReaderKey(i))) ++i;
      if (i == kReaderPairs) {
        return Status(Code::kCorruption, "a walk comes to \"" + std::string(iterator->key()) +
                                             "\", which is not next in order, or no key");
      }
      (*look)[static_cast<size_t>(i++)] = std::string(iterator->value());
    }
    return iterator->status();
  }

  // Returns whether all of it is from rounds `flushed` to `begun`, and none older than seen before.
  bool Check(const Look& look, int flushed, int begun) {
    for (int i = 0; i < kReaderPairs; ++i) {
      const std::optional<std::string>& value = look[static_cast<size_t>(i)];
      int& seen = seen_[static_cast<size_t>(i)];
      int round = std::max(flushed, seen);
      // The oldest round that it may be of.
      while (round <= begun && !IsOf(value, i, round)) ++round;
      if (round > begun) {
        std::printf("look %d: WRONG: %s, of round %d (flushed) or %d (seen) to %d: \"%.30s\"\n",
                    looks_, quire::test::ReaderKey(i).c_str(), flushed, seen, begun,
                    value.has_value() ? value->c_str() : "(absent)");
        return false;
      }
      seen = round;
    }
    return true;
  }

  static bool IsOf(const std::optional<std::string>& value, int i, int round) {
    if (!value.has_value()) return quire::test::IsAbsent(i, round);
    return !quire::test::IsAbsent(i, round) && *value == quire::test::ReaderValue(i, round);
  }

  const std::string directory_;
  const std::string told_;
  std::unique_ptr<DatabaseReader> kept_;
  std::vector<int> seen_;  // by pair: a round that it was of, at least
  int looks_ = 0;
  int beside_moving_ = 0;
  int stale_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s DATABASE TOLD\n", argv[0]);
    return 2;
  }
  return Program(argv[1], argv[2]).Run();
}
