/// Makes, removes and finds the directories of a database's generations and parts.
///
/// Layer      kv
/// Encoding   docs/format/database.md
/// Threads    any; ranks work on different parts of one directory. Collective functions say so
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

/// An existing part: gen-<generation>/rank-<rank>.
struct PartFound {
  uint32_t generation = 0;
  int rank = 0;
  std::string path;
};
/// Returns the parts in a database's directory, on this node's storage, except those of the
/// generations `kept`. No directory: none.
Result<std::vector<PartFound>> FindParts(io::FileSystem& fs, const std::string& directory,
                                         const std::set<uint32_t>& kept);

/// The parts that a rank sees, and a digest that shows whether another rank sees the same ones.
struct PartInventory {
  std::vector<PartFound> parts;
  uint64_t digest = 0;  ///< 0: it sees none
};
/// Returns the inventory of the parts of all generations except `kept`.
Result<PartInventory> ListParts(io::FileSystem& fs, const std::string& directory,
                                const std::set<uint32_t>& kept);
/// One round of a collective removal of parts, on storages that nodes share or have to themselves.
/// Ranks that see the same parts (equal `digests`, by rank) divide them; this removes this rank's
/// share, piece by piece.
class ShareRemoval {
 public:
  ShareRemoval(io::FileSystem& fs, const PartInventory& inventory,
               const std::vector<uint64_t>& digests, int rank);
  /// Removes some parts, for about 10 ms; true once all are gone.
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

/// Checks, as FileSystem::CheckDirectory does, the directories of all generations in a database's
/// directory. No directory: OK.
Status CheckGenerations(io::FileSystem& fs, const std::string& directory);

/// Fails if a rank sees a part that no descriptor names: rank 0's descriptor is lost, or the ranks
/// are on other nodes than before. Collective; kCorruption, on all ranks.
Status CheckNoParts(const runtime::ContextState& context, const std::string& directory);
/// Fails if a rank with storage of its own sees a part of another database than that of rank 0's
/// `descriptor`, or a newer part than it knows: rank 0's descriptor is an old copy, or the ranks
/// are on other nodes than before. Collective; kCorruption, on all ranks. Cost: one message round,
/// and one reading of DATABASE on each rank.
Status CheckForeignParts(const runtime::ContextState& context, const std::string& directory,
                         const DatabaseDescriptor& descriptor);
/// Removes the parts of all generations except `kept` that any rank sees, whichever rank wrote
/// them, in as many rounds as necessary; then the empty directories of generations. Collective; the
/// same status on all ranks.
Status RemoveParts(const runtime::ContextState& context, const std::string& directory,
                   const std::set<uint32_t>& kept);
/// Removes the empty directories of generations, durably. Other ranks may do the same meanwhile.
Status RemoveEmptyGenerations(io::FileSystem& fs, const std::string& directory);
/// Return the directory into which `quire repair` moves unusable files of a database in
/// `directory`, and the prefix of a part's files there.
std::string LostDirectory(const std::string& directory);
std::string LostPrefix(uint32_t generation, int rank);
/// Removes the files with names that repair gives, and the directory if it contains nothing else.
/// Other ranks may do the same meanwhile.
Status RemoveLost(io::FileSystem& fs, const std::string& directory);
/// Removes an empty directory; does nothing if it is gone, or contains files of other programs.
Status RemoveIfEmpty(io::FileSystem& fs, const std::string& directory);

}  // namespace quire::kv
