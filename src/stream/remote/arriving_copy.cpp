#include "stream/remote/arriving_copy.h"

#include "base/core/out_of_memory.h"
#include "stream/store/local_reader.h"

namespace quire::stream {

Status ArrivingCopy::Begin(const Arrival& arrival) {
  QUIRE_ASSIGN_OR_RETURN(mirror_, open_mirror_());
  QUIRE_ASSIGN_OR_RETURN(auto from, RoomAt(*mirror_, arrival.at, arrival.bytes));
  QUIRE_ASSIGN_OR_RETURN(char* const to, CallAllocator(allocate_, arrival.bytes));
  copy_.emplace(to, from.get(), arrival.bytes, DataSeed());
  told_ = {arrival.at, arrival.bytes, 0};
  from_ = std::move(from);
  return Status();
}

// If the program's allocator fails here, the reader calls it once more when no request is under
// way, and reports the outcome of that call.
bool ArrivingCopy::Begins(const Arrival& arrival) {
  return base::OrOutOfMemory([&] { return Begin(arrival); }).ok();
}

void ArrivingCopy::Arrive(const Arrival& arrival) {
  if (ended_) return;
  const bool begun = from_ || Begins(arrival);
  const bool fits = begun && arrival.at == told_.at && arrival.bytes == told_.bytes &&
                    arrival.arrived >= told_.arrived && arrival.arrived <= told_.bytes;
  if (fits) {
    told_.arrived = arrival.arrived;
    copy_->CopyUpTo(told_.arrived);
  } else {
    ended_ = true;
    from_.reset();
  }
}

bool ArrivingCopy::Finish(const FetchBody& fetched) {
  const bool fits = from_ && fetched.hash && fetched.version.bytes == told_.bytes;
  const bool right = fits && copy_->End() == *fetched.hash;
  ended_ = true;
  from_.reset();
  return right;
}

}  // namespace quire::stream
