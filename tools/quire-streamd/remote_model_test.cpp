// A random program on one node, its readers on another, and the daemons between them, against a
// model. A remote reader gets what the writer stored, over two lives of the writer, with mirrors of
// any size that are removed now and then.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/core/random.h"
#include "io/files/machine.h"
#include "stream/remote/remote_reader.h"
#include "stream/store/mirror.h"
#include "stream/store/writer.h"
#include "tests/support/model_seeds.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"
#include "tools/quire-streamd/daemon.h"
#include "tools/quire-streamd/handshake.h"

namespace quire::streamd::remote_model_test {
namespace {

constexpr uint64_t kLongNs = 20'000'000'000;
constexpr uint64_t kObjectBytesMax = 100'000;
const char* const kStore = "field";

// A place with a daemon.
class Node {
 public:
  // `metadata` empty: this daemon is the metadata service.
  Node(const std::string& metadata, uint64_t mirror_bytes) {
    DaemonOptions options;
    options.place = place_.path();
    options.metadata = metadata;
    options.metadata_here = metadata.empty();
    options.mirror_bytes = mirror_bytes;
    options.limits.tick_ms = 20;
    options.tend_ms = 20;
    auto opened = Daemon::Open(options, *Token::From(std::string(32, 't')),
                               StreamsOf(io::PosixFileSystem(), place_.path(), mirror_bytes));
    EXPECT_OK(opened.status());
    daemon_ = std::move(*opened);
    thread_ = std::thread([this] { EXPECT_OK(daemon_->Run()); });
  }
  ~Node() {
    daemon_->Stop();
    thread_.join();
    EXPECT_TRUE(daemon_->Finish(20'000));
  }
  const std::string& place() const { return place_.path(); }
  const std::string& address() const { return daemon_->address(); }

 private:
  const test::TempDirectory place_;
  std::unique_ptr<Daemon> daemon_;
  std::thread thread_;
};

struct Stored {
  uint64_t snapshot = 0;
  std::string bytes;
  bool may_be_gone = false;  // the policy did not keep it at some time
};

// The content of the store: for each object the versions, beginning with number 1.
struct Model {
  std::map<std::string, std::vector<Stored>> objects;
  uint64_t last = 0;
  std::set<uint64_t> kept;

  const Stored* Find(const std::string& key, uint64_t version) const {
    const auto object = objects.find(key);
    if (object == objects.end() || version > object->second.size()) return nullptr;
    return version == 0 ? &object->second.back() : &object->second[version - 1];
  }
  const Stored* At(const std::string& key, uint64_t snapshot) const {
    const Stored* found = nullptr;
    const auto object = objects.find(key);
    if (object == objects.end()) return nullptr;
    for (const Stored& stored : object->second) {
      if (snapshot == 0 || stored.snapshot <= snapshot) found = &stored;
    }
    return found;
  }
  void Age(uint32_t keep_versions) {
    for (auto& [key, versions] : objects) {
      for (size_t i = 0; i + keep_versions < versions.size(); ++i) {
        const bool is_kept = std::any_of(kept.begin(), kept.end(), [&, &name = key](uint64_t s) {
          return At(name, s) == &versions[i];
        });
        if (!is_kept) versions[i].may_be_gone = true;
      }
    }
  }
};

class Nodes {
 public:
  explicit Nodes(uint64_t seed)
      : random_(seed),
        mirror_bytes_(random_.OneIn(3) ? 1 << 20 : 8 << 20),
        there_("", 1 << 20),
        here_(there_.address(), mirror_bytes_) {}

  void Run() {
    for (int life = 0; life < 2 && !testing::Test::HasFailure(); ++life) {
      OpenWriter();
      for (uint64_t left = 10 + random_.Below(20); left > 0 && !testing::Test::HasFailure();
           --left) {
        Write();
        if (model_.last != 0) Read();
      }
      if (testing::Test::HasFailure()) return;
      if (random_.OneIn(2)) ASSERT_OK(writer_->Finish());
      writer_.reset();  // finishes it, too
      memory_.clear();
      if (model_.last == 0) continue;
      Read();
      if (reader_ != nullptr) ExpectTheEnd();
    }
  }

 private:
  static constexpr const char* kKeys[] = {"a", "b/c", "none"};

  void OpenWriter() {
    StreamOptions options;
    options.log_bytes = 16 << 20;
    options.keep_versions = keep_versions_ = 1 + static_cast<uint32_t>(random_.Below(4));
    options.deltas = random_.OneIn(2) ? StreamDeltas::kHash : StreamDeltas::kOff;
    options.full_every = 1 + static_cast<uint32_t>(random_.Below(4));
    options.compression = random_.OneIn(2) ? Compression::kLz4 : Compression::kNone;
    auto opened = stream::OpenWriter(io::PosixFileSystem(), there_.place(), kStore, 0, options);
    ASSERT_OK(opened.status());
    writer_ = *std::move(opened);
    model_.Age(keep_versions_);
    for (const char* const key : {kKeys[0], kKeys[1]}) {
      const uint64_t bytes = random_.OneIn(3) ? 10 : 1 + random_.Below(kObjectBytesMax);
      const Result<char*> created = writer_->Create(key, bytes);
      ASSERT_OK(created.status());
      memory_[key] = {*created, bytes};
    }
  }

  void Write() {
    switch (random_.Below(8)) {
      case 0:
        Keep();
        break;
      case 1:
        Release();
        break;
      case 2:
        EXPECT_OK(writer_->Collect());
        break;
      default:
        Commit();
    }
    model_.Age(keep_versions_);
  }
  void Commit() {
    std::vector<Slice> keys;
    for (auto& [key, object] : memory_) {
      if (random_.OneIn(3)) continue;
      for (uint64_t at = random_.Below(object.second); at < object.second; at += 777) {
        object.first[at] = static_cast<char>(random_.Next());
      }
      keys.push_back(key);
    }
    if (keys.empty()) return;
    const Result<uint64_t> taken = writer_->Snapshot(keys);
    ASSERT_OK(taken.status());
    model_.last = *taken;
    for (const Slice key : keys) {
      const auto& [memory, bytes] = memory_.at(std::string(key));
      model_.objects[std::string(key)].push_back({*taken, std::string(memory, bytes)});
    }
  }
  void Keep() {
    if (model_.kept.size() > 3 || model_.last == 0) return;
    ASSERT_OK(writer_->Keep(model_.last));
    model_.kept.insert(model_.last);
  }
  void Release() {
    if (model_.kept.empty()) return;
    ASSERT_OK(writer_->Release(*model_.kept.begin()));
    model_.kept.erase(model_.kept.begin());
  }

  // The first time it retries until the daemon here knows of the store.
  void OpenReader() {
    StreamReaderOptions options;
    options.remote = false;
    const auto near = stream::OpenReader(io::PosixFileSystem(), here_.place(), kStore, 0, options);
    EXPECT_CODE(near.status(), Code::kNotFound);
    options.remote = true;
    options.timeout_ms = random_.OneIn(2) ? 20'000 : 60'000;
    Result<std::unique_ptr<StreamReader>> opened = Status(Code::kNotFound);
    for (const uint64_t until = io::RealClock().NowNs() + kLongNs;
         opened.status().code() == Code::kNotFound && io::RealClock().NowNs() < until;) {
      opened = stream::OpenReader(io::PosixFileSystem(), here_.place(), kStore, 0, options);
    }
    ASSERT_OK(opened.status());
    reader_ = *std::move(opened);
  }

  void Read() {
    if (reader_ == nullptr || random_.OneIn(8)) OpenReader();
    if (reader_ == nullptr) return;
    const std::string key = kKeys[random_.Below(std::size(kKeys))];
    switch (random_.Below(7)) {
      case 0:
        CheckObjects();
        break;
      case 1:
        CheckVersions(key);
        break;
      case 2:
        CheckNewest();
        break;
      case 3:
        std::filesystem::remove_all(stream::MirrorPlace(here_.place()));
        break;
      default:
        GetOrView(key);
    }
  }
  void CheckObjects() {
    const auto objects = reader_->Objects();
    ASSERT_OK(objects.status());
    std::vector<std::string> expected;
    for (const auto& [key, versions] : model_.objects) expected.push_back(key);
    EXPECT_THAT(*objects, testing::UnorderedElementsAreArray(expected));
  }
  void CheckVersions(const std::string& key) {
    const auto versions = reader_->Versions(key);
    if (!model_.objects.contains(key)) return ExpectCode(versions.status(), Code::kNotFound);
    ASSERT_OK(versions.status());
    std::set<uint64_t> there;
    for (const StreamVersion& version : *versions) {
      const Stored* const stored = model_.Find(key, version.version);
      ASSERT_NE(stored, nullptr);
      EXPECT_EQ(version.snapshot, stored->snapshot);
      EXPECT_EQ(version.bytes, stored->bytes.size());
      there.insert(version.version);
    }
    const std::vector<Stored>& expected = model_.objects.at(key);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(expected[i].may_be_gone || there.contains(i + 1)) << key << " " << i + 1;
    }
  }
  void CheckNewest() {
    const auto newest = reader_->LastSnapshot();
    ASSERT_OK(newest.status());
    EXPECT_EQ(*newest, model_.last);
    const auto came = reader_->Wait(random_.Below(model_.last), 0);
    ASSERT_OK(came.status());
    EXPECT_EQ(*came, model_.last);
  }
  void GetOrView(const std::string& key) {
    const bool by_snapshot = random_.OneIn(2);
    const auto object = model_.objects.find(key);
    const uint64_t newest = by_snapshot                      ? model_.last
                            : object == model_.objects.end() ? 0
                                                             : object->second.size();
    const uint64_t number = random_.OneIn(3) ? 0 : random_.Below(newest + 1);
    const Stored* const stored = by_snapshot ? model_.At(key, number) : model_.Find(key, number);
    SCOPED_TRACE(key + (by_snapshot ? " at snapshot " : ", version ") + std::to_string(number));
    std::string bytes;
    std::unique_ptr<StreamView> view;
    Status got;
    if (random_.OneIn(2)) {
      got = by_snapshot ? reader_->GetAt(key, number, &bytes) : reader_->Get(key, number, &bytes);
    } else {
      auto viewed = by_snapshot ? reader_->ViewAt(key, number) : reader_->View(key, number);
      got = viewed.status();
      if (viewed.ok()) {
        view = *std::move(viewed);
        EXPECT_OK(view->Verify());
        bytes = view->bytes();
      }
    }
    if (got.ok()) {
      ASSERT_NE(stored, nullptr);
      EXPECT_EQ(bytes == stored->bytes, true);
      return;
    }
    // After later versions are gone, it is unknown which version an object had then.
    const bool known = stored != nullptr && !stored->may_be_gone &&
                       (!by_snapshot || number == 0 || number == stored->snapshot);
    EXPECT_CODE(got, Code::kNotFound);
    EXPECT_FALSE(known) << got.ToString();
  }
  void ExpectTheEnd() {
    EXPECT_CODE(reader_->Wait(model_.last, 0).status(), Code::kNotFound);
    const auto finished = reader_->Finished();
    ASSERT_OK(finished.status());
    EXPECT_TRUE(*finished);
  }
  static void ExpectCode(const Status& status, Code code) { EXPECT_CODE(status, code); }

  base::Random random_;
  const uint64_t mirror_bytes_;
  Node there_;
  Node here_;
  Model model_;
  uint32_t keep_versions_ = 1;
  std::unique_ptr<StreamWriter> writer_;
  std::map<std::string, std::pair<char*, uint64_t>> memory_;
  std::unique_ptr<StreamReader> reader_;
};

TEST(RemoteModel, ReadersOnAnotherNodeGetWhatTheModelHas) {
  test::ForEachModelSeed([](uint64_t seed) { Nodes(seed).Run(); });
}

}  // namespace
}  // namespace quire::streamd::remote_model_test
