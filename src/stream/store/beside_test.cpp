// A writer and its readers beside each other, which exchange state through gate, pins and index.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <functional>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/hash/hash.h"
#include "base/threads/sync_point.h"
#include "io/files/page_memory.h"
#include "stream/index/gate.h"
#include "stream/index/index.h"
#include "stream/store/local_reader.h"
#include "stream/store/pins.h"
#include "stream/store/stream_testing.h"
#include "stream/store/writer.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"

namespace quire::stream::beside_test {
namespace {

TEST(Gate, APublishedSnapshotWakesASleepingReader) {
  constexpr uint64_t kRounds = 200;
  constexpr uint64_t kLongNs = 600'000'000'000;
  const auto fs = io::NewSimFileSystem();
  const std::unique_ptr<Gate> gate = *Gate::Create(*fs, "/gate");
  gate->SetState(GateState::kWriting);
  std::atomic<uint64_t> waits = 0;
  std::thread reader([&] {
    for (uint64_t seen = 0; seen < kRounds; seen = gate->snapshot()) {
      waits = seen + 1;
      gate->Wait(seen, GateState::kWriting, kLongNs);
    }
  });
  for (uint64_t snapshot = 1; snapshot <= kRounds; ++snapshot) {
    while (waits < snapshot) std::this_thread::yield();
    for (int i = 0; i < 100; ++i) std::this_thread::yield();  // usually the reader sleeps by now
    gate->Publish(snapshot);
  }
  reader.join();
}

TEST(Pins, APinThatComesTooLateIsRefused) {
  StreamMachine machine;
  const auto writer = machine.Write(SmallLog(1 << 20));
  ASSERT_OK(writer.status());
  const std::unique_ptr<Gate> gate = *Gate::Open(machine.fs(), "/place/store/gate-0");
  Pins pins(machine.fs(), {"/place", "store", 0}, gate.get());
  gate->SetHead(640);
  const Result<std::optional<Pins::Held>> late = pins.Hold(576);
  ASSERT_OK(late.status());
  EXPECT_FALSE(late->has_value());
  EXPECT_EQ(gate->pin(0), kNoPin);
  {
    const Result<std::optional<Pins::Held>> held = pins.Hold(640);
    ASSERT_OK(held.status());
    EXPECT_TRUE(held->has_value());
    EXPECT_EQ(gate->pin(0), 640u);
  }
  EXPECT_EQ(gate->pin(0), kNoPin);
}

// A pin ends with its last owner, whichever way the owner is moved or destroyed.
TEST(Pins, AreReleasedOnceByWhatHoldsThemInTheEnd) {
  StreamMachine machine;
  const auto writer = machine.Write(SmallLog(1 << 20));
  ASSERT_OK(writer.status());
  const std::unique_ptr<Gate> gate = *Gate::Open(machine.fs(), "/place/store/gate-0");
  Pins pins(machine.fs(), {"/place", "store", 0}, gate.get());
  std::optional<Pins::Held> later = *pins.Hold(640);
  {
    std::optional<Pins::Held> earlier = *pins.Hold(576);
    EXPECT_EQ(gate->pin(0), 576u);
    const Pins::Held moved = *std::move(earlier);
    earlier.reset();
    EXPECT_EQ(gate->pin(0), 576u);
  }
  EXPECT_EQ(gate->pin(0), 640u);
  *later = Pins::Held();
  EXPECT_EQ(gate->pin(0), kNoPin);
}
static_assert(!std::is_copy_constructible_v<Pins::Held>);
static_assert(!std::is_copy_assignable_v<Pins::Held>);

TEST(Pins, PinsOfADeadReaderHoldNothingUp) {
  StreamMachine machine;
  const Result<std::unique_ptr<StreamWriter>> writer = machine.Write(SmallLog(1 << 20));
  ASSERT_OK(writer.status());
  ASSERT_OK((*writer)->Create("zeta", 100'000).status());
  ASSERT_OK((*writer)->Put("zeta").status());
  ASSERT_OK(machine.fs().Lock("/place/store/reader-0-0.lock", "a reader").status());
  const Result<std::unique_ptr<Gate>> gate = Gate::Open(machine.fs(), "/place/store/gate-0");
  ASSERT_OK(gate.status());
  (*gate)->Pin(0, 0);
  for (int i = 0; i < 20; ++i) EXPECT_OK((*writer)->Put("zeta").status());
  EXPECT_EQ((*gate)->pin(0), kNoPin);
}

// Runs work in a child of fork and returns its exit code; 0 if nothing went wrong.
int InAChild(const std::function<int()>& work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work());
  int ended = -1;
  EXPECT_EQ(::waitpid(child, &ended, 0), child);
  return ended;
}

TEST(Pins, AForkedProgramHasPinsOfItsOwn) {
  const test::TempDirectory directory;
  io::FileSystem& fs = io::PosixFileSystem();
  const std::string place = directory / "place";
  const auto writer = OpenWriter(fs, place, "store", 0, SmallLog(1 << 20));
  ASSERT_OK(writer.status());
  ASSERT_OK((*writer)->Create("zeta", 100).status());
  ASSERT_OK((*writer)->Put("zeta").status());
  const auto reader = OpenLocalReader(fs, place, "store", 0);
  ASSERT_OK(reader.status());
  Result<std::unique_ptr<StreamView>> view = (*reader)->View("zeta", 0);
  ASSERT_OK(view.status());
  const Result<std::unique_ptr<Gate>> gate = Gate::Open(fs, place + "/store/gate-0");
  ASSERT_OK(gate.status());
  const Position held = (*gate)->pin(0);
  ASSERT_NE(held, kNoPin);
  // One child releases the view, and one has a view of its own.
  EXPECT_EQ(InAChild([&] {
              view->reset();
              return (*gate)->pin(0) == held ? 0 : 1;
            }),
            0);
  EXPECT_EQ(InAChild([&] {
              const auto own = (*reader)->View("zeta", 0);
              const bool right = own.ok() && (*gate)->pin(0) == held && (*gate)->pin_slots() == 2 &&
                                 (*gate)->pin(1) == held;
              return right ? 0 : 1;
            }),
            0);
  EXPECT_EQ((*gate)->pin(0), held);
  view->reset();
  EXPECT_EQ((*gate)->pin(0), kNoPin);
}

// A stopped reader holds its version, and nothing else: puts go on as long as there is room. Then
// the error names the reader as the reason.
TEST(Pins, PinsOfAStoppedReaderHoldUpNoPutThatHasRoom) {
  const test::TempDirectory directory;
  io::FileSystem& fs = io::PosixFileSystem();
  const std::string place = directory / "place";
  const auto writer = OpenWriter(fs, place, "store", 0, SmallLog(1 << 20));
  ASSERT_OK(writer.status());
  const Result<char*> memory = (*writer)->Create("zeta", 100'000);
  ASSERT_OK(memory.status());
  Compute(*memory, "zeta", 1, 100'000);
  ASSERT_OK((*writer)->Put("zeta").status());
  const pid_t reader = ::fork();
  if (reader == 0) {
    const auto opened = OpenLocalReader(fs, place, "store", 0);
    const auto view = opened.ok() ? (*opened)->View("zeta", 1) : opened.status();
    ::raise(SIGSTOP);
    ::_exit(view.ok() && (*view)->bytes() == BytesOf("zeta", 1, 100'000) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(reader, &status, WUNTRACED), reader);
  ASSERT_TRUE(WIFSTOPPED(status));
  for (uint64_t version = 2; version <= 7; ++version) {
    Compute(*memory, "zeta", version, 100'000);
    EXPECT_OK((*writer)->Put("zeta").status());
  }
  Status full;
  for (int i = 0; i < 5 && full.ok(); ++i) full = (*writer)->Put("zeta").status();
  EXPECT_CODE(full, Code::kNoSpace);
  EXPECT_NE(full.message().find("a reader holds"), std::string::npos) << full.ToString();
  ASSERT_EQ(::kill(reader, SIGCONT), 0);
  ASSERT_EQ(::waitpid(reader, &status, 0), reader);
  EXPECT_EQ(status, 0) << "its version was pulled away";
  for (int i = 0; i < 20; ++i) EXPECT_OK((*writer)->Put("zeta").status());
}

// An index with one object.
class IndexTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<io::PageMemory> memory_of_index = io::AllocatePages(Index::BytesFor(kSizes));
    ASSERT_OK(memory_of_index.status());
    memory_ = std::move(*memory_of_index);
    Index::Format(memory(), kSizes, 7, 1);
    Result<Index> attached = Index::Attach(memory(), Index::BytesFor(kSizes), 7, 1);
    ASSERT_OK(attached.status());
    index_ = std::make_unique<Index>(*std::move(attached));
    const Result<uint32_t> object = index_->FindOrAdd("key");
    ASSERT_OK(object.status());
    object_ = *object;
  }
  char* memory() { return memory_.data(); }
  static VersionRef Ref(uint64_t version) {
    VersionRef ref;
    ref.version = version;
    return ref;
  }
  std::vector<uint64_t> Versions() {
    std::vector<VersionRef> refs;
    EXPECT_OK(index_->Versions(object_, &refs));
    std::vector<uint64_t> numbers;
    for (const VersionRef& ref : refs) numbers.push_back(ref.version);
    return numbers;
  }

  static constexpr IndexSizes kSizes = {4, 4, 64};
  io::PageMemory memory_;
  std::unique_ptr<Index> index_;
  uint32_t object_ = 0;
};

TEST_F(IndexTest, AReaderDoesNotTakeWhatIsBeingChanged) {
  ASSERT_OK(index_->Add(object_, Ref(1)));
  // The place of an object's sequence count: docs/format/stream.md.
  uint32_t* const sequence = reinterpret_cast<uint32_t*>(memory() + kPageBytes + object_ * 32 + 24);
  std::vector<VersionRef> refs;
  ++*sequence;
  EXPECT_CODE(index_->Versions(object_, &refs), Code::kBusy);
  ++*sequence;
  EXPECT_EQ(Versions(), std::vector<uint64_t>{1});
}

// Adds a version after a reader has read the versions and before it checks again.
class AddsAVersion final : public base::SyncPointListener {
 public:
  AddsAVersion(Index* index, uint32_t object, const VersionRef& ref)
      : index_(index), object_(object), ref_(ref) {}
  void Reach(const char* name) override {
    if (std::string_view(name) != "stream.index.before_recheck") return;
    if (!std::exchange(added_, true)) ASSERT_OK(index_->Add(object_, ref_));
  }

 private:
  Index* index_;
  const uint32_t object_;
  const VersionRef ref_;
  bool added_ = false;
};

TEST_F(IndexTest, AReaderLooksAgainAtWhatWasChangedWhileItRead) {
  ASSERT_OK(index_->Add(object_, Ref(1)));
  AddsAVersion adder(index_.get(), object_, Ref(2));
  const base::ScopedSyncPoints installed(&adder);
  EXPECT_EQ(Versions(), (std::vector<uint64_t>{2, 1}));
}

TEST_F(IndexTest, RemovedVersionsMakeRoom) {
  // Versions that come out of order get their place, too.
  for (const uint64_t number : {2, 5, 3, 1}) ASSERT_OK(index_->Add(object_, Ref(number)));
  EXPECT_EQ(Versions(), (std::vector<uint64_t>{5, 3, 2, 1}));
  EXPECT_EQ(index_->Newest(object_), 5u);
  EXPECT_CODE(index_->Add(object_, Ref(4)), Code::kNoSpace);
  index_->Retain(object_, {Ref(3), Ref(1)});
  EXPECT_EQ(Versions(), (std::vector<uint64_t>{3, 1}));
  EXPECT_EQ(index_->Newest(object_), 3u);
  EXPECT_EQ(index_->free_versions(), 2u);
  ASSERT_OK(index_->Add(object_, Ref(4)));
  EXPECT_EQ(Versions(), (std::vector<uint64_t>{4, 3, 1}));
  index_->Retain(object_, {});
  EXPECT_EQ(Versions(), std::vector<uint64_t>{});
  EXPECT_EQ(index_->Newest(object_), 0u);
}

// Makes an object after a reader has found a slot free.
class MakesAnObject final : public base::SyncPointListener {
 public:
  MakesAnObject(Index* index, std::string key) : index_(index), key_(std::move(key)) {}
  void Reach(const char* name) override {
    if (made_ || std::string_view(name) != "stream.index.at_free_slot") return;
    made_ = true;
    const Result<uint32_t> object = index_->FindOrAdd(key_);
    ASSERT_OK(object.status());
    slot_ = *object;
  }
  uint32_t slot() const { return slot_; }

 private:
  Index* index_;
  const std::string key_;
  bool made_ = false;
  uint32_t slot_ = UINT32_MAX;
};

TEST_F(IndexTest, AnObjectThatComesAmidALookIsNotTakenForAnother) {
  const uint32_t slots = index_->slots();
  const auto place = [&](const std::string& key) { return base::HashKey(key) % slots; };
  const std::string wanted = "wanted";
  ASSERT_NE(place(wanted), object_);
  std::string other = "other";
  while (place(other) != place(wanted)) other += "r";
  MakesAnObject maker(index_.get(), other);
  const base::ScopedSyncPoints installed(&maker);
  EXPECT_CODE(index_->Find(wanted).status(), Code::kNotFound);
  EXPECT_EQ(maker.slot(), place(wanted));
  const Result<uint32_t> found = index_->Find(other);
  ASSERT_OK(found.status());
  EXPECT_EQ(*found, maker.slot());
}

// Every published version can be read, whole, while the writer goes on.
TEST(Beside, APublishedSnapshotIsReadable) {
  constexpr uint64_t kObjects = 50;
  constexpr uint64_t kSnapshots = 100;
  constexpr uint64_t kBytes = 300;
  const std::string last = "object " + std::to_string(kObjects - 1);
  StreamMachine machine;
  StreamOptions options = SmallLog(32 << 20);
  options.objects_max = kObjects;
  options.keep_versions = 16;
  const Result<std::unique_ptr<StreamWriter>> writer = machine.Write(options);
  ASSERT_OK(writer.status());
  std::vector<char*> memory;
  for (uint64_t i = 0; i < kObjects; ++i) {
    const Result<char*> made = (*writer)->Create("object " + std::to_string(i), kBytes);
    ASSERT_OK(made.status());
    memory.push_back(*made);
  }
  const Result<std::unique_ptr<StreamReader>> reader = machine.Read();
  ASSERT_OK(reader.status());
  std::thread writing([&] {
    for (uint64_t step = 1; step <= kSnapshots; ++step) {
      Compute(memory.back(), last, step, kBytes);
      EXPECT_OK((*writer)->Snapshot().status());
    }
  });
  for (uint64_t seen = 0; seen < kSnapshots;) {
    const Result<uint64_t> newest = (*reader)->Wait(seen, 60'000);
    if (!newest.ok()) {
      ADD_FAILURE() << newest.status().ToString();
      break;
    }
    seen = *newest;
    std::string bytes;
    const Status got = (*reader)->GetAt(last, seen, &bytes);
    // It may be gone, because many snapshots may have come meanwhile.
    if (got.code() == Code::kNotFound) continue;
    EXPECT_OK(got);
    EXPECT_EQ(bytes == BytesOf(last, seen, kBytes), true) << seen;
  }
  writing.join();
}

}  // namespace
}  // namespace quire::stream::beside_test
