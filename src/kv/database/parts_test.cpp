// The small parts: pair cache, descriptor, wire, memory budget, failure log, update registry.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <fstream>
#include <map>
#include <random>
#include <thread>

#include "base/hash/hash.h"
#include "io/files/machine.h"
#include "io/sim/sim_file_system.h"
#include "kv/database/context.h"
#include "kv/owner/pair_cache.h"
#include "kv/protocol/descriptor.h"
#include "kv/protocol/failure_log.h"
#include "kv/protocol/update_registry.h"
#include "kv/protocol/wire.h"
#include "tests/support/status_asserts.h"

namespace quire::kv::parts_test {
namespace {

using testing::HasSubstr;

std::string CacheGet(PairCache& cache, const std::string& key) {
  std::string value;
  const uint64_t hash = base::HashKey(key);
  const Status status = cache.Get(key, hash, cache.Look(hash), Into(&value));
  return status.ok() ? value : "(none)";
}

void CachePut(PairCache& cache, const std::string& key, const std::string& value) {
  const uint64_t hash = base::HashKey(key);
  cache.Insert(key, value, hash, cache.Look(hash));
}

TEST(PairCache, GivesBackWhatWasTakenIn) {
  PairCache cache(1 << 20);
  CachePut(cache, "k", "v");
  EXPECT_EQ(CacheGet(cache, "k"), "(none)") << "off at first";
  cache.SetOn(true);
  CachePut(cache, "k", "v");
  CachePut(cache, "k", "w");
  EXPECT_EQ(CacheGet(cache, "k"), "w");
  EXPECT_EQ(CacheGet(cache, "other"), "(none)");
  cache.SetOn(false);
  cache.SetOn(true);
  EXPECT_EQ(CacheGet(cache, "k"), "(none)");
  EXPECT_EQ(cache.charged_bytes(), 0u);
}

TEST(PairCache, GivesUpTheLeastRecentlyUsedPairsFirst) {
  PairCache cache(10'000);
  cache.SetOn(true);
  for (int i = 0; i < 40; ++i) CachePut(cache, "k" + std::to_string(i), std::string(50, 'v'));
  EXPECT_EQ(CacheGet(cache, "k0"), std::string(50, 'v')) << "and now it is the youngest";
  for (int i = 40; i < 80; ++i) CachePut(cache, "k" + std::to_string(i), std::string(50, 'v'));
  EXPECT_LE(cache.charged_bytes(), 10'000u);
  EXPECT_EQ(CacheGet(cache, "k0"), std::string(50, 'v'));
  EXPECT_EQ(CacheGet(cache, "k1"), "(none)");
  EXPECT_EQ(CacheGet(cache, "k79"), std::string(50, 'v'));
}

TEST(PairCache, RefusesAPairOfBeforeAWrite) {
  PairCache cache(1 << 20);
  cache.SetOn(true);
  const uint64_t hash = base::HashKey("k");
  const PairCache::Ticket before = cache.Look(hash);
  PairCache::Ticket during;
  {
    const PairCache::WriteGuard guard(cache, "k", hash);
    during = cache.Look(hash);
  }
  cache.Insert("k", "stale", hash, before);
  EXPECT_EQ(CacheGet(cache, "k"), "(none)");
  cache.Insert("k", "stale", hash, during);
  EXPECT_EQ(CacheGet(cache, "k"), "(none)");
  CachePut(cache, "k", "fresh");
  EXPECT_EQ(CacheGet(cache, "k"), "fresh");
  { const PairCache::WriteGuard guard(cache, "k", hash); }
  EXPECT_EQ(CacheGet(cache, "k"), "(none)") << "evicted by the write";
}

TEST(PairCache, NeverShowsAValueOlderThanTheLastWrite) {
  PairCache cache(1 << 20);
  cache.SetOn(true);
  const uint64_t hash = base::HashKey("k");
  std::atomic<int> stored{0};  // stands for the tables
  std::atomic<int> acknowledged{0};
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (int i = 1; i <= 20'000; ++i) {
      {
        const PairCache::WriteGuard guard(cache, "k", hash);
        stored.store(i);
      }
      acknowledged.store(i);
    }
    done.store(true);
  });
  while (!done.load()) {
    const int floor = acknowledged.load();
    const PairCache::Ticket ticket = cache.Look(hash);
    std::string value;
    const Status cached = cache.Get("k", hash, ticket, Into(&value));
    if (!cached.ok()) {
      value = std::to_string(stored.load());
      cache.Insert("k", value, hash, ticket);
    }
    ASSERT_GE(std::stoi(value), floor);
  }
  writer.join();
}

TEST(PairCache, NothingComesInDuringAnyNumberOfWrites) {
  PairCache cache(1 << 20);
  cache.SetOn(true);
  const uint64_t hash = base::HashKey("k");
  // Counts around 2^8 and 2^16, at which counters of these widths wrap.
  std::deque<PairCache::WriteGuard> writes;
  for (const size_t count : {1u, 256u, 65535u, 65536u, 65537u, 131072u}) {
    while (writes.size() < count) writes.emplace_back(cache, "k", hash);
    const PairCache::Ticket during = cache.Look(hash);
    EXPECT_FALSE(during.usable) << count << " writes are under way";
    cache.Insert("k", "old", hash, during);
  }
  writes.clear();
  EXPECT_EQ(CacheGet(cache, "k"), "(none)");
}

TEST(PairCache, AReaderThatLookedBeforeManyWritesInsertsNothingAfterThem) {
  PairCache cache(1 << 20);
  cache.SetOn(true);
  const uint64_t hash = base::HashKey("k");
  const PairCache::Ticket before = cache.Look(hash);
  for (int i = 0; i < 2 * 65536; ++i) {
    const PairCache::WriteGuard write(cache, "k", hash);
  }
  cache.Insert("k", "old", hash, before);
  EXPECT_EQ(CacheGet(cache, "k"), "(none)");
}

TEST(PairCache, WithoutBytesTakesNothing) {
  PairCache cache(0);
  cache.SetOn(true);
  CachePut(cache, "k", "v");
  EXPECT_EQ(CacheGet(cache, "k"), "(none)");
  const PairCache::WriteGuard guard(cache, "k", 7);
}

DatabaseDescriptor SomeDescriptor() {
  DatabaseDescriptor descriptor;
  descriptor.id = 12;
  descriptor.generations = {{2, 4, "hash", ""}, {1, 16, "by name", "/pfs/db/3"}};
  descriptor.options = ShapingOptions({});
  return descriptor;
}

TEST(DatabaseDescriptor, ComesBackAsItWasWritten) {
  const auto fs = io::NewSimFileSystem();
  ASSERT_TRUE(fs->MakeDirectory("/d").ok());
  EXPECT_EQ(ReadDescriptor(*fs, "/d").status().code(), Code::kNotFound);
  for (const DescriptorState state :
       {DescriptorState::kCreating, DescriptorState::kReady, DescriptorState::kDestroying}) {
    DatabaseDescriptor written = SomeDescriptor();
    written.state = state;
    ASSERT_TRUE(WriteDescriptor(*fs, "/d", written).ok());
    const Result<DatabaseDescriptor> read = ReadDescriptor(*fs, "/d");
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    EXPECT_EQ(read->state, state);
    EXPECT_EQ(read->id, written.id);
    ASSERT_EQ(read->generations.size(), 2u);
    EXPECT_EQ(read->generations[0].rank_count, 4);
    EXPECT_EQ(read->generations[0].partitioner, "hash");
    EXPECT_EQ(PartDirectory("/d", read->generations[0], 3), "/d/gen-2/rank-3");
    EXPECT_EQ(PartDirectory("/d", read->generations[1], 15), "/pfs/db/3/rank-15");
    EXPECT_EQ(read->options, written.options);
  }
}

TEST(DatabaseDescriptor, EveryFlippedByteAndEveryWrongLengthIsReportedAsDamage) {
  const std::string text = EncodeDescriptor(SomeDescriptor());
  for (size_t at = 0; at < text.size(); ++at) {
    std::string flipped = text;
    flipped[at] = static_cast<char>(flipped[at] ^ 4);
    const Code code = DecodeDescriptor(flipped, "x").status().code();
    EXPECT_TRUE(code == Code::kCorruption || code == Code::kUnsupported) << at;
    EXPECT_EQ(DecodeDescriptor(text.substr(0, at), "x").status().code(), Code::kCorruption) << at;
  }
  EXPECT_FALSE(DecodeDescriptor(text + "x = y\n", "x").ok());
}

TEST(DatabaseDescriptor, TheDocumentedExampleIsValid) {
  std::ifstream file(QUIRE_SOURCE_DIR "/docs/format/database.md");
  const std::string page((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const size_t begin = page.find("```\n") + 4;
  const std::string example = page.substr(begin, page.find("```", begin) - begin);
  DatabaseDescriptor descriptor;
  descriptor.id = 0x6f3c81d2a4b95e07;
  descriptor.generations = {{2, 4, "hash", ""}, {1, 16, "hash", ""}};
  descriptor.options = {"memtable_bytes=67108864", "wal=on"};
  EXPECT_EQ(EncodeDescriptor(descriptor), example);
  EXPECT_TRUE(DecodeDescriptor(example, "x").ok());
}

TEST(DatabaseDescriptor, ANewerVersionIsUnsupported) {
  const Result<DatabaseDescriptor> read = DecodeDescriptor("quire database 2\n", "/r/db/DATABASE");
  EXPECT_EQ(read.status().code(), Code::kUnsupported);
  EXPECT_THAT(read.status().message(), HasSubstr("/r/db/DATABASE"));
}

TEST(Wire, DamageComesBackAsItWas) {
  EXPECT_EQ(EncodeApplyFailures({}), "");
  const Result<ApplyFailures> none = DecodeApplyFailures("");
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->lost_count, 0u);
  const Result<ApplyFailures> some =
      DecodeApplyFailures(EncodeApplyFailures({17, Status(Code::kNoSpace, "full")}));
  ASSERT_TRUE(some.ok());
  EXPECT_EQ(some->lost_count, 17u);
  EXPECT_EQ(some->first.code(), Code::kNoSpace);
  EXPECT_EQ(some->first.message(), "full");
}

TEST(Wire, TheDocumentedExamplesHold) {
  EXPECT_EQ(EncodeApplyFailures({1, Status(Code::kNoSpace, "full")}), "\1\4\4full");
  EXPECT_EQ(*DecodeGetAnswer("\1v"), "v");
}

TEST(Wire, ListsOfKeysAndResultsComeBack) {
  std::string request;
  AddKey(&request, "a");
  AddKey(&request, std::string(70'000, 'b'));
  const Result<std::vector<Slice>> keys = DecodeKeys(request);
  ASSERT_TRUE(keys.ok());
  ASSERT_EQ(keys->size(), 2u);
  EXPECT_EQ((*keys)[0], "a");
  std::string answer;
  AddResult(&answer, Status(), "value");
  AddResult(&answer, Status(Code::kNotFound), "");
  AddResult(&answer, Status(Code::kCorruption, "block 7"), "");
  const Result<std::vector<GetResult>> results = DecodeResults(answer);
  ASSERT_TRUE(results.ok());
  ASSERT_EQ(results->size(), 3u);
  EXPECT_TRUE((*results)[0].status.ok());
  EXPECT_EQ((*results)[0].value, "value");
  EXPECT_EQ((*results)[1].status.code(), Code::kNotFound);
  EXPECT_EQ((*results)[2].status.code(), Code::kCorruption);
  EXPECT_EQ((*results)[2].status.message(), "block 7");
}

TEST(Wire, NamedTablesComeBackAndNothingElseIsTakenForThem) {
  const NamedTables named = {0x1122334455667788, 42};
  const std::string answer = EncodeTablesAnswer(named);
  NamedTables read;
  ASSERT_TRUE(DecodeTablesAnswer(answer, &read));
  EXPECT_EQ(read, named);
  for (size_t size = 0; size < answer.size(); ++size) {
    EXPECT_FALSE(DecodeTablesAnswer(answer.substr(0, size), &read)) << size;
  }
  EXPECT_FALSE(DecodeTablesAnswer(answer + '\0', &read));
  for (int bit = 0; bit < 8; ++bit) {
    std::string flipped = answer;
    flipped[0] = static_cast<char>(flipped[0] ^ (1 << bit));
    EXPECT_FALSE(DecodeTablesAnswer(flipped, &read)) << bit;
  }
  std::string list;
  AddResult(&list, Status(), "value");
  AddTables(&list, named);
  const Result<std::vector<GetResult>> results = DecodeResults(list);
  ASSERT_TRUE(results.ok());
  ASSERT_EQ(results->size(), 2u);
  EXPECT_FALSE((*results)[0].tables);
  EXPECT_EQ((*results)[1].tables, named);
  EXPECT_CODE(DecodeResults(list.substr(0, list.size() - 1)).status(), Code::kCorruption);
}

TEST(Wire, ArbitraryBytesAreRefusedOrReadWithoutHarm) {
  std::mt19937 random(5);
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes(random() % 40, '\0');
    for (char& c : bytes) c = static_cast<char>(random() % 8);
    (void)DecodeApplyFailures(bytes);
    (void)DecodeGetAnswer(bytes);
    const auto keys = DecodeKeys(bytes);
    if (keys.ok()) {
      for (const Slice key : *keys) ASSERT_LE(key.size(), bytes.size());
    }
    const auto results = DecodeResults(bytes);
    if (results.ok()) {
      for (const GetResult& result : *results) ASSERT_LE(result.value.size(), bytes.size());
    }
  }
  EXPECT_EQ(DecodeGetAnswer("").status().code(), Code::kCorruption);
  EXPECT_EQ(DecodeGetAnswer(Slice("\0", 1)).status().code(), Code::kNotFound);
  EXPECT_EQ(*DecodeGetAnswer("\1v"), "v");
}

TEST(FailureLog, ReportsCountsAndTheFirstFailureOnce) {
  FailureLog failures;
  EXPECT_OK(failures.Take().ToStatus());
  failures.AddLost(2, 0, Status(Code::kIo, "nothing"));
  EXPECT_TRUE(failures.empty());
  failures.AddLost(2, 3, Status(Code::kNoSpace, "disk full"));
  failures.AddUnknown(1, 5, Status(Code::kPeerFailed, "died"));
  const Status status = failures.Take().ToStatus();
  EXPECT_EQ(status.code(), Code::kNoSpace);
  EXPECT_THAT(status.message(), HasSubstr("3 operations lost"));
  EXPECT_THAT(status.message(), HasSubstr("5 operations with unknown outcome"));
  EXPECT_THAT(status.message(), HasSubstr("rank 2"));
  EXPECT_OK(failures.Take().ToStatus());
}

// The log also counts failures that came meanwhile. The earlier one stays the first.
TEST(FailureLog, ReportsAgainTheFailuresThatWerePutBack) {
  FailureLog failures;
  failures.PutBack({});
  EXPECT_TRUE(failures.empty());
  failures.AddLost(2, 3, Status(Code::kNoSpace, "disk full"));
  WriteFailures untold = failures.Take();
  failures.AddLost(1, 4, Status(Code::kIo, "broken"));
  failures.PutBack(std::move(untold));
  const Status status = failures.Take().ToStatus();
  EXPECT_EQ(status.code(), Code::kNoSpace);
  EXPECT_THAT(status.message(), HasSubstr("7 operations lost; first, at rank 2"));
  EXPECT_TRUE(failures.empty());
}

TEST(UpdateRegistry, FindsTheNewestFunction) {
  UpdateRegistry registry;
  EXPECT_EQ(registry.Find(1), nullptr);
  EXPECT_EQ(registry.Register(1, {}).code(), Code::kInvalidArgument);
  const auto answer = [](const char* text) {
    return [text](Slice, const Slice*, Slice, std::string* updated, std::string*) {
      *updated = text;
      return Status();
    };
  };
  ASSERT_TRUE(registry.Register(1, answer("one")).ok());
  const AnsweringUpdateFunction* const first = registry.Find(1);
  ASSERT_TRUE(registry.Register(2, answer("two")).ok());
  ASSERT_TRUE(registry.Register(1, answer("another")).ok());
  std::string text;
  ASSERT_TRUE((*registry.Find(1))("k", nullptr, "", &text, nullptr).ok());
  EXPECT_EQ(text, "another");
  ASSERT_TRUE((*first)("k", nullptr, "", &text, nullptr).ok());
  EXPECT_EQ(text, "one") << "still callable";
  EXPECT_EQ(registry.Find(3), nullptr);
}

TEST(Repository, ReadsALeadingVariable) {
  ::setenv("QUIRE_TEST_SCRATCH", "/scratch/me", 1);
  EXPECT_EQ(*runtime::ExpandRepository("$QUIRE_TEST_SCRATCH/run1//"), "/scratch/me/run1");
  EXPECT_EQ(*runtime::ExpandRepository("$QUIRE_TEST_SCRATCH"), "/scratch/me");
  EXPECT_EQ(*runtime::ExpandRepository("plain"), *io::AbsolutePath("plain"));
  ::unsetenv("QUIRE_TEST_SCRATCH");
  const Status status = runtime::ExpandRepository("$QUIRE_TEST_SCRATCH/x").status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("QUIRE_TEST_SCRATCH"));
  EXPECT_FALSE(runtime::ExpandRepository("").ok());
}

}  // namespace
}  // namespace quire::kv::parts_test
