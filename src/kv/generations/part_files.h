/// The directories of a database's generations and parts: made, removed, found.
///
/// Layer      kv
/// Encoding   docs/format/database.md
/// Threads    any; ranks work on different parts of one directory. What is collective says so
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/engine_kind.h"
#include "io/files/file_system.h"
#include "kv/protocol/descriptor.h"
#include "runtime/context_state.h"

namespace quire::kv {

/// A part that is there: gen-<generation>/rank-<rank>.
struct PartFound {
  uint32_t generation = 0;
  int rank = 0;
  std::string path;
};
/// The parts in a database's directory, of this node's storage, but those of the generations
/// `kept`. No directory: none.
Result<std::vector<PartFound>> FindParts(io::FileSystem& fs, const std::string& directory,
                                         const std::set<uint32_t>& kept);

/// The parts that a rank sees, and a digest that shows whether another rank sees the same ones.
struct PartInventory {
  std::vector<PartFound> parts;
  uint64_t digest = 0;  ///< 0: it sees none
};
/// Parts of all generations but `kept`.
Result<PartInventory> ListParts(io::FileSystem& fs, const std::string& directory,
                                const std::set<uint32_t>& kept);
/// One round of removing what all ranks see, which may be on storages that nodes share or have to
/// themselves: this rank's share among those with the same digest (`digests`: by rank), piece by
/// piece.
class ShareRemoval {
 public:
  ShareRemoval(io::FileSystem& fs, const PartInventory& inventory,
               const std::vector<uint64_t>& digests, int rank);
  /// Removes some of it, for about 10 ms: true once all is gone.
  Result<bool> Advance();
  /// Returns whether something was removed: then another round may find more.
  bool removed() const { return !changed_.empty(); }

 private:
  Status AdvancePart();

  io::FileSystem& fs_;
  std::vector<std::string> parts_;        // to remove, the last one first
  std::unique_ptr<engine::PartRemoval> part_;  // of the last one, once it is begun
  std::set<std::string> changed_;         // directories of generations
};

/// Checks, as FileSystem::CheckDirectory does, the directories of all generations that are in a
/// database's directory. No directory: OK.
Status CheckGenerations(io::FileSystem& fs, const std::string& directory);

/// Fails where a rank sees a part that no descriptor names: rank 0's is lost, or the ranks are on
/// other nodes than they were. Collective; kCorruption, on all ranks.
Status CheckNoParts(const runtime::ContextState& context, const std::string& directory);
/// Fails where a rank that has storage of its own sees a part of another database than rank 0's
/// `descriptor` is of, or a newer one than that knows: rank 0's is an old copy, or the ranks are on
/// other nodes than they were. Collective; kCorruption, on all ranks. Cost: one message round, and
/// one reading of DATABASE on each rank.
Status CheckForeignParts(const runtime::ContextState& context, const std::string& directory,
                         const DatabaseDescriptor& descriptor);
/// Removes the parts of all generations but `kept` that any rank sees, whichever rank's they were,
/// in as many rounds as it takes; then the directories of generations that are empty. Collective;
/// the same status on all ranks.
Status RemoveParts(const runtime::ContextState& context, const std::string& directory,
                   const std::set<uint32_t>& kept);
/// Removes the directories of generations that have nothing in them, durably. Other ranks may be at
/// it too.
Status RemoveEmptyGenerations(io::FileSystem& fs, const std::string& directory);
/// The directory into which `quire repair` moves unusable files of a database in `directory`; and
/// the prefix of a part's files there.
std::string LostDirectory(const std::string& directory);
std::string LostPrefix(uint32_t generation, int rank);
/// Removes what is there under the names that repair gives, and the directory if nothing else is in
/// it. Other ranks may be at it too.
Status RemoveLost(io::FileSystem& fs, const std::string& directory);
/// Removes an empty directory; does nothing if it is gone, or contains files of other programs.
Status RemoveIfEmpty(io::FileSystem& fs, const std::string& directory);

}  // namespace quire::kv
