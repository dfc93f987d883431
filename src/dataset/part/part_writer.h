/// One rank's files of a dataset while they are written: main tables and maps, one after another.
///
/// Layer      dataset
/// Source     FilterKV, CMU-PDL-19-104, section 3.3
/// Encoding   docs/format/dataset.md
/// Threads    one at a time
/// Invariants bytes of an earlier complete epoch are never overwritten; Seal makes the epoch's
///            bytes durable before the record that names them; nothing is cut off before Prepare;
///            the names of the files are durable before the first epoch
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dataset/part/files.h"
#include "dataset/part/pair_buffer.h"
#include "filter/rank_map/rank_map.h"
#include "io/files/file_system.h"
#include "io/paths/made_paths.h"
#include "quire/options.h"

namespace quire::dataset {

class PartWriter {
 public:
  struct Options {
    io::FileSystem* fs = nullptr;
    std::string directory;
    uint64_t id = 0;  ///< the dataset's
    uint32_t rank = 0;
    bool begins = false;     ///< the dataset is new: no rank has bytes in its part
    StorageOptions storage;  ///< of tables
    base::Executor* executor = nullptr;  ///< helps with maps; may be null
    bool values = false;     ///< it has a file of values
  };
  /// Locks the part, opens its files and compares them with `epochs`, as rank 0 knows them. Changes
  /// no file. No other process writes them before LetGo or destruction.
  ///
  /// Errors  kBusy: another process has the part open, such as a rank of an earlier job that is
  ///         still running. kCorruption: a file is missing or shorter than its epochs; or the part
  ///         has more than an epoch that was not completed can have left: it is of another dataset,
  ///         or of epochs that rank 0 does not see.
  static Result<std::unique_ptr<PartWriter>> Open(Options options,
                                                  const std::vector<EpochRecord>& epochs);
  /// Creates the files if this rank has no part in any epoch, makes their names durable, and cuts
  /// off what follows the last epoch. Call it once, after all ranks have opened their parts,
  /// because one of them may find that rank 0 sees another storage than before.
  Status Prepare();

  /// Appends a table of these pairs. `only`: no other will follow in this epoch.
  Status AddTable(PairBuffer* pairs, bool only);
  /// Appends a map of these pairs, which it changes.
  Status AddMap(const filter::RankMapOptions& options, std::vector<filter::KeyRank>* pairs);
  /// Returns the place of the next value in the file of values.
  uint64_t values_end() const { return values_end_ + values_.size(); }
  /// Appends a value to that file (value_file.h).
  Status AddValue(Slice value);

  /// Returns the number of pairs in the tables of this epoch.
  uint64_t pair_count() const { return pair_count_; }
  /// Makes the appended bytes the epoch `number` of this part, durable (P2).
  Status Seal(uint64_t number, uint64_t attempt);
  /// Records that the epoch that was sealed last is complete: it is never removed any more.
  void Keep();
  /// Removes the bytes that were appended since the last Keep.
  Status Rewind();
  /// Makes the files that Open and Prepare created stay; without this call they are removed with
  /// the object.
  void KeepFiles() { made_.Keep(); }
  /// Releases the lock: other processes may write the files from now on, and this one must not.
  void LetGo() { lock_.reset(); }

  /// Returns the bytes of all tables and maps so far. Any thread.
  uint64_t table_bytes() const { return table_bytes_; }
  uint64_t map_bytes() const { return map_bytes_; }

 private:
  explicit PartWriter(Options options) : options_(std::move(options)) {}
  Status OpenFiles(bool has_epochs);
  Status CreateFiles();
  Result<std::unique_ptr<io::File>> CreateFile(const std::string& path);
  Status TakeLast(const std::vector<EpochRecord>& epochs);
  Status CheckRest() const;
  Status CheckBeginning() const;
  Status WriteValues();

  const Options options_;
  std::unique_ptr<io::FileLock> lock_;
  io::MadePaths made_;
  std::shared_ptr<io::File> part_;
  std::unique_ptr<io::File> index_;
  std::unique_ptr<io::File> values_file_;
  PartRecord kept_;       ///< of the last complete epoch
  uint64_t next_at_ = 0;  ///< records of complete epochs
  PartRecord sealed_;
  uint64_t end_ = 0;
  std::string values_;       ///< not written yet
  uint64_t values_end_ = 0;  ///< of what is written
  PartList list_;
  uint64_t pair_count_ = 0;
  std::atomic<uint64_t> table_bytes_{0};
  std::atomic<uint64_t> map_bytes_{0};
};

}  // namespace quire::dataset
