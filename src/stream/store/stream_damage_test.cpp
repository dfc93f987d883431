// Damage anywhere in a log is detected: every byte, cut files, changed places; in logs of all
// kinds, in the same boot and in another one.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "stream/log/log_heap.h"
#include "stream/store/stream_testing.h"
#include "tests/support/status_asserts.h"
#include "tests/support/test_scale.h"

namespace quire::stream::stream_damage_test {
namespace {

constexpr uint64_t kLogBytes = 32 << 10;
const std::map<std::string, uint64_t> kObjects = {{"a", 700}, {"b", 3000}};

class StreamDamage : public ::testing::Test {
 protected:
  void SetUp() override {
    StreamOptions options = SmallLog(kLogBytes);
    options.keep_versions = 3;
    options.deltas = StreamDeltas::kHash;
    Result<std::unique_ptr<StreamWriter>> writer = machine_.Write(options);
    ASSERT_OK(writer.status());
    std::map<std::string, char*> memory;
    for (const auto& [key, size] : kObjects) memory[key] = *(*writer)->Create(key, size);
    for (uint64_t version = 1; version <= 3; ++version) {
      for (const auto& [key, size] : kObjects) Compute(memory[key], key, version, size);
      ASSERT_OK((*writer)->Snapshot().status());
    }
    ASSERT_OK((*writer)->Finish());
  }

  // Expects all versions to be present and exact, or an error about damage. Returns whether there
  // was such an error.
  bool Detected() {
    Result<std::unique_ptr<StreamReader>> reader = machine_.Read();
    if (!reader.ok()) {
      EXPECT_CODE(reader.status(), Code::kCorruption);
      return true;
    }
    bool detected = false;
    for (const auto& [key, size] : kObjects) {
      for (uint64_t version = 1; version <= 3; ++version) {
        std::string bytes;
        const Status status = (*reader)->Get(key, version, &bytes);
        if (status.ok()) {
          EXPECT_EQ(bytes == BytesOf(key, version, size), true) << key << " " << version;
        } else {
          EXPECT_CODE(status, Code::kCorruption);
          detected = true;
        }
      }
    }
    return detected;
  }

  void Flip(uint64_t offset) {
    ASSERT_OK(machine_.fs().Damage(machine_.log_path(), [&](std::string* bytes) {
      (*bytes)[offset] = static_cast<char>((*bytes)[offset] ^ 0x20);
    }));
  }

  uint64_t UsedBytes() {
    uint64_t used = 0;
    EXPECT_OK(machine_.fs().Damage(machine_.log_path(), [&](std::string* bytes) {
      used = bytes->find_last_not_of('\0') + 1;
    }));
    return used;
  }

