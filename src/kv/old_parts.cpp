#include "kv/old_parts.h"

#include <algorithm>
#include <string>
#include <utility>

#include "kv/agreement.h"
#include "lsm/manifest.h"

namespace quire::kv {
namespace {

// One byte for each part: 1 where this rank sees it.
Result<std::string> SeenParts(const Chain::Options& chain) {
  std::string seen;
  for (const Generation& generation : chain.generations) {
    for (int rank = 0; rank < generation.rank_count; ++rank) {
      const std::string part = PartDirectory(chain.directory, generation, rank);
      QUIRE_ASSIGN_OR_RETURN(const bool there, chain.fs->Exists(part + "/" + lsm::ManifestName()));
      seen.push_back(there ? 1 : 0);
    }
  }
  return seen;
}

// Who reads the part at `at`: the rank with its number, or else the first that sees it. -1: nobody.
int ReaderOf(const std::vector<std::string>& seen, size_t at, int part) {
  const size_t preferred = static_cast<size_t>(part) % seen.size();
  if (seen[preferred][at] != 0) return static_cast<int>(preferred);
  for (size_t rank = 0; rank < seen.size(); ++rank) {
    if (seen[rank][at] != 0) return static_cast<int>(rank);
  }
  return -1;
}

Status Assign(const Chain::Options& chain, const std::vector<std::string>& seen, OldParts* old) {
  size_t at = 0;
  for (const Generation& generation : chain.generations) {
    std::vector<int>& readers = old->readers.emplace_back();
    for (int part = 0; part < generation.rank_count; ++part, ++at) {
      readers.push_back(ReaderOf(seen, at, part));
      if (readers.back() >= 0) continue;
      return Status(Code::kCorruption,
                    "a part of the database, " + PartDirectory(chain.directory, generation, part) +
                        ", is seen by no rank: start the ranks where all parts can be seen, or "
                        "restore it from a copy or checkpoint");
    }
  }
  return Status();
}

}  // namespace

Result<OldParts> ArrangeOldParts(const Core& core, Chain::Options chain) {
  OldParts old;
  if (chain.generations.empty()) return old;
  const Result<std::string> mine = SeenParts(chain);
  const bool all = mine.ok() && mine->find('\0') == std::string::npos;
  QUIRE_ASSIGN_OR_RETURN(const uint64_t blind, core.exchange->Sum(all ? 0 : 1));
  old.shared = blind == 0;
  // Who sees everything need not say what.
  QUIRE_ASSIGN_OR_RETURN(std::vector<std::string> seen,
                         GatherAgreed(*core.exchange, mine.status(),
                                      old.shared || !mine.ok() ? Slice() : Slice(*mine)));
  if (old.shared) std::fill(seen.begin(), seen.end(), *mine);
  for (const std::string& one : seen) {
    if (one.size() == mine->size()) continue;
    return Status(Code::kCorruption, "the ranks do not look for the same older parts");
  }
  if (!old.shared && chain.generations.size() > 1) {
    return Status(Code::kUnsupported,
                  "a redistribution of the database at " + chain.directory +
                      " was cut off, and its ranks share no storage: open it with " +
                      std::to_string(chain.generations[0].rank_count) +
                      " ranks on the same nodes first, which completes it");
  }
  QUIRE_RETURN_IF_ERROR(Assign(chain, seen, &old));
  old.chain = std::make_shared<const Chain>(std::move(chain));
  return old;
}

}  // namespace quire::kv
