/// The partitioner that a program gave, so that what it throws reaches no caller but as a Status.
///
/// Layer      kv
/// Threads    any
#pragma once

#include "quire/database.h"

namespace quire::kv {

/// `partitioner`, answering a negative number where it throws; empty where it is empty.
Partitioner GuardedPartitioner(Partitioner partitioner);

/// kInvalidArgument: a guarded partitioner answered `owner` on this thread just now, which is no
/// rank of `rank_count`.
Status NoSuchOwner(int owner, int rank_count);

}  // namespace quire::kv
