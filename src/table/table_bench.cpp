// Measures one table on one core: building, lookups that hit and miss, seeks, walks.
//
//   quire_table_bench [--count N] [--value-bytes N] [--directory D] [--cache-bytes N]
//                     [--block-bytes N] [--search tagged|binary] [--compression none|lz4|zstd]
//
// Writes one line per case to standard output. The file lies in a directory of its own under D
// (default /dev/shm).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "base/hash/hash.h"
#include "base/threads/epoch.h"
#include "io/files/file_system.h"
#include "io/files/machine.h"
#include "table/block_cache.h"
#include "table/table.h"

namespace quire::table {
namespace {

struct Settings {
  uint64_t count = 1'000'000;
  size_t value_bytes = 100;
  std::string directory = "/dev/shm";
  StorageOptions options;
};

[[noreturn]] void Stop(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::exit(1);
}

void Require(const Status& status) {
  if (!status.ok()) Stop(status.ToString());
}

uint64_t NumberArgument(const std::string& text) {
  return std::strtoull(text.c_str(), nullptr, 10);
}

Settings Parse(int argc, char** argv) {
  Settings settings;
  settings.options.cache_bytes = 4ull << 30;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    const std::string value = argv[i + 1];
    if (flag == "--count") {
      settings.count = NumberArgument(value);
    } else if (flag == "--value-bytes") {
      settings.value_bytes = NumberArgument(value);
    } else if (flag == "--directory") {
      settings.directory = value;
    } else if (flag == "--cache-bytes") {
      settings.options.cache_bytes = NumberArgument(value);
    } else if (flag == "--block-bytes") {
      settings.options.block_bytes = NumberArgument(value);
    } else if (flag == "--search") {
      settings.options.search = value == "binary" ? SearchMode::kBinary : SearchMode::kTagged;
    } else if (flag == "--compression") {
      settings.options.compression = value == "lz4"    ? Compression::kLz4
                                     : value == "zstd" ? Compression::kZstd
                                                       : Compression::kNone;
    } else {
      Stop("what is " + flag + "?");
    }
  }
  if (argc % 2 == 0 || settings.count == 0) Stop("usage: see the head of table_bench.cpp");
  return settings;
}

constexpr size_t kKeyBytes = 16;

// The decimal digits of a number: even ones are in the table, odd ones are absent.
void KeyAt(uint64_t number, char* key) {
  for (size_t i = kKeyBytes; i-- > 0; number /= 10) key[i] = static_cast<char>('0' + number % 10);
}

uint64_t NextRandom(uint64_t* state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 33;
}

class TableBench {
 public:
  TableBench(const Settings& settings, std::string path)
      : settings_(settings), path_(std::move(path)) {}

  void Run() {
    Build();
    cache_ = NewBlockCache(settings_.options.cache_bytes);
    Result<std::shared_ptr<Table>> table =
        Table::Open(io::PosixFileSystem(), path_, 1, settings_.options, cache_);
    Require(table.status());
    table_ = *table;
    Walk("walk_readahead", false);
    Walk("walk_cold", true);
    Walk("walk_cached", true);
    Lookups("get", 0, settings_.count);
    Lookups("get", 0, settings_.count);
    Lookups("get_missing", 1, settings_.count);
    Seeks();
    const CacheStatistics statistics = Statistics(*cache_);
    std::printf("cache: %llu hits, %llu misses, %llu bytes; table: %llu bytes\n",
                static_cast<unsigned long long>(statistics.hits),
                static_cast<unsigned long long>(statistics.misses),
                static_cast<unsigned long long>(statistics.charged_bytes),
                static_cast<unsigned long long>(table_->info().file_bytes));
  }

 private:
  void Report(const char* name, uint64_t operations, const std::function<void()>& run) {
    const auto begin = std::chrono::steady_clock::now();
    const std::clock_t cpu_begin = std::clock();
    run();
    const std::clock_t cpu_end = std::clock();
    const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - begin;
    const double count = static_cast<double>(operations);
    const double cpu_ns = 1e9 * static_cast<double>(cpu_end - cpu_begin) / CLOCKS_PER_SEC;
    std::printf("%-16s %10.1f ns/op %8.2f M/s; processor time %10.1f ns/op\n", name,
                taken.count() / count, 1e3 * count / taken.count(), cpu_ns / count);
  }

