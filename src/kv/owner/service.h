/// The message handler's side of a database: serves other ranks' requests for this rank's pairs.
///
/// Layer      kv
/// Source     PapyrusKV, SC17, sections 2.4 and 2.6 (message handler)
/// Encoding   docs/format/message-kv.md
/// Threads    the handler's functions run wherever the Exchange runs services; Attach and Detach:
///            one thread
/// Invariants a request never waits, neither for another rank nor for room: a write that finds no
///            room is left unfinished, and so are later writes of its rank
///            (docs/decisions/0016-writes-without-room.md); bytes of a request are not trusted;
///            whichever threads write, after a power loss a prefix of what other ranks wrote here
///            remains; after Detach no function of the handler runs
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "comm/exchange/exchange.h"
#include "engine/writer.h"
#include "kv/owner/local_store.h"
#include "kv/protocol/counters.h"
#include "kv/protocol/wire.h"

namespace quire::kv {

class OwnerService {
 public:
  OwnerService(LocalStore* store, DatabaseCounters* counters)
      : store_(store), counters_(counters) {}

  /// Receives the requests of the database with that number from now on.
  void Attach(comm::Exchange* exchange, uint32_t database_number);
  /// Stops receiving them: from now on they are answered "not found".
  void Detach(comm::Exchange* exchange, uint32_t database_number);

 private:
  struct Write;
  class UnfinishedWrite;
  void AttachWrites(comm::Exchange* exchange, uint32_t database_number);
  std::unique_ptr<comm::UnfinishedRequest> Begin(WireOperation operation, Slice request,
                                                 Status* status, std::string* answer);
  bool GoOn(Write& write, Slice request, Status* status, std::string* answer);
  Status Run(Write& write, Slice request);
  Status GiveUp(Write& write, Slice request, std::string* answer);
  Status Apply(Write& write, Slice request);
  Status Update(Write& write, Slice request);
  /// `in_group`: for a rank that reads this one's tables itself. Then `tables` may receive the
  /// tables to search, instead of a value.
  Status GetOne(Slice key, bool in_group, const BufferAllocator& allocate,
                std::optional<NamedTables>* tables);
  Status Get(Slice request, bool in_group, std::string* answer);
  Status GetMany(Slice request, bool in_group, std::string* answer);

  LocalStore* const store_;
  DatabaseCounters* const counters_;
  engine::Writer writer_;  // for the other ranks: services of one Exchange run one after another
};

}  // namespace quire::kv
