// Direct reads of a neighbour's database: in one process against Db::Get, and from a child process
// while the owner writes, flushes, merges and collects.
#include "lsm/peer/peer_reader.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/core/random.h"
#include "base/hash/hash.h"
#include "base/threads/executor.h"
#include "io/files/file_system.h"
#include "io/sim/sim_file_system.h"
#include "lsm/db/db.h"
#include "lsm/memtable/memtable.h"
#include "lsm/memtable/peer_memtable.h"
#include "lsm/version/manifest.h"
#include "table/block_cache.h"
#include "tests/support/temp_directory.h"
#include "tests/support/test_scale.h"

namespace quire::lsm::peer_reader_test {
namespace {

StorageOptions SmallOptions(WalMode log) {
  StorageOptions options;
  options.memtable_bytes = 64 << 10;
  options.value_segment_bytes = 64 << 10;
  options.value_separation_bytes_min = 512;
  options.compaction_trigger = 3;
  options.wal = log;
  return options;
}

// Returns the value of a key's n-th write. It contains both, and any mixing with another value
// damages it.
std::string MakeValue(const std::string& key, uint64_t n, size_t size) {
  std::string value = key + ":" + std::to_string(n) + ":";
  value.append(size, static_cast<char>('a' + n % 26));
  const uint64_t checksum = base::Checksum(value, 1);
  return value.append(reinterpret_cast<const char*>(&checksum), sizeof checksum);
}

// Returns the number in a value; -1 if the value is not whole or not of that key.
int64_t NumberOf(const std::string& key, const std::string& value) {
  if (value.size() < 8 || value.compare(0, key.size() + 1, key + ":") != 0) return -1;
  uint64_t checksum = 0;
  std::memcpy(&checksum, value.data() + value.size() - 8, 8);
  if (checksum != base::Checksum(Slice(value).substr(0, value.size() - 8), 1)) return -1;
  return std::strtoll(value.c_str() + key.size() + 1, nullptr, 10);
}

std::string Get(const engine::PeerReader& reader, Slice key, Code* code) {
  std::string value;
  const Status status = reader.Get(key, Into(&value));
  *code = status.code();
  return value;
}

struct Owner {
  Owner(io::FileSystem& files, const std::string& path, const StorageOptions& options, int threads)
      : fs(files),
        directory(path),
        executor(threads == 0 ? base::NewManualExecutor()
                              : base::NewThreadPool(threads, "owner").value()) {
    engine::EngineEnvironment environment;
    environment.fs = &fs;
    environment.executor = executor.get();
    environment.share_memory = true;
    environment.holder = "test";
    auto opened = Db::Open(environment, directory, options, engine::OpenFlags::kOpenOrCreate);
    EXPECT_TRUE(opened.ok()) << opened.status().ToString();
    db = std::move(opened).value();
  }
  std::unique_ptr<engine::PeerReader> Attach(const StorageOptions& options) const {
    auto reader = OpenPeerReader(fs, {directory, db->region_name(), db->region_bytes()},
                                 {options, table::NewBlockCache(1 << 20)});
    EXPECT_TRUE(reader.ok()) << reader.status().ToString();
    return std::move(reader).value();
  }
  io::FileSystem& fs;
  std::string directory;
  std::unique_ptr<base::Executor> executor;
  std::unique_ptr<Db> db;
};

// The data that the child of a test receives or sends through a pipe.
struct Address {
  char region_name[200];
  uint64_t region_bytes;
};

Address AddressOf(const Db& db) {
  Address address{};
  std::strncpy(address.region_name, db.region_name().c_str(), sizeof address.region_name - 1);
  address.region_bytes = db.region_bytes();
  return address;
}

std::string KeyOf(uint64_t i) { return "key" + std::to_string(i); }

void ExpectSame(const Db& db, const engine::PeerReader& reader, const std::string& key) {
  std::string wanted;
  const Status status = db.Get(key, &wanted);
  Code code = Code::kOk;
  const std::string got = Get(reader, key, &code);
  ASSERT_EQ(code, status.code()) << key;
  ASSERT_TRUE(!status.ok() || got == wanted) << key;
}

TEST(PeerReader, GivesWhatTheOwnerGivesAfterEveryKindOfChange) {
  for (const WalMode log : {WalMode::kOn, WalMode::kOff}) {
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      const auto fs = io::NewSimFileSystem();  // for its speed
      const StorageOptions options = SmallOptions(log);
      Owner owner(*fs, "/db", options, 0);
      const auto reader = owner.Attach(options);
      owner.db->UnlinkRegion();
      base::Random random(seed);
      const auto random_key = [&random] { return "key" + std::to_string(random.Below(300)); };
      for (uint64_t n = 0; n < 4000; ++n) {
        const std::string key = random_key();
        const uint64_t kind = random.Below(100);
        Status status;
        if (kind < 80) {
          const size_t size = kind < 10 ? 500 + random.Below(6000) : random.Below(400);
          status = owner.db->Put(key, MakeValue(key, n, size));
        } else if (kind < 90) {
          status = owner.db->Delete(key);
        } else if (kind < 98) {
          engine::WriteBatch batch;
          for (int i = 0; i < 5; ++i) batch.Put(random_key(), "batch");
          status = owner.db->Write(batch);
        } else if (kind < 99) {
          status = owner.db->DeleteRange("key1", "key12");
        } else {
          status = owner.db->Flush();
        }
        ASSERT_TRUE(status.ok()) << status.ToString();
        if (random.OneIn(5)) owner.executor->RunOne();
        ExpectSame(*owner.db, *reader, key);
        ExpectSame(*owner.db, *reader, random_key());
        if (HasFatalFailure()) return;
      }
      EXPECT_GT(owner.db->Statistics().flush_count, 5u);
      EXPECT_GT(owner.db->Statistics().compaction_count, 0u);
    }
  }
}

TEST(PeerReader, AnOwnerThatClosedIsToBeAskedByMessage) {
  const auto fs = io::NewSimFileSystem();
  const StorageOptions options = SmallOptions(WalMode::kOn);
  Owner owner(*fs, "/db", options, 0);
  ASSERT_TRUE(owner.db->Put("key", "value").ok());
  const auto reader = owner.Attach(options);
  Code code = Code::kIo;
  EXPECT_EQ(Get(*reader, "key", &code), "value");
  owner.db.reset();
  Get(*reader, "key", &code);
  EXPECT_EQ(code, Code::kBusy);
}

// The owner dies right after it published new tables, and the next job takes over before a reader
// looks.
TEST(PeerReader, LeavesTheTablesOfTheNextJobAlone) {
  const auto fs = io::NewSimFileSystem();
  const StorageOptions options = SmallOptions(WalMode::kOn);
  Owner owner(*fs, "/db", options, 0);
  ASSERT_TRUE(owner.db->Put("key", "value").ok());
  const auto reader = owner.Attach(options);
  ASSERT_TRUE(owner.db->Flush().ok());
  Manifest next = *ReadManifest(*fs, "/db");
  next.epoch += 1;
  next.edition += 1;
  ASSERT_TRUE(PublishManifest(*fs, "/db", next, next.epoch - 1).ok());
  Code code = Code::kOk;
  Get(*reader, "key", &code);
  EXPECT_EQ(code, Code::kBusy);
}

// The owner is killed, the database opened again, and its log segments used again, while a reader
// of the first owner's memory still exists.
TEST(PeerReaderProcess, AfterTheNextJobTookOverTheFilesNothingWrongIsRead) {
  const test::TempDirectory directory;
  const StorageOptions options = SmallOptions(WalMode::kOn);
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Owner owner(io::PosixFileSystem(), directory / "db", options, 0);
    for (uint64_t i = 0; i < 100; ++i) {
      if (!owner.db->Put(KeyOf(i), MakeValue(KeyOf(i), i, 100)).ok()) ::_exit(1);
    }
    const Address address = AddressOf(*owner.db);
    if (::write(pipe_ends[1], &address, sizeof address) != sizeof address) ::_exit(1);
    while (true) ::pause();
  }
  Address address;
  ASSERT_EQ(::read(pipe_ends[0], &address, sizeof address), ssize_t{sizeof address});
  const auto reader = *OpenPeerReader(io::PosixFileSystem(),
                                      {directory / "db", address.region_name, address.region_bytes},
                                      {options, table::NewBlockCache(1 << 20)});
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  ::unlink((std::string("/dev/shm/") + address.region_name).c_str());
  Code code = Code::kOk;
  EXPECT_EQ(NumberOf(KeyOf(7), Get(*reader, KeyOf(7), &code)), 7) << "a dead owner's memory";
  Owner next(io::PosixFileSystem(), directory / "db", options, 0);
  for (uint64_t n = 100; n < 4000 && code != Code::kBusy; ++n) {
    const std::string key = KeyOf(n % 100);
    ASSERT_TRUE(next.db->Put(key, MakeValue(key, n, 200)).ok());
    for (uint64_t i = n; i < n + 3; ++i) {
      const std::string other = KeyOf(i % 100);
      const std::string value = Get(*reader, other, &code);
      ASSERT_TRUE(code == Code::kBusy || (code == Code::kOk && NumberOf(other, value) >= 0))
          << other << " code " << static_cast<int>(code);
    }
  }
  EXPECT_EQ(code, Code::kBusy) << "in the end its memory is used again";
  ::close(pipe_ends[0]);
  ::close(pipe_ends[1]);
}