  void Build() {
    Result<std::unique_ptr<TableBuilder>> builder =
        TableBuilder::Create(io::PosixFileSystem(), path_, 1, io::RandomU64(), settings_.options);
    Require(builder.status());
    // Keys are made ahead and values cut from a pool: bytes that were stored an instant ago would
    // make the processor wait before it can copy them.
    constexpr uint64_t kAhead = 4096;
    std::string pool(settings_.value_bytes + kAhead, '\0');
    uint64_t state = 1;
    for (char& byte : pool) byte = static_cast<char>('a' + NextRandom(&state) % 26);
    std::vector<char> keys(kAhead * kKeyBytes);
    Report("build", settings_.count, [&] {
      for (uint64_t i = 0; i < settings_.count; ++i) {
        const uint64_t at = i % kAhead;
        for (uint64_t next = i; at == 0 && next < i + kAhead; ++next) {
          KeyAt(2 * next, &keys[(next - i) * kKeyBytes]);
        }
        Require((*builder)->Add(Slice(&keys[at * kKeyBytes], kKeyBytes), log::RecordType::kPut,
                                Slice(pool).substr(at, settings_.value_bytes),
                                (i * 2654435761u) % (settings_.count * 128)));
      }
      Require((*builder)->Finish().status());
    });
  }

  void Walk(const char* name, bool fill_cache) {
    uint64_t bytes = 0;
    Report(name, settings_.count, [&] {
      const std::unique_ptr<EntryIterator> iterator = table_->NewIterator(fill_cache);
      uint64_t count = 0;
      for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next(), ++count) {
        bytes += iterator->key().size() + iterator->value().size();
      }
      Require(iterator->status());
      if (count != settings_.count) Stop("entries are missing");
    });
    if (bytes != settings_.count * (kKeyBytes + settings_.value_bytes)) Stop("bytes are missing");
  }

  void Lookups(const char* name, uint64_t odd, uint64_t count) {
    uint64_t found_count = 0;
    Report(name, count, [&] {
      char key[kKeyBytes];
      uint64_t state = 7;
      for (uint64_t i = 0; i < count; ++i) {
        KeyAt(2 * (NextRandom(&state) % settings_.count) + odd, key);
        const Slice slice(key, sizeof key);
        const base::EpochGuard guard;
        const uint64_t hash = base::HashKey(slice);
        if (!table_->MayContain(hash)) continue;
        LookupResult found;
        Require(table_->Get(slice, hash, UINT64_MAX, &found));
        if (found.state == KeyState::kAbsent) continue;
        found_count += found.value.size() == settings_.value_bytes ? 1 : 0;
        checksum_ += static_cast<uint8_t>(found.value.empty() ? 0 : found.value.back());
      }
    });
    if (found_count != (odd == 0 ? count : 0)) Stop("lookups went wrong");
  }

  void Seeks() {
    const uint64_t count = std::max<uint64_t>(settings_.count / 10, 1);
    const std::unique_ptr<EntryIterator> iterator = table_->NewIterator(true);
    Report("seek_50_nexts", count, [&] {
      char key[kKeyBytes];
      uint64_t state = 9;
      for (uint64_t i = 0; i < count; ++i) {
        KeyAt(2 * (NextRandom(&state) % settings_.count), key);
        iterator->Seek(Slice(key, sizeof key));
        for (int next = 0; next < 50 && iterator->Valid(); ++next, iterator->Next()) {
          checksum_ += iterator->key().size() + static_cast<uint8_t>(iterator->value()[0]);
        }
      }
    });
    Require(iterator->status());
  }

  const Settings settings_;
  const std::string path_;
  std::shared_ptr<BlockCache> cache_;
  std::shared_ptr<Table> table_;
  uint64_t checksum_ = 0;
};

int Main(int argc, char** argv) {
  const Settings settings = Parse(argc, argv);
  io::FileSystem& fs = io::PosixFileSystem();
  const std::string directory =
      settings.directory + "/quire_table_bench_" + std::to_string(io::ProcessId());
  Require(fs.MakeDirectory(directory));
  const std::string path = directory + "/t-1.sst";
  TableBench(settings, path).Run();
  Require(fs.Unlink(path));
  Require(fs.RemoveDirectory(directory));
  return 0;
}

}  // namespace
}  // namespace quire::table

int main(int argc, char** argv) {
  return quire::table::Main(argc, argv);
}
