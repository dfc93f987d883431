#include "runtime/partitioning.h"

#include <limits>
#include <utility>

#include "base/core/program_call.h"

namespace quire::runtime {
namespace {

constexpr int kThrew = std::numeric_limits<int>::min();

// Why the partitioner that last threw on this thread failed.
thread_local Status last_failure;

Partitioner Guarded(Partitioner function) {
  if (!function) return {};
  return [function = std::move(function)](Slice key, int rank_count) {
    int owner = kThrew;
    const Status called = base::CallProgram([] { return std::string("the partitioner"); },
                                            [&]() -> Status {
                                              owner = function(key, rank_count);
                                              return Status();
                                            });
    if (!called.ok()) last_failure = called;
    return owner;
  };
}

}  // namespace

Partitioning::Partitioning(Partitioner function) : function_(Guarded(std::move(function))) {
  if (function_) name_.clear();
}

Result<Partitioning> Partitioning::Make(const Partitioner& function, const std::string& name) {
  const bool named = !name.empty() && name != kByHash;
  if (named && !function) {
    return Status(Code::kInvalidArgument, "partitioner_name is \"" + name +
                                              "\", but no partitioner is given: give the function");
  }
  if (function && !named) {
    return Status(Code::kInvalidArgument,
                  "the partitioner needs a name of its own, which is stored, not \"" + name +
                      "\": give it in partitioner_name");
  }
  Partitioning made(function);
  if (named) made.name_ = name;
  return made;
}

Status Partitioning::NoSuchOwner(int answer, int rank_count) {
  if (answer == kThrew && !last_failure.ok()) return last_failure;
  return Status(Code::kInvalidArgument, "the partitioner answers rank " + std::to_string(answer) +
                                            " of " + std::to_string(rank_count));
}

Result<int> Partitioning::AnswerFor(Slice key, uint64_t hash, int rank_count) const {
  const int answer = Ask(key, hash, rank_count);
  if (answer == kThrew) return NoSuchOwner(answer, rank_count);
  return answer;
}

Result<int> Partitioning::OwnerOf(Slice key, uint64_t hash, int rank_count) const {
  const int answer = Ask(key, hash, rank_count);
  if (answer >= 0 && answer < rank_count) return answer;
  return NoSuchOwner(answer, rank_count);
}

bool Partitioning::MayShareKeys(int rank, int rank_count, int other, int other_count) const {
  if (!by_hash()) return true;
  // Each owner has one contiguous range of the hashes, in the order of the ranks.
  const auto begin = [](int64_t owner, int64_t of_others) { return owner * of_others; };
  return begin(rank, other_count) <= begin(other + 1, rank_count) &&
         begin(other, rank_count) <= begin(rank + 1, other_count);
}

}  // namespace quire::runtime
