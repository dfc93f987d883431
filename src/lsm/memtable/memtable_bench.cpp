// Measures one MemTable: adds, overwrites, gets that hit and miss, ordered views, by one thread and
// by two; and gets by a neighbour, from the memory of a database.
//
//   quire_memtable_bench [--count N] [--key-bytes N] [--value-bytes N] [--directory D] [--decimal]
//
// The segment lies in a file under D (default /dev/shm), its pages touched beforehand. --decimal:
// keys are zero-padded decimal numbers, else random bytes. One JSON line per case on standard
// output: cpu_ns_per_op is processor time, which other programs on the machine disturb little;
// ops_per_s and ms are by the clock on the wall. Medians of five.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/core/random.h"
#include "base/hash/hash.h"
#include "base/threads/executor.h"
#include "io/files/file_system.h"
#include "io/files/machine.h"
#include "io/ipc/shared_memory.h"
#include "lsm/db/db.h"
#include "lsm/memtable/memtable.h"
#include "lsm/memtable/sorted_view.h"
#include "lsm/peer/peer_reader.h"
#include "table/table.h"

namespace quire::lsm {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr int kRepetitions = 5;

struct Settings {
  uint64_t count = 500'000;
  size_t key_bytes = 16;
  size_t value_bytes = 100;
  std::string directory = "/dev/shm";
  bool decimal = false;
};

[[noreturn]] void Stop(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::exit(1);
}

template <typename T>
T Require(Result<T> result) {
  if (!result.ok()) Stop(result.status().ToString());
  return std::move(result).value();
}

void Require(const Status& status) {
  if (!status.ok()) Stop(status.ToString());
}

Settings Parse(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--decimal") {
      settings.decimal = true;
      continue;
    }
    if (i + 1 == argc) Stop("no value for " + flag);
    const std::string value = argv[++i];
    if (flag == "--count") {
      settings.count = std::strtoull(value.c_str(), nullptr, 10);
    } else if (flag == "--key-bytes") {
      settings.key_bytes = std::max<size_t>(std::strtoull(value.c_str(), nullptr, 10), 8);
    } else if (flag == "--value-bytes") {
      settings.value_bytes = std::strtoull(value.c_str(), nullptr, 10);
    } else if (flag == "--directory") {
      settings.directory = value;
    } else {
      Stop("unknown option " + flag);
    }
  }
  return settings;
}

// Keys in one block of memory, in random order.
class Keys {
 public:
  Keys(const Settings& settings, uint64_t seed)
      : bytes_(settings.count * settings.key_bytes, '0'), key_bytes_(settings.key_bytes) {
    base::Random random(seed);
    std::vector<uint64_t> order(settings.count);
    for (uint64_t i = 0; i < settings.count; ++i) order[i] = i;
    for (uint64_t i = settings.count; i > 1; --i) std::swap(order[i - 1], order[random.Below(i)]);
    for (uint64_t i = 0; i < settings.count; ++i) {
      char* key = bytes_.data() + i * key_bytes_;
      if (settings.decimal) {
        const std::string digits = std::to_string(order[i] * 2 + seed % 2);
        std::memcpy(key + key_bytes_ - digits.size(), digits.data(), digits.size());
      } else {
        for (size_t at = 0; at + 8 <= key_bytes_; at += 8) {
          const uint64_t word = random.Next();
          std::memcpy(key + at, &word, 8);
        }
      }
    }
  }
  // Another order of the same keys, so that gets do not find each next record in the cache.
  Keys Shuffled() const {
    Keys shuffled = *this;
    base::Random random(1);
    for (uint64_t i = bytes_.size() / key_bytes_; i > 1; --i) {
      const uint64_t other = random.Below(i);
      char* const last = shuffled.bytes_.data() + (i - 1) * key_bytes_;
      std::swap_ranges(last, last + key_bytes_, shuffled.bytes_.data() + other * key_bytes_);
    }
    return shuffled;
  }
  Slice operator[](uint64_t i) const {
    return Slice(bytes_.data() + i * key_bytes_, key_bytes_);
  }

 private:
  std::string bytes_;
  size_t key_bytes_;
};

