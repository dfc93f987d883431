// Memory runs out when an answer of another rank arrives, or when it is requested: the content of
// the answer counts, and no rank waits for ever for an answer that never comes.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/core/out_of_memory.h"
#include "base/threads/sync_point.h"
#include "comm/exchange/exchange.h"
#include "comm/shm/shm_region.h"
#include "comm/shm/shm_transport.h"
#include "comm/sim/sim_network.h"
#include "comm/transport/transport.h"
#include "dataset/route/shuffle_batcher.h"
#include "dataset/route/shuffle_sender.h"
#include "failing_allocations.h"
#include "io/sim/sim_file_system.h"
#include "kv/database/persistence_testing.h"
#include "kv/database/sim_cluster_testing.h"
#include "kv/migration/remote_memtable.h"
#include "kv/protocol/update_registry.h"
#include "kv/protocol/wire.h"
#include "log/record.h"
#include "tests/support/status_asserts.h"

namespace quire::kv {
namespace {

constexpr int kKeys = 600;  // several messages of them

std::string KeyOf(int i) {
  return "a key that is no short string " + std::to_string(i);
}

// Separated from its key: the owner makes a file for it.
std::string ValueFor(int i) {
  return std::string(2000, 'v') + std::to_string(i);
}

// The first allocation after a place fails, each time a thread comes there.
class Starve final : public base::SyncPointListener {
 public:
  explicit Starve(std::string_view place) : place_(place) {}
  ~Starve() override { test::AllocationFailed(); }
  void Reach(const char* name) override {
    if (place_ != name) return;
    ++count_;
    test::FailAllocation(0);
  }
  int count() const { return count_; }

 private:
  const std::string_view place_;
  int count_ = 0;
  base::ScopedSyncPoints installed_{this};
};

// Pairs move from the one rank that wrote them to two; the second has no room for the first of its
// own.
class StarvedMove : public testing::Test {
 protected:
  SimCluster::Options Ranks(int size) {
    SimCluster::Options ranks;
    ranks.rank_count = size;
    ranks.seed = ++seed_;
    ranks.file_system = [this](int rank) -> io::FileSystem* {
      return rank == 1 ? faults_.get() : static_cast<io::FileSystem*>(disk_.get());
    };
    return ranks;
  }
  void Fill() {
    SimCluster(Ranks(1)).RunDatabase(SimCluster::SmallDatabase(),
                                     [](int, Context&, Database& db) {
                                       for (int i = 0; i < kKeys; ++i) {
                                         ASSERT_OK(db.Put(KeyOf(i), ValueFor(i)));
                                       }
                                       ASSERT_OK(db.Close());
                                     });
  }

