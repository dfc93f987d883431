/// A store with a writer, readers beside it, and what all of them know to be committed: for tests
/// in which one thread stands at a sync point while others go on.
///
/// Layer      tests
/// Threads    Ledger: any; a Writing belongs to one thread
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "io/files/file_system.h"
#include "quire/stream.h"
#include "stream/store/local_reader.h"
#include "stream/store/writer.h"

namespace quire::stream {

/// The bytes of a version; its number is in them.
std::string NumberedBytes(Slice key, uint64_t version);
/// The version that `bytes` are; 0: they are not a version of the object.
uint64_t VersionIn(Slice key, Slice bytes);

/// What was committed, and what readers saw of it.
class Ledger {
 public:
  void Committed(const std::string& key, uint64_t version, uint64_t snapshot);
  /// The newest version whose commit has returned.
  uint64_t Newest(const std::string& key) const;
  uint64_t NewestSnapshot() const;
  void Keeps(uint64_t snapshot);
  void Releases(uint64_t snapshot);
  bool IsKept(uint64_t snapshot) const;
  std::set<uint64_t> Kept() const;
  void Saw(const std::string& key, uint64_t snapshot, uint64_t version);
  /// Whether what readers saw at a snapshot is what the objects were then. Once all have ended.
  void ExpectSeenRight() const;
  uint64_t VersionAt(const std::string& key, uint64_t snapshot) const;

 private:
  uint64_t Known(const std::string& key, uint64_t snapshot) const;

  mutable std::mutex mutex_;
  std::map<std::string, std::map<uint64_t, uint64_t>> versions_;  // by key and snapshot
  std::set<uint64_t> kept_;
  std::vector<std::pair<std::pair<std::string, uint64_t>, uint64_t>> seen_;
};

/// Where the store is, and what all who use it know.
struct Scene {
  io::FileSystem& fs;
  StreamOptions options;
  std::string place = "/place";
  Ledger ledger = {};
  std::unique_ptr<StreamWriter> writer = nullptr;
  std::vector<std::string> keys = {};  ///< of objects of which there is a version
  std::atomic<bool> dead = false;      ///< the machine died: calls fail

  Result<std::unique_ptr<StreamWriter>> Write() {
    return OpenWriter(fs, place, "store", 0, options);
  }
  Result<std::unique_ptr<StreamReader>> Read(Access access = Access::kShared) {
    return OpenLocalReader(fs, place, "store", 0, access);
  }
  /// Whether a call succeeded. It must have, unless the machine died.
  bool Ran(const Status& status) const;
};

/// Three objects of one thread, two of which are always committed together.
class Writing {
 public:
  Writing(Scene& scene, std::string prefix) : scene_(scene), prefix_(std::move(prefix)) {}

  std::string key(int which) const { return prefix_ + std::to_string(which); }
  std::vector<std::string> keys() const { return {key(0), key(1), key(2)}; }
  /// Makes the objects in a writer that has just been opened.
  void Begin(StreamWriter* writer);
  /// Returns the snapshot; 0: the machine died.
  uint64_t PutPair();
  void PutOne();
  /// Commits the pair, and keeps the snapshot. 0: it is not kept.
  uint64_t KeepPair();
  void Release(uint64_t snapshot);
  /// Fills an object with what it was.
  void Restore(uint64_t snapshot);
  StreamWriter* writer() { return writer_; }

 private:
  void Fill(int which, uint64_t version);

  Scene& scene_;
  const std::string prefix_;
  StreamWriter* writer_ = nullptr;
  char* memory_[3] = {};
};

/// One reader, which never sees an older version after a newer one.
class Reading {
 public:
  explicit Reading(Scene& scene, Access access = Access::kShared);
  bool is_open() const { return reader_ != nullptr; }

  void Newest();
  void Snapshots();
  void Views();
  /// Holds the oldest version of each object while the writer may go on.
  void HoldsOldest();
  void Lists();
  void Waits();
  void All();

 private:
  void Snapshot(uint64_t snapshot);
  void Check(const std::string& key, uint64_t floor, uint64_t version);

  Scene& scene_;
  std::unique_ptr<StreamReader> reader_;
  std::map<std::string, uint64_t> last_;
};

/// All that is committed is in the store, at rest.
void ExpectAllThere(Scene& scene);

}  // namespace quire::stream
