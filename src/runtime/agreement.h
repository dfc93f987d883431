/// One decision on all ranks: the status and bytes of all ranks are gathered, and every rank draws
/// the same conclusion from them.
///
/// Layer      runtime
/// Source     docs/durability.md: collective calls return the same code on every rank, and the text
///            names the failing rank
/// Threads    collective, as the Exchange's collectives
#pragma once

#include <new>
#include <string>
#include <vector>

#include "base/core/out_of_memory.h"
#include "comm/exchange/exchange.h"
#include "quire/slice.h"
#include "quire/status.h"

namespace quire::runtime {

/// Returns whether `status` comes from a rank that did not answer, or died: it may have done its
/// work.
inline bool IsOfASilentRank(const Status& status) {
  return status.code() == Code::kPeerFailed || status.code() == Code::kTimedOut;
}

/// Encodes a status and bytes as one text, and decodes it. kCorruption: it is no such text.
std::string EncodeOutcome(const Status& status, Slice bytes);
Status DecodeOutcome(Slice text, Status* status, Slice* bytes);

/// The result of a call to which each rank contributes a status and bytes.
struct Gathered {
  /// OK if all ranks passed OK; else the failure of the lowest failing rank, with that rank in its
  /// text; or the failure of the call if it did not complete.
  Status status;
  /// True if the call completed on this rank; all ranks on which it completed have the same result.
  /// If false, other ranks may still have received this rank's contribution, and its next
  /// contribution may be matched with a different call.
  bool heard = false;
  std::vector<std::string> parts;  ///< by rank, if the status is OK
};
Gathered Gather(comm::Exchange& exchange, const Status& mine, Slice bytes);

/// Returns every rank's `bytes`, by rank, if every rank passed OK; else, on all ranks, the failure
/// of the lowest failing rank, with that rank in its text.
Result<std::vector<std::string>> GatherAgreed(comm::Exchange& exchange, const Status& mine,
                                              Slice bytes);

/// Returns the result of `body`, a Status or a Result; `body` makes collective calls. If it throws
/// std::bad_alloc, this rank's next collective call fails on all ranks, so that no rank waits for
/// it.
template <typename Body>
auto Together(comm::Exchange& exchange, const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return exchange.Fail(base::OutOfMemory());
  }
}

/// Compares the requests of rank 0 and another rank, which contain one "name = value" per line.
/// kInvalidArgument: they differ; the text has the first different line, and calls that of "name" a
/// name, all others options.
Status CompareRequests(Slice first, Slice other, size_t rank);
/// Compares the requests of all ranks, if all passed OK.
Status AgreeOnRequest(comm::Exchange& exchange, const Status& mine, Slice request);

/// Returns OK if all ranks passed OK and the same `argument`; `what` names it in the error.
Status AgreeOn(comm::Exchange& exchange, const Status& mine, Slice argument,
               const std::string& what);

/// Returns the result of `wait`, which waits for a job; kTimedOut if it throws std::bad_alloc,
/// because the job continues and its outcome is unknown.
template <typename Wait>
Status EndOf(const Wait& wait) {
  try {
    return wait();
  } catch (const std::bad_alloc&) {
    return Status(Code::kTimedOut);
  }
}

/// Returns one outcome on all ranks for a step that each rank did by itself, such as waiting for a
/// job: `mine` is this rank's outcome. If its code is the agreed one, its own text is returned,
/// which already names the failing rank, or is the same on all ranks.
Status AgreeOnOutcome(comm::Exchange& exchange, const Status& mine);

}  // namespace quire::runtime
