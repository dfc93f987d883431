/// Copies or links the files of a rank's part, some MiB at a time, and checks the copies. All
/// copying of tables and value segments is done here.
///
/// Layer      kv
/// Source     PapyrusKV, SC17, section 4.2; docs/decisions/0009-persistence.md
/// Encoding   docs/format/checkpoint.md
/// Threads    one at a time
/// Invariants it is done when all files are verified, and their contents durable; needs memory for
///            one piece, and for the verification
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "io/files/file_system.h"
#include "kv/persistence/checkpoint_files.h"

namespace quire::kv {

class FileCopier {
 public:
  struct Item {
    std::string name;
    std::string link_from;   ///< a file that already has the contents; empty: copy
    StoredFile file;         ///< sum: of the file, once it is known
    bool sum_known = false;  ///< the copied bytes must have the sum
    /// `link_from` is read first, and linked if it has the sum, which is known; else it is copied,
    /// which is logged
    bool check_link = false;
  };
  /// The check of a copy: receives a complete file of the target, and the known sum of the bytes
  /// that were read.
  using Check = std::function<Status(const Item& item)>;
  /// Copies from directory `source` to `target`. The size of each file of `items` is known.
  FileCopier(io::FileSystem& fs, std::string source, std::string target, std::vector<Item> items,
             std::atomic<uint64_t>* bytes_done, Check check = {});

  /// Does some of the work; true once all is done. The caller makes the target's entries durable,
  /// and may add some before.
  /// Errors  kCorruption (a file that is not as it must be: names it), kNotFound, kNoSpace, kIo.
  Result<bool> Advance();
  const std::vector<Item>& items() const { return items_; }

 private:
  Status Begin();
  Status BeginLink();
  Status BeginCopy();
  Status TakePiece();
  Status EndFile();
  Status EndLink();
  Status EndCopy();
  Status SyncWritten();
  Status Reject(const std::string& what);

  io::FileSystem& fs_;
  const std::string source_;
  const std::string target_;
  std::vector<Item> items_;
  std::atomic<uint64_t>* const bytes_done_;
  const Check check_;
  size_t at_ = 0;
  uint64_t offset_ = 0;
  uint64_t sum_ = 0;
  std::unique_ptr<io::File> from_;     // null: the file at_ is not begun
  std::unique_ptr<io::File> to_;       // null: from_ is read to be linked
  std::unique_ptr<io::File> written_;  // the file before, not yet synced; null: none
  std::string piece_;
};

}  // namespace quire::kv