// A segment file with its pages present, and an index, used again and again.
struct Memory {
  explicit Memory(const Settings& settings)
      : bytes((log::kSegmentHeaderBytes +
               2 * settings.count * log::RecordSize(settings.key_bytes, settings.value_bytes) +
               kMiB) /
              kMiB * kMiB),
        path(settings.directory + "/quire-memtable-bench-" + std::to_string(io::ProcessId())) {
    log::SegmentHeader header;
    header.generation = 1;
    header.capacity = bytes;
    segment = Require(log::Segment::Create(io::PosixFileSystem(), path, header,
                                           log::Segment::Origin::kNew));
    segment->map().Prefault(0, bytes);
    index = Require(io::SharedMemory::CreatePrivate(IndexBytes(bytes)));
    std::memset(index->data(), 0, index->size());
  }
  ~Memory() {
    segment.reset();
    (void)io::PosixFileSystem().Unlink(path);
  }
  std::unique_ptr<MemTable> NewTable() {
    return std::make_unique<MemTable>(index->data(), segment->data(), bytes, ++generation, 0,
                                      &segment->map());
  }
  uint64_t bytes;
  std::string path;
  std::unique_ptr<log::Segment> segment;
  std::unique_ptr<io::SharedMemory> index;
  uint64_t generation = 0;
};

// The time of a measurement: by the clock on the wall, and of the processors.
struct Time {
  uint64_t wall_ns;
  uint64_t cpu_ns;
};

