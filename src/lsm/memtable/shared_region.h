/// The memory that one rank's database shares with the ranks of its node: the indexes of its
/// MemTables (with the log off also their records), and a board that lists the live ones. Made at
/// open, mapped read-only by the neighbours, then unlinked.
///
/// Layer      lsm
/// Source     docs/decisions/0005-direct-reads.md
/// Threads    the owner writes the board under its own lock; neighbours read it optimistically (a
///            sequence lock)
/// Invariants everything in it may be read by a neighbour at any time, garbage included: readers
///            check every offset and validate generation and sequence after they have copied what
///            they found. MemTables are on the board before they take writes, and leave it before
///            their memory is used again.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/ipc/shared_memory.h"
#include "quire/options.h"
#include "quire/status.h"

namespace quire::lsm {

/// flushing_queue_length (up to 64), the active one, the next one, and some that readers pin.
constexpr int kPoolSlotsMax = 72;

/// BoardState: the pool slot of a MemTable that neighbours cannot read. They ask the owner.
constexpr uint32_t kNotShared = UINT32_MAX;

/// The state that neighbours need to read this database's memory; updated by Publish.
struct BoardState {
  uint64_t edition = 0;  ///< of the manifest: changes whenever the set of tables does
  uint64_t newest_ssid = 0;
  bool has_base = false;  ///< keys that nothing else contains may be in the owner's base
  int live_count = 0;
  struct Live {
    uint32_t pool_slot;
    uint64_t generation;
  } live[kPoolSlotsMax];  ///< MemTables, newest first
};

/// Fixed layout: [board][index 0][index 1]...[records 0]... (records only with the log off).
class SharedRegion {
 public:
  /// Owner: creates new shared memory (private memory if `shared` is false), everything zero.
  /// SetAside reserves the room of each slot: mostly, a database uses fewer slots than it has.
  static Result<std::unique_ptr<SharedRegion>> Create(const StorageOptions& options, bool shared);
  /// Neighbour: attaches the memory by name, read-only; checks the layout that is stored in it.
  static Result<std::unique_ptr<SharedRegion>> Attach(const std::string& name, uint64_t bytes);

  const std::string& name() const { return memory_->name(); }
  uint64_t bytes() const { return memory_->size(); }
  void Unlink() { memory_->Unlink(); }
  int pool_slots() const { return pool_slots_; }
  uint64_t segment_bytes() const { return segment_bytes_; }
  bool records_inside() const { return records_inside_; }
  /// Owner: reserves room for the memory of a slot, before its first use. One thread per slot.
  ///
  /// Errors  kNoSpace, kIo.
  Status SetAside(int pool_slot);
  char* index(int pool_slot) const;
  /// Returns the records' memory of a slot (header page included); nullptr if the records lie in a
  /// log segment file.
  char* records(int pool_slot) const;

  /// Owner: makes `state` the one that readers see.
  void Publish(const BoardState& state);
  /// Neighbour: reads a consistent copy, and its sequence number. False: there was none for some 20
  /// ms (the owner died while writing), or the owner has closed the board.
  bool Read(BoardState* state, uint64_t* sequence = nullptr) const;
  /// Neighbour: returns whether the board is still what Read returned with `sequence`. One load.
  bool Unchanged(uint64_t sequence) const;
  /// Owner: marks a clean close, after which readers see nothing any more.
  void MarkClosed();
  bool marked_closed() const;

 private:
  struct Board;
  SharedRegion() = default;
  static uint64_t BytesFor(int pool_slots, uint64_t segment_bytes, bool records_inside);
  Board& board() const;
  bool TryRead(BoardState* state, uint64_t* sequence) const;

  std::unique_ptr<io::SharedMemory> memory_;
  int pool_slots_ = 0;
  uint64_t segment_bytes_ = 0;
  bool records_inside_ = false;
  std::vector<char> set_aside_;  // owner: of each slot
};

/// Pool slots a database with these options needs.
int PoolSlots(const StorageOptions& options);
/// Log segment file of a pool slot: "log-<slot>.seg".
std::string LogSegmentName(int pool_slot);

}  // namespace quire::lsm
