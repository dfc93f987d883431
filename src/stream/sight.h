/// What a reader sees of a part: its log, an index of it, and its gate.
///
/// Layer      stream
/// Source     docs/decisions/0013-streams.md
/// Threads    any
#pragma once

#include <memory>

#include "io/file_system.h"
#include "io/page_memory.h"
#include "stream/gate.h"
#include "stream/index.h"
#include "stream/log_heap.h"
#include "stream/part.h"

namespace quire::stream {

class Sight {
 public:
  virtual ~Sight() = default;
  const LogHeap& heap() const { return *heap_; }
  const Index& index() const { return *index_; }
  const std::shared_ptr<Gate>& gate() const { return gate_; }
  /// False: an index of this reader alone, of a log in a place that cannot be written to.
  bool shared() const { return shared_; }
  /// Whether no index has been made since, and the log is the one that it was; if the sight is not
  /// shared, whether no writer has opened the log since.
  bool current() const;
  /// What there is now, with the same gate. kReadOnly: not shared, and somebody writes the log.
  Result<std::shared_ptr<const Sight>> Renew(io::FileSystem& fs, const PartName& name) const;
  /// Whether `snapshot` is one that is kept whole.
  bool Kept(uint64_t snapshot) const;

 private:
  friend class SightOpener;
  std::shared_ptr<Gate> gate_;
  std::unique_ptr<LogHeap> heap_;
  std::unique_ptr<io::MappedFile> index_map_;
  io::PageMemory own_index_;
  std::unique_ptr<Index> index_;
  uint32_t index_number_ = 0;
  bool shared_ = true;
};

/// Opens a part to read. Makes its index where nobody has, or where its writer died.
///
/// Errors  kNotFound, kCorruption, kBusy (a writer is opening it, for long)
Result<std::shared_ptr<const Sight>> OpenSight(io::FileSystem& fs, const PartName& name);

}  // namespace quire::stream
