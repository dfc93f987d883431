#include "stream/store/sync_points_testing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "base/hash/hash.h"
#include "stream/store/tending.h"

namespace quire::stream {
namespace {

constexpr uint64_t kSmallBytes = 1200;
constexpr uint64_t kLargeBytes = 9000;  // a few blocks, of which only the first changes each time
constexpr uint64_t kFirstBytes = 256;
constexpr uint64_t kSameFor = 4;  // versions
// Enough for the writer to reach what is held, not enough to make it wait for long.
constexpr int kNewsWhileHeld = 40;
constexpr uint64_t kNewsMs = 12;

// Objects that are always put alone are large.
uint64_t SizeOf(Slice key) {
  return key.back() == '2' ? kLargeBytes : kSmallBytes;
}

}  // namespace

std::string NumberedBytes(Slice key, uint64_t version) {
  std::string bytes(SizeOf(key), '\0');
  const uint64_t seed = base::HashKey(key);
  for (uint64_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
    const uint64_t age = at < kFirstBytes ? version : version / kSameFor;
    const uint64_t word =
        at == 0 ? version : (seed + age * 0x9E3779B97F4A7C15 + at) * 0xFF51AFD7ED558CCD;
    std::memcpy(bytes.data() + at, &word, std::min(sizeof word, bytes.size() - at));
  }
  return bytes;
}

uint64_t VersionIn(Slice key, Slice bytes) {
  uint64_t version = 0;
  if (bytes.size() != SizeOf(key)) return 0;
  std::memcpy(&version, bytes.data(), sizeof version);
  return bytes == NumberedBytes(key, version) ? version : 0;
}

void Ledger::Committed(const std::string& key, uint64_t version, uint64_t snapshot) {
  const std::lock_guard guard(mutex_);
  versions_[key][snapshot] = version;
}

uint64_t Ledger::Newest(const std::string& key) const {
  const std::lock_guard guard(mutex_);
  const auto found = versions_.find(key);
  return found == versions_.end() ? 0 : found->second.rbegin()->second;
}

uint64_t Ledger::NewestSnapshot() const {
  const std::lock_guard guard(mutex_);
  uint64_t newest = 0;
  for (const auto& [key, versions] : versions_) newest = std::max(newest, versions.rbegin()->first);
  return newest;
}

void Ledger::Keeps(uint64_t snapshot) {
  const std::lock_guard guard(mutex_);
  kept_.insert(snapshot);
}

void Ledger::Releases(uint64_t snapshot) {
  const std::lock_guard guard(mutex_);
  kept_.erase(snapshot);
}

bool Ledger::IsKept(uint64_t snapshot) const {
  const std::lock_guard guard(mutex_);
  return kept_.contains(snapshot);
}

std::set<uint64_t> Ledger::Kept() const {
  const std::lock_guard guard(mutex_);
  return kept_;
}

void Ledger::Saw(const std::string& key, uint64_t snapshot, uint64_t version) {
  const std::lock_guard guard(mutex_);
  seen_.push_back({{key, snapshot}, version});
}

uint64_t Ledger::Known(const std::string& key, uint64_t snapshot) const {
  const std::map<uint64_t, uint64_t>& versions = versions_.at(key);
  const auto after = versions.upper_bound(snapshot);
  return after == versions.begin() ? 0 : std::prev(after)->second;
}

uint64_t Ledger::VersionAt(const std::string& key, uint64_t snapshot) const {
  const std::lock_guard guard(mutex_);
  return Known(key, snapshot);
}

void Ledger::ExpectSeenRight() const {
  const std::lock_guard guard(mutex_);
  for (const auto& [what, version] : seen_) {
    EXPECT_EQ(version, Known(what.first, what.second)) << what.first << " at " << what.second;
  }
}

bool Scene::Ran(const Status& status) const {
  if (dead) return false;
  EXPECT_TRUE(status.ok()) << status.ToString();
  return status.ok();
}

void Writing::Begin(StreamWriter* writer) {
  writer_ = writer;
  for (int i = 0; i < 3; ++i) {
    const Result<char*> made = writer->Create(key(i), SizeOf(key(i)));
    memory_[i] = scene_.Ran(made.status()) ? *made : nullptr;
  }
}

void Writing::Fill(int which, uint64_t version) {
  NumberedBytes(key(which), version).copy(memory_[which], SizeOf(key(which)));
}

uint64_t Writing::PutPair() {
  if (scene_.dead) return 0;
  const uint64_t version = scene_.ledger.Newest(key(0)) + 1;
  Fill(0, version);
  Fill(1, version);
  const std::string first = key(0);
  const std::string second = key(1);
  const Result<uint64_t> snapshot = writer_->Snapshot({Slice(first), Slice(second)});
  if (!scene_.Ran(snapshot.status())) return 0;
  scene_.ledger.Committed(first, version, *snapshot);
  scene_.ledger.Committed(second, version, *snapshot);
  return *snapshot;
}

// Puts one object by a snapshot, which returns its number.
void Writing::PutOne() {
  if (scene_.dead) return;
  const std::string third = key(2);
  const uint64_t version = scene_.ledger.Newest(third) + 1;
  Fill(2, version);
  const Result<uint64_t> snapshot = writer_->Snapshot({Slice(third)});
  if (scene_.Ran(snapshot.status())) scene_.ledger.Committed(third, version, *snapshot);
}

uint64_t Writing::KeepPair() {
  const uint64_t snapshot = PutPair();
  if (snapshot == 0) return 0;
  const Status kept = writer_->Keep(snapshot);
  // Other objects may have lost their versions of that snapshot.
  if (kept.code() == Code::kNotFound || !scene_.Ran(kept)) return 0;
  scene_.ledger.Keeps(snapshot);
  return snapshot;
}

void Writing::Release(uint64_t snapshot) {
  if (snapshot == 0) return;
  scene_.ledger.Releases(snapshot);
  scene_.Ran(writer_->Release(snapshot));
}

void Writing::Restore(uint64_t snapshot) {
  if (snapshot == 0 || scene_.dead) return;
  if (!scene_.Ran(writer_->Restore(snapshot, key(0)))) return;
  EXPECT_EQ(VersionIn(key(0), Slice(memory_[0], kSmallBytes)),
            scene_.ledger.VersionAt(key(0), snapshot));
}

Reading::Reading(Scene& scene, Access access) : scene_(scene) {
  Result<std::unique_ptr<StreamReader>> reader = scene.Read(access);
  if (scene.Ran(reader.status())) reader_ = *std::move(reader);
}

void Reading::Check(const std::string& key, uint64_t floor, uint64_t version) {
  EXPECT_NE(version, 0u) << "bytes of no version of " << key;
  EXPECT_GE(version, floor) << key;
  EXPECT_GE(version, last_[key]) << key << ": an older version after a newer one";
  last_[key] = version;
}

void Reading::Newest() {
  for (const std::string& key : scene_.keys) {
    if (scene_.dead) return;
    const uint64_t floor = scene_.ledger.Newest(key);
    std::string bytes;
    if (scene_.Ran(reader_->Get(key, 0, &bytes))) Check(key, floor, VersionIn(key, bytes));
  }
}

// kNotFound is right only if the snapshot is not kept and newer ones have come.
void Reading::Snapshot(uint64_t snapshot) {
  for (const std::string& key : scene_.keys) {
    if (scene_.dead) return;
    std::string bytes;
    const Status got = reader_->GetAt(key, snapshot, &bytes);
    if (scene_.dead) return;
    if (got.code() == Code::kNotFound) {
      const Result<uint64_t> newest = reader_->LastSnapshot();
      if (!scene_.Ran(newest.status())) return;
      const bool can_have_gone = !scene_.ledger.IsKept(snapshot) && *newest > snapshot;
      EXPECT_TRUE(can_have_gone) << key << " at " << snapshot << " is lost";
      continue;
    }
    if (!scene_.Ran(got)) return;
    const uint64_t version = VersionIn(key, bytes);
    EXPECT_NE(version, 0u) << "bytes of no version of " << key;
    scene_.ledger.Saw(key, snapshot, version);
  }
}

void Reading::Snapshots() {
  const Result<uint64_t> newest = reader_->LastSnapshot();
  if (!scene_.Ran(newest.status())) return;
  Snapshot(*newest);
  for (const uint64_t kept : scene_.ledger.Kept()) Snapshot(kept);
}

void Reading::Views() {
  std::vector<std::unique_ptr<StreamView>> views;
  for (const std::string& key : scene_.keys) {
    if (scene_.dead) return;
    const uint64_t floor = scene_.ledger.Newest(key);
    Result<std::unique_ptr<StreamView>> view = reader_->View(key, 0);
    if (!scene_.Ran(view.status())) return;
    Check(key, floor, (*view)->version().version);
    views.push_back(*std::move(view));
  }
  for (size_t i = 0; i < views.size() && !scene_.dead; ++i) {
    scene_.Ran(views[i]->Verify());
    EXPECT_EQ(VersionIn(scene_.keys[i], views[i]->bytes()), views[i]->version().version);
  }
}

void Reading::HoldsOldest() {
  std::vector<std::pair<std::string, std::unique_ptr<StreamView>>> views;
  for (const std::string& key : scene_.keys) {
    const Result<std::vector<StreamVersion>> versions = reader_->Versions(key);
    if (!scene_.Ran(versions.status())) return;
    Result<std::unique_ptr<StreamView>> view = reader_->View(key, versions->back().version);
    if (view.status().code() == Code::kNotFound) continue;
    if (!scene_.Ran(view.status())) return;
    views.emplace_back(key, *std::move(view));
  }
  Result<uint64_t> newest = reader_->LastSnapshot();
  for (int i = 0; i < kNewsWhileHeld && newest.ok(); ++i) {
    newest = reader_->Wait(*newest, kNewsMs);
  }
  for (const auto& [key, view] : views) {
    if (!scene_.Ran(view->Verify())) return;
    EXPECT_EQ(VersionIn(key, view->bytes()), view->version().version) << "it was pulled away";
  }
}

void Reading::Lists() {
  const Result<std::vector<std::string>> objects = reader_->Objects();
  if (!scene_.Ran(objects.status())) return;
  for (const std::string& key : scene_.keys) {
    EXPECT_EQ(std::count(objects->begin(), objects->end(), key), 1) << key;
    const uint64_t floor = scene_.ledger.Newest(key);
    const Result<std::vector<StreamVersion>> versions = reader_->Versions(key);
    if (!scene_.Ran(versions.status())) return;
    Check(key, floor, versions->front().version);
    for (size_t i = 1; i < versions->size(); ++i) {
      EXPECT_LT((*versions)[i].version, (*versions)[i - 1].version) << key;
      EXPECT_LE((*versions)[i].snapshot, (*versions)[i - 1].snapshot) << key;
    }
  }
}

void Reading::Waits() {
  const uint64_t newest = scene_.ledger.NewestSnapshot();
  const Result<uint64_t> there = reader_->Wait(newest - 1, 60'000);
  if (!scene_.Ran(there.status())) return;
  EXPECT_GE(*there, newest);
  const Code code = reader_->Wait(*there, 1).status().code();
  EXPECT_TRUE(scene_.dead || code == Code::kOk || code == Code::kTimedOut ||
              code == Code::kNotFound || code == Code::kPeerFailed)
      << static_cast<int>(code);
}

void Reading::All() {
  Newest();
  Snapshots();
  Views();
  Lists();
  Waits();
}

void ExpectAllThere(Scene& scene) {
  Reading reading(scene);
  ASSERT_TRUE(reading.is_open());
  reading.Newest();
  reading.Snapshots();
  reading.Views();
  reading.Lists();
  const Status checked = CheckLog(scene.fs, scene.place, "store", 0, true);
  EXPECT_TRUE(checked.ok()) << checked.ToString();
}

}  // namespace quire::stream
