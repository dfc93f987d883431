/// Writes for other ranks, collected into one message per owner, all messages under way together.
///
/// Layer      kv
/// Threads    one thread
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "comm/exchange/exchange.h"
#include "engine/write_batch.h"
#include "kv/protocol/wire.h"
#include "quire/status.h"

namespace quire::kv {

class OwnerBatchWriter {
 public:
  /// `operation`: kApply (large groups are sent in several messages) or kWrite (one message, all or
  /// nothing).
  OwnerBatchWriter(comm::Exchange* exchange, uint32_t database_number, WireOperation operation)
      : exchange_(exchange), database_number_(database_number), operation_(operation) {}

  void Add(int owner, log::RecordType type, Slice key, Slice value);
  /// Returns the owners for which operations wait to be sent.
  std::vector<int> Owners() const;
  /// Fails the operations that wait to be sent to `owner`, because of `why`; they are not sent.
  void GiveUp(int owner, const Status& why);
  /// Sends the rest and waits for all answers.
  void Finish();

  /// Return the count of operations that were not applied, or may not have been, and the first's
  /// reason.
  uint64_t failed_count() const { return failed_count_; }
  const Status& first_failure() const { return first_failure_; }

 private:
  struct Sent {
    int owner;
    uint64_t count;
    std::shared_ptr<comm::Call> call;
  };
  void Send(int owner, const engine::WriteBatch& group);
  void Fail(uint64_t count, Status why);

  comm::Exchange* const exchange_;
  const uint32_t database_number_;
  const WireOperation operation_;
  std::map<int, engine::WriteBatch> groups_;  // by owner
  std::vector<Sent> sent_;
  uint64_t failed_count_ = 0;
  Status first_failure_;
};

}  // namespace quire::kv
