// One thread is held at a sync point of this folder, or of a sync of files, while others write and
// read the store, open it again, or die with it. Every pair of such a place and such an action is
// tried, with 1, 2 and 4 other threads, and compared with what was committed.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "stream/index/gate.h"
#include "stream/log/delta.h"
#include "stream/store/local_reader.h"
#include "stream/store/mirror.h"
#include "stream/store/stream_testing.h"
#include "stream/store/sync_points_testing.h"
#include "stream/store/tending.h"
#include "stream/store/writer.h"
#include "tests/support/held_thread.h"
#include "tests/support/status_asserts.h"
#include "tests/support/sync_point_places.h"
#include "tests/support/temp_directory.h"
#include "tests/support/test_scale.h"

namespace quire::stream::stream_sync_points_test {
namespace {

// Enough for a few calls. A call waits for this time if only the held thread could go on.
constexpr int kHoldMs = 10;
constexpr int kRounds = 100;

StreamOptions OptionsFor(int others) {
  StreamOptions options = SmallLog((64 + 96 * static_cast<uint64_t>(others)) << 10);
  options.objects_max = 64;
  options.keep_versions = 2;
  options.collect_percent = 30;
  options.wait_ms = 20'000;  // a reader may pause while it holds something
  options.full_every = 4;
  options.deltas = others == 1 ? StreamDeltas::kOff : StreamDeltas::kHash;
  options.compression = others == 4 ? Compression::kLz4 : Compression::kNone;
  return options;
}

// The work of the thread that is held. Each kind reaches some of the places.
void Writes(Scene& scene, Writing& theirs) {
  uint64_t kept = 0;
  for (int i = 0; i < kRounds && !scene.dead; ++i) {
    theirs.PutPair();
    theirs.PutOne();
    if (i % 10 == 3) kept = theirs.KeepPair();
    if (i % 10 == 9) theirs.Release(kept);
    if (i % 10 == 5) scene.Ran(theirs.writer()->Sync());
    if (i % 10 == 7) scene.Ran(theirs.writer()->Collect());
    if (i == 8 && !scene.dead) scene.Ran(theirs.writer()->Create("late", 10).status());
    if (i == 9 && !scene.dead) scene.Ran(theirs.writer()->Free("late"));
  }
}

void Collects(Scene& scene, Writing& theirs) {
  for (int i = 0; i < kRounds && !scene.dead; ++i) {
    theirs.PutPair();
    theirs.PutOne();
  }
}

void Reads(Scene& scene, Writing& /*theirs*/) {
  for (const Access access : {Access::kShared, Access::kLook, Access::kShared}) {
    Reading reading(scene, access);
    if (!reading.is_open()) return;
    reading.All();
    reading.All();
  }
}

// Retries while another thread has the log.
std::unique_ptr<StreamWriter> WriteOnceFree(Scene& scene) {
  Result<std::unique_ptr<StreamWriter>> writer = scene.Write();
  for (int i = 0; i < 100 && writer.status().code() == Code::kBusy; ++i) writer = scene.Write();
  if (!scene.Ran(writer.status())) return nullptr;
  return *std::move(writer);
}

void WritesAgain(Scene& scene, Writing& theirs) {
  const std::unique_ptr<StreamWriter> writer = WriteOnceFree(scene);
  if (writer == nullptr) return;
  theirs.Begin(writer.get());
  for (int i = 0; i < 4; ++i) {
    theirs.PutPair();
    theirs.PutOne();
  }
  if (!scene.dead) scene.Ran(writer->Finish());
}

void Opens(Scene& scene, Writing& theirs) {
  WritesAgain(scene, theirs);
  WritesAgain(scene, theirs);
}

// Fetches as the daemon does: versions of another place's objects come with the numbers that they
// have, and some of them again.
void Fetch(Scene& scene, Mirror& mirror, const std::string& key, uint64_t version) {
  StreamVersion told;
  told.version = version;
  told.snapshot = version == scene.ledger.Newest(key) ? scene.ledger.NewestSnapshot()
                                                      : scene.ledger.NewestSnapshot() + 1;
  const std::string bytes = NumberedBytes(key, version);
  told.bytes = bytes.size();
  const Result<Reservation> room = mirror.Reserve(key, told);
  if (!scene.Ran(room.status())) return;
  std::copy(bytes.begin(), bytes.end(), room->bytes);
  if (scene.Ran(mirror.Commit(DataHash(bytes)))) {
    scene.ledger.Committed(key, version, told.snapshot);
  }
}

void Fetches(Scene& scene, Writing& theirs) {
  const auto open = [&] { return Mirror::Open(scene.fs, scene.place, "store", 0, scene.options); };
  Result<std::unique_ptr<Mirror>> mirror = open();
  for (int i = 0; i < 100 && mirror.status().code() == Code::kBusy; ++i) mirror = open();
  if (!scene.Ran(mirror.status())) return;
  const std::string key = theirs.key(0);
  for (int i = 0; i < 8 && !scene.dead; ++i) {
    Fetch(scene, **mirror, key, scene.ledger.Newest(key) + 1);
    if (i % 2 == 1 && !scene.dead) Fetch(scene, **mirror, key, scene.ledger.Newest(key));
  }
}

// Another rank begins to write. It finds only what a dead writer left.
void Makes(Scene& scene, Writing& /*theirs*/) {
  const auto writer = OpenWriter(scene.fs, scene.place, "store", 1, scene.options);
  if (!scene.Ran(writer.status())) return;
  if (!scene.Ran((*writer)->Create("other", 100).status())) return;
  if (scene.Ran((*writer)->Put("other").status())) scene.Ran((*writer)->Finish());
}

// Readers that change nothing walk the log of a writer that died.
void Looks(Scene& scene, Writing& /*theirs*/) {
  for (int i = 0; i < 2 && !scene.dead; ++i) {
    Reading reading(scene, Access::kLook);
    if (reading.is_open()) reading.All();
  }
}

// Readers rebuild the index of a writer that died.
void Tends(Scene& scene, Writing& theirs) {
  Reads(scene, theirs);
  if (scene.dead) return;
  const Status collected = CollectEnded(scene.fs, scene.place, "store", 0);
  if (collected.code() != Code::kBusy) scene.Ran(collected);
  Reads(scene, theirs);
}

// The writer of the scene when the work begins. kAlone: no version of other writers lies in the way
// of collection.
enum class Writer { kThere, kAlone, kEnded, kDead };

struct Kind {
  const char* name;
  void (*work)(Scene& scene, Writing& theirs);
  Writer writer;
};

constexpr Kind kKinds[] = {{"writes", Writes, Writer::kThere},
                           {"collects", Collects, Writer::kAlone},
                           {"reads", Reads, Writer::kThere},
                           {"looks beside a writer", Looks, Writer::kThere},
                           {"opens", Opens, Writer::kEnded},
                           {"opens what died", Opens, Writer::kDead},
                           {"fetches", Fetches, Writer::kEnded},
                           {"makes a log", Makes, Writer::kThere},
                           {"looks", Looks, Writer::kDead},
                           {"tends", Tends, Writer::kDead}};

// The work of another thread meanwhile.
struct Action {
  const char* name;
  enum { kWithWriter, kWithoutWriter, kAlways } when;
  std::function<void(Scene& scene, Writing& mine)> body;
};

std::vector<Action> WritingActions() {
  return {{"puts", Action::kWithWriter,
           [](Scene&, Writing& mine) {
             for (int i = 0; i < 4; ++i) mine.PutOne();
           }},
          {"fills the log", Action::kWithWriter,
           [](Scene&, Writing& mine) {
             for (int i = 0; i < 30; ++i) mine.PutOne();
           }},
          {"commits several objects", Action::kWithWriter,
           [](Scene&, Writing& mine) {
             for (int i = 0; i < 3; ++i) mine.PutPair();
           }},
          {"keeps, restores and releases", Action::kWithWriter,
           [](Scene&, Writing& mine) {
             const uint64_t kept = mine.KeepPair();
             for (int i = 0; i < 3; ++i) mine.PutPair();
             mine.Restore(kept);
             mine.Release(kept);
           }},
          {"syncs and collects", Action::kWithWriter,
           [](Scene& scene, Writing& mine) {
             mine.PutPair();
             scene.Ran(mine.writer()->Sync());
             scene.Ran(mine.writer()->Collect());
           }},
          // Opens as a program does that comes while another ends.
          {"opens the log", Action::kWithoutWriter, [](Scene& scene, Writing& mine) {
             const Result<std::unique_ptr<StreamWriter>> writer = scene.Write();
             if (writer.status().code() == Code::kBusy || !scene.Ran(writer.status())) return;
             mine.Begin(writer->get());
             mine.PutPair();
             mine.PutOne();
           }}};
}

std::vector<Action> ReadingActions() {
  const auto reads = [](const char* name, void (Reading::*call)(), Access access) {
    return Action{name, Action::kAlways, [call, access](Scene& scene, Writing&) {
                    Reading reading(scene, access);
                    if (!reading.is_open()) return;
                    (reading.*call)();
                    (reading.*call)();
                  }};
  };
  return {reads("gets the newest", &Reading::Newest, Access::kShared),
          reads("gets snapshots", &Reading::Snapshots, Access::kShared),
          reads("views", &Reading::Views, Access::kShared),
          reads("holds the oldest", &Reading::HoldsOldest, Access::kShared),
          reads("lists", &Reading::Lists, Access::kShared),
          reads("waits", &Reading::Waits, Access::kShared),
          reads("only looks", &Reading::All, Access::kLook)};
}

std::vector<Action> AllActions() {
  std::vector<Action> actions = WritingActions();
  for (Action& action : ReadingActions()) actions.push_back(std::move(action));
  return actions;
}

bool IsPossible(const Kind& kind, const Action& action) {
  if (action.when == Action::kAlways) return true;
  if (action.when == Action::kWithWriter) return kind.writer == Writer::kThere;
  return kind.writer == Writer::kEnded || kind.writer == Writer::kDead;
}

class StreamSyncPoints : public testing::TestWithParam<int> {
 protected:
  // A store to which every writer has put something.
  class Stage {
   public:
    explicit Stage(const Kind& kind)
        : scene{.fs = *fs, .options = OptionsFor(GetParam())}, theirs(scene, "theirs-") {
      for (int i = 0; i < GetParam(); ++i) {
        mine.emplace_back(std::make_unique<Writing>(scene, "mine-" + std::to_string(i) + "-"));
      }
      Result<std::unique_ptr<StreamWriter>> writer = scene.Write();
      if (!scene.Ran(writer.status())) return;
      scene.writer = *std::move(writer);
      const bool alone = kind.writer == Writer::kAlone;
      for (Writing* writing : alone ? std::vector{&theirs} : All()) {
        writing->Begin(scene.writer.get());
        writing->PutPair();
        writing->PutOne();
        for (const std::string& key : writing->keys()) scene.keys.push_back(key);
      }
      if (!alone) theirs.KeepPair();
      if (kind.writer == Writer::kDead) fs->Restart(io::CrashKind::kProcess, 1);
      if (kind.writer == Writer::kEnded || kind.writer == Writer::kDead) scene.writer.reset();
    }
    std::vector<Writing*> All() {
      std::vector<Writing*> all = {&theirs};
      for (const auto& one : mine) all.push_back(one.get());
      return all;
    }