  StreamMachine machine_;
};

// A changed byte in one of the heads, or in the padding of lines, has no effect.
TEST_F(StreamDamage, EveryFlippedByteIsDetectedOrHarmless) {
  const uint64_t used = UsedBytes();
  uint64_t detected = 0;
  for (uint64_t offset = 0; offset < used; ++offset) {
    Flip(offset);
    detected += Detected() ? 1 : 0;
    Flip(offset);
    ASSERT_FALSE(Detected()) << "offset " << offset;
  }
  // Damage is detected at least in the identity and in all that the versions store.
  EXPECT_GT(detected, kPageBytes + 3700);
}

TEST_F(StreamDamage, AFileThatWasCutIsDetected) {
  for (const uint64_t size : {uint64_t{0}, uint64_t{100}, kLogHeaderBytes, UsedBytes() - 100}) {
    std::string whole;
    ASSERT_OK(machine_.fs().Damage(machine_.log_path(), [&](std::string* bytes) {
      whole = *bytes;
      bytes->resize(size);
    }));
    EXPECT_TRUE(Detected()) << size;
    ASSERT_OK(
        machine_.fs().Damage(machine_.log_path(), [&](std::string* bytes) { *bytes = whole; }));
  }
}

TEST_F(StreamDamage, LinesThatChangedPlacesAreDetected) {
  const uint64_t used = UsedBytes();
  for (uint64_t line = kLogHeaderBytes; line + 128 <= used; line += 64) {
    bool same = false;
    const auto swap = [&](std::string* bytes) {
      const std::string first = bytes->substr(line, 64);
      const std::string second = bytes->substr(line + 64, 64);
      same = first == second;
      bytes->replace(line, 64, second);
      bytes->replace(line + 64, 64, first);
    };
    ASSERT_OK(machine_.fs().Damage(machine_.log_path(), swap));
    EXPECT_EQ(Detected(), !same) << "line at " << line;
    ASSERT_OK(machine_.fs().Damage(machine_.log_path(), swap));
  }
}

TEST_F(StreamDamage, AWriterDoesNotOpenADamagedLog) {
  Flip(kLogHeaderBytes + 20);  // the first commit's record
  EXPECT_CODE(machine_.Write(SmallLog(kLogBytes)).status(), Code::kCorruption);
}

// Only heads contain the kept snapshots and whether the writer finished.
void ExpectWhatHeadsSay(StreamMachine& machine, uint64_t kept, bool finished) {
  {
    const Result<std::unique_ptr<StreamReader>> reader = machine.Read();
    ASSERT_OK(reader.status());
    EXPECT_EQ(*(*reader)->Finished(), finished);
    for (const auto& [key, size] : kObjects) {
      std::string bytes;
      ASSERT_OK((*reader)->GetAt(key, kept, &bytes));
      EXPECT_EQ(bytes == BytesOf(key, kept, size), true) << key;
    }
  }
  const Result<std::unique_ptr<StreamWriter>> writer = machine.Write(SmallLog(kLogBytes));
  ASSERT_OK(writer.status());
  EXPECT_OK((*writer)->Release(kept));
}

// Damages any page of a head, in any way, in the same boot and in another one.
void DamageEachHead(StreamMachine& machine, uint64_t kept, bool finished) {
  std::string whole;
  ASSERT_OK(machine.fs().Damage(machine.log_path(), [&](std::string* log) { whole = *log; }));
  const auto noise = [](uint64_t head) { return BytesOf("noise", head, kPageBytes); };
  const auto zeros = [](uint64_t) { return std::string(kPageBytes, '\0'); };
  const auto flip = [&](uint64_t head) {
    std::string page = whole.substr(head * kPageBytes, kPageBytes);
    page[18] = static_cast<char>(page[18] ^ 1);
    return page;
  };
  const std::vector<std::function<std::string(uint64_t)>> damages = {noise, zeros, flip};
  for (uint64_t head = 1; head <= kHeadSlots; ++head) {
    for (size_t which = 0; which < damages.size(); ++which) {
      for (const auto kind : {io::CrashKind::kProcess, io::CrashKind::kPower}) {
        SCOPED_TRACE("head " + std::to_string(head) + ", damage " + std::to_string(which) +
                     (kind == io::CrashKind::kPower ? ", another boot" : ""));
        machine.fs().Restart(kind, 1);
        for (const char* file : {"/place/store/index-0", "/place/store/gate-0"}) {
          const Status gone = machine.fs().Unlink(file);
          EXPECT_TRUE(gone.ok() || gone.code() == Code::kNotFound) << gone.ToString();
        }
        ASSERT_OK(machine.fs().Damage(machine.log_path(), [&](std::string* log) {
          *log = whole;
          log->replace(head * kPageBytes, kPageBytes, damages[which](head));
        }));
        ExpectWhatHeadsSay(machine, kept, finished);
      }
    }
  }
}

TEST_F(StreamDamage, ADamagedHeadLosesNoKeptVersionAndNoEnd) {
  {
    const Result<std::unique_ptr<StreamWriter>> writer = machine_.Write(SmallLog(kLogBytes));
    ASSERT_OK(writer.status());
    ASSERT_OK((*writer)->Keep(3));
    ASSERT_OK((*writer)->Finish());
  }
  DamageEachHead(machine_, 3, true);
}

TEST_F(StreamDamage, ADamagedHeadLosesNothingIfNothingWasEverSynced) {
  StreamMachine machine;
  {
    const Result<std::unique_ptr<StreamWriter>> writer = machine.Write(SmallLog(kLogBytes));
    ASSERT_OK(writer.status());
    for (const auto& [key, size] : kObjects) {
      Compute(*(*writer)->Create(key, size), key, 1, size);
    }
    ASSERT_OK((*writer)->Snapshot().status());
    ASSERT_OK((*writer)->Keep(1));
    machine.fs().Restart(io::CrashKind::kProcess, 1);
  }
  DamageEachHead(machine, 1, false);
}

// Nothing in the log shows that a commit with a damaged record existed; the gate outlives the
// writer.
TEST_F(StreamDamage, TheLastCommitOfAWriterThatDiedIsMissed) {
  const uint64_t last_record = AlignUp(UsedBytes(), kRecordBytes);
  Result<std::unique_ptr<StreamWriter>> writer = machine_.Write(SmallLog(kLogBytes));
  ASSERT_OK(writer.status());
  ASSERT_OK((*writer)->Create("c", 100).status());
  ASSERT_OK((*writer)->Put("c").status());
  machine_.fs().Restart(io::CrashKind::kProcess, 1);
  writer->reset();
  Flip(last_record + 20);
  EXPECT_CODE(machine_.Write(SmallLog(kLogBytes)).status(), Code::kCorruption);
  EXPECT_CODE(machine_.Read().status(), Code::kCorruption);
  Flip(last_record + 20);
  EXPECT_OK(machine_.Write(SmallLog(kLogBytes)).status());
}

TEST_F(StreamDamage, ADamagedIndexOrGateIsRecreated) {
  for (const char* file : {"/place/store/index-0", "/place/store/gate-0"}) {
    for (const uint64_t at : {0, 8, 24, 40, 4096, 4200}) {
      ASSERT_OK(machine_.fs().Damage(file, [&](std::string* bytes) {
        for (uint64_t i = at; i < at + 8; ++i) (*bytes)[i] = static_cast<char>(0xA5);
      }));
      Result<std::unique_ptr<StreamWriter>> writer = machine_.Write(SmallLog(kLogBytes));
      ASSERT_OK(writer.status());
      ASSERT_OK((*writer)->Finish());
      EXPECT_FALSE(Detected()) << file << " " << at;
    }
  }
}

constexpr int64_t kFlipsOfEach = 2500;

// Each version of each object.
using Contents = std::map<std::pair<std::string, uint64_t>, std::string>;

class History {
 public:
  History(StreamMachine& machine, const StreamOptions& options) {
    Result<std::unique_ptr<StreamWriter>> writer = machine.Write(options);
    EXPECT_OK(writer.status());
    writer_ = *std::move(writer);
    for (const auto& [key, size] : kObjects) memory_[key] = *writer_->Create(key, size);
  }
  StreamWriter& writer() { return *writer_; }
  void Put(const std::string& key) {
    Compute(memory_[key], key, ++newest_[key], kObjects.at(key));
    EXPECT_OK(writer_->Put(key).status());
  }
  void Snapshot() {
    for (const auto& [key, size] : kObjects) Compute(memory_[key], key, ++newest_[key], size);
    EXPECT_OK(writer_->Snapshot().status());
  }

