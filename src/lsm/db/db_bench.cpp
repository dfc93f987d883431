// Measures one rank's database by itself.
//
//   quire_lsm_bench [--count N] [--value-bytes N] [--directory D] [--background N] [--threads N]
//                   [--log off|on|sync] [--cache-bytes N] [--ops a,b,...]
//
// Operations, on 16-byte keys: fillrandom, overwrite, readrandom, readmissing, seekrandom (50
// nexts), apply (puts in batches, as from other ranks), update (counters in batches), compact. One
// JSON line per operation on standard output.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/core/random.h"
#include "base/text/coding.h"
#include "io/files/file_system.h"
#include "io/files/machine.h"
#include "lsm/db/db.h"

namespace quire::lsm {
namespace {

struct Settings {
  uint64_t count = 1'000'000;
  uint64_t value_bytes = 100;
  std::string directory = "/tmp/quire-lsm-bench";
  int background = 1;
  int threads = 1;
  std::string ops = "fillrandom,overwrite,readrandom,readmissing,seekrandom";
  StorageOptions options;
};

void Require(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

// 16 decimal digits, as RocksDB's db_bench writes them.
Slice KeyOf(uint64_t number, char* key) {
  for (int i = 15; i >= 0; --i, number /= 10) key[i] = static_cast<char>('0' + number % 10);
  return Slice(key, 16);
}

class Bench {
 public:
  explicit Bench(const Settings& settings)
      : settings_(settings),
        executor_(base::NewThreadPool(settings.background, "background").value()) {
    environment_.fs = &io::PosixFileSystem();
    environment_.executor = executor_.get();
    Require(DestroyDb(*environment_.fs, settings_.directory));
    Result<std::unique_ptr<Db>> opened = Db::Open(
        environment_, settings_.directory, settings_.options, engine::OpenFlags::kMustNotExist);
    Require(opened.status());
    db_ = std::move(*opened);
    values_.resize(settings.value_bytes + (1 << 20));
    base::Random random(1);
    for (char& byte : values_) byte = static_cast<char>(random.Next());
  }
  ~Bench() {
    db_.reset();
    Require(DestroyDb(*environment_.fs, settings_.directory));
  }

  void Run(const std::string& op) {
    uint64_t count = settings_.count / static_cast<uint64_t>(settings_.threads);
    if (op == "seekrandom") count = std::max<uint64_t>(1, count / 50);
    const std::clock_t begin_cpu = std::clock();
    const uint64_t begin_ns = io::RealClock().NowNs();
    std::vector<std::thread> threads;
    for (int i = 0; i < settings_.threads; ++i) {
      threads.emplace_back([this, &op, count, i] { Work(op, count, static_cast<uint64_t>(i)); });
    }
    for (std::thread& thread : threads) thread.join();
    const uint64_t end_ns = io::RealClock().NowNs();
    if (op == "fillrandom" || op == "overwrite") Require(db_->WaitIdle());
    const double cpu_s = static_cast<double>(std::clock() - begin_cpu) / CLOCKS_PER_SEC;
    Print(op, count * static_cast<uint64_t>(settings_.threads),
          static_cast<double>(end_ns - begin_ns) / 1e9, cpu_s);
  }

 private:
  void Work(const std::string& op, uint64_t count, uint64_t thread) {
    base::Random random(thread * 77 + op.size());
    if (op == "fillrandom" || op == "overwrite") return Write(count, random);
    if (op == "readrandom") return Read(count, random, 0);
    if (op == "readmissing") return Read(count, random, settings_.count);
    if (op == "seekrandom") return Seek(count, random);
    if (op == "apply") return Apply(count, random, false);
    if (op == "update") return Apply(count, random, true);
    if (op == "compact") return Require(db_->Compact());
    Require(Status(Code::kInvalidArgument, "no such operation: " + op));
  }

  void Write(uint64_t count, base::Random& random) {
    char key[16];
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t from = random.Below(values_.size() - settings_.value_bytes);
      Require(db_->Put(KeyOf(random.Below(settings_.count), key),
                       Slice(values_).substr(from, settings_.value_bytes)));
    }
  }

  void Read(uint64_t count, base::Random& random, uint64_t missing) {
    char key[16];
    std::string value;
    uint64_t found = 0;
    for (uint64_t i = 0; i < count; ++i) {
      const Status status = db_->Get(KeyOf(missing + random.Below(settings_.count), key), &value);
      if (status.ok()) ++found;
      if (!status.ok() && status.code() != Code::kNotFound) Require(status);
    }
    std::fprintf(stderr, "%llu of %llu found\n", static_cast<unsigned long long>(found),
                 static_cast<unsigned long long>(count));
  }

  void Seek(uint64_t count, base::Random& random) {
    char key[16];
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < count; ++i) {
      const std::unique_ptr<engine::Iterator> iterator = db_->NewIterator({});
      iterator->Seek(KeyOf(random.Below(settings_.count), key));
      for (int j = 0; j < 50 && iterator->Valid(); ++j, iterator->Next()) {
        bytes += iterator->key().size() + iterator->value().size();
      }
      Require(iterator->status());
    }
    std::fprintf(stderr, "%llu bytes\n", static_cast<unsigned long long>(bytes));
  }