    const std::unique_ptr<io::SimFileSystem> fs = io::NewSimFileSystem();
    Scene scene;
    Writing theirs;
    std::vector<std::unique_ptr<Writing>> mine;
  };

  // Returns the places that the work passes, and how often.
  static std::map<std::string, int> Places(const Kind& kind) {
    Stage stage(kind);
    test::HeldThread counter(test::Hold{});
    kind.work(stage.scene, stage.theirs);
    std::map<std::string, int> places;
    for (const auto& [name, count] : counter.arrivals()) {
      if (name.starts_with("stream.") || name.starts_with("io.sync.")) places[name] = count;
    }
    return places;
  }
  // Returns true if a thread was held while the action ran.
  static bool Try(const Kind& kind, const test::Hold& hold, const Action& action) {
    Stage stage(kind);
    bool held = false;
    // A reader from before. After a death it would rebuild the index, so there is none then.
    std::optional<Reading> before;
    if (kind.writer != Writer::kDead) before.emplace(stage.scene);
    {
      test::HeldThread holder(hold);
      std::thread worker([&] {
        kind.work(stage.scene, stage.theirs);
        holder.Release();
      });
      held = holder.WaitUntilHeld();
      std::vector<std::thread> others;
      for (const auto& mine : stage.mine) {
        others.emplace_back([&] { action.body(stage.scene, *mine); });
      }
      if (before) before->All();
      for (std::thread& other : others) other.join();
      holder.Release();
      worker.join();
    }
    if (before) before->All();
    stage.scene.ledger.ExpectSeenRight();
    ExpectAllThere(stage.scene);
    OpenAgain(stage);
    return held;
  }
  // Kills all programs of the machine while a thread is held at the place.
  static bool TryDeath(const Kind& kind, const test::Hold& hold) {
    Stage stage(kind);
    bool held = false;
    {
      test::HeldThread holder(hold);
      std::thread worker([&] {
        kind.work(stage.scene, stage.theirs);
        holder.Release();
      });
      held = holder.WaitUntilHeld();
      stage.scene.dead = held;
      if (held) stage.fs->Restart(io::CrashKind::kProcess, 1);
      holder.Release();
      worker.join();
    }
    stage.scene.writer.reset();
    stage.scene.dead = false;
    ExpectAllThere(stage.scene);
    OpenAgain(stage);
    return held;
  }
  static void OpenAgain(Stage& stage) {
    stage.scene.writer.reset();
    ExpectAllThere(stage.scene);
    const std::unique_ptr<StreamWriter> writer = WriteOnceFree(stage.scene);
    ASSERT_NE(writer, nullptr);
    ExpectAllThere(stage.scene);
    Makes(stage.scene, stage.theirs);
  }
};

// `held`: how often a thread was held at each place.
void ExpectEachHeld(const std::map<std::string, int>& held) {
  std::set<std::string> passed;
  for (const auto& [place, count] : held) {
    EXPECT_GT(count, 0) << place << " was never held";
    passed.insert(place);
  }
  std::set<std::string> places = test::SyncPointsIn(QUIRE_SOURCES, "stream.");
  places.merge(test::SyncPointsIn(QUIRE_SOURCES "/../io/files", "io.sync."));
  test::ExpectPassed(places, passed, {});
}

TEST_P(StreamSyncPoints, NothingCommittedIsLostOrMixedUpWhicheverThreadIsHeldWhere) {
  const int64_t stride = std::max<int64_t>(1, 10 / test::ScaledCount(10));
  int64_t pair = static_cast<int64_t>(test::FirstSeed());
  std::map<std::string, int> held;
  for (const Kind& kind : kKinds) {
    for (const auto& [place, count] : Places(kind)) {
      bool tried = false;  // at least one action, however short the test is
      for (const Action& action : AllActions()) {
        if (!IsPossible(kind, action)) continue;
        if (++pair % stride != 0 && tried) continue;
        const int skip = tried ? static_cast<int>(pair / stride) % std::min(count, 8) : 0;
        tried = true;
        const test::Hold hold{.place = place, .skip = skip, .wait_ms_max = kHoldMs};
        held[place] += Try(kind, hold, action) ? 1 : 0;
        ASSERT_FALSE(HasFailure()) << kind.name << ", " << place << ", " << action.name;
      }
      held[place] += 0;
    }
  }
  ExpectEachHeld(held);
}

TEST_P(StreamSyncPoints, ADeathAtAnyOfThemTakesNothingCommitted) {
  std::map<std::string, int> held;
  for (const Kind& kind : kKinds) {
    for (const auto& [place, count] : Places(kind)) {
      const int skips = static_cast<int>(std::min<int64_t>(count, test::ScaledCount(4)));
      for (int skip = 0; skip < skips; ++skip) {
        const test::Hold hold{.place = place, .skip = skip, .wait_ms_max = 60'000};
        held[place] += TryDeath(kind, hold) ? 1 : 0;
        ASSERT_FALSE(HasFailure()) << kind.name << ", " << place << ", " << skip;
      }
    }
  }
  ExpectEachHeld(held);
}

// A process that reads the store when it is asked to.
class ReadingProcess {
 public:
  explicit ReadingProcess(Scene& scene) {
    EXPECT_EQ(::pipe(ask_.data()), 0);
    EXPECT_EQ(::pipe(answer_.data()), 0);
    child_ = ::fork();
    if (child_ != 0) return;
    ::close(ask_[1]);
    Reading reading(scene);
    char byte = 0;
    while (::read(ask_[0], &byte, 1) == 1) {
      if (reading.is_open()) reading.All();
      Reading fresh(scene);
      if (fresh.is_open()) fresh.All();
      byte = testing::Test::HasFailure() ? 1 : 0;
      if (::write(answer_[1], &byte, 1) != 1) break;
    }
    ::_exit(0);
  }
  ~ReadingProcess() {
    for (const int fd : {ask_[0], ask_[1], answer_[0], answer_[1]}) ::close(fd);
    EXPECT_EQ(::waitpid(child_, nullptr, 0), child_);
  }
  ReadingProcess(const ReadingProcess&) = delete;
  ReadingProcess& operator=(const ReadingProcess&) = delete;

  // Returns true if all that it read was right.
  bool Reads() const {
    char byte = 1;
    return ::write(ask_[1], &byte, 1) == 1 && ::read(answer_[0], &byte, 1) == 1 && byte == 0;
  }

 private:
  std::array<int, 2> ask_ = {};
  std::array<int, 2> answer_ = {};
  pid_t child_ = -1;
};

TEST(StreamSyncPointsBeside, AnotherProcessReadsWhereverTheWriterStands) {
  const test::TempDirectory directory(test::PlaceInMemory());
  Scene scene{
      .fs = io::PosixFileSystem(), .options = OptionsFor(2), .place = directory / "place"};
  Result<std::unique_ptr<StreamWriter>> writer = scene.Write();
  ASSERT_OK(writer.status());
  scene.writer = *std::move(writer);
  Writing theirs(scene, "theirs-");
  theirs.Begin(scene.writer.get());
  theirs.PutOne();
  theirs.KeepPair();
  scene.keys = theirs.keys();
  const ReadingProcess other(scene);
  std::set<std::string> places;
  {
    test::HeldThread counter(test::Hold{});
    Writes(scene, theirs);
    for (const auto& [name, count] : counter.arrivals()) places.insert(name);
  }
  size_t held = 0;
  for (const std::string& place : places) {
    test::HeldThread holder({.place = place, .wait_ms_max = kHoldMs});
    std::thread worker([&] {
      Writes(scene, theirs);
      holder.Release();
    });
    held += holder.WaitUntilHeld() ? 1 : 0;
    EXPECT_TRUE(other.Reads()) << place;
    holder.Release();
    worker.join();
  }
  EXPECT_GE(held, 20u);
  ExpectAllThere(scene);
}

// A reader that misses the news would sleep for minutes.
TEST(StreamSyncPointsBeside, NewsThatComesBeforeASleepEndsIt) {
  constexpr uint64_t kLongNs = 600'000'000'000;
  const auto fs = io::NewSimFileSystem();
  const std::unique_ptr<Gate> gate = *Gate::Create(*fs, "/gate");
  gate->SetState(GateState::kWriting);
  test::HeldThread holder({.place = "stream.gate.before_sleep", .wait_ms_max = 60'000});
  std::thread reader([&] { gate->Wait(0, GateState::kWriting, kLongNs); });
  ASSERT_TRUE(holder.WaitUntilHeld());
  gate->Publish(1);
  holder.Release();
  reader.join();
}

// A reader that opens meanwhile has already read the size of the index.
TEST(StreamSyncPointsBeside, AnIndexThatGivesWayToASmallerOneIsNotDamaged) {
  StreamMachine machine;
  StreamOptions options = SmallLog(1 << 20);
  options.objects_max = 4096;
  ASSERT_OK(machine.Write(options).status());
  options.objects_max = 16;
  std::unique_ptr<StreamWriter> writer;
  const AtPlace at("stream.reader_log.index_opened", [&] { writer = *machine.Write(options); });
  EXPECT_OK(machine.Read().status());
  EXPECT_NE(writer, nullptr);
}

INSTANTIATE_TEST_SUITE_P(OtherThreads, StreamSyncPoints, testing::Values(1, 2, 4));

}  // namespace
}  // namespace quire::stream::stream_sync_points_test
