/// The ways in which a simulation's variables are stored at the end of an iteration: streams, and
/// the ways with which they are compared.
///
/// Layer      bench
/// Threads    one thread; each rank has its own
/// Source     NVStream, HPDC18, section 7.1 and figure 5
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "quire/status.h"
#include "quire/stream.h"
#include "touched_map.h"

namespace quire::bench {

/// A program's memory: variables of one size, each at a page boundary if its size is a multiple of
/// a page.
class Variables {
 public:
  Variables(uint64_t count, uint64_t bytes);
  uint64_t count() const { return count_; }
  uint64_t bytes() const { return bytes_; }
  uint64_t total_bytes() const { return count_ * bytes_; }
  char* at(uint64_t i) const { return memory_.get() + i * bytes_; }
  /// Changes every variable a little, so that no version equals the one before.
  void Change(uint64_t iteration);

 private:
  struct Free {
    void operator()(char* memory) const;
  };
  uint64_t count_;
  uint64_t bytes_;
  std::unique_ptr<char, Free> memory_;
};

/// The destinations: folders of one rank alone.
struct StoreFolders {
  std::string place;      ///< of the stream, the copies, and files on tmpfs
  std::string directory;  ///< of files on a file system
};

/// The ways. Each is prepared at its first use, and stores all variables each time.
class StoreWays {
 public:
  /// `options`: those of the stream; the sizes of log and index are chosen here.
  StoreWays(const Variables& variables, StoreFolders folders, uint32_t rank,
            const StreamOptions& options = {});
  ~StoreWays();

  /// stream          Put of each variable, in a store of this name.
  /// stream-snapshot One commit of all, in a store of this name.
  /// memcpy          Each variable is copied behind the previous one, into memory like the stream's
  ///                 log and as large: a mapped file at `place` whose pages are present.
  /// memcpy-flush    As memcpy, with its lines written back, and a fence.
  /// memcpy-whole    All variables by one call of memcpy.
  /// tmpfs           A new file at `place` for each, written by write(2).
  /// file, file-sync As tmpfs, but at `directory`, for at most kFilesMax variables; file-sync also
  ///                 syncs each, for at most kSyncedMax.
  ///
  /// Returns the bytes that were stored. Call Forget afterwards.
  Result<uint64_t> Store(const std::string& way);
  /// Returns the counters of this way so far; below, how changes are found: "none" if it is no
  /// stream's.
  StreamStatistics Statistics(const std::string& way) const;
  std::string Tracking(const std::string& way) const;
  /// Checks that a reader finds the variables' values in the newest snapshot; the variables must
  /// not have changed since. Does nothing if the way is no stream's.
  Status Check(const std::string& way) const;
  /// Creates the log and the map, before a turn is timed.
  Status Prepare(const std::string& way);

  /// Removes the files of the last turn, so that the system does not write them to the device
  /// during the next one.
  Status Forget(const std::string& way);

  static constexpr uint64_t kFilesMax = 20'000;
  static constexpr uint64_t kSyncedMax = 200;

 private:
  Status OpenWriter(const std::string& way);
  Status PutEach();
  Status CopyEach(bool flush);
  Status CopyWhole();
  Status WriteFiles(const std::string& folder, uint64_t count, bool sync);
  const std::string& FolderOf(const std::string& way) const;
  uint64_t LogBytes() const;
  /// Returns the next `bytes` of the map.
  char* NextInMap(uint64_t bytes);

  const Variables& variables_;
  const StoreFolders folders_;
  const uint32_t rank_;
  std::vector<std::string> keys_;
  std::map<std::string, std::unique_ptr<StreamWriter>> writers_;  // by way
  std::unique_ptr<TouchedMap> map_;
  StreamOptions options_;
  uint64_t map_at_ = 0;
};

}  // namespace quire::bench
