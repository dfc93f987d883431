#include "kv/group_reader.h"

#include <algorithm>
#include <utility>

#include "base/log_sink.h"

namespace quire::kv {

GroupReader::GroupReader(Options options)
    : options_(std::move(options)),
      first_(options_.rank / options_.group_size * options_.group_size),
      count_(std::min(options_.group_size, options_.generation.rank_count - first_)),
      members_(std::make_unique<Member[]>(static_cast<size_t>(count_))) {}

GroupReader::Member& GroupReader::MemberOf(int owner) const {
  return members_[static_cast<size_t>(owner - first_)];
}

bool GroupReader::Reaches(int owner) const {
  if (owner < first_ || owner >= first_ + count_ || owner == options_.rank) return false;
  return !MemberOf(owner).out_of_sight.load(std::memory_order_relaxed);
}

// The same place may be another storage on another node: the store id tells.
Status GroupReader::Open(int owner, Member* member, uint64_t store_id) {
  const std::string directory = PartDirectory(options_.directory, options_.generation, owner);
  auto opened = lsm::Reader::Open(*options_.fs, directory, options_.reader);
  if (opened.ok() && (*opened)->State().manifest->store_id == store_id) {
    member->reader = std::move(*opened);
    member->edition = member->reader->State().manifest->edition;
    return Status();
  }
  const bool other = opened.ok() || opened.status().code() == Code::kNotFound;
  if (!other) return Status(Code::kBusy, std::string(opened.status().message()));
  member->out_of_sight.store(true, std::memory_order_relaxed);
  if (base::LogEnabled()) {
    base::Log(
        LogLevel::kWarning,
        "the tables of rank " + std::to_string(owner) + ", " + directory +
            ", are not seen here, though it is of this storage group: it is asked for values");
  }
  return Status(Code::kBusy);
}

// kBusy: not to be had.
Result<std::shared_ptr<lsm::Reader>> GroupReader::ReaderAt(int owner, Member* member,
                                                           uint64_t store_id, uint64_t edition) {
  const std::lock_guard<std::mutex> lock(member->mutex);
  if (member->reader == nullptr) QUIRE_RETURN_IF_ERROR(Open(owner, member, store_id));
  if (member->edition < edition) {
    if (!member->reader->Refresh().ok()) return Status(Code::kBusy);
    member->edition = member->reader->State().manifest->edition;
  }
  if (member->edition < edition) return Status(Code::kBusy);  // seen later, on this node
  return member->reader;
}

Status GroupReader::Get(int owner, uint64_t store_id, uint64_t edition, Slice key,
                        const lsm::AllocateFn& place) {
  Member& member = MemberOf(owner);
  QUIRE_ASSIGN_OR_RETURN(const std::shared_ptr<lsm::Reader> reader,
                         ReaderAt(owner, &member, store_id, edition));
  const Status status = reader->Get(key, place, nullptr);
  if (status.ok() || status.code() == Code::kNotFound) return status;
  // Stale, or damaged: the owner knows better, or tells it as its own.
  return Status(Code::kBusy, std::string(status.message()));
}

}  // namespace quire::kv