  void Apply(uint64_t count, base::Random& random, bool update) {
    const Db::WireUpdateFn add = [](uint32_t, Slice argument, Slice, const Slice* present,
                                    std::string* updated, bool* write) {
      uint64_t sum = base::LoadLe<uint64_t>(argument.data());
      if (present != nullptr && present->size() == sizeof sum) {
        sum += base::LoadLe<uint64_t>(present->data());
      }
      updated->assign(reinterpret_cast<const char*>(&sum), sizeof sum);
      *write = true;
      return Status();
    };
    char key[16];
    for (uint64_t done = 0; done < count;) {
      engine::WriteBatch batch;
      for (int i = 0; i < 500; ++i, ++done) {
        const uint64_t number = random.Below(update ? settings_.count / 10 : settings_.count);
        const uint64_t one = 1;
        const Slice argument(reinterpret_cast<const char*>(&one), sizeof one);
        if (update) {
          batch.Update(KeyOf(number, key), 1, argument);
        } else {
          batch.Put(KeyOf(number, key), argument);
        }
      }
      engine::WriteProgress progress;
      Require(db_->Apply(batch.bytes(), add, &progress));
    }
  }

  // `cpu_s`: of all threads, the work that follows in the background included.
  void Print(const std::string& op, uint64_t count, double seconds, double cpu_s) {
    const DbStatistics now = db_->Statistics();
    std::printf(
        "{\"bench\": \"lsm\", \"params\": {\"op\": \"%s\", \"value_bytes\": %llu, \"count\": %llu, "
        "\"threads\": %d}, \"results\": {\"ops_per_s\": %.0f, \"ns_per_op\": %.0f, "
        "\"cpu_ns_per_op\": %.0f, \"runs\": %llu, "
        "\"tables\": %llu, \"table_mb\": %.1f, \"value_mb\": %.1f, \"flush_mb\": %.1f, "
        "\"compaction_mb\": %.1f, \"stall_s\": %.2f}}\n",
        op.c_str(), static_cast<unsigned long long>(settings_.value_bytes),
        static_cast<unsigned long long>(count), settings_.threads,
        static_cast<double>(count) / seconds, seconds * 1e9 / static_cast<double>(count),
        cpu_s * 1e9 / static_cast<double>(count), static_cast<unsigned long long>(now.run_count),
        static_cast<unsigned long long>(now.table_count),
        static_cast<double>(now.table_bytes) / 1e6,
        static_cast<double>(now.value_segment_bytes) / 1e6,
        static_cast<double>(now.flush_bytes) / 1e6,
        static_cast<double>(now.compaction_write_bytes) / 1e6,
        static_cast<double>(now.stall_ns) / 1e9);
    std::fflush(stdout);
  }

  const Settings settings_;
  std::unique_ptr<base::Executor> executor_;
  engine::EngineEnvironment environment_;
  std::unique_ptr<Db> db_;
  std::string values_;
};

Settings ParseArguments(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    const std::string value = argv[i + 1];
    if (flag == "--count") settings.count = std::strtoull(argv[i + 1], nullptr, 10);
    if (flag == "--value-bytes") settings.value_bytes = std::strtoull(argv[i + 1], nullptr, 10);
    if (flag == "--directory") settings.directory = value;
    if (flag == "--background") settings.background = std::atoi(argv[i + 1]);
    if (flag == "--threads") settings.threads = std::atoi(argv[i + 1]);
    if (flag == "--ops") settings.ops = value;
    if (flag == "--trigger") settings.options.compaction_trigger = std::atoi(argv[i + 1]);
    if (flag == "--dead-percent") settings.options.dead_percent_max = std::atoi(argv[i + 1]);
    if (flag == "--cache-bytes") {
      settings.options.cache_bytes = std::strtoull(argv[i + 1], nullptr, 10);
    }
    if (flag == "--memtable-bytes") {
      settings.options.memtable_bytes = std::strtoull(argv[i + 1], nullptr, 10);
    }
    if (flag == "--log") {
      settings.options.wal = value == "off"    ? WalMode::kOff
                             : value == "sync" ? WalMode::kSync
                                               : WalMode::kOn;
    }
  }
  return settings;
}

int Main(int argc, char** argv) {
  const Settings settings = ParseArguments(argc, argv);
  Bench bench(settings);
  for (size_t at = 0; at < settings.ops.size();) {
    const size_t end = std::min(settings.ops.find(',', at), settings.ops.size());
    bench.Run(settings.ops.substr(at, end - at));
    at = end + 1;
  }
  return 0;
}

}  // namespace
}  // namespace quire::lsm

int main(int argc, char** argv) { return quire::lsm::Main(argc, argv); }
