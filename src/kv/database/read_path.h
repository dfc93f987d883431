/// The path of an admitted get to the value of its key, nearest place first: this rank's store; the
/// writes staged here for the owner; the remote cache; a neighbour's shared memory; a message to
/// the owner.
///
/// Layer      kv
/// Source     PapyrusKV, SC17, sections 2.6 (get) and 2.7 (storage groups), figure 3
/// Threads    any; Attach before all others, End after them
/// Invariants no lock is held while the program's allocator runs, or the Exchange is called; the
///            ticket of the remote cache is taken before any place that another rank writes to is
///            searched
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kv/group/remote_gets.h"
#include "kv/group/shared_memory_group_reader.h"
#include "kv/migration/dispatcher.h"
#include "kv/owner/local_store.h"
#include "kv/owner/pair_cache.h"
#include "kv/protocol/counters.h"
#include "kv/protocol/owner_finder.h"
#include "quire/database.h"

namespace quire::kv {

class ReadPath {
 public:
  /// Parts of the database. All outlive the last get.
  struct Parts {
    const OwnerFinder& owners;
    LocalStore& store;
    DatabaseCounters& counters;
  };
  /// `direct`: null: no other rank's memory is read. `remote_gets` is shared with gets under way.
  ReadPath(const Parts& parts, std::unique_ptr<SharedMemoryGroupReader> direct,
           std::shared_ptr<RemoteGets> remote_gets)
      : parts_(parts), direct_(std::move(direct)), remote_gets_(std::move(remote_gets)) {}
  /// Called once, before any get, if there are other ranks. `dispatcher` outlives the last get.
  void Attach(Dispatcher* dispatcher) { dispatcher_ = dispatcher; }

  // Each is a call of quire::Database, and returns its errors.
  Status Get(Slice key, const BufferAllocator& allocate);
  std::unique_ptr<PendingGet> GetAsync(Slice key);
  Status GetMany(const std::vector<Slice>& keys, std::vector<std::string>* values,
                 std::vector<bool>* found);

  /// Returns the cache of other ranks' pairs, which is used while no rank writes.
  PairCache& remote_cache() { return remote_gets_->cache(); }
  const PairCache& remote_cache() const { return remote_gets_->cache(); }
  /// Returns the number of ranks whose memory this one reads.
  int neighbour_count() const { return direct_ == nullptr ? 0 : direct_->attached_count(); }

  /// Releases everything that belongs to other ranks.
  void End();

 private:
  /// Returns the key with its owner, before any search.
  RemoteGets::Wanted Find(Slice key) const;
  Status GetValue(Slice key, const BufferAllocator& allocate);
  /// Searches the places that need no message, and takes the remote cache's ticket meanwhile.
  /// kBusy: the owner must be asked, if it is another rank.
  Status GetWithoutMessage(RemoteGets::Wanted* wanted, const BufferAllocator& allocate);
  bool MustAsk(int owner, const Status& near) const {
    return near.code() == Code::kBusy && !parts_.owners.IsHere(owner);
  }

  const Parts parts_;
  Dispatcher* dispatcher_ = nullptr;  // set by Attach; null: there are no other ranks
  std::unique_ptr<SharedMemoryGroupReader> direct_;
  std::shared_ptr<RemoteGets> remote_gets_;
};

}  // namespace quire::kv