// A MemTable is recycled while it is read: the reader finds an entry of the old use, or of the new
// one, or reports that it is neither; never a mixture, and never a crash.
TEST(PeerMemTable, MemoryThatIsReusedIsNoticed) {
  constexpr uint64_t kBytes = 64 << 10;
  std::vector<uint64_t> index(IndexBytes(kBytes) / 8 + 8);
  std::vector<uint64_t> segment(kBytes / 8);
  char* const index_at =
      reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(index.data()) + 63) / 64 * 64);
  char* const data = reinterpret_cast<char*>(segment.data());
  const auto begin_use = [&](uint64_t generation) {
    auto table = std::make_unique<MemTable>(index_at, data, kBytes, generation, 0, nullptr);
    log::SegmentHeader header;
    header.generation = generation;
    header.capacity = kBytes;
    log::EncodeSegmentHeader(header, data);
    return table;
  };
  auto table = begin_use(5);
  ASSERT_TRUE(table->Add({log::RecordType::kPut, "key", "old"}, nullptr));
  const PeerMemTable peer(index_at, data, kBytes, 5);
  const uint64_t hash = base::HashKey("key");
  EXPECT_EQ(peer.Find("key", hash)->value, "old");
  EXPECT_TRUE(peer.Unchanged());
  EXPECT_EQ(peer.Find("kez", base::HashKey("kez"))->state, table::KeyState::kAbsent);
  table = begin_use(6);
  EXPECT_FALSE(peer.Unchanged());
  // A new owner of the file, as after the first one's death: the index is not touched.
  table = begin_use(5);
  EXPECT_TRUE(peer.Unchanged());
  log::SegmentHeader header;
  header.generation = 7;
  header.capacity = kBytes;
  log::EncodeSegmentHeader(header, data);
  EXPECT_FALSE(peer.Unchanged());
}