 private:
  std::unique_ptr<StreamWriter> writer_;
  std::map<std::string, char*> memory_;
  std::map<std::string, uint64_t> newest_;
};

void WritePacked(StreamMachine& machine) {
  StreamOptions options = SmallLog(kLogBytes);
  options.keep_versions = 4;
  options.deltas = StreamDeltas::kHash;
  options.full_every = 3;
  options.compression = Compression::kLz4;
  History history(machine, options);
  for (int i = 0; i < 4; ++i) history.Snapshot();
  EXPECT_GT(history.writer().Statistics().deltas, 2u);
  EXPECT_OK(history.writer().Finish());
}

std::map<RecordKind, int> KindsIn(StreamMachine& machine) {
  std::map<RecordKind, int> kinds;
  const Result<std::unique_ptr<LogHeap>> heap =
      LogHeap::Open(machine.fs(), machine.log_path(), io::MapMode::kRead);
  EXPECT_OK(heap.status());
  EXPECT_OK((*heap)
                ->Walk(true,
                       [&](Position, const Record& record, const std::vector<VersionEntry>&) {
                         ++kinds[record.kind];
                         return Status();
                       })
                .status());
  EXPECT_NE((*heap)->head().head, 0u);
  return kinds;
}

// Writes a log in which a kept snapshot has to move again and again.
void WriteMoved(StreamMachine& machine) {
  StreamOptions options = SmallLog(kLogBytes);
  options.deltas = StreamDeltas::kHash;
  options.full_every = 2;
  History history(machine, options);
  history.Snapshot();
  EXPECT_OK(history.writer().Keep(1));
  const auto has_all = [&] {
    std::map<RecordKind, int> kinds = KindsIn(machine);
    return kinds[RecordKind::kRelocation] != 0 && kinds[RecordKind::kSkip] != 0;
  };
  for (int i = 0; i < 12; ++i) history.Put("b");
  for (int i = 0; i < 200 && !has_all(); ++i) history.Put("b");
  EXPECT_TRUE(has_all());
  EXPECT_OK(history.writer().Finish());
}

enum class How {
  kShared,     // by the present index
  kRecovered,  // in the same boot, by a rebuilt index
  kAnewBoot,   // after a reboot
};

struct Case {
  const char* name;
  void (*write)(StreamMachine&);
  How how;
};

class StreamDamageKinds : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(GetParam().write(machine_));
    Change([&](std::string* log) { whole_ = *log; });
    const Result<std::unique_ptr<StreamReader>> reader = machine_.Read();
    ASSERT_OK(reader.status());
    for (const auto& [key, size] : kObjects) {
      const Result<std::vector<StreamVersion>> versions = (*reader)->Versions(key);
      ASSERT_OK(versions.status());
      for (const StreamVersion& version : *versions) {
        contents_[{key, version.version}] = BytesOf(key, version.version, size);
        stored_bytes_ += version.stored_bytes;
      }
    }
  }

