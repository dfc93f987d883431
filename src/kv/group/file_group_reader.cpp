#include "kv/group/file_group_reader.h"

#include <utility>

#include "base/core/log_sink.h"
#include "kv/protocol/part_engine.h"

namespace quire::kv {

FileGroupReader::FileGroupReader(Options options)
    : options_(std::move(options)), members_(static_cast<size_t>(options_.generation.rank_count)) {
  for (const int rank : options_.members) {
    members_[static_cast<size_t>(rank)] = std::make_unique<Member>();
  }
}

bool FileGroupReader::Member::Has(const NamedTables& tables) const {
  return seen.store_id == tables.store_id && seen.edition >= tables.edition;
}

void FileGroupReader::Member::NoteSeen() {
  const engine::TablesPosition position = reader->Position();
  seen = {position.store_id, position.edition};
}

bool FileGroupReader::Reaches(int owner) const {
  const Member* const member = members_[static_cast<size_t>(owner)].get();
  return member != nullptr && !member->out_of_sight.load(std::memory_order_relaxed);
}

bool FileGroupReader::Sees(int owner) {
  if (!Reaches(owner)) return false;
  Member* const member = members_[static_cast<size_t>(owner)].get();
  const std::lock_guard<std::mutex> lock(member->mutex);
  if (member->reader != nullptr) return true;
  const Status opened = Open(owner, member);
  if (opened.code() == Code::kNotFound) OutOfSight(owner, member);
  return opened.ok();
}

void FileGroupReader::OutOfSight(int owner, Member* member) {
  member->out_of_sight.store(true, std::memory_order_relaxed);
  member->reader.reset();
  if (!options_.expected || !base::LogEnabled()) return;
  base::Log(LogLevel::kWarning,
            "the tables of rank " + std::to_string(owner) + ", " +
                PartDirectory(options_.directory, options_.generation, owner) +
                ", are not seen here, though it is of this storage group: it is asked for values");
}

// Opens the part at the owner's place. kNotFound: there is none. kBusy: it cannot be read.
Status FileGroupReader::Open(int owner, Member* member) {
  auto opened = PartsOnDisk().Open(
      *options_.fs, PartDirectory(options_.directory, options_.generation, owner), options_.reader);
  if (!opened.ok()) {
    const bool absent = opened.status().code() == Code::kNotFound;
    return absent ? opened.status() : Status(Code::kBusy, opened.status().message());
  }
  member->reader = std::move(*opened);
  member->NoteSeen();
  return Status();
}

// Returns kBusy if there is no reader for these tables.
Result<std::shared_ptr<engine::StoredPart>> FileGroupReader::ReaderAt(int owner, Member* member,
                                                                      const NamedTables& tables) {
  const std::lock_guard<std::mutex> lock(member->mutex);
  if (member->reader == nullptr) {
    const Status opened = Open(owner, member);
    // The same path may be on another storage, if other ranks see it.
    const bool seen = opened.ok() && member->seen.store_id == tables.store_id;
    if (opened.code() == Code::kNotFound || (opened.ok() && !seen)) OutOfSight(owner, member);
    if (!seen) return Status(Code::kBusy);
  }
  if (member->Has(tables)) return member->reader;
  auto newer = member->reader->Newer();
  if (!newer.ok()) return Status(Code::kBusy);
  member->reader = std::move(*newer);
  member->NoteSeen();
  if (!member->Has(tables)) return Status(Code::kBusy);  // it is seen later from here
  return member->reader;
}

Status FileGroupReader::Get(int owner, const NamedTables& tables, Slice key,
                            const BufferAllocator& allocate) {
  QUIRE_ASSIGN_OR_RETURN(const std::shared_ptr<engine::StoredPart> reader,
                         ReaderAt(owner, members_[static_cast<size_t>(owner)].get(), tables));
  const Status status = reader->Get(key, allocate, nullptr);
  if (status.ok() || status.code() == Code::kNotFound) return status;
  // Stale, or damaged: the owner has a newer state, or reports the damage itself.
  return Status(Code::kBusy, std::string(status.message()));
}

}  // namespace quire::kv
