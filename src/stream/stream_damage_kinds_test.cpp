// Damage anywhere in logs of all kinds: packed, with what relocations and skips leave, in the same
// boot and in another one. What is read is exact, or an error says that something is damaged.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "stream/log_heap.h"
#include "stream/stream_testing.h"
#include "stream/streams.h"
#include "tests/support/status_asserts.h"
#include "tests/support/test_scale.h"

namespace quire::stream {
namespace {

constexpr uint64_t kLogBytes = 32 << 10;
constexpr int64_t kFlipsOfEach = 2500;
const std::map<std::string, uint64_t> kObjects = {{"a", 700}, {"b", 3000}};

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
                       [&](Position, const Record& record, const std::vector<Entry>&) {
                         ++kinds[record.kind];
                         return Status();
                       })
                .status());
  EXPECT_NE((*heap)->head().head, 0u);
  return kinds;
}

// A kept snapshot has to move again and again.
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
  for (int i = 0; i < 8; ++i) history.Put("b");
  for (int i = 0; i < 200 && !has_all(); ++i) history.Put("b");
  EXPECT_TRUE(has_all());
  EXPECT_OK(history.writer().Finish());
}

enum class How {
  kShared,     // by the index that is there
  kRecovered,  // in the same boot, by an index that is made anew
  kAnewBoot,   // after the machine was started anew
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

  // The log as it was, but for what `change` does to it.
  void OpenAnew(const std::function<void(std::string*)>& change) {
    if (GetParam().how != How::kShared) {
      const bool boot = GetParam().how == How::kAnewBoot;
      machine_.fs().Restart(boot ? io::CrashKind::kPower : io::CrashKind::kProcess, 1);
      for (const char* file : {"/place/store/index-0", "/place/store/gate-0"}) {
        const Status gone = machine_.fs().Unlink(file);
        ASSERT_TRUE(gone.ok() || gone.code() == Code::kNotFound) << gone.ToString();
      }
      // Else the simulation remembers each of them until the power fails.
      ASSERT_OK(machine_.fs().SyncDirectory("/place/store"));
    }
    Change([&](std::string* log) {
      *log = whole_;
      change(log);
    });
  }

  // Whether an error said that something is damaged; what did not is exact.
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
  // Odd: every byte of a line comes to its turn.
  const uint64_t stride = used / static_cast<uint64_t>(test::ScaledCount(kFlipsOfEach)) | 1;
  uint64_t detected = 0;
  for (uint64_t offset = 0; offset < used && !HasFailure(); offset += stride) {
    OpenAnew([&](std::string* log) { (*log)[offset] = static_cast<char>((*log)[offset] ^ 0x04); });
    detected += Detected() ? stride : 0;
  }
  // The identity, and what the versions store but for what pads it.
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
}  // namespace quire::stream
