/// The gets of a database that need a message to the owner: of one key, at once or asynchronously,
/// and of many keys. The owner names tables instead to a member of its storage group.
///
/// Layer      kv
/// Source     PapyrusKV, SC17, section 2.7 (storage groups) and 3.2 (the remote cache)
/// Threads    any; a PendingGet: one thread at a time
/// Invariants a value that came by message or from tables goes into the remote cache, unless its
///            ticket is no longer valid. Gets under way keep this object alive, not the database.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/hash/hashed_key.h"
#include "kv/group/file_group_reader.h"
#include "kv/owner/pair_cache.h"
#include "kv/protocol/counters.h"
#include "kv/protocol/wire.h"
#include "quire/database.h"
#include "runtime/context_state.h"

namespace quire::kv {

/// Returns a get that is finished.
std::unique_ptr<PendingGet> NewReadyGet(Status status, std::string value);

class RemoteGets final : public std::enable_shared_from_this<RemoteGets> {
 public:
  /// A key of another rank, and the ticket that the remote cache returned before the search.
  struct Wanted {
    base::HashedKey key;
    int owner = 0;
    PairCache::Ticket ticket;
  };
  /// One key of many, and the places of its value and its outcome.
  struct OneOfMany {
    Wanted wanted;
    std::string* value = nullptr;
    Status* status = nullptr;
  };

  /// `group`: null: this rank reads no other rank's tables.
  RemoteGets(std::shared_ptr<runtime::ContextState> context, uint32_t database_number,
             std::shared_ptr<FileGroupReader> group, uint64_t cache_bytes,
             std::shared_ptr<DatabaseCounters> counters);

  /// Asks the owner, and waits. kNotFound: absent.
  Status Get(const Wanted& wanted, const BufferAllocator& allocate);
  /// Asks the owner; the PendingGet takes the answer later.
  std::unique_ptr<PendingGet> Begin(const Wanted& wanted);
  /// Asks all owners of `keys` at once, as often as necessary, and sets each key's value and
  /// status.
  void GetMany(std::vector<OneOfMany>* keys);

  PairCache& cache() { return cache_; }
  const PairCache& cache() const { return cache_; }

 private:
  class UnderWay;
  using Asked = std::pair<int, WireOperation>;  ///< an owner, and the operation
  /// The keys that one GetMany still needs, the last one first.
  using Left = std::map<Asked, std::vector<OneOfMany*>>;

  /// Returns the first request to `owner`: for tables to read, or for the value.
  WireOperation FirstQuestion(int owner) const;
  /// An owner's answer, or the reason why there is none.
  struct Answer {
    Status heard;
    std::string bytes;
  };
  /// Takes the answer to `operation`, which ends the get with `*outcome`. False, after kGetInGroup:
  /// the tables that the owner named could not be read, so it must be asked for the value.
  bool TakeAnswer(const Wanted& wanted, WireOperation operation, const Answer& answer,
                  const BufferAllocator& allocate, Status* outcome);
  Status TakeValue(const Wanted& wanted, const Answer& answer, const BufferAllocator& allocate);
  /// Reads the value from the tables that the owner named. kBusy: they could not be read.
  Status ReadTables(const Wanted& wanted, const NamedTables& tables,
                    const BufferAllocator& allocate);
  Status Deliver(const Wanted& wanted, Slice value, const BufferAllocator& allocate);
  void AskForMany(Left* left);
  Status TakeMany(Left* left, const Asked& asked, Slice answer);
  void TakeOne(Left* left, OneOfMany* one, const GetResult& result);

  const std::shared_ptr<runtime::ContextState> context_;
  const uint32_t number_;
  const std::shared_ptr<FileGroupReader> group_;
  PairCache cache_;
  const std::shared_ptr<DatabaseCounters> counters_;
};

}  // namespace quire::kv
