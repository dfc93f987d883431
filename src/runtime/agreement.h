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

#include "base/out_of_memory.h"
#include "comm/exchange/exchange.h"
#include "quire/slice.h"
#include "quire/status.h"

namespace quire::runtime {

/// Whether `status` is of a rank that did not answer, or died: it may have done what was asked.
inline bool IsOfASilentRank(const Status& status) {
  return status.code() == Code::kPeerFailed || status.code() == Code::kTimedOut;
}

/// A status and bytes as one text, and back. kCorruption: it is none.
std::string EncodeOutcome(const Status& status, Slice bytes);
Status DecodeOutcome(Slice text, Status* status, Slice* bytes);

/// The result of a call in which each rank gives a status and bytes.
struct Gathered {
  /// OK if all ranks gave OK; else the failure of the lowest failing rank, with that rank in its
  /// text; or the failure of the call if it did not complete.
  Status status;
  /// The call came to its end here: each rank where it did has the same. If it did not, other ranks
  /// may still have received this rank's contribution, and its next contribution may be matched
  /// with a different call.
  bool heard = false;
  std::vector<std::string> parts;  ///< by rank, where the status is OK
};
Gathered Gather(comm::Exchange& exchange, const Status& mine, Slice bytes);

/// Every rank's `bytes`, by rank, where every rank gave OK; else on all ranks the failure of the
/// lowest failing rank, its text with that rank.
Result<std::vector<std::string>> GatherAgreed(comm::Exchange& exchange, const Status& mine,
                                              Slice bytes);

/// Returns the result of `body`, a Status or a Result; `body` makes collective calls. If it throws
/// std::bad_alloc, this rank's next call fails on all ranks: none waits for what does not come.
template <typename Body>
auto Together(comm::Exchange& exchange, const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return exchange.Fail(base::OutOfMemory());
  }
}

/// Compares what rank 0 and another rank ask for, one "name = value" on a line. kInvalidArgument:
/// the first line in which they differ. That of "name" is called a name, all others options.
Status CompareRequests(Slice first, Slice other, size_t rank);
/// The same for the requests of all ranks, where all gave OK.
Status AgreeOnRequest(comm::Exchange& exchange, const Status& mine, Slice request);

/// OK where all ranks gave OK and the same `argument`; `what` says in an error what differs.
Status AgreeOn(comm::Exchange& exchange, const Status& mine, Slice argument,
               const std::string& what);

/// Returns the result of `wait`, which waits for a job; kTimedOut where it throws std::bad_alloc:
/// that says nothing of the job, which goes on.
template <typename Wait>
Status EndOf(const Wait& wait) {
  try {
    return wait();
  } catch (const std::bad_alloc&) {
    return Status(Code::kTimedOut);
  }
}

/// Returns one outcome on all ranks of what each did by itself, such as waiting for a job: `mine`
/// is this rank's. With its own text where the code is the same: that names the rank already, or
/// all ranks have the same.
Status AgreeOnOutcome(comm::Exchange& exchange, const Status& mine);

}  // namespace quire::runtime
