// Random programs that store and read streams, against a model: all options of a stream, drawn from
// the option table, those of its readers, and all calls of writers and readers, over several lives
// of the writers on one machine. The parts of two ranks share memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/core/random.h"
#include "io/sim/sim_file_system.h"
#include "quire/option_table.h"
#include "stream/remote/remote_reader.h"
#include "stream/store/tending.h"
#include "stream/store/writer.h"
#include "tests/support/model_seeds.h"
#include "tests/support/status_asserts.h"

namespace quire::stream::stream_model_test {
namespace {

constexpr uint32_t kParts = 2;
constexpr uint64_t kPage = 4096;
constexpr uint64_t kSharedPages = 28;
const char* const kPlace = "/place";
const char* const kStore = "store";

// The values from which each option is drawn. A row of the option table that is missing here fails
// a test.
const std::map<std::string, std::vector<std::string>>& Choices() {
  static const std::map<std::string, std::vector<std::string>> choices = {
      {"stream_log_bytes", {"1048576", "1500000", "4194304"}},
      {"stream_keep_versions", {"1", "2", "5"}},
      {"stream_keep_ms", {"0", "0", "0", "0", "3600000"}},
      {"stream_collect_percent", {"10", "75", "100"}},
      {"stream_wait_ms", {"0", "2"}},
      {"stream_objects_max", {"64", "4096"}},
      {"stream_deltas", {"off", "auto", "hash", "protect", "watch"}},
      {"stream_full_every", {"1", "3", "16"}},
      {"stream_audit_every", {"0", "1", "3"}},
      {"stream_compression", {"none", "lz4"}},
  };
  return choices;
}

// A stream needs no context, and has none of its options.
bool OfAStream(const OptionRow& row) { return row.group == OptionGroup::kStream; }

const std::string& OneOf(const std::vector<std::string>& choices, base::Random& random) {
  return choices[random.Below(choices.size())];
}

StreamOptions DrawOptions(base::Random& random) {
  StreamOptions options;
  for (const OptionRow& row : OptionTable::Rows()) {
    if (!OfAStream(row)) continue;
    EXPECT_OK(OptionTable::Set(row.name, OneOf(Choices().at(row.name), random), &options));
  }
  return options;
}

// A field that is added is to be drawn, too: this does not compile then.
StreamReaderOptions DrawReaderOptions(base::Random& random) {
  StreamReaderOptions options;
  auto& [timeout_ms, remote] = options;
  timeout_ms = random.OneIn(2) ? 1000 : 60'000;
  remote = random.OneIn(2);
  return options;
}

std::string Explain(const StreamOptions& options) {
  std::string text;
  for (const OptionRow& row : OptionTable::Rows()) {
    if (OfAStream(row)) text += row.name + "=" + *OptionTable::Get(row.name, options) + " ";
  }
  return text;
}

std::vector<std::string> Keys() {
  return {"a",   "bb", std::string(90, 'c'), std::string(1, '\0') + "d",
          "e/f", std::string(1000, 'k')};
}

void ExpectCode(const Status& status, Code code) { EXPECT_CODE(status, code); }

struct Stored {
  uint64_t version = 0;
  uint64_t snapshot = 0;
  std::string bytes;
  StreamShape shape;
  bool may_be_gone = false;  // the policy did not keep it at some time
};

// The contents of a part of the store.
class Model {
 public:
  void Commit(const std::string& key, Slice bytes, const StreamShape& shape) {
    std::vector<Stored>& versions = objects_[key];
    const uint64_t number = versions.empty() ? 1 : versions.back().version + 1;
    versions.push_back({number, last_ + 1, std::string(bytes), shape});
  }
  void EndCommit() { ++last_; }

