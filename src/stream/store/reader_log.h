/// A reader's view of a part: its log, an index of it, and its gate.
///
/// Layer      stream
/// Source     docs/decisions/0013-streams.md
/// Threads    any
#pragma once

#include <memory>

#include "io/files/file_system.h"
#include "io/files/page_memory.h"
#include "stream/index/gate.h"
#include "stream/index/index.h"
#include "stream/log/log_heap.h"
#include "stream/store/local_reader.h"
#include "stream/store/part.h"

namespace quire::stream {

class ReaderLog {
 public:
  virtual ~ReaderLog() = default;
  const LogHeap& heap() const { return *heap_; }
  const Index& index() const { return *index_; }
  /// Returns the gate. Null: no program wrote the log when it was walked, and the index belongs to
  /// this reader.
  const std::shared_ptr<Gate>& gate() const { return gate_; }
  /// Returns the newest visible snapshot; below, the end of the log, and its writer.
  uint64_t snapshot() const { return gate_ != nullptr ? gate_->snapshot() : snapshot_; }
  Position tail() const { return gate_ != nullptr ? gate_->tail() : heap_->tail(); }
  GateState state() const;
  /// Returns whether pins hold the bytes that are read. If not, the bytes are copied, and the copy
  /// is valid only if Untouched returns true afterwards.
  bool pinned() const { return gate_ != nullptr && gate_->writable(); }
  /// Returns whether no new index was created since, and the log is the same; without a gate,
  /// whether no writer has opened the log since.
  bool current() const;
  /// Returns whether nothing from `from` on has been overwritten: bytes read there before this call
  /// are the committed ones. False also if a writer is only about to.
  bool Untouched(Position from) const;
  /// Returns the current state: with the same gate if pins hold the bytes that are read, else as
  /// found by OpenReaderLog.
  Result<std::shared_ptr<const ReaderLog>> Renew(io::FileSystem& fs, const PartName& name) const;
  /// Returns whether `snapshot` is kept (StreamWriter::Keep).
  bool Kept(uint64_t snapshot) const;

 private:
  friend class SightOpener;
  std::shared_ptr<Gate> gate_;
  std::unique_ptr<LogHeap> heap_;
  std::unique_ptr<io::MappedFile> index_map_;
  io::PageMemory own_index_;
  std::unique_ptr<Index> index_;
  uint32_t index_number_ = 0;
  uint64_t snapshot_ = 0;  // without a gate
};

/// Opens a part to read.
///
/// kShared    Rebuilds the index if its writer has died, as a writer does at Open. If this program
///            cannot write there, or there is no room for an index, behaves like kLook.
/// kLook      Takes no lock and writes nothing: if no program writes the part and its index cannot
///            be trusted, the log is walked, and the index is in this program's memory.
///
/// Errors  kNotFound, kCorruption, kBusy (a writer has been opening it for long)
Result<std::shared_ptr<const ReaderLog>> OpenReaderLog(io::FileSystem& fs, const PartName& name,
                                                       Access access);

}  // namespace quire::stream
