/// The partitioner that a program gave, so that what it throws reaches no caller but as a Status.
///
/// Layer      runtime
/// Threads    any
#pragma once

#include <cstdint>

#include "quire/database.h"
#include "quire/slice.h"
#include "quire/status.h"

namespace quire::runtime {

/// Wraps `partitioner`: a negative number if it throws; empty if it is empty.
Partitioner GuardedPartitioner(Partitioner partitioner);

/// Why `owner`, which a guarded partitioner answered on this thread just now, is no rank of
/// `rank_count`: kInvalidArgument, or kOutOfMemory if it threw std::bad_alloc.
Status NoSuchOwner(int owner, int rank_count);

/// Returns what `guarded`, a guarded partitioner, answers, which may be no rank of `rank_count`,
/// or, if that is empty, the rank that `hash`, the hash of `key`, picks.
///
/// Errors  What the partitioner threw: kOutOfMemory of std::bad_alloc, else kInvalidArgument.
Result<int> AnswerOf(const Partitioner& guarded, Slice key, uint64_t hash, int rank_count);

/// Returns the rank, of `rank_count`, that owns `key`, whose hash is `hash`: the one that
/// `guarded`, a guarded partitioner, answers, or, if that is empty, the one that the hash picks.
///
/// Errors  NoSuchOwner's.
Result<int> OwnerOf(const Partitioner& guarded, Slice key, uint64_t hash, int rank_count);

}  // namespace quire::runtime