// Chains that turn back on themselves, of versions that are not to be seen, end the search.
TEST(PeerMemTable, ChainsInACircleAreNoticed) {
  constexpr uint64_t kBytes = 64 << 10;
  std::vector<uint64_t> index(IndexBytes(kBytes) / 8 + 8);
  std::vector<uint64_t> segment(kBytes / 8);
  char* const index_at =
      reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(index.data()) + 63) / 64 * 64);
  char* const data = reinterpret_cast<char*>(segment.data());
  MemTable table(index_at, data, kBytes, 5, 0, nullptr);
  uint64_t key_lsn = 0;
  uint64_t range_lsn = 0;
  ASSERT_TRUE(table.AddBatch({{log::RecordType::kPut, "key", "v"}}, true, &key_lsn));
  ASSERT_TRUE(table.AddBatch({{log::RecordType::kRangeDelete, "x", "y"}}, true, &range_lsn));
  const PeerMemTable peer(index_at, data, kBytes, 5);
  EXPECT_EQ(peer.Find("key", base::HashKey("key"))->state, table::KeyState::kValue);
  EXPECT_EQ(peer.Find("xx", base::HashKey("xx"))->state, table::KeyState::kDeleted);
  for (const uint64_t lsn : {key_lsn, range_lsn}) {
    log::RecordHeader* const record = log::HeaderAt(data + lsn);
    log::HeaderAt(data + lsn - uint64_t{record->batch} * 8)->prev = 0;  // not whole any more
    record->prev = static_cast<uint32_t>(lsn / 8);
    EXPECT_FALSE(peer.Find("key", base::HashKey("key")).has_value());
    record->prev = 0;
    EXPECT_EQ(peer.Find("key", base::HashKey("key"))->state, table::KeyState::kAbsent);
  }
}

TEST(PeerMemTable, GarbageInIndexAndSegmentIsNeverFollowedOutside) {
  constexpr uint64_t kBytes = 64 << 10;
  const uint64_t index_bytes = IndexBytes(kBytes);
  std::vector<uint64_t> index(index_bytes / 8 + 8);
  std::vector<uint64_t> segment(kBytes / 8);  // exactly: sanitizers see what lies outside
  char* const index_at =
      reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(index.data()) + 63) / 64 * 64);
  char* const data = reinterpret_cast<char*>(segment.data());
  uint64_t changed = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    base::Random random(seed);
    MemTable table(index_at, data, kBytes, 5, 0, nullptr);
    std::vector<std::string> keys;
    for (uint64_t i = 0; i < 50; ++i) {
      keys.push_back("key" + std::to_string(i % 20));
      const auto type = random.OneIn(5) ? log::RecordType::kRangeDelete : log::RecordType::kPut;
      ASSERT_TRUE(table.AddBatch({{type, keys.back(), "zzz"}}, random.OneIn(2), nullptr));
    }
    for (uint64_t i = random.Below(400); i > 0; --i) {  // anywhere in the records
      segment[(log::kSegmentHeaderBytes + random.Below(table.data_bytes())) / 8] =
          random.OneIn(2) ? random.Next() : random.Below(9000);
    }
    for (uint64_t i = random.Below(2000); i > 0; --i) {
      auto* slots = reinterpret_cast<uint64_t*>(index_at + sizeof(IndexHeader));
      uint64_t& slot = slots[random.Below(table.slot_count())];
      slot = (slot & ~uint64_t{0xFFFFFFFF}) | (random.Next() & 0xFFFF'FFFF);
    }
    const PeerMemTable peer(index_at, data, kBytes, 5);
    for (const std::string& key : keys) {
      const std::optional<table::LookupResult> found = peer.Find(key, base::HashKey(key));
      changed += !found.has_value();
      if (!found.has_value() || found->value.empty()) continue;
      ASSERT_GE(found->value.data(), data + log::kSegmentHeaderBytes);
      ASSERT_LE(found->value.data() + found->value.size(), data + kBytes);
    }
  }
  EXPECT_GT(changed, 0u);
}

