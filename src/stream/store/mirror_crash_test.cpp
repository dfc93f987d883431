// Daemons die while they fetch, at every step of many histories, and machines lose power. A mirror
// that is opened again contains only bytes that were fetched.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "base/core/random.h"
#include "stream/log/delta.h"
#include "stream/store/mirror.h"
#include "stream/store/stream_testing.h"
#include "tests/support/status_asserts.h"
#include "tests/support/test_scale.h"

namespace quire::stream::mirror_crash_test {
namespace {

constexpr uint64_t kFetches = 16;
constexpr int64_t kHistories = 2;
constexpr uint64_t kVersions = 7;
const std::string kKeys[] = {"a", "b"};

// Returns the bytes of a fetch, which differ by its time.
std::string FetchedAt(const std::string& key, uint64_t time_ns) {
  return BytesOf(key, time_ns, 500 + time_ns % 7 * 700);
}

// A daemon that fetches. Some fetches replace versions of an earlier store of the same name, some
// end amid the bytes, and now and then the daemon is restarted.
class Daemon {
 public:
  Daemon(StreamMachine& machine, uint64_t seed) : machine_(machine), random_(seed) {}

  void Run(uint64_t time_ns) {
    for (uint64_t i = 0; i < kFetches && !machine_.fs().crashed(); ++i) {
      if (random_.Below(12) == 0) mirror_.reset();
      Fetch(time_ns + i);
    }
  }

 private:
  bool Ran(const Status& status) {
    if (machine_.fs().crashed()) return false;
    EXPECT_OK(status);
    return status.ok();
  }

  void Fetch(uint64_t time_ns) {
    if (!mirror_) {
      auto mirror = Mirror::Open(machine_.fs(), "/place", "store", 0, SmallLog(16 << 10));
      if (!Ran(mirror.status())) return;
      mirror_ = std::move(*mirror);
    }
    const std::string& key = kKeys[random_.Below(2)];
    const std::string bytes = FetchedAt(key, time_ns);
    StreamVersion version;
    version.version = 1 + random_.Below(kVersions);
    version.snapshot = version.version;
    version.bytes = bytes.size();
    version.unix_time_ns = time_ns;
    const Result<Reservation> room = mirror_->Reserve(key, version);
    if (!Ran(room.status())) return;
    const bool whole = random_.Below(5) != 0;
    std::copy_n(bytes.begin(), whole ? bytes.size() : bytes.size() / 2, room->bytes);
    if (!whole) return;
    if (!Ran(mirror_->Commit(DataHash(bytes)))) return;
    ExpectNewest(key, version.version, bytes);
  }

  void ExpectNewest(const std::string& key, uint64_t version, const std::string& bytes) {
    auto reader = machine_.Read();
    std::string got;
    const Status read = reader.ok() ? (*reader)->Get(key, version, &got) : reader.status();
    if (!Ran(read)) return;
    EXPECT_TRUE(got == bytes) << key << " " << version;
  }

  StreamMachine& machine_;
  base::Random random_;
  std::unique_ptr<Mirror> mirror_;
};

// Returns the number of present versions, after checking that each is as it was fetched.
uint64_t ExpectNoOtherBytes(StreamMachine& machine) {
  auto reader = machine.Read();
  if (!reader.ok()) {
    EXPECT_CODE(reader.status(), Code::kNotFound);  // the crash came before there was a log
    return 0;
  }
  uint64_t count = 0;
  for (const std::string& key : kKeys) {
    const auto versions = (*reader)->Versions(key);
    if (!versions.ok()) {
      EXPECT_CODE(versions.status(), Code::kNotFound);
      continue;
    }
    for (const StreamVersion& version : *versions) {
      ++count;
      auto view = (*reader)->View(key, version.version);
      EXPECT_OK(view.status());
      if (!view.ok()) continue;
      EXPECT_OK((*view)->Verify());
      EXPECT_TRUE((*view)->bytes() == FetchedAt(key, version.unix_time_ns))
          << "version " << version.version << " of " << key;
    }
  }
  return count;
}

uint64_t CrashAt(uint64_t seed, uint64_t step, io::CrashKind kind) {
  SCOPED_TRACE("history " + std::to_string(seed) + ", crash after step " + std::to_string(step));
  StreamMachine machine;
  machine.fs().CrashAfter(step);
  Daemon(machine, seed).Run(1000);
  machine.fs().Restart(kind, seed * 1000 + step);
  const uint64_t found = ExpectNoOtherBytes(machine);
  // The next daemon goes on with it.
  Daemon(machine, seed + 1).Run(2000);
  EXPECT_GT(ExpectNoOtherBytes(machine), 0u);
  return found;
}

void CrashEverywhere(io::CrashKind kind) {
  const auto histories = static_cast<uint64_t>(test::ScaledCount(kHistories));
  uint64_t found = 0;
  for (uint64_t seed = test::FirstSeed(), end = seed + histories; seed < end; ++seed) {
    StreamMachine machine;
    Daemon(machine, seed).Run(1000);
    const uint64_t steps = machine.fs().steps();
    for (uint64_t step = 1; step <= steps && !::testing::Test::HasFailure(); ++step) {
      found += CrashAt(seed, step, kind);
    }
  }
  EXPECT_GT(found, 0u);
}

TEST(MirrorCrash, AProcessCrashLeavesNoBytesThatWereNotFetched) {
  CrashEverywhere(io::CrashKind::kProcess);
}
TEST(MirrorCrash, APowerLossLeavesNoBytesThatWereNotFetched) {
  CrashEverywhere(io::CrashKind::kPower);
}

}  // namespace
}  // namespace quire::stream::mirror_crash_test
