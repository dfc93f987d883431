#include "kv/generations/generation_chain.h"

#include <utility>

#include "base/hash/hash.h"
#include "io/paths/sole_writer.h"
#include "kv/protocol/part_engine.h"

namespace quire::kv {

GenerationChain::GenerationChain(Options options) : options_(std::move(options)) {
  for (const Generation& generation : options_.generations) {
    slots_.push_back(std::make_unique<Slot[]>(static_cast<size_t>(generation.rank_count)));
  }
}

Status GenerationChain::TakeOver(const GenerationChain& former) {
  for (size_t at = 0; at < options_.generations.size(); ++at) {
    const Generation& generation = options_.generations[at];
    for (size_t old = 0; old < former.options_.generations.size(); ++old) {
      // The number alone may be that of a database which was recreated.
      if (!SameGeneration(former.options_.generations[old], generation)) continue;
      for (int rank = 0; rank < generation.rank_count; ++rank) {
        QUIRE_RETURN_IF_ERROR(TakePart(former.SlotOf(old, rank), &SlotOf(at, rank)));
      }
      QUIRE_RETURN_IF_ERROR(CheckCheckpoint(*options_.fs, generation));
    }
  }
  return Status();
}

// Continues with the former chain's state of a generation, for all generations: the keys that one
// hides in an older one, and those that have moved from it to a newer one, must be of one moment.
Status GenerationChain::TakePart(Slot& from, Slot* to) {
  std::shared_ptr<engine::StoredPart> part;
  {
    const std::lock_guard<std::mutex> lock(from.mutex);
    part = from.reader;
  }
  if (part == nullptr) return Status();
  QUIRE_ASSIGN_OR_RETURN(to->reader, part->Newer());
  return Status();
}

Status GenerationChain::CheckWriters() const {
  for (size_t at = 0; at < options_.generations.size(); ++at) {
    QUIRE_RETURN_IF_ERROR(CheckWriter(at));
  }
  return Status();
}

Status GenerationChain::CheckWriter(size_t at) const {
  return io::CheckSoleWriter(*options_.fs,
                             GenerationDirectory(options_.directory, options_.generations[at]));
}

Result<int> GenerationChain::OwnerAmong(Slice key, int rank_count) const {
  const Result<int> owner = options_.partitioning.OwnerOf(key, base::HashKey(key), rank_count);
  return owner.ok() ? owner : owner.status().WithContext("a key that the database has");
}

Status GenerationChain::HoldLocked(size_t at, int rank, Slot& slot) const {
  const Generation& generation = options_.generations[at];
  const std::string part = PartDirectory(options_.directory, generation, rank);
  QUIRE_RETURN_IF_ERROR(CheckWriter(at));
  QUIRE_RETURN_IF_ERROR(io::CheckSoleWriter(*options_.fs, part));
  if (!options_.locks || slot.lock != nullptr || !generation.location.empty()) return Status();
  const std::string path = PartsOnDisk().LockPath(part);
  auto lock = options_.fs->LockShared(path);
  if (lock.status().code() == Code::kNotFound) {
    // The part was not opened since it was copied. Another rank may create the file first.
    static_cast<void>(options_.fs->Open(path, io::FileOpenMode::kCreate));
    lock = options_.fs->LockShared(path);
  }
  if (lock.status().code() == Code::kNotFound) return Status();  // the part is missing
  QUIRE_ASSIGN_OR_RETURN(slot.lock, std::move(lock));
  return Status();
}

Result<std::shared_ptr<engine::StoredPart>> GenerationChain::OpenLocked(size_t at, int rank,
                                                                        Slot& slot) const {
  QUIRE_RETURN_IF_ERROR(HoldLocked(at, rank, slot));
  const std::string directory = PartDirectory(options_.directory, options_.generations[at], rank);
  auto opened = PartsOnDisk().Open(*options_.fs, directory, options_.reader);
  if (options_.still_present) QUIRE_RETURN_IF_ERROR(options_.still_present());
  if (opened.status().code() == Code::kNotFound) {
    return Status(Code::kCorruption, "a part of the database, " + directory +
                                         ", is missing: restore it from a copy or checkpoint");
  }
  QUIRE_RETURN_IF_ERROR(CheckCheckpoint(*options_.fs, options_.generations[at]));
  return opened;
}

Status GenerationChain::Hold(size_t at, int rank) const {
  Slot& slot = SlotOf(at, rank);
  const std::lock_guard<std::mutex> lock(slot.mutex);
  QUIRE_RETURN_IF_ERROR(HoldLocked(at, rank, slot));
  return CheckCheckpoint(*options_.fs, options_.generations[at]);
}

Result<std::shared_ptr<engine::StoredPart>> GenerationChain::Part(size_t at, int rank) const {
  Slot& slot = SlotOf(at, rank);
  const std::lock_guard<std::mutex> lock(slot.mutex);
  if (slot.reader == nullptr) {
    QUIRE_ASSIGN_OR_RETURN(slot.reader, OpenLocked(at, rank, slot));
  }
  return slot.reader;
}

Result<std::shared_ptr<engine::StoredPart>> GenerationChain::PartOnce(size_t at, int rank) const {
  Slot& slot = SlotOf(at, rank);
  const std::lock_guard<std::mutex> lock(slot.mutex);
  if (slot.reader != nullptr) return slot.reader;
  return OpenLocked(at, rank, slot);
}

Status GenerationChain::Look(size_t at, Slice key, const BufferAllocator& allocate,
                             table::KeyState* state) const {
  const int rank_count = options_.generations[at].rank_count;
  const Result<int> owner = options_.partitioning.AnswerFor(key, base::HashKey(key), rank_count);
  QUIRE_RETURN_IF_ERROR(owner.status());
  if (*owner < 0 || *owner >= rank_count) return Status(Code::kNotFound);  // never put there
  QUIRE_ASSIGN_OR_RETURN(const std::shared_ptr<engine::StoredPart> part, Part(at, *owner));
  return part->Get(key, allocate, state);
}

Status GenerationChain::Get(Slice key, const BufferAllocator& allocate) const {
  for (size_t at = 0; at < options_.generations.size(); ++at) {
    auto state = table::KeyState::kAbsent;
    const Status status = Look(at, key, allocate, &state);
    const bool nowhere = status.code() == Code::kNotFound && state == table::KeyState::kAbsent;
    if (!nowhere) return status;
  }
  return Status(Code::kNotFound);
}

Result<bool> GenerationChain::KnownBefore(Slice key, size_t end) const {
  std::string value;
  const Into into(&value);
  for (size_t at = 0; at < end; ++at) {
    auto state = table::KeyState::kAbsent;
    const Status status = Look(at, key, into, &state);
    if (status.ok() || state == table::KeyState::kDeleted) return true;
    if (status.code() != Code::kNotFound) return status;
  }
  return false;
}

}  // namespace quire::kv