// --- a child process that reads while this one writes -----------------------------------------

constexpr uint64_t kKeys = 200;

// Reads until the key "end" is there. Exit code 0: every value was whole, and none went back.
int ReadUntilEnd(const std::string& directory, const Address& address,
                 const StorageOptions& options) {
  auto opened =
      OpenPeerReader(io::PosixFileSystem(), {directory, address.region_name, address.region_bytes},
                     {options, table::NewBlockCache(1 << 20)});
  if (!opened.ok()) {
    std::fprintf(stderr, "child: %s\n", opened.status().ToString().c_str());
    return 2;
  }
  std::atomic<int> result{0};
  std::atomic<uint64_t> hits{0};
  const auto read = [&](uint64_t seed) {
    base::Random random(seed);
    std::map<std::string, int64_t> seen;
    for (uint64_t i = 0; result == 0; ++i) {
      Code code = Code::kOk;
      if (i % 64 == 0) {
        Get(**opened, "end", &code);
        if (code == Code::kOk) return;
      }
      const std::string key = KeyOf(random.Below(kKeys));
      const std::string value = Get(**opened, key, &code);
      if (code == Code::kNotFound && seen.find(key) == seen.end()) continue;
      const int64_t number = code == Code::kOk ? NumberOf(key, value) : -2;
      if (number < 0 || number < seen[key]) {
        std::fprintf(stderr, "child: %s, code %d, number %lld after %lld\n", key.c_str(),
                     static_cast<int>(code), static_cast<long long>(number),
                     static_cast<long long>(seen[key]));
        result = 3;
      }
      seen[key] = number;
      ++hits;
    }
  };
  std::thread other(read, 2);
  read(1);
  other.join();
  if (result == 0 && hits == 0) return 4;
  return result;
}

void RunOwnerAndChild(WalMode log, uint64_t writes) {
  const test::TempDirectory directory;
  const StorageOptions options = SmallOptions(log);
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  const pid_t child = ::fork();  // before this process has threads
  ASSERT_GE(child, 0);
  if (child == 0) {
    Address address;
    if (::read(pipe_ends[0], &address, sizeof address) != sizeof address) ::_exit(1);
    ::_exit(ReadUntilEnd(directory / "db", address, options));
  }
  Owner owner(io::PosixFileSystem(), directory / "db", options, 1);
  const Address address = AddressOf(*owner.db);
  ASSERT_EQ(::write(pipe_ends[1], &address, sizeof address), ssize_t{sizeof address});
  base::Random random(7);
  for (uint64_t n = 1; n <= writes; ++n) {
    const std::string key = KeyOf(random.Below(kKeys));
    const size_t size = random.OneIn(8) ? 600 + random.Below(3000) : random.Below(300);
    const Status status = owner.db->Put(key, MakeValue(key, n, size));
    ASSERT_TRUE(status.ok()) << status.ToString();
    ASSERT_TRUE(n % (writes / 2) != 0 || owner.db->Compact().ok());
  }
  ASSERT_TRUE(owner.db->Put("end", "end").ok());
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_GT(owner.db->Statistics().flush_count, 10u);
  ::close(pipe_ends[0]);
  ::close(pipe_ends[1]);
}

TEST(PeerReaderProcess, ReadsWholeValuesThatNeverGoBackWhileTheOwnerWrites) {
  RunOwnerAndChild(WalMode::kOn,
                   static_cast<uint64_t>(std::max<int64_t>(10'000, test::ScaledCount(10'000))));
}

TEST(PeerReaderProcess, TheSameWithoutALog) {
  RunOwnerAndChild(WalMode::kOff,
                   static_cast<uint64_t>(std::max<int64_t>(10'000, test::ScaledCount(10'000))));
}

}  // namespace
}  // namespace quire::lsm::peer_reader_test