  uint64_t last() const { return last_; }
  const std::map<std::string, std::vector<Stored>>& objects() const { return objects_; }
  const std::vector<Stored>* VersionsOf(const std::string& key) const {
    const auto found = objects_.find(key);
    return found == objects_.end() ? nullptr : &found->second;
  }
  const Stored* Find(const std::string& key, uint64_t version) const {
    const std::vector<Stored>* versions = VersionsOf(key);
    if (versions == nullptr || version > versions->size()) return nullptr;
    return version == 0 ? &versions->back() : &(*versions)[version - 1];
  }
  const Stored* At(const std::string& key, uint64_t snapshot) const {
    const Stored* found = nullptr;
    const std::vector<Stored>* versions = VersionsOf(key);
    if (versions == nullptr) return nullptr;
    for (const Stored& stored : *versions) {
      if (snapshot == 0 || stored.snapshot <= snapshot) found = &stored;
    }
    return found;
  }

  // Returns whether it is known which version an object had: a later version, if any, must be
  // there.
  bool IsKnownAt(const std::string& key, uint64_t snapshot) const {
    const Stored* at = At(key, snapshot);
    const Stored* next = Find(key, at->version + 1);
    return next == nullptr || !next->may_be_gone || at->snapshot == snapshot ||
           kept_.contains(snapshot);
  }

  const std::set<uint64_t>& kept() const { return kept_; }
  // Whether a snapshot is known to be whole: of what came later the first version is there.
  bool WholeAt(uint64_t snapshot) const {
    return kept_.contains(snapshot) ||
           std::all_of(objects_.begin(), objects_.end(), [&](const auto& object) {
             const Stored* at = At(object.first, snapshot);
             return !(at == nullptr ? object.second.front() : *at).may_be_gone;
           });
  }
  void Keep(uint64_t snapshot) {
    kept_.insert(snapshot);
    for (auto& [key, versions] : objects_) {
      const Stored* at = At(key, snapshot);
      if (at != nullptr) versions[at->version - 1].may_be_gone = false;
    }
  }
  bool Release(uint64_t snapshot) { return kept_.erase(snapshot) != 0; }
  // From now on what the policy does not keep may go at any time.
  void Age(const StreamOptions& options) {
    for (auto& [key, versions] : objects_) {
      for (Stored& stored : versions) {
        const bool is_new = stored.version + options.keep_versions > versions.back().version;
        const bool is_kept = std::any_of(kept_.begin(), kept_.end(), [&, &name = key](uint64_t s) {
          return At(name, s) == &stored;
        });
        if (!is_new && !is_kept && options.keep_ms == 0) stored.may_be_gone = true;
      }
    }
  }
  // [bytes] Of the largest version of each object that is needed, now or for the snapshot `also`
  // (0: none), which may be of larger objects.
  uint64_t SizeOfAll(uint64_t also) const {
    uint64_t sum = 0;
    for (const auto& [key, versions] : objects_) {
      const Stored* at = also == 0 ? nullptr : At(key, also);
      uint64_t largest = at == nullptr ? 0 : at->bytes.size();
      for (const Stored& stored : versions) {
        if (!stored.may_be_gone) largest = std::max<uint64_t>(largest, stored.bytes.size());
      }
      sum += largest + key.size() + 256;
    }
    return sum;
  }

 private:
  std::map<std::string, std::vector<Stored>> objects_;
  std::set<uint64_t> kept_;
  uint64_t last_ = 0;
};

void Scribble(char* memory, uint64_t bytes, base::Random& random) {
  for (uint64_t left = random.Below(4); left > 0; --left) {
    const uint64_t from = random.OneIn(3) ? 0 : random.Below(bytes);
    const uint64_t count = random.OneIn(3) ? bytes - from : 1 + random.Below(bytes - from);
    if (random.OneIn(2)) {
      std::memset(memory + from, static_cast<int>(random.Below(256)), count);
    } else {
      for (uint64_t i = from; i < from + count; ++i) {
        memory[i] = static_cast<char>(random.Next());
      }
    }
  }
}

// Memory of the program that objects of both parts lie in, over each other.
class SharedMemory {
 public:
  SharedMemory()
      : memory_(static_cast<char*>(std::aligned_alloc(kPage, kSharedPages * kPage))) {
    std::memset(memory_.get(), 0, kSharedPages * kPage);
  }
  char* get() const { return memory_.get(); }

