#include "runtime/partitioner.h"

#include <limits>
#include <string>
#include <utility>

#include "base/hash.h"
#include "base/program_call.h"

namespace quire::runtime {
namespace {

constexpr int kThrew = std::numeric_limits<int>::min();

// Why the last one on this thread that threw did.
thread_local Status last_failure;

}  // namespace

Partitioner GuardedPartitioner(Partitioner partitioner) {
  if (!partitioner) return {};
  return [partitioner = std::move(partitioner)](Slice key, int rank_count) {
    int owner = kThrew;
    const Status called = base::CallProgram([] { return std::string("the partitioner"); },
                                            [&]() -> Status {
                                              owner = partitioner(key, rank_count);
                                              return Status();
                                            });
    if (!called.ok()) last_failure = called;
    return owner;
  };
}

Status NoSuchOwner(int owner, int rank_count) {
  if (owner == kThrew && !last_failure.ok()) return last_failure;
  return Status(Code::kInvalidArgument, "the partitioner answers rank " + std::to_string(owner) +
                                            " of " + std::to_string(rank_count));
}

Result<int> AnswerOf(const Partitioner& guarded, Slice key, uint64_t hash, int rank_count) {
  if (!guarded) return base::OwnerOf(hash, rank_count);
  const int owner = guarded(key, rank_count);
  if (owner == kThrew) return NoSuchOwner(owner, rank_count);
  return owner;
}

Result<int> OwnerOf(const Partitioner& guarded, Slice key, uint64_t hash, int rank_count) {
  QUIRE_ASSIGN_OR_RETURN(const int owner, AnswerOf(guarded, key, hash, rank_count));
  if (owner >= 0 && owner < rank_count) return owner;
  return NoSuchOwner(owner, rank_count);
}

}  // namespace quire::runtime
