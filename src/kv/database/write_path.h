/// The path of an admitted write to the owner of its key: into this rank's store; staged, into the
/// batch for another rank; or in a request whose answer the write awaits.
///
/// Layer      kv
/// Source     PapyrusKV, SC17, sections 2.4 (put, migration) and 3.1 (consistency), figure 2
/// Encoding   docs/format/message-kv.md, docs/format/record.md
/// Threads    any; Attach before all others
/// Invariants no request overtakes what this rank has staged for the same owner: the staged writes
///            are drained first. No lock is held while the Exchange is called.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "comm/exchange/exchange.h"
#include "kv/database/admission.h"
#include "kv/migration/dispatcher.h"
#include "kv/owner/local_store.h"
#include "kv/protocol/counters.h"
#include "kv/protocol/owner_finder.h"
#include "quire/database.h"

namespace quire::kv {

class WritePath {
 public:
  /// Parts of the database. All outlive the last write.
  struct Parts {
    const Admission& admission;
    const OwnerFinder& owners;
    LocalStore& store;
    comm::Exchange& exchange;
    uint32_t database_number;  ///< for channels
    DatabaseCounters& counters;
  };
  explicit WritePath(const Parts& parts) : parts_(parts) {}
  WritePath(const WritePath&) = delete;
  WritePath& operator=(const WritePath&) = delete;
  /// Called once, before any write, if there are other ranks. `dispatcher` outlives the last write.
  void Attach(Dispatcher* dispatcher) { dispatcher_ = dispatcher; }

  // Each is a call of quire::Database, and returns its errors.
  Status Put(Slice key, Slice value);
  Status Delete(Slice key);
  Status PutMany(const std::vector<std::pair<Slice, Slice>>& pairs);
  Status DeleteMany(const std::vector<Slice>& keys);
  Status Write(const Batch& batch);
  Status Update(Slice key, uint32_t id, Slice argument);
  Status UpdateAndAnswer(Slice key, uint32_t id, Slice argument, std::string* answer);

 private:
  using Place = OwnerFinder::Place;

  Status WriteRemote(const Place& place, log::RecordType type, Slice value);
  Status SendRecord(int owner, Slice record);
  /// True if a call of many writes sends one message to each owner. Staged writes travel in
  /// messages of many anyway.
  bool groups_writes() const { return parts_.admission.sequential() && dispatcher_ != nullptr; }
  Status WriteGrouped(const std::vector<std::pair<Slice, Slice>>& pairs, log::RecordType type);

  const Parts parts_;
  Dispatcher* dispatcher_ = nullptr;  // set by Attach; null: there are no other ranks
};

}  // namespace quire::kv