 private:
  struct Freed {
    void operator()(char* memory) const { std::free(memory); }
  };
  std::unique_ptr<char, Freed> memory_;
};

struct Object {
  char* memory = nullptr;
  uint64_t bytes = 0;
  StreamShape shape;
  Slice content() const { return Slice(memory, bytes); }
};

// One rank's part, its writer, and its readers.
class Part {
 public:
  Part(io::FileSystem& fs, uint32_t rank, base::Random& random, const SharedMemory& shared)
      : fs_(fs), rank_(rank), random_(random), shared_(shared) {}

  void Open() {
    options_ = DrawOptions(random_);
    SCOPED_TRACE(Explain(options_));
    Result<std::unique_ptr<StreamWriter>> opened =
        OpenWriter(fs_, kPlace, kStore, rank_, options_);
    ASSERT_OK(opened.status());
    writer_ = *std::move(opened);
    if (log_bytes_ == 0) log_bytes_ = options_.log_bytes;
    commits_ = 0;
    model_.Age(options_);
    EXPECT_EQ(writer_->LastSnapshot(), model_.last());
    for (const std::string& key : Keys()) {
      if (random_.OneIn(2)) Make(key);
    }
  }

  void Step() {
    SCOPED_TRACE("rank " + std::to_string(rank_) + ": " + Explain(options_));
    const std::string& key = keys_[random_.Below(keys_.size())];
    switch (random_.Below(20)) {
      case 0: Make(key); break;
      case 1: Free(key); break;
      case 2:
      case 3:
      case 4:
      case 5:
      case 6: Put(key); break;
      case 7:
      case 8:
      case 9: SnapshotOfAll(); break;
      case 10:
      case 11: SnapshotOfSome(); break;
      case 12: MarkDirty(key); break;
      case 13:
      case 14: Restore(random_.OneIn(2) ? key : ""); break;
      case 15: Keep(); break;
      case 16: Release(); break;
      case 17: EXPECT_OK(writer_->Collect()); break;
      case 18: EXPECT_OK(writer_->Sync()); break;
      default: CheckWriter(key);
    }
    model_.Age(options_);
    Read();
  }

  // Ends the stream, in a different way each time: all readers learn of the end.
  void Finish() {
    if (random_.OneIn(2)) {
      ASSERT_OK(writer_->Finish());
      EXPECT_CODE(writer_->Snapshot().status(), Code::kInvalidArgument);
    }
    writer_.reset();
    objects_.clear();
    Read();
  }
  Status Sync() { return writer_->Sync(); }
  StreamDurability durability() const { return writer_->durability(); }
  // The machine has crashed.
  void Die() {
    views_.clear();
    reader_.reset();
    writer_.reset();
    objects_.clear();
  }

  // Between two lives.
  void Rest() {
    if (model_.last() == 0) return;
    if (random_.OneIn(3)) EXPECT_OK(RecoverIndex(fs_, kPlace, kStore, rank_));
    EXPECT_OK(CheckLog(fs_, kPlace, kStore, rank_, true));
    if (random_.OneIn(3)) EXPECT_OK(CollectEnded(fs_, kPlace, kStore, rank_));
    for (int i = 0; i < 3; ++i) Read();
  }

 private:
  struct Held {
    std::unique_ptr<StreamView> view;
    std::string bytes;
  };

  // --- the writer ---

  // With the snapshot `also` kept, too (0: none).
  bool IsPlanned(uint64_t also = 0) const {
    uint64_t all = model_.SizeOfAll(also);
    for (const auto& [key, object] : objects_) all += object.bytes + key.size() + 256;
    const uint64_t versions = options_.keep_versions + model_.kept().size() + (also != 0);
    return options_.keep_ms == 0 && views_.empty() && (versions + 2) * all <= log_bytes_;
  }
  void ExpectNoRoom(const Status& status, uint64_t also = 0) {
    EXPECT_CODE(status, Code::kNoSpace);
    EXPECT_FALSE(IsPlanned(also)) << status.ToString();
  }

