// Machines crash while a stream is written: at every step of many histories, by death of the
// process and by loss of power.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/core/random.h"
#include "stream/log/log_format.h"
#include "stream/store/local_reader.h"
#include "stream/store/stream_testing.h"
#include "tests/support/status_asserts.h"
#include "tests/support/test_scale.h"

namespace quire::stream::stream_crash_test {
namespace {

constexpr uint64_t kOperations = 30;
constexpr int64_t kHistories = 40;
constexpr uint32_t kKept = 2;
const std::map<std::string, uint64_t> kObjects = {{"a", 300}, {"b", 5000}, {"c", 24'001}};

// The outcomes that a program had received before the machine crashed.
struct Told {
  std::map<std::string, uint64_t> newest;  // version of each object
  std::map<std::string, uint64_t> synced;
};

StreamOptions OptionsOf(uint64_t seed) {
  StreamOptions options = SmallLog(192 << 10);
  options.keep_versions = kKept;
  options.full_every = 4;
  options.deltas = seed % 3 == 0 ? StreamDeltas::kOff : StreamDeltas::kHash;
  options.compression = seed % 4 == 1 ? Compression::kLz4 : Compression::kNone;
  options.audit_every = seed % 5 == 2 ? 3 : 0;
  return options;
}

// A program that puts, takes snapshots, syncs and ends, at random, until the machine crashes.
class Program {
 public:
  Program(StreamMachine& machine, uint64_t seed)
      : machine_(machine), random_(seed), options_(OptionsOf(seed)) {}

  void Run(Told* told) {
    for (uint64_t i = 0; i < kOperations; ++i) {
      if (writer_ == nullptr && !Open()) return;
      const uint64_t what = random_.Below(20);
      if (what < 12) {
        Put(told);
      } else if (what < 16) {
        Snapshot(told);
      } else if (what < 19) {
        Sync(told);
      } else {
        End(told);
      }
      if (machine_.fs().crashed()) break;
    }
    writer_.reset();
  }

 private:
  bool Open() {
    Result<std::unique_ptr<StreamWriter>> opened = machine_.Write(options_);
    if (!opened.ok()) {
      EXPECT_TRUE(machine_.fs().crashed()) << opened.status().ToString();
      return false;
    }
    writer_ = *std::move(opened);
    for (const auto& [key, size] : kObjects) {
      const Result<char*> made = writer_->Create(key, size);
      EXPECT_OK(made.status());
      memory_[key] = *made;
    }
    return true;
  }

  bool Ran(const Status& status) {
    if (machine_.fs().crashed()) return false;
    EXPECT_OK(status);
    return status.ok();
  }

  void Put(Told* told) {
    auto object = kObjects.begin();
    std::advance(object, static_cast<int64_t>(random_.Below(kObjects.size())));
    const auto& [key, size] = *object;
    const uint64_t version = told->newest[key] + 1;
    Compute(memory_[key], key, version, size);
    const Result<uint64_t> put = writer_->Put(key);
    if (!Ran(put.status())) return;
    EXPECT_EQ(*put, version);
    told->newest[key] = version;
  }

  void Snapshot(Told* told) {
    for (const auto& [key, size] : kObjects) {
      Compute(memory_[key], key, told->newest[key] + 1, size);
    }
    if (!Ran(writer_->Snapshot().status())) return;
    for (const auto& [key, size] : kObjects) ++told->newest[key];
  }

  void Sync(Told* told) {
    if (Ran(writer_->Sync())) told->synced = told->newest;
  }

  void End(Told* told) {
    if (Ran(writer_->Finish())) told->synced = told->newest;
    writer_.reset();
  }

  StreamMachine& machine_;
  base::Random random_;
  StreamOptions options_;
  std::unique_ptr<StreamWriter> writer_;
  std::map<std::string, char*> memory_;
};

// Expects that each stored version of an object is exact, and that the promised one is present. As
// many versions as the policy keeps are present, unless `put`, the newest that was put, is lost: it
// may have had others collected. Returns the newest version; 0: none.
uint64_t ExpectObject(StreamReader& reader, const std::string& key, uint64_t size, uint64_t promised,
                      uint64_t put) {
  const Result<std::vector<StreamVersion>> versions = reader.Versions(key);
  if (!versions.ok()) {
    EXPECT_CODE(versions.status(), Code::kNotFound);
    EXPECT_EQ(promised, 0u) << key << " is lost";
    return 0;
  }
  EXPECT_GE(versions->front().version, promised) << key;
  for (const StreamVersion& version : *versions) {
    std::string bytes;
    EXPECT_OK(reader.Get(key, version.version, &bytes));
    EXPECT_EQ(bytes == BytesOf(key, version.version, size), true)
        << "version " << version.version << " of " << key << " is not what was put";
  }
  const uint64_t newest = versions->front().version;
  if (newest >= put) {
    EXPECT_GE(versions->size(), std::min<uint64_t>(newest, kKept)) << key;
  }
  return newest;
}

std::map<std::string, uint64_t> ExpectStore(StreamMachine& machine,
                                            const std::map<std::string, uint64_t>& promised,
                                            const std::map<std::string, uint64_t>& put) {
  std::map<std::string, uint64_t> newest;
  Result<std::unique_ptr<StreamReader>> reader = machine.Read();
  if (!reader.ok()) {
    // The crash came before there was a log.
    EXPECT_CODE(reader.status(), Code::kNotFound);
    EXPECT_TRUE(promised.empty());
    return newest;
  }
  for (const auto& [key, size] : kObjects) {
    const auto of = [&key](const std::map<std::string, uint64_t>& versions) {
      const auto found = versions.find(key);
      return found == versions.end() ? 0 : found->second;
    };
    newest[key] = ExpectObject(**reader, key, size, of(promised), of(put));
  }
  return newest;
}

// The kind of crash, and whether the log lies in persistent memory.
struct Crash {
  io::CrashKind kind;
  bool persistent;
};

void CrashAt(uint64_t seed, uint64_t step, const Crash& crash) {
  SCOPED_TRACE("history " + std::to_string(seed) + ", crash after step " + std::to_string(step) +
               (crash.kind == io::CrashKind::kPower   ? ", power"
                : crash.kind == io::CrashKind::kMoved ? ", process, another node"
                                                      : ", process"));
  StreamMachine machine;
  machine.fs().SetPersistent(crash.persistent);
  Told told;
  machine.fs().CrashAfter(step);
  Program(machine, seed).Run(&told);
  machine.fs().Restart(crash.kind, seed * 1000 + step);
  const bool sync_counts = crash.kind == io::CrashKind::kPower && !crash.persistent;
  const auto& promised = sync_counts ? told.synced : told.newest;
  const std::map<std::string, uint64_t> first = ExpectStore(machine, promised, told.newest);
  EXPECT_EQ(ExpectStore(machine, promised, told.newest), first) << "looked at twice";
  // A program goes on with it.
  Told later;
  later.newest = first;
  later.synced = first;
  Program(machine, seed + 1).Run(&later);
  ExpectStore(machine, later.newest, later.newest);
}

uint64_t StepsOf(uint64_t seed, bool persistent) {
  StreamMachine machine;
  machine.fs().SetPersistent(persistent);
  Told told;
  Program(machine, seed).Run(&told);
  return machine.fs().steps();
}

// Runs every `stride`-th history, from `first` on.
void CrashEverywhere(const Crash& crash, uint64_t first = 1, uint64_t stride = 1) {
  const auto histories = static_cast<uint64_t>(test::ScaledCount(kHistories));
  uint64_t points = 0;
  const uint64_t before = test::FirstSeed() - 1;
  for (uint64_t turn = first; turn <= std::max(histories, first); turn += stride) {
    const uint64_t seed = before + turn;
    const uint64_t steps = StepsOf(seed, crash.persistent);
    for (uint64_t step = 1; step <= steps && !::testing::Test::HasFailure(); ++step, ++points) {
      CrashAt(seed, step, crash);
    }
  }
  ::testing::Test::RecordProperty("points", static_cast<int>(points));
}

TEST(StreamCrash, AProcessCrashLosesNoVersionThatWasCommitted) {
  CrashEverywhere({io::CrashKind::kProcess, false}, 1, 2);
}
TEST(StreamCrash, AProcessCrashLosesNoVersionOnAnotherNode) {
  CrashEverywhere({io::CrashKind::kMoved, false}, 2, 2);
}
TEST(StreamCrash, APowerLossLosesNoVersionThatWasSynced) {
  CrashEverywhere({io::CrashKind::kPower, false});
}
TEST(StreamCrash, APowerLossLosesNoVersionOnPersistentMemory) {
  CrashEverywhere({io::CrashKind::kPower, true});
}

TEST(StreamCrash, IsSurvivedAsTheWriterSays) {
  for (const bool persistent : {false, true}) {
    StreamMachine machine;
    machine.fs().SetPersistent(persistent);
    const Result<std::unique_ptr<StreamWriter>> writer = machine.Write(OptionsOf(0));
    ASSERT_OK(writer.status());
    EXPECT_EQ((*writer)->durability(),
              persistent ? StreamDurability::kMachine : StreamDurability::kProcess);
  }
}

// A whole record was stored after all that belongs to it, so a loss of power tears nothing there.
TEST(StreamCrash, PersistentMemoryIsNoExcuseForDamage) {
  for (const bool persistent : {false, true}) {
    StreamMachine machine;
    machine.fs().SetPersistent(persistent);
    {
      const Result<std::unique_ptr<StreamWriter>> writer = machine.Write(OptionsOf(0));
      ASSERT_OK(writer.status());
      ASSERT_OK((*writer)->Create("a", 300).status());
      ASSERT_OK((*writer)->Put("a").status());
      machine.fs().Restart(io::CrashKind::kProcess, 1);
    }
    machine.fs().Restart(io::CrashKind::kPower, 1);
    ASSERT_OK(machine.fs().Damage(
        machine.log_path(), [](std::string* log) { (*log)[kLogHeaderBytes + kRecordBytes] ^= 1; }));
    const Code expected = persistent ? Code::kCorruption : Code::kOk;
    // A reader that only looks returns the same error as a writer.
    EXPECT_CODE(OpenLocalReader(machine.fs(), "/place", "store", 0, Access::kLook).status(),
                expected);
    EXPECT_CODE(machine.Write(OptionsOf(0)).status(), expected);
  }
}

}  // namespace
}  // namespace quire::stream::stream_crash_test
