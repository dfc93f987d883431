// The program that move_test.py kills. Afterwards it checks, on another node or in a copy, whether
// anything acknowledged is lost.
//
//   move_program write PLACE TOLD THREADS
//   move_program check PLACE TOLD THREADS
//
// write has THREADS threads write to one database, one thread commit to a stream, and one write
// epochs of a dataset, until it is killed or there is no room any more. Then it reads some of what
// it wrote, on the full device, and waits to be killed. It counts acknowledged calls in the file
// TOLD, one word for each thread, by stores to a mapping, which survive the process. check compares
// the contents with these counts, and prints one line. Exit status: 3 if something acknowledged is
// lost, half present, or back after its deletion; 4 if a call failed.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "quire/database.h"
#include "quire/dataset.h"
#include "quire/stream.h"

namespace {

using quire::Code;
using quire::Result;
using quire::Status;

constexpr int kExitLost = 3;
constexpr int kExitFailed = 4;
constexpr size_t kTold = 4096 / 64;  // each in a line of its own
constexpr size_t kStreamTold = kTold - 1;
constexpr size_t kDatasetTold = kTold - 2;
constexpr uint64_t kObjectBytes = 20'000;
constexpr uint64_t kPairsOfEpoch = 200;
// Some writes of a thread, by their number, are batches, or deletes of the key before.
constexpr uint64_t kBatchEvery = 5;
constexpr uint64_t kReadsOfAFullDevice = 100;
constexpr uint64_t kDeleteEvery = 7;

struct alignas(64) Told {
  std::atomic<uint64_t> count;
};

Told* MapTold(const char* path) {
  const int fd = ::open(path, O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ::ftruncate(fd, kTold * sizeof(Told)) != 0) std::exit(kExitFailed);
  void* told = ::mmap(nullptr, kTold * sizeof(Told), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (told == MAP_FAILED) std::exit(kExitFailed);
  return static_cast<Told*>(told);
}

std::string KeyOf(int thread, uint64_t number) {
  return "thread " + std::to_string(thread) + " write " + std::to_string(number);
}

// Returns values of many sizes; one in a hundred is stored apart from its key.
std::string ValueOf(int thread, uint64_t number) {
  const uint64_t more = number % 100 == 0 ? 9000 : (number * 37) % 900;
  return KeyOf(thread, number) + std::string(more, static_cast<char>('a' + number % 26));
}

bool IsBatch(uint64_t number) { return number % kBatchEvery == 0; }
bool IsDelete(uint64_t number) { return !IsBatch(number) && number % kDeleteEvery == 0; }

// Makes write number `number` of a thread: a put, a batch of two puts, or a delete of the pair that
// the last put wrote.
Status WriteOne(quire::Database& db, int thread, uint64_t number) {
  const std::string key = KeyOf(thread, number);
  if (IsDelete(number)) return db.Delete(KeyOf(thread, number - 1));
  if (!IsBatch(number)) return db.Put(key, ValueOf(thread, number));
  quire::Batch batch;
  batch.Put(key, ValueOf(thread, number));
  batch.Put(key + " twin", ValueOf(thread, number));
  return db.Write(batch);
}

Result<std::unique_ptr<quire::Database>> OpenDatabase(quire::Context& context) {
  quire::DatabaseOptions options;
  options.storage.memtable_bytes = 8 << 20;
  options.storage.value_segment_bytes = 8 << 20;
  return context.Open("moved", options);
}

// Returns whether the call failed for lack of room, which ends the writing. Any other failure ends
// the program.
bool Ended(const char* what, const Status& status) {
  if (status.ok()) return false;
  std::printf("%s: %s\n", what, status.ToString().c_str());
  std::fflush(stdout);
  if (status.code() != Code::kNoSpace) std::_Exit(kExitFailed);
  return true;
}

void WriteDatabase(quire::Database& db, int thread, Told* told) {
  for (uint64_t number = 1;; ++number) {
    if (Ended("database", WriteOne(db, thread, number))) return;
    told[thread].count.store(number, std::memory_order_release);
  }
}

// The stream's log has a fixed size, so it goes on until the other writers find no room.
void WriteStream(const std::string& place, Told* told, const std::atomic<bool>& full) {
  quire::StreamOptions options;
  options.log_bytes = 4 << 20;
  options.keep_versions = 3;
  auto writer = quire::StreamWriter::Open(place + "/streams", "moved", 0, options);
  if (Ended("stream", writer.status())) return;
  const Result<char*> memory = (*writer)->Create("object", kObjectBytes);
  if (Ended("stream", memory.status())) return;
  for (uint64_t number = 1; !full.load(); ++number) {
    std::fill_n(*memory, kObjectBytes, static_cast<char>(number % 251));
    const Result<uint64_t> version = (*writer)->Put("object");
    if (Ended("stream", version.status())) return;
    told[kStreamTold].count.store(*version, std::memory_order_release);
  }
}

Status WriteEpoch(quire::DatasetWriter& writer, uint64_t epoch) {
  QUIRE_RETURN_IF_ERROR(writer.BeginEpoch(epoch));
  for (uint64_t i = 0; i < kPairsOfEpoch; ++i) {
    QUIRE_RETURN_IF_ERROR(writer.Put("particle " + std::to_string(i), std::to_string(epoch)));
  }
  return writer.EndEpoch();
}

// Epochs are small and synced. On a full device they could go on for minutes, in blocks that their
// files have already, so their number is limited then.
void WriteDataset(quire::Context& context, Told* told, const std::atomic<bool>& database_full) {
  auto writer = quire::DatasetWriter::Open(context, "steps");
  if (Ended("dataset", writer.status())) return;
  constexpr int kEpochsOfAFullDevice = 100;
  int more = kEpochsOfAFullDevice;
  for (uint64_t epoch = 1; more > 0; ++epoch) {
    if (database_full.load()) --more;
    if (Ended("dataset", WriteEpoch(**writer, epoch))) return;
    told[kDatasetTold].count.store(epoch, std::memory_order_release);
  }
}

uint64_t lost = 0;

void Lost(const std::string& what) {
  if (++lost <= 10) std::printf("LOST %s\n", what.c_str());
}

// Reads from a full device, on which writes have failed: pairs from all parts of what the threads
// put. Reads need no room, so everything that was acknowledged is found.
void ReadSome(quire::Database& db, const Told* told, int threads) {
  const uint64_t of_each = kReadsOfAFullDevice / static_cast<uint64_t>(threads) + 1;
  for (int thread = 0; thread < threads; ++thread) {
    const uint64_t count = told[thread].count.load();
    for (uint64_t i = 0; i < of_each; ++i) {
      uint64_t number = 1 + i * count / of_each;
      while (IsDelete(number) || IsDelete(number + 1)) ++number;
      if (number > count) continue;
      std::string value;
      const Status got = db.Get(KeyOf(thread, number), &value);
      if (!got.ok() || value != ValueOf(thread, number)) {
        Lost(KeyOf(thread, number) + " on a full device: " + got.ToString());
      }
    }
  }
}

int Write(const std::string& place, Told* told, int threads) {
  auto context = quire::Context::OpenSerial(place + "/repository", {});
  if (Ended("context", context.status())) return 0;
  auto db = OpenDatabase(**context);
  if (Ended("database", db.status())) return 0;
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) {
    running.emplace_back([&, i] { WriteDatabase(**db, i, told); });
  }
  std::atomic<bool> database_full{false};
  std::thread dataset([&] { WriteDataset(**context, told, database_full); });
  std::atomic<bool> full{false};
  std::thread stream([&] { WriteStream(place, told, full); });
  for (std::thread& thread : running) thread.join();
  database_full = true;
  dataset.join();
  full = true;
  stream.join();
  ReadSome(**db, told, threads);
  if (lost != 0) return kExitLost;
  std::printf("full\n");
  std::fflush(stdout);
  while (true) ::pause();  // the test kills it
}

// If a write was begun and not acknowledged, both outcomes are right.
void CheckThread(quire::Database& db, int thread, uint64_t acknowledged) {
  for (uint64_t number = 1; number <= acknowledged; ++number) {
    if (IsDelete(number)) continue;
    const std::string key = KeyOf(thread, number);
    std::string value;
    const Status got = db.Get(key, &value);
    const bool deleted = IsDelete(number + 1);
    if (deleted && number + 1 <= acknowledged) {
      if (got.code() != Code::kNotFound) Lost(key + " is back: " + got.ToString());
      continue;
    }
    if (deleted && got.code() == Code::kNotFound) continue;
    if (!got.ok() || value != ValueOf(thread, number)) Lost(key + ": " + got.ToString());
    if (IsBatch(number) && !db.Get(key + " twin", &value).ok()) Lost("the twin of " + key);
  }
  if (!IsBatch(acknowledged + 1)) return;
  const std::string key = KeyOf(thread, acknowledged + 1);
  std::string value;
  if (db.Get(key, &value).ok() != db.Get(key + " twin", &value).ok()) Lost("half of " + key);
}

Status CheckStream(const std::string& place, uint64_t acknowledged) {
  if (acknowledged == 0) return Status();
  QUIRE_ASSIGN_OR_RETURN(auto reader, quire::StreamReader::Open(place + "/streams", "moved", 0));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<quire::StreamVersion> versions,
                         reader->Versions("object"));
  if (versions.empty()) {
    Lost("all versions of the stream");
    return Status();
  }
  uint64_t newest = 0;
  for (const quire::StreamVersion& version : versions) newest = std::max(newest, version.version);
  if (newest < acknowledged) Lost("version " + std::to_string(acknowledged) + " of the stream");
  std::string bytes;
  QUIRE_RETURN_IF_ERROR(reader->Get("object", newest, &bytes));
  if (bytes != std::string(kObjectBytes, static_cast<char>(newest % 251))) Lost("its bytes");
  return Status();
}