  void Make(const std::string& key) {
    static constexpr uint64_t kSizes[] = {1, 100, 4096, 10'000, 60'000, 100'000};
    Object object;
    object.bytes = kSizes[random_.Below(std::size(kSizes))];
    if (object.bytes % 8 == 0 && random_.OneIn(2)) {
      object.shape = {ElementType::kFloat32, {2, object.bytes / 8}};
    }
    Status made;
    if (random_.OneIn(2)) {
      const Result<char*> created = writer_->Create(key, object.bytes, object.shape);
      made = created.status();
      if (created.ok()) object.memory = *created;
    } else {
      const uint64_t room = kSharedPages * kPage - object.bytes;
      const uint64_t at = random_.Below(room);
      object.memory = shared_.get() + (random_.OneIn(2) ? at : at / kPage * kPage);
      made = writer_->Attach(key, object.memory, object.bytes, object.shape);
    }
    if (objects_.contains(key)) return ExpectCode(made, Code::kInvalidArgument);
    if (!made.ok()) return ExpectNoRoom(made);
    objects_[key] = object;
  }

  void Free(const std::string& key) {
    const Status freed = writer_->Free(key);
    EXPECT_CODE(freed, objects_.erase(key) != 0 ? Code::kOk : Code::kNotFound);
  }

  void Change(const std::string& key) {
    const auto found = objects_.find(key);
    if (found != objects_.end()) Scribble(found->second.memory, found->second.bytes, random_);
  }

  void Put(const std::string& key) {
    Change(key);
    const Result<uint64_t> put = writer_->Put(key);
    const auto found = objects_.find(key);
    if (found == objects_.end()) return ExpectCode(put.status(), Code::kNotFound);
    if (!put.ok()) return ExpectNoRoom(put.status());
    Commit({key});
    EXPECT_EQ(*put, model_.Find(key, 0)->version);
  }

  void Commit(const std::vector<std::string>& keys) {
    for (const std::string& key : keys) {
      const Object& object = objects_.at(key);
      model_.Commit(key, object.content(), object.shape);
    }
    model_.EndCommit();
    ++commits_;
  }

  void EndSnapshot(const Result<uint64_t>& taken, const std::vector<std::string>& keys) {
    if (keys.empty()) return ExpectCode(taken.status(), Code::kInvalidArgument);
    if (!taken.ok()) return ExpectNoRoom(taken.status());
    Commit(keys);
    EXPECT_EQ(*taken, model_.last());
  }
  void SnapshotOfAll() {
    std::vector<std::string> keys;
    for (const auto& [key, object] : objects_) {
      if (random_.OneIn(2)) Change(key);
      keys.push_back(key);
    }
    EndSnapshot(writer_->Snapshot(), keys);
  }
  void SnapshotOfSome() {
    std::vector<std::string> keys;
    for (const auto& [key, object] : objects_) {
      if (random_.OneIn(2)) keys.push_back(key);
    }
    for (const std::string& key : keys) Change(key);
    EndSnapshot(writer_->Snapshot(std::vector<Slice>(keys.begin(), keys.end())), keys);
  }

  void MarkDirty(const std::string& key) {
    const auto found = objects_.find(key);
    if (found == objects_.end()) {
      return ExpectCode(writer_->MarkDirty(key, 0, 1), Code::kNotFound);
    }
    const uint64_t from = random_.Below(found->second.bytes);
    EXPECT_OK(writer_->MarkDirty(key, from, found->second.bytes - from));
    EXPECT_CODE(writer_->MarkDirty(key, from, found->second.bytes),
                from == 0 ? Code::kOk : Code::kInvalidArgument);
  }

  // The state of the objects to be restored in a snapshot.
  struct Restorable {
    bool can = true;   // it has them all, of the same size
    bool must = true;  // they are known to be there
  };
  Restorable LookAt(uint64_t snapshot, const std::string& only) const {
    Restorable found;
    found.can = only.empty() || objects_.contains(only);
    for (const auto& [key, object] : objects_) {
      if (!only.empty() && key != only) continue;
      const Stored* stored = model_.At(key, snapshot);
      if (stored == nullptr || stored->bytes.size() != object.bytes) {
        found.can = false;
      } else if (stored->may_be_gone || !model_.IsKnownAt(key, snapshot)) {
        found.must = false;
      }
    }
    return found;
  }

  // Restores a snapshot. Objects that share memory are filled in the order of their keys: the
  // content of an object is checked only outside of later ones.
  void Restore(const std::string& only) {
    if (objects_.empty()) return;
    const uint64_t snapshot = random_.Below(model_.last() + 1);
    const Restorable found = LookAt(snapshot, only);
    std::map<std::string, std::string> before;
    for (const auto& [key, object] : objects_) before[key] = std::string(object.content());
    const Status restored = writer_->Restore(snapshot, only);
    if (!restored.ok()) {
      EXPECT_FALSE(found.can && found.must) << restored.ToString();
      EXPECT_THAT(restored.code(), testing::AnyOf(Code::kNotFound, Code::kInvalidArgument));
      for (const auto& [key, bytes] : before) EXPECT_EQ(objects_[key].content() == bytes, true);
      return;
    }
    ASSERT_TRUE(found.can) << "snapshot " << snapshot;
    for (const auto& [key, object] : objects_) {
      if (only.empty() || key == only) ExpectFilled(key, snapshot, only);
    }
  }
  void ExpectFilled(const std::string& key, uint64_t snapshot, const std::string& only) {
    const Object& object = objects_.at(key);
    const std::string& expected = model_.At(key, snapshot)->bytes;
    for (uint64_t i = 0; i < object.bytes; ++i) {
      if (object.memory[i] == expected[i]) continue;
      const char* at = object.memory + i;
      const bool later = only.empty() &&
          std::any_of(objects_.upper_bound(key), objects_.end(), [&](const auto& other) {
            return at >= other.second.memory && at < other.second.memory + other.second.bytes;
          });
      ASSERT_TRUE(later) << "byte " << i << " of " << key << " at snapshot " << snapshot;
    }
  }

  void Keep() {
    const uint64_t snapshot = random_.Below(model_.last() + 2);
    const Status kept = writer_->Keep(snapshot);
    const bool there = snapshot != 0 && snapshot <= model_.last();
    if (kept.ok()) {
      EXPECT_TRUE(there);
      model_.Keep(snapshot);
    } else if (kept.code() == Code::kNotFound) {
      EXPECT_FALSE(there && model_.WholeAt(snapshot)) << kept.ToString();
    } else {
      ExpectNoRoom(kept, snapshot);
    }
  }
  void Release() {
    const std::set<uint64_t>& kept = model_.kept();
    const uint64_t snapshot =
        kept.empty() || random_.OneIn(4) ? random_.Below(model_.last() + 2) : *kept.begin();
    const Status released = writer_->Release(snapshot);
    EXPECT_CODE(released, model_.Release(snapshot) ? Code::kOk : Code::kNotFound);
  }

  void CheckWriter(const std::string& key) {
    EXPECT_EQ(writer_->LastSnapshot(), model_.last());
    const StreamStatistics statistics = writer_->Statistics();
    EXPECT_EQ(statistics.commits, commits_);
    EXPECT_LE(statistics.deltas, statistics.versions);
    EXPECT_LE(statistics.live_bytes, statistics.log_bytes);
    EXPECT_LT(statistics.log_bytes - log_bytes_, 2 * kPage);
    const Result<std::string> tracking = writer_->Tracking(key);
    EXPECT_EQ(tracking.ok(), objects_.contains(key));
    EXPECT_CODE(writer_->Put("never there").status(), Code::kNotFound);
  }

  // --- readers ---

  void Read() {
    if (model_.last() == 0) return;
    if (reader_ == nullptr || random_.OneIn(8)) {
      views_.clear();
      Result<std::unique_ptr<StreamReader>> opened =
          OpenReader(fs_, kPlace, kStore, rank_, DrawReaderOptions(random_));
      ASSERT_OK(opened.status());
      reader_ = *std::move(opened);
      EXPECT_CODE(
          OpenReader(fs_, kPlace, "absent", rank_, DrawReaderOptions(random_)).status(),
          Code::kNotFound);
    }
    const std::string& key = keys_[random_.Below(keys_.size())];
    switch (random_.Below(6)) {
      case 0: CheckObjects(); break;
      case 1: CheckVersions(key); break;
      case 2: Get(key); break;
      case 3: View(key); break;
      case 4: Wait(); break;
      default: LetGo();
    }
  }

  void CheckObjects() {
    const Result<std::vector<std::string>> objects = reader_->Objects();
    ASSERT_OK(objects.status());
    std::vector<std::string> expected;
    for (const auto& [key, versions] : model_.objects()) expected.push_back(key);
    EXPECT_THAT(*objects, testing::UnorderedElementsAreArray(expected));
  }

  void CheckVersions(const std::string& key) {
    const Result<std::vector<StreamVersion>> versions = reader_->Versions(key);
    const std::vector<Stored>* expected = model_.VersionsOf(key);
    if (expected == nullptr) return ExpectCode(versions.status(), Code::kNotFound);
    ASSERT_OK(versions.status());
    std::set<uint64_t> there;
    uint64_t before = UINT64_MAX;
    for (const StreamVersion& version : *versions) {
      ASSERT_LT(version.version, before) << key;
      before = version.version;
      const Stored* stored = model_.Find(key, version.version);
      ASSERT_NE(stored, nullptr) << key << " has no version " << version.version;
      EXPECT_EQ(version.snapshot, stored->snapshot);
      EXPECT_EQ(version.bytes, stored->bytes.size());
      if (!stored->shape.extents.empty()) {
        EXPECT_EQ(version.shape.extents, stored->shape.extents);
      }
      there.insert(version.version);
    }
    for (const Stored& stored : *expected) {
      EXPECT_TRUE(stored.may_be_gone || there.contains(stored.version))
          << "version " << stored.version << " of " << key;
    }
  }

  // Which version a get is about, and how it is named.
  struct Which {
    const Stored* stored = nullptr;
    bool by_snapshot = false;
    uint64_t number = 0;
    bool may_be_absent = false;
  };
  Which Draw(const std::string& key) {
    Which which;
    which.by_snapshot = random_.OneIn(2);
    const std::vector<Stored>* versions = model_.VersionsOf(key);
    const uint64_t newest =
        which.by_snapshot ? model_.last() : versions == nullptr ? 0 : versions->back().version;
    which.number = random_.OneIn(3) ? 0 : random_.Below(newest + 2);
    if (which.by_snapshot && which.number > newest) which.number = newest;
    which.stored = which.by_snapshot ? model_.At(key, which.number)
                                     : model_.Find(key, which.number);
    which.may_be_absent = which.stored == nullptr || which.stored->may_be_gone ||
                          (which.by_snapshot && !model_.IsKnownAt(key, which.number));
    return which;
  }
  void ExpectAbsent(const Status& status, const Which& which) {
    EXPECT_CODE(status, Code::kNotFound);
    EXPECT_TRUE(which.may_be_absent) << status.ToString();
  }

  void Get(const std::string& key) {
    const Which which = Draw(key);
    std::string bytes;
    const Status got = which.by_snapshot ? reader_->GetAt(key, which.number, &bytes)
                                         : reader_->Get(key, which.number, &bytes);
    if (!got.ok()) return ExpectAbsent(got, which);
    ASSERT_NE(which.stored, nullptr);
    EXPECT_EQ(bytes == which.stored->bytes, true)
        << key << (which.by_snapshot ? " at snapshot " : ", version ") << which.number;
  }

  void View(const std::string& key) {
    const Which which = Draw(key);
    Result<std::unique_ptr<StreamView>> view = which.by_snapshot
                                                   ? reader_->ViewAt(key, which.number)
                                                   : reader_->View(key, which.number);
    if (!view.ok()) return ExpectAbsent(view.status(), which);
    ASSERT_NE(which.stored, nullptr);
    EXPECT_EQ((*view)->version().version, which.stored->version);
    if (!(*view)->version().whole) {
      EXPECT_FALSE((*view)->in_place());
    }
    views_.push_back({*std::move(view), which.stored->bytes});
    if (random_.OneIn(2)) LetGo();
  }

  // What is held stays as it was.
  void LetGo() {
    for (const Held& held : views_) {
      EXPECT_OK(held.view->Verify());
      EXPECT_EQ(held.view->bytes() == held.bytes, true)
          << "a view of version " << held.view->version().version;
    }
    views_.clear();
  }

  void Wait() {
    const Result<uint64_t> newest = reader_->LastSnapshot();
    ASSERT_OK(newest.status());
    EXPECT_EQ(*newest, model_.last());
    const Result<uint64_t> came = reader_->Wait(random_.Below(model_.last()), 0);
    ASSERT_OK(came.status());
    EXPECT_EQ(*came, model_.last());
    const Result<uint64_t> none = reader_->Wait(model_.last(), 0);
    const Result<bool> finished = reader_->Finished();
    ASSERT_OK(finished.status());
    if (writer_ != nullptr) {
      EXPECT_CODE(none.status(), Code::kTimedOut);
      EXPECT_FALSE(*finished);
    } else {
      EXPECT_CODE(none.status(), *finished ? Code::kNotFound : Code::kPeerFailed);
    }
  }

  io::FileSystem& fs_;
  const uint32_t rank_;
  base::Random& random_;
  const SharedMemory& shared_;
  const std::vector<std::string> keys_ = Keys();
  StreamOptions options_;
  uint64_t log_bytes_ = 0;  // as the log was made
  uint64_t commits_ = 0;    // of this writer
  Model model_;
  std::unique_ptr<StreamWriter> writer_;
  std::map<std::string, Object> objects_;
  std::unique_ptr<StreamReader> reader_;
  std::vector<Held> views_;
};

// Some lives of the writers on one machine.
class Lives {
 public:
  explicit Lives(uint64_t seed) : seed_(seed), random_(seed) {
    fs_->SetPersistent(random_.OneIn(2));
    for (uint32_t rank = 0; rank < kParts; ++rank) {
      parts_.push_back(std::make_unique<Part>(*fs_, rank, random_, shared_));
    }
  }

