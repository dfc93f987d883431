/// The ways in which a simulation's variables are put away at the end of an iteration: streams, and
/// what they are compared with.
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

/// A program's memory: variables of one size, each at a page where its size is one of pages.
class Variables {
 public:
  Variables(uint64_t count, uint64_t bytes);
  uint64_t count() const { return count_; }
  uint64_t bytes() const { return bytes_; }
  uint64_t total_bytes() const { return count_ * bytes_; }
  char* at(uint64_t i) const { return memory_.get() + i * bytes_; }
  /// Changes every one of them a little, so that no version is like the one before.
  void Change(uint64_t iteration);

 private:
  struct Free {
    void operator()(char* memory) const;
  };
  uint64_t count_;
  uint64_t bytes_;
  std::unique_ptr<char, Free> memory_;
};

/// Where they go: folders of one rank's own.
struct StoreFolders {
  std::string place;      ///< of the stream, the copies, and files on tmpfs
  std::string directory;  ///< of files on a file system
};

/// Each way is prepared when it is first taken, and puts all variables away each time.
class StoreWays {
 public:
  /// `options`: of the stream; how large the log and the index are is chosen here.
  StoreWays(const Variables& variables, StoreFolders folders, uint32_t rank,
            const StreamOptions& options = {});
  ~StoreWays();

  /// stream          Put of each variable, in a store of this name.
  /// stream-snapshot One commit of all, in a store of this name.
  /// memcpy          Each copied behind the one before, into memory as large as the stream's log,
  ///                 and like it: a mapped file at `place` whose pages are there.
  /// memcpy-flush    The same, its lines written back, and a fence.
  /// memcpy-whole    All variables by one call of memcpy.
  /// tmpfs           A new file at `place` for each, written by write(2).
  /// file, file-sync The same at `directory`, of at most kFilesMax of them; and each synced, of at
  ///                 most kSyncedMax.
  ///
  /// Returns the bytes that were put away. Afterwards: Forget.
  Result<uint64_t> Store(const std::string& way);
  /// What was done so far in this way, and how changes are found: "none" where it is no stream's.
  StreamStatistics Statistics(const std::string& way) const;
  std::string Tracking(const std::string& way) const;
  /// What a reader finds of the newest snapshot is what the variables are, which have not changed
  /// since. Nothing to do for a way that is no stream's.
  Status Check(const std::string& way) const;
  /// Before a turn is timed: the log, the map are there.
  Status Prepare(const std::string& way);

  /// The files of the last turn go, so that nobody writes them to the device during the next.
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
  /// The next `bytes` of the map.
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
