// Writes to a database until it is killed, and records the outcome of each call outside of the
// database, in the oracle.
//
//   kill_program REPOSITORY ORACLE_DIRECTORY MODE [TIMEOUT_MS]
//
// MODE is sequential, relaxed (a fence after every few writes) or verify (no writing). First the
// program looks up all keys of the oracle: each must show the write that was acknowledged last, or
// one that was begun after it; anything else is a failure (exit status 3). Each rank appends to
// ORACLE_DIRECTORY/rank-<r> one record when it begins a write and one when the write is
// acknowledged, each by one write(2) that survives its death. It writes its process id to
// ORACLE_DIRECTORY/pid-<r> when it begins to write pairs. Other failures: exit status 4, with the
// code's name and the time that the call took on standard output.
#include <fcntl.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "quire/mpi.h"

namespace {

constexpr int kKeysPerRank = 400;
constexpr uint32_t kNoKey = kKeysPerRank;
// One of so many keys is deleted now and then.
constexpr uint32_t kDeletedKeys = 4;
constexpr int kExitLost = 3;
constexpr int kExitFailed = 4;

// Write number `number` to key number `key`: a put or a delete that was begun or acknowledged.
struct Told {
  uint32_t key;
  uint8_t is_delete;
  uint8_t is_begun;
  uint16_t unused;
  uint64_t number;
};

// The writes that a key may show: the last acknowledged one, or one that was begun after it.
struct Expected {
  Told last = {0, 1, 0, 0, 0};
  std::vector<Told> begun;

  void Add(const Told& told) {
    if (told.is_begun != 0) {
      begun.push_back(told);
      return;
    }
    last = told;
    std::erase_if(begun, [&](const Told& other) { return other.number <= told.number; });
  }
  // Returns the write that an absent key, or a value with that number, shows; null: no allowed one.
  const Told* Find(bool is_absent, uint64_t number) const {
    const auto shows = [&](const Told& told) {
      return is_absent ? told.is_delete != 0 : told.is_delete == 0 && told.number == number;
    };
    if (shows(last)) return &last;
    const auto found = std::find_if(begun.begin(), begun.end(), shows);
    return found == begun.end() ? nullptr : &*found;
  }
};

std::string KeyName(int rank, uint32_t key) {
  return "rank " + std::to_string(rank) + " key " + std::to_string(key);
}

// Returns a value that identifies its write in every byte, and is now and then large enough to be
// stored apart from its key.
std::string ValueOf(int rank, uint32_t key, uint64_t number) {
  std::string value = std::to_string(number) + " " + KeyName(rank, key) + " ";
  const size_t size = value.size() + (number % 7 == 0 ? 2000 : number % 60);
  while (value.size() < size) value += static_cast<char>('a' + (number + value.size()) % 26);
  return value;
}

class Program {
 public:
  Program(std::string oracle, int rank, quire::Database* db)
      : oracle_(std::move(oracle)), rank_(rank), db_(db) {}

  // Returns the number of keys that show no allowed write, and names each. The writes that were
  // found must be found from now on: the oracle is rewritten with them.
  int Verify() {
    std::map<uint32_t, Expected> keys;
    std::ifstream file(path_, std::ios::binary);
    for (Told told; file.read(reinterpret_cast<char*>(&told), sizeof told);) {
      keys[told.key].Add(told);
      next_number_ = std::max(next_number_, told.number + 1);
    }
    file.close();
    keys.erase(kNoKey);
    int lost = 0;
    std::ofstream found_file(path_ + ".new", std::ios::binary);
    for (const auto& [key, expected] : keys) {
      Told found = {};
      lost += VerifyKey(key, expected, &found) ? 0 : 1;
      found_file.write(reinterpret_cast<const char*>(&found), sizeof found);
    }
    // No number is used twice, not even that of a write that was begun and is not found.
    const Told last = {kNoKey, 1, 0, 0, next_number_};
    found_file.write(reinterpret_cast<const char*>(&last), sizeof last);
    found_file.close();
    std::printf("rank %d: %zu keys verified, %d lost\n", rank_, keys.size(), lost);
    std::fflush(stdout);
    if (lost == 0 && std::rename((path_ + ".new").c_str(), path_.c_str()) != 0) std::abort();
    return lost;
  }

  // Writes until a call fails, or for ever.
  quire::Status Write(bool sequential) {
    log_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (log_ < 0) return quire::Status(quire::Code::kIo, "cannot open " + path_);
    std::ofstream(oracle_ + "/pid-" + std::to_string(rank_)) << ::getpid() << std::endl;
    uint64_t random = static_cast<uint64_t>(::getpid()) * 0x9E3779B97F4A7C15;
    while (true) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      QUIRE_RETURN_IF_ERROR(WriteOne(static_cast<uint32_t>(random >> 33) % kKeysPerRank,
                                     (random >> 20) % 10 == 0, sequential));
      if (sequential || (random >> 50) % 50 != 0) continue;
      QUIRE_RETURN_IF_ERROR(db_->Fence());
      for (const Told& told : unfenced_) Tell(told);
      unfenced_.clear();
    }
  }