  uint64_t seed_ = 0;
  std::unique_ptr<io::SimFileSystem> disk_ = io::NewSimFileSystem();
  std::unique_ptr<io::FaultFileSystem> faults_ = io::NewFaultFileSystem(*disk_);
};

TEST_F(StarvedMove, ForgetsNoPairThatItsOwnerRefused) {
  Fill();
  bool refused = false;
  faults_->BeforeCalls(io::kFaultAllocate, [&](const std::string& path) {
    if (refused || path.find("/val-") == std::string::npos) return;
    refused = true;
    faults_->FailAt(io::kFaultAllocate, 1, 1, Code::kNoSpace);
  });
  {
    Starve starve("kv.fill.refused");
    SimCluster(Ranks(2)).Run([](int, Context& context) {
      const auto db = context.Open("db", Existing(true));
      EXPECT_FALSE(db.ok()) << "all have moved, though one was refused";
    });
    EXPECT_GT(starve.count(), 0);
  }
  faults_->BeforeCalls(0, {});
  faults_->FailAt(0, 1, 0, Code::kOk);
  SimCluster(Ranks(2)).Run([](int, Context& context) {
    auto db = context.Open("db", Existing(true));
    ASSERT_OK(db.status());
    int lost = 0;
    for (int i = 0; i < kKeys; ++i) {
      lost += SimCluster::ValueOf(**db, KeyOf(i)) == ValueFor(i) ? 0 : 1;
    }
    EXPECT_EQ(lost, 0);
    ASSERT_OK(context.Barrier());
    ASSERT_OK((*db)->Close());
  });
}

// A write that one fence could not send is sent by the next one, or reported as lost.
TEST(StarvedFence, LeavesNoWriteBehindForWhichTheNextWaits) {
  bool failed = true;
  int64_t n = 0;
  for (; failed; ++n) {
    SimCluster::Options ranks;
    ranks.seed = 1;
    SimCluster(ranks).RunDatabase(
        SimCluster::SmallDatabase(), [&](int rank, Context& context, Database& db) {
          ASSERT_OK(db.SetConsistency(Consistency::kRelaxed));
          std::vector<std::string> keys;
          for (int i = 0; i < 5; ++i) {
            keys.push_back(SimCluster::KeyOwnedBy(db, 1, KeyOf(i) + " "));
            if (rank == 0) ASSERT_OK(db.Put(keys.back(), "v"));
          }
          ASSERT_OK(context.Barrier());
          bool told = false;
          if (rank == 0) {
            test::FailAllocation(n);
            const Status starved = base::OrOutOfMemory([&] { return db.Fence(); });
            failed = test::AllocationFailed();
            const Status again = db.Fence();
            told = !starved.ok() || !again.ok();
            if (!told || again.ok()) {
              for (const std::string& key : keys) {
                const std::string value = SimCluster::ValueOf(db, key);
                EXPECT_TRUE(value == "v" || told) << key << " has " << value;
              }
            }
          }
          // The one that fails may be of the rank that waits here.
          Status met = base::OrOutOfMemory([&] { return context.Barrier(); });
          if (!met.ok()) met = context.Barrier();
          ASSERT_OK(met);
          ASSERT_OK(db.Close());
        });
    ASSERT_FALSE(testing::Test::HasFailure()) << "repeat it with allocation " << n;
  }
  EXPECT_GT(n, 5) << "so few allocations";
}

constexpr int kPuts = 40;              // several batches
constexpr int kFreeSignals = 64;       // different ones that an exchange keeps without memory
constexpr int kFenceAllocations = 40;  // about as many as a fence takes

// The result of a fence whose n-th allocation failed, and the number of pairs that the owner
// stored.
struct Fenced {
  Status told;
  int stored = 0;
};

// Rank 1 keeps rank 0 busy with signals, each of which takes memory there.
Fenced FenceBesideSignals(uint64_t seed, int64_t n) {
  Fenced fenced;
  SimCluster::Options ranks;
  ranks.seed = seed;
  ranks.context.timeout_ms = 1000;
  SimCluster(ranks).RunDatabase(
      SimCluster::SmallDatabase(), [&](int rank, Context& context, Database& db) {
        std::vector<std::string> keys;
        for (int i = 0; i < kPuts; ++i) {
          keys.push_back(SimCluster::KeyOwnedBy(db, 1, KeyOf(i) + " "));
        }
        for (int i = 0; i < kFreeSignals && rank == 1; ++i) ASSERT_OK(context.Notify(i, {0}));
        ASSERT_OK(context.Barrier());
        if (rank == 0) {
          for (const std::string& key : keys) ASSERT_OK(db.Put(key, std::string(100, 'v')));
          test::FailAllocationHere(n);
          const Status starved = base::OrOutOfMemory([&] { return db.Fence(); });
          test::AllocationFailed();
          fenced.told = starved.message().empty() ? db.Fence() : starved;
          return;
        }
        const std::string far = SimCluster::KeyOwnedBy(db, 0, "far");
        Status looked(Code::kNotFound);
        for (int i = 0; i < kPuts && looked.code() == Code::kNotFound; ++i) {
          static_cast<void>(context.Notify(kFreeSignals + i, {0}));
          std::string value;
          looked = db.Get(far, &value);  // serves rank 0 meanwhile
        }
        for (const std::string& key : keys) {
          fenced.stored += SimCluster::ValueOf(db, key).size() == 100 ? 1 : 0;
        }
      });
  return fenced;
}

// A rank that loses a message of another gives it up, and with it the answers to what it sent.
TEST(StarvedFence, CountsNothingAsLostThatItsOwnerStored) {
  int unknown = 0;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    for (int64_t n = 0; n < kFenceAllocations; ++n) {
      const Fenced fenced = FenceBesideSignals(seed, n);
      const std::string text(fenced.told.message());
      int lost = 0;
      if (text.find(" lost") != std::string::npos) std::sscanf(text.c_str(), "%d", &lost);
      EXPECT_LE(fenced.stored + lost, kPuts)
          << text << "; stored " << fenced.stored << "; seed " << seed << ", allocation " << n;
      unknown += text.find("unknown outcome") != std::string::npos ? 1 : 0;
    }
  }
  EXPECT_GT(unknown, 0) << "no answer was lost";
}

// The value came, and there was no memory for it: the get is decided, and not by an empty value.
TEST(StarvedGet, AGetUnderWayReturnsNoValueWithoutMemoryForIt) {
  SimCluster::Options ranks;
  ranks.rank_count = 2;
  ranks.share_memory = false;
  SimCluster(ranks).RunDatabase(SimCluster::SmallDatabase(),
                                [](int rank, Context& context, Database& db) {
                                  const std::string key = SimCluster::KeyOwnedBy(db, 0);
                                  if (rank == 0) ASSERT_OK(db.Put(key, ValueFor(1)));
                                  ASSERT_OK(db.Barrier(Level::kMemTable));
                                  if (rank == 1) {
                                    const std::unique_ptr<PendingGet> get = db.GetAsync(key);
                                    {
                                      const Starve starve("kv.get.answered");
                                      const Status ready = base::OrOutOfMemory([&] {
                                        while (!get->Ready()) std::this_thread::yield();
                                        return Status();
                                      });
                                      EXPECT_EQ(starve.count(), 1);
                                      EXPECT_CODE(ready, Code::kOutOfMemory);
                                    }
                                    EXPECT_CODE(get->Take().status(), Code::kOutOfMemory);
                                    EXPECT_EQ(*db.GetAsync(key)->Take(), ValueFor(1));
                                  }
                                  ASSERT_OK(context.Barrier());
                                  ASSERT_OK(db.Close());
                                });
}

TEST(StarvedWire, CarriesTheCountAndTheCodeWithoutMemoryForTheText) {
  const ApplyFailures failures{UINT64_MAX, Status(Code::kNoSpace, std::string(100, 't'))};
  test::FailAllocationHere(0);
  const std::string bare = EncodeApplyFailures(failures);
  EXPECT_TRUE(test::AllocationFailed());
  const std::string whole = EncodeApplyFailures(failures);
  test::FailAllocationHere(0);
  const Result<ApplyFailures> cut = DecodeApplyFailures(whole);
  EXPECT_TRUE(test::AllocationFailed());
  for (const Result<ApplyFailures>& told : {DecodeApplyFailures(bare), cut}) {
    ASSERT_OK(told.status());
    EXPECT_EQ(told->lost_count, failures.lost_count);
    EXPECT_EQ(told->first.code(), Code::kNoSpace);
    EXPECT_EQ(told->first.message(), "");
  }
}

constexpr uint32_t kCount = 1;

// Stores one more letter, and answers with so many that they travel in several frames.
Status CountAndAnswer(Slice /*key*/, const Slice* present, Slice /*argument*/,
                      std::string* updated, std::string* answer) {
  *updated = std::string(present == nullptr ? Slice() : *present) + "x";
  answer->assign(300'000, 'a');
  return Status();
}

// The result of an update in which the n-th allocation of any rank failed.
struct Updated {
  Status told;
  std::string stored;
  bool failed = false;
};

Updated UpdateWithout(int64_t n) {
  Updated updated;
  SimCluster::Options ranks;
  ranks.context.timeout_ms = 1000;
  SimCluster(ranks).RunDatabase(
      SimCluster::SmallDatabase(), [&](int rank, Context& context, Database& db) {
        ASSERT_OK(db.RegisterAnsweringUpdate(kCount, CountAndAnswer));
        ASSERT_OK(db.Barrier(Level::kMemTable));
        const std::string key = SimCluster::KeyOwnedBy(db, 1, KeyOf(0));
        // The one that fails may be of the rank that waits, and then may be given up by the other.
        const auto meet = [&] {
          static_cast<void>(base::OrOutOfMemory([&] { return context.Barrier(); }));
        };
        ASSERT_OK(context.Barrier());
        if (rank == 0) {
          std::string answer;
          test::FailAllocation(n);
          updated.told =
              base::OrOutOfMemory([&] { return db.UpdateAndAnswer(key, kCount, "", &answer); });
          updated.failed = test::AllocationFailed();
          EXPECT_TRUE(!updated.told.ok() || answer == std::string(300'000, 'a'));
        }
        meet();
        if (rank == 1) updated.stored = SimCluster::ValueOf(db, key);
        meet();
      });
  return updated;
}

TEST(StarvedUpdate, SaysThatNothingWasStoredOnlyIfNothingWas) {
  int unknown = 0;
  bool failed = true;
  for (int64_t n = 0; failed; ++n) {
    const Updated updated = UpdateWithout(n);
    failed = updated.failed;
    const std::string text = updated.told.ToString() + "; stored: " + updated.stored;
    EXPECT_TRUE(!updated.told.ok() || updated.stored == "x") << text;
    EXPECT_TRUE(updated.told.code() != Code::kOutOfMemory || updated.stored != "x") << text;
    if (updated.told.code() == Code::kTimedOut && updated.stored == "x") ++unknown;
    ASSERT_FALSE(testing::Test::HasFailure()) << "repeat it with allocation " << n;
  }
  EXPECT_GT(unknown, 0) << "no answer was lost";
}

// Takes what is staged for rank 1 off, as if it had been sent and acknowledged.
class Acknowledging final : public RemoteMemTable::Sender {
 public:
  void Ready(int /*owner*/) override {}
  void Opened() override {}
  void MakeRoom() override { TakeAll(); }
  void TakeAll() {
    memtable.Seal(1);
    while (const StagedBatchPtr batch = memtable.TakeSendable(1)) {
      EXPECT_TRUE(memtable.Finish(1, batch));
    }
  }
  RemoteMemTable memtable{{2, 512, 8 << 10, 8}, this};
};

TEST(StarvedStaging, GivesBackTheRoomOfWhatItCouldNotAdd) {
  int failures = 0;
  for (int64_t n = 0; n < 4; ++n) {
    Acknowledging sender;
    for (int i = 0; i < 20; ++i) {
      const std::string key = KeyOf(i);
      const std::string value(i % 2 == 0 ? 100 : 1000, 'v');  // in a batch, and by itself
      const auto add = [&] { return sender.memtable.Add(1, log::RecordType::kPut, key, value); };
      test::FailAllocation(n);
      failures += base::OrOutOfMemory(add).ok() ? 0 : 1;
      test::AllocationFailed();
      sender.TakeAll();
      ASSERT_EQ(sender.memtable.LargestOwner(), -1) << "room stays taken, allocation " << n;
    }
  }
  EXPECT_GT(failures, 20);
}

// A batch that its destination has no room for comes back, or its sender fails.
TEST(StarvedSender, KeepsABatchThatWasRefused) {
  constexpr uint32_t kChannel = 77;
  const std::string bytes = "a batch that is no short string, and has no room";
  bool delivered = false;
  Status sent;
  comm::SimNetwork::Options options;
  options.rank_count = 2;
  const auto network = comm::SimNetwork::Create(options);
  Starve starve("partition.batch.refused");
  network->Run([&](int rank, std::unique_ptr<comm::Transport> transport) {
    const auto exchange = comm::Exchange::Create(std::move(transport), {});
    bool refused = false;
    if (rank == 1) {
      exchange->Serve(kChannel, [&](int, Slice batch, std::string*) {
        if (!std::exchange(refused, true)) return Status(Code::kBusy);
        delivered = batch == bytes;
        return Status();
      });
    } else {
      dataset::ShuffleSender::Options sender_options;
      sender_options.exchange = exchange.get();
      sender_options.channel = kChannel;
      sender_options.timeout_ms = 10'000;
      sender_options.work = [] { return false; };
      const auto sender = std::make_shared<dataset::ShuffleSender>(std::move(sender_options));
      std::vector<dataset::ShuffleBatch> batches(1);
      batches[0].destination = 1;
      batches[0].bytes = bytes;
      sender->Queue(std::move(batches));
      sent = base::OrOutOfMemory([&] { return sender->Wait(true); });
      sender->Stop();
    }
    ASSERT_OK(exchange->Barrier());
  });
  EXPECT_EQ(starve.count(), 1);
  EXPECT_EQ(sent.ok(), delivered) << sent.ToString();
}

// Takes no memory.
struct News final : public comm::FrameSink {
  void OnFrame(int /*source*/, Slice /*frame*/) override {}
  void OnPeerFailed(int source, const Status& why) override {
    rank = source;
    code = why.code();
  }
  void OnRoom(int /*destination*/) override {}

  int rank = -1;
  Code code = Code::kOk;
};

// Polls until the transport says that rank 1 left, while each allocation fails.
News PollStarved(comm::Transport& transport) {
  constexpr int kPollsMax = 100'000;
  News news;
  test::FailAllAllocations();
  const Status polled = base::OrOutOfMemory([&] {
    for (int i = 0; i < kPollsMax && news.rank < 0; ++i) {
      static_cast<void>(transport.Alive(1));  // over shared memory the question makes it known
      transport.Poll(news, 16);
    }
    return Status();
  });
  test::AllowAllocations();
  EXPECT_OK(polled);
  return news;
}

// Else its receiver would have to take all ranks for lost, also those whose frames are under way.
TEST(StarvedPoll, SaysInASimulatedNetworkThatARankLeft) {
  comm::SimNetwork::Options options;
  options.rank_count = 2;
  const auto network = comm::SimNetwork::Create(options);
  News news;
  network->Run([&](int rank, const std::unique_ptr<comm::Transport>& transport) {
    if (rank == 0) news = PollStarved(*transport);
  });
  EXPECT_EQ(news.rank, 1);
  EXPECT_EQ(news.code, Code::kPeerFailed);
}

TEST(StarvedPoll, SaysInSharedMemoryThatARankLeft) {
  constexpr uint64_t kRingBytes = 1 << 20;
  auto region = comm::ShmRegion::CreatePrivate(2, kRingBytes, 1);
  ASSERT_OK(region.status());
  std::vector<std::unique_ptr<comm::Transport>> transports;
  for (int rank = 0; rank < 2; ++rank) {
    comm::ShmPlace place;
    place.rank = rank;
    place.size = 2;
    place.members = {0, 1};
    transports.push_back(comm::NewShmTransport((*region)->Share(), place));
  }
  transports[1].reset();
  const News news = PollStarved(*transports[0]);
  EXPECT_EQ(news.rank, 1);
  EXPECT_EQ(news.code, Code::kPeerFailed);
}

// Each n-th allocation fails while functions are registered: each one that was is kept.
TEST(StarvedRegistry, HasTheFunctionsThatWereRegistered) {
  constexpr uint32_t kFunctions = 5;
  const AnsweringUpdateFunction adds = [](Slice, const Slice*, Slice argument, std::string* updated,
                                          std::string*) {
    updated->append(argument);
    return Status();
  };
  bool failed = true;
  for (int n = 0; failed; ++n) {
    SCOPED_TRACE(n);
    UpdateRegistry registry;
    std::array<bool, kFunctions> registered = {};
    test::FailAllocation(n);
    for (uint32_t id = 0; id < kFunctions; ++id) {
      registered[id] = base::OrOutOfMemory([&] { return registry.Register(id, adds); }).ok();
    }
    failed = test::AllocationFailed();
    for (uint32_t id = 0; id < kFunctions; ++id) {
      const AnsweringUpdateFunction* const function = registry.Find(id);
      ASSERT_EQ(function != nullptr, registered[id]) << id;
      std::string updated;
      if (function != nullptr) ASSERT_OK((*function)("key", nullptr, "text", &updated, nullptr));
      EXPECT_EQ(updated, registered[id] ? "text" : "");
    }
  }
}

}  // namespace
}  // namespace quire::kv
