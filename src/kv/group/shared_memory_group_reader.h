/// The neighbours' databases, read without a message: one PeerReader for each rank of this
/// node that shares its memory.
///
/// Layer      kv
/// Source     PapyrusKV, SC17, section 2.7 (storage groups); docs/decisions/0005-direct-reads.md
/// Threads    Attach: one thread, before any Get. Get: any
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/exchange/exchange.h"
#include "engine/engine_kind.h"
#include "engine/storage_engine.h"

namespace quire::kv {

class SharedMemoryGroupReader {
 public:
  /// The data for attaching to a neighbour.
  struct Environment {
    io::FileSystem* fs = nullptr;
    comm::Exchange* exchange = nullptr;
    std::shared_ptr<table::BlockCache> cache;
    StorageOptions storage;
    int group_size = 0;
  };

  /// Returns whether another rank shares memory with this one.
  static bool Possible(comm::Exchange& exchange);

  /// Announces the place of this rank's memory to all ranks (`own` null: none), and attaches to the
  /// memory that others share. Collective: on return all are attached and no name is left in the
  /// system. A neighbour that cannot be attached must be asked by message.
  Status Attach(const Environment& environment, engine::NeighbourReadable* own,
                const std::string& own_directory);

  /// Copies `owner`'s value of `key`. kNotFound: absent. kBusy: ask the owner by message.
  Status Get(int owner, Slice key, const BufferAllocator& allocate) const {
    const size_t at = static_cast<size_t>(owner);
    if (at >= readers_.size() || readers_[at] == nullptr) return Status(Code::kBusy);
    return readers_[at]->Get(key, allocate);
  }
  bool Reaches(int owner) const {
    return static_cast<size_t>(owner) < readers_.size() &&
           readers_[static_cast<size_t>(owner)] != nullptr;
  }
  int attached_count() const { return attached_count_; }

 private:
  void AttachOne(const Environment& environment, int rank, Slice announcement);

  std::vector<std::unique_ptr<engine::PeerReader>> readers_;  // by rank; empty: none
  int attached_count_ = 0;
};

}  // namespace quire::kv