 private:
  bool VerifyKey(uint32_t key, const Expected& expected, Told* found) {
    std::string value;
    const quire::Status got = db_->Get(KeyName(rank_, key), &value);
    const uint64_t number = std::strtoull(value.c_str(), nullptr, 10);
    const bool is_absent = got.code() == quire::Code::kNotFound;
    const Told* shown = nullptr;
    if (is_absent || (got.ok() && value == ValueOf(rank_, key, number))) {
      shown = expected.Find(is_absent, number);
    }
    if (shown != nullptr) {
      *found = {key, shown->is_delete, 0, 0, shown->number};
      return true;
    }
    std::printf(
        "LOST %s: write %llu (%s) was acknowledged, %zu begun after it, found %s \"%.60s\"\n",
        KeyName(rank_, key).c_str(), static_cast<unsigned long long>(expected.last.number),
        expected.last.is_delete != 0 ? "delete" : "put", expected.begun.size(),
        got.ToString().c_str(), value.c_str());
    return false;
  }

  quire::Status WriteOne(uint32_t key, bool is_delete, bool sequential) {
    is_delete = is_delete && key % kDeletedKeys == 0;
    Told told = {key, is_delete, 1, 0, next_number_++};
    Tell(told);
    told.is_begun = 0;
    const std::string name = KeyName(rank_, key);
    QUIRE_RETURN_IF_ERROR(is_delete ? db_->Delete(name)
                                    : db_->Put(name, ValueOf(rank_, key, told.number)));
    // A relaxed write to a remote key is noted after the fence; one to a local key is noted now, in
    // the order of the writes of its key.
    if (sequential || db_->Owner(name) == rank_) {
      Tell(told);
    } else {
      unfenced_.push_back(told);
    }
    return quire::Status();
  }

  void Tell(const Told& told) {
    if (::write(log_, &told, sizeof told) != sizeof told) std::abort();
  }

  const std::string oracle_;
  const int rank_;
  const std::string path_ = oracle_ + "/rank-" + std::to_string(rank_);
  quire::Database* const db_;
  uint64_t next_number_ = 1;
  int log_ = -1;
  std::vector<Told> unfenced_;
};

int Fail(int rank, const char* what, const quire::Status& status) {
  std::printf("rank %d: %s: %s\n", rank, what, status.ToString().c_str());
  std::fflush(stdout);
  return kExitFailed;
}

quire::DatabaseOptions SmallDatabase() {
  quire::DatabaseOptions options;
  options.storage.memtable_bytes = 256 * 1024;
  options.storage.value_segment_bytes = 256 * 1024;
  options.storage.cache_bytes = 1 << 20;
  options.migrate_batch_bytes = 4096;
  return options;
}

int Run(int rank, const char* const* arguments, int timeout_ms) {
  quire::ContextOptions context_options;
  if (timeout_ms > 0) context_options.timeout_ms = static_cast<uint64_t>(timeout_ms);
  auto context = quire::OpenContext(MPI_COMM_WORLD, arguments[1], context_options);
  if (!context.ok()) return Fail(rank, "context", context.status());
  const bool sequential = std::strcmp(arguments[3], "sequential") == 0;
  quire::DatabaseOptions options = SmallDatabase();
  if (sequential) options.consistency = quire::Consistency::kSequential;
  const auto begin = std::chrono::steady_clock::now();
  auto db = (*context)->Open("db", options);
  if (!db.ok()) {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::printf("rank %d: open failed after %.3f s\n", rank, took.count());
    return Fail(rank, "open", db.status());
  }
  Program program(arguments[2], rank, db->get());
  if (program.Verify() > 0) return kExitLost;
  const quire::Status verified = (*db)->Barrier(quire::Level::kMemTable);
  if (!verified.ok()) return Fail(rank, "barrier", verified);
  if (std::strcmp(arguments[3], "verify") == 0) {
    const quire::Status closed = (*db)->Close();
    return closed.ok() ? 0 : Fail(rank, "close", closed);
  }
  return Fail(rank, "write", program.Write(sequential));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: %s REPOSITORY ORACLE_DIRECTORY MODE [TIMEOUT_MS]\n", argv[0]);
    return 2;
  }
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int result = Run(rank, argv, argc > 4 ? std::atoi(argv[4]) : 0);
  // After the death of a rank MPI_Finalize would wait for ever.
  if (result != 0) std::_Exit(result);
  MPI_Finalize();
  return 0;
}