  void Run() {
    for (uint64_t left = 1 + random_.Below(4); left > 0 && !testing::Test::HasFailure(); --left) {
      for (auto& part : parts_) part->Open();
      for (uint64_t step = random_.Below(60); step > 0 && !testing::Test::HasFailure(); --step) {
        parts_[random_.Below(kParts)]->Step();
      }
      if (testing::Test::HasFailure()) return;
      End();
      for (auto& part : parts_) part->Rest();
    }
  }

 private:
  void End() {
    if (random_.OneIn(2)) {
      for (auto& part : parts_) part->Finish();
      return;
    }
    static constexpr io::CrashKind kCrashes[] = {io::CrashKind::kProcess, io::CrashKind::kMoved,
                                                 io::CrashKind::kPower};
    const io::CrashKind crash = kCrashes[random_.Below(std::size(kCrashes))];
    if (crash == io::CrashKind::kPower) {
      for (auto& part : parts_) {
        if (part->durability() == StreamDurability::kMachine) continue;
        ASSERT_OK(part->Sync());
      }
    }
    fs_->Restart(crash, seed_);
    for (auto& part : parts_) part->Die();
  }

  const uint64_t seed_;
  base::Random random_;
  const std::unique_ptr<io::SimFileSystem> fs_ = io::NewSimFileSystem();
  const SharedMemory shared_;
  std::vector<std::unique_ptr<Part>> parts_;
};

TEST(StreamModel, EveryOptionIsDrawn) {
  for (const OptionRow& row : OptionTable::Rows()) {
    if (!OfAStream(row)) continue;
    ASSERT_TRUE(Choices().contains(row.name)) << row.name << ": say what it is drawn from";
    EXPECT_GE(Choices().at(row.name).size(), 2u) << row.name;
    for (const std::string& value : Choices().at(row.name)) {
      StreamOptions options;
      EXPECT_OK(OptionTable::Set(row.name, value, &options));
    }
  }
}

TEST(StreamModel, ProgramsGiveWhatTheModelHas) {
  test::ForEachModelSeed([](uint64_t seed) { Lives(seed).Run(); });
}

}  // namespace
}  // namespace quire::stream::stream_model_test