uint64_t CpuNs() {
  timespec now;
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// Returns the time of `threads` threads for `work(first, last)` over parts of [0, count).
Time Measure(int threads, uint64_t count, const std::function<void(uint64_t, uint64_t)>& work) {
  const uint64_t begin = io::RealClock().NowNs();
  const uint64_t cpu_begin = CpuNs();
  std::vector<std::thread> pool;
  for (int i = 1; i < threads; ++i) {
    pool.emplace_back([&, i] {
      const auto part = static_cast<uint64_t>(i);
      work(count * part / static_cast<uint64_t>(threads),
           count * (part + 1) / static_cast<uint64_t>(threads));
    });
  }
  work(0, count / static_cast<uint64_t>(threads));
  for (std::thread& thread : pool) thread.join();
  return {io::RealClock().NowNs() - begin, CpuNs() - cpu_begin};
}

uint64_t Median(std::vector<Time> times, uint64_t Time::*which) {
  std::sort(times.begin(), times.end(),
            [which](const Time& a, const Time& b) { return a.*which < b.*which; });
  return times[times.size() / 2].*which;
}

class Bench {
 public:
  explicit Bench(const Settings& settings)
      : settings_(settings),
        keys_(settings, 2),
        shuffled_(keys_.Shuffled()),
        absent_(settings, 3),
        value_(settings.value_bytes, 'v'),
        memory_(settings) {}

  void Run() {
    for (int threads : {1, 2}) AddAndGet(threads);
    Views();
    GetByNeighbour();
  }

 private:
  void Report(const char* op, int threads, uint64_t count, std::vector<Time> times) {
    const auto wall_ns = static_cast<double>(Median(times, &Time::wall_ns));
    const auto cpu_ns = static_cast<double>(Median(times, &Time::cpu_ns));
    const auto operations = static_cast<double>(count);
    std::printf(
        "{\"bench\": \"memtable\", \"params\": {\"op\": \"%s\", \"threads\": %d, \"count\": %llu, "
        "\"key_bytes\": %zu, \"value_bytes\": %zu, \"decimal\": %s}, \"results\": "
        "{\"cpu_ns_per_op\": %.1f, \"ops_per_s\": %.0f, \"ms\": %.2f}}\n",
        op, threads, static_cast<unsigned long long>(count), settings_.key_bytes,
        settings_.value_bytes, settings_.decimal ? "true" : "false", cpu_ns / operations,
        operations / wall_ns * 1e9, wall_ns / 1e6);
  }

  void AddAll(MemTable& table, int threads, uint64_t count, std::vector<Time>* times) {
    times->push_back(Measure(threads, count, [&](uint64_t first, uint64_t last) {
      for (uint64_t i = first; i < last; ++i) {
        if (!table.Add({log::RecordType::kPut, keys_[i], value_}, nullptr)) Stop("no room");
      }
    }));
  }

  void GetAll(const MemTable& table, const Keys& keys, bool present, int threads, uint64_t count,
              std::vector<Time>* times) {
    const auto wanted = present ? table::KeyState::kValue : table::KeyState::kAbsent;
    times->push_back(Measure(threads, count, [&](uint64_t first, uint64_t last) {
      uint64_t sum = 0;
      for (uint64_t i = first; i < last; ++i) {
        const table::LookupResult found = table.Get(keys[i], base::HashKey(keys[i]), kMaxLsn);
        if (found.state != wanted) Stop("wrong answer");
        if (present) sum += static_cast<unsigned char>(found.value[0]);
      }
      if (present && sum != (last - first) * 'v') Stop("wrong value");
    }));
  }

  void AddAndGet(int threads) {
    const uint64_t count = settings_.count;
    std::vector<Time> add, overwrite, hit, miss;
    for (int i = 0; i < kRepetitions; ++i) {
      const auto table = memory_.NewTable();
      AddAll(*table, threads, count, &add);
      GetAll(*table, shuffled_, true, threads, count, &hit);
      GetAll(*table, absent_, false, threads, count, &miss);
      AddAll(*table, threads, count, &overwrite);
    }
    Report("add", threads, count, add);
    Report("overwrite", threads, count, overwrite);
    Report("get_hit", threads, count, hit);
    Report("get_miss", threads, count, miss);
  }

  void Views() {
    std::vector<Time> build, iterate, incremental, ignored;
    for (int i = 0; i < kRepetitions; ++i) {
      const auto table = memory_.NewTable();
      AddAll(*table, 1, settings_.count, &ignored);
      table->Close();
      std::shared_ptr<const SortedView> view;
      build.push_back(Measure(1, 1, [&](uint64_t, uint64_t) { view = table->NewView(kMaxLsn); }));
      iterate.push_back(Measure(1, 1, [&](uint64_t, uint64_t) {
        uint64_t count = 0;
        uint64_t sum = 0;
        auto entries = view->NewIterator(true);
        for (entries->SeekToFirst(); entries->Valid(); entries->Next()) {
          ++count;
          sum += entries->value().size() + entries->key().size();
        }
        if (count != settings_.count || sum == 0) Stop("keys are missing");
      }));
    }
    const auto table = memory_.NewTable();
    const uint64_t step = settings_.count / 100;
    incremental.push_back(Measure(1, 1, [&](uint64_t, uint64_t) {
      for (uint64_t i = 0; i < settings_.count; ++i) {
        if (!table->Add({log::RecordType::kPut, keys_[i], value_}, nullptr)) Stop("no room");
        if (i % step == 0 && table->NewView(table->QuiescedLsn())->key_count() != i + 1) {
          Stop("keys are missing");
        }
      }
    }));
    Report("view_build", 1, settings_.count, build);
    Report("view_iterate", 1, settings_.count, iterate);
    Report("add_with_100_views", 1, settings_.count, incremental);
  }

  void GetByNeighbour() {
    const auto executor = base::NewThreadPool(1, "bench").value();
    engine::EngineEnvironment environment;
    environment.fs = &io::PosixFileSystem();
    environment.executor = executor.get();
    environment.share_memory = true;
    StorageOptions options;
    options.memtable_bytes = memory_.bytes;
    options.flushing_queue_length = 1;
    const std::string directory = memory_.path + "-db";
    auto db = Require(Db::Open(environment, directory, options, engine::OpenFlags::kMustNotExist));
    for (uint64_t i = 0; i < settings_.count; ++i) Require(db->Put(keys_[i], value_));
    const auto reader = Require(OpenPeerReader(io::PosixFileSystem(),
                                               {directory, db->region_name(), db->region_bytes()},
                                               {options, table::NewBlockCache(kMiB)}));
    std::vector<Time> times;
    std::string value;
    const BufferAllocator allocate = Into(&value);
    for (int i = 0; i < kRepetitions; ++i) {
      times.push_back(Measure(1, settings_.count, [&](uint64_t first, uint64_t last) {
        for (uint64_t k = first; k < last; ++k) Require(reader->Get(shuffled_[k], allocate));
      }));
    }
    Report("get_by_neighbour", 1, settings_.count, times);
    db.reset();
    Require(DestroyDb(io::PosixFileSystem(), directory));
  }

  Settings settings_;
  Keys keys_;
  Keys shuffled_;
  Keys absent_;
  std::string value_;
  Memory memory_;
};

}  // namespace
}  // namespace quire::lsm

int main(int argc, char** argv) {
  const quire::lsm::Settings settings = quire::lsm::Parse(argc, argv);
  quire::lsm::Bench(settings).Run();
  return 0;
}
