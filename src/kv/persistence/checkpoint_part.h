/// One rank's part of a checkpoint: its files copied and verified, or linked, and listed.
///
/// Layer      kv
/// Source     PapyrusKV, SC17, section 4.2; docs/decisions/0009-persistence.md
/// Encoding   docs/format/checkpoint.md
/// Threads    one at a time
/// Invariants FILES is written when every file beside it is verified and its contents durable
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine_kind.h"
#include "engine/storage_engine.h"
#include "io/files/file_system.h"
#include "kv/persistence/checkpoint_files.h"
#include "kv/persistence/file_copier.h"

namespace quire::kv {

class CheckpointPart {
 public:
  struct Places {
    std::string source;        ///< this rank's directory in the database
    std::string target;        ///< the part's; made
    std::string earlier;       ///< the newest complete checkpoint beside it; empty: none
    std::string earlier_part;  ///< this rank's part in that checkpoint
    uint64_t number = 0;       ///< of the checkpoint
  };
  CheckpointPart(io::FileSystem& fs, Places places, std::shared_ptr<const engine::Capture> capture,
                 std::atomic<uint64_t>* bytes_done);

  /// Returns the sizes of its tables and value segments.
  uint64_t bytes() const;
  /// Does some of the work, for about 10 ms; true once everything is there, verified and durable.
  /// Then the capture is released.
  /// Errors  kCorruption (the text names the file of the database, or the copy if that differs from
  ///         what was read), kNoSpace, kIo.
  Result<bool> Advance();
  /// Returns its entry in the commit record, for rank 0: ReadReport.
  const std::string& report() const { return report_; }
  /// Decodes the report of a rank. Errors  kCorruption.
  static Result<CommitRecord::Part> ReadReport(Slice report);
  /// Stops the work; the capture is released.
  void End();
  /// Ends it and removes its files; if that fails, logs so.
  void Remove();

 private:
  // A file of the earlier checkpoint, before it is read.
  struct Look {
    uint64_t bytes = 0;
    bool untouched = false;  // since that checkpoint was committed
  };
  Status Begin();
  FileCopier::Item ItemOf(const engine::Capture::File& file) const;
  FileList EarlierFiles() const;
  std::map<std::string, Look> LookAtEarlier() const;
  Result<bool> CheckSome();
  Status CheckCopy(const FileCopier::Item& item);
  Status CompareCopy(const FileCopier::Item& item, bool contents) const;
  Status NameSource(const Status& found) const;
  Status WriteList();

  io::FileSystem& fs_;
  const Places places_;
  std::shared_ptr<const engine::Capture> capture_;
  std::atomic<uint64_t>* const bytes_done_;
  const std::unique_ptr<engine::PartVerifier> verifier_;
  FileList earlier_;
  std::map<std::string, Look> looks_;  // for the files of the earlier checkpoint
  std::unique_ptr<FileCopier> transfer_;
  bool copied_ = false;
  std::vector<std::string> names_;  // of what was copied
  Status damage_;                   // found by the verifier in all files together
  size_t compared_ = 0;             // items compared so far, to find the source of the damage
  bool begun_ = false;
  std::string report_;
};

}  // namespace quire::kv