Status CheckDataset(const std::string& place, uint64_t acknowledged) {
  if (acknowledged == 0) return Status();
  QUIRE_ASSIGN_OR_RETURN(auto reader, quire::DatasetReader::Open(place + "/repository/steps"));
  if (reader->Epochs().size() < acknowledged) {
    Lost("epoch " + std::to_string(acknowledged) + " of the dataset");
  }
  for (const quire::DatasetEpoch& epoch : reader->Epochs()) {
    if (epoch.pair_count != kPairsOfEpoch) Lost("pairs of epoch " + std::to_string(epoch.number));
  }
  return reader->Verify(reader->Epochs().back().number);
}

int Check(const std::string& place, const Told* told, int threads) {
  auto context = quire::Context::OpenSerial(place + "/repository", {});
  if (Ended("context", context.status())) return kExitFailed;
  auto db = OpenDatabase(**context);
  if (Ended("database", db.status())) return kExitFailed;
  uint64_t acknowledged = 0;
  for (int i = 0; i < threads; ++i) {
    const uint64_t count = told[i].count.load();
    acknowledged += count;
    CheckThread(**db, i, count);
  }
  if (Ended("stream", CheckStream(place, told[kStreamTold].count.load()))) return kExitFailed;
  if (Ended("dataset", CheckDataset(place, told[kDatasetTold].count.load()))) return kExitFailed;
  const auto statistics = (*db)->GetStatistics();
  const uint64_t torn = statistics.at("recovered.torn_bytes");
  if (torn != 0) Lost(std::to_string(torn) + " bytes of the log");
  std::printf("acknowledged %llu writes, %llu versions, %llu epochs; lost %llu; holes %llu\n",
              static_cast<unsigned long long>(acknowledged),
              static_cast<unsigned long long>(told[kStreamTold].count.load()),
              static_cast<unsigned long long>(told[kDatasetTold].count.load()),
              static_cast<unsigned long long>(lost),
              static_cast<unsigned long long>(statistics.at("recovered.holes")));
  return lost == 0 ? 0 : kExitLost;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return kExitFailed;
  const int threads = std::atoi(argv[4]);
  if (threads < 1 || threads > static_cast<int>(kDatasetTold)) return kExitFailed;
  Told* const told = MapTold(argv[3]);
  const bool write = std::string(argv[1]) == "write";
  return write ? Write(argv[2], told, threads) : Check(argv[2], told, threads);
}