  void Change(const std::function<void(std::string*)>& change) {
    ASSERT_OK(machine_.fs().Damage(machine_.log_path(), change));
  }

  // Opens the log as it was, except for the effect of `change`.
  void OpenAnew(const std::function<void(std::string*)>& change) {
    if (GetParam().how != How::kShared) {
      const bool boot = GetParam().how == How::kAnewBoot;
      machine_.fs().Restart(boot ? io::CrashKind::kPower : io::CrashKind::kProcess, 1);
      for (const char* file : {"/place/store/index-0", "/place/store/gate-0"}) {
        const Status gone = machine_.fs().Unlink(file);
        ASSERT_TRUE(gone.ok() || gone.code() == Code::kNotFound) << gone.ToString();
      }
      // Without this the simulation remembers each of them until the power fails.
      ASSERT_OK(machine_.fs().SyncDirectory("/place/store"));
    }
    Change([&](std::string* log) {
      *log = whole_;
      change(log);
    });
  }

  // Returns whether an error reported damage. Everything that was read without an error is exact.
  bool Detected() {
    Result<std::unique_ptr<StreamReader>> reader = machine_.Read();
    if (!reader.ok()) {
      EXPECT_CODE(reader.status(), Code::kCorruption);
      return true;
    }
    bool detected = false;
    for (const auto& [version, expected] : contents_) {
      std::string bytes;
      const Status got = (*reader)->Get(version.first, version.second, &bytes);
      const Status seen = View(**reader, version, expected);
      EXPECT_EQ(got.code(), seen.code()) << got.ToString() << ", " << seen.ToString();
      if (got.ok()) {
        EXPECT_EQ(bytes == expected, true) << version.first << " " << version.second;
      } else {
        EXPECT_CODE(got, Code::kCorruption);
        detected = true;
      }
    }
    return detected;
  }

  Status View(StreamReader& reader, const Contents::key_type& version, Slice expected) {
    QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<StreamView> view,
                           reader.View(version.first, version.second));
    QUIRE_RETURN_IF_ERROR(view->Verify());
    EXPECT_EQ(view->bytes() == expected, true) << version.first << " " << version.second;
    return Status();
  }

  StreamMachine machine_;
  std::string whole_;
  Contents contents_;
  uint64_t stored_bytes_ = 0;
};

TEST_P(StreamDamageKinds, EveryFlippedByteIsDetectedOrHarmless) {
  OpenAnew([](std::string*) {});
  ASSERT_FALSE(Detected());
  const uint64_t used = whole_.find_last_not_of('\0') + 1;
  // Odd, so that every byte of a line gets its turn.
  const uint64_t stride = used / static_cast<uint64_t>(test::ScaledCount(kFlipsOfEach)) | 1;
  uint64_t detected = 0;
  for (uint64_t offset = 0; offset < used && !HasFailure(); offset += stride) {
    OpenAnew([&](std::string* log) { (*log)[offset] = static_cast<char>((*log)[offset] ^ 0x04); });
    detected += Detected() ? stride : 0;
  }
  // The identity, and what the versions store except for padding.
  EXPECT_GT(detected, kPageBytes * 9 / 10 + stored_bytes_ / 2);
}

TEST_P(StreamDamageKinds, LinesThatAreGoneAreDetectedOrHarmless) {
  const uint64_t used = whole_.find_last_not_of('\0') + 1;
  uint64_t detected = 0;
  for (uint64_t line = kLogHeaderBytes; line < used && !HasFailure(); line += kRecordBytes) {
    OpenAnew([&](std::string* log) {
      log->replace(line, kRecordBytes, std::string(kRecordBytes, '\0'));
    });
    detected += Detected() ? kRecordBytes : 0;
  }
  EXPECT_GT(detected, stored_bytes_ / 2);
}

INSTANTIATE_TEST_SUITE_P(
    Logs, StreamDamageKinds,
    ::testing::Values(Case{"Packed", WritePacked, How::kShared},
                      Case{"PackedRecovered", WritePacked, How::kRecovered},
                      Case{"PackedAfterAnotherBoot", WritePacked, How::kAnewBoot},
                      Case{"Moved", WriteMoved, How::kShared},
                      Case{"MovedRecovered", WriteMoved, How::kRecovered},
                      Case{"MovedAfterAnotherBoot", WriteMoved, How::kAnewBoot}),
    [](const auto& which) { return std::string(which.param.name); });

}  // namespace
}  // namespace quire::stream::stream_damage_test
