/// The gets of a database that need a message to the owner: of a key at once, of a key under way,
/// and of many keys. A member of the owner's storage group is told which tables to read instead.
///
/// Layer      kv
/// Source     PapyrusKV, SC17, section 2.7 (storage groups) and 3.2 (the remote cache)
/// Threads    any; a PendingGet: one thread at a time
/// Invariants a value that came by message or out of tables goes into the remote cache, unless its
///            ticket is no longer good. Gets under way keep this object, not the database.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/hashed_key.h"
#include "kv/group/file_group_reader.h"
#include "kv/owner/pair_cache.h"
#include "kv/protocol/counters.h"
#include "kv/protocol/wire.h"
#include "quire/database.h"
#include "runtime/context_state.h"

namespace quire::kv {

/// A get that is decided.
std::unique_ptr<PendingGet> NewReadyGet(Status status, std::string value);

class RemoteGets final : public std::enable_shared_from_this<RemoteGets> {
 public:
  /// A key of another rank, and what the remote cache gave when it was looked into before.
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
  /// Asks the owner; the answer is taken later.
  std::unique_ptr<PendingGet> Begin(const Wanted& wanted);
  /// Asks all owners of `keys` at once, as often as it takes, and sets each one's value and status.
  void GetMany(std::vector<OneOfMany>* keys);

  PairCache& cache() { return cache_; }
  const PairCache& cache() const { return cache_; }

 private:
  class UnderWay;
  using Asked = std::pair<int, WireOperation>;  ///< an owner, and what of it
  /// The keys that are left of one GetMany, the last one first.
  using Left = std::map<Asked, std::vector<OneOfMany*>>;

  /// The first question: which tables to read, or for the value.
  WireOperation FirstQuestion(int owner) const;
  /// An owner's answer, or why there is none.
  struct Answer {
    Status heard;
    std::string bytes;
  };
  /// Takes the answer to `operation`, which ends the get with `*outcome`. False, after kGetInGroup:
  /// the owner must be asked for the value, since the tables that it named could not be read.
  bool TakeAnswer(const Wanted& wanted, WireOperation operation, const Answer& answer,
                  const BufferAllocator& allocate, Status* outcome);
  Status TakeValue(const Wanted& wanted, const Answer& answer, const BufferAllocator& allocate);
  /// kBusy: they could not be read.
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
