#include "kv/generations/older_parts.h"

#include <algorithm>
#include <string>
#include <utility>

#include "kv/protocol/part_engine.h"
#include "runtime/agreement.h"

namespace quire::kv {
namespace {

Result<bool> Sees(const GenerationChain::Options& chain, const Generation& generation, int part) {
  return chain.fs->Exists(PartDirectory(chain.directory, generation, part) + "/" +
                          PartsOnDisk().marker());
}

// Returns whether this rank sees the first part of every generation, and its share of the others.
// If all ranks do, they share their storage: few lookups find this out, however many parts there
// are.
Result<bool> SeesItsShare(const runtime::ContextState& context,
                          const GenerationChain::Options& chain) {
  for (const Generation& generation : chain.generations) {
    QUIRE_ASSIGN_OR_RETURN(bool sees, Sees(chain, generation, 0));
    for (int part = context.rank(); sees && part < generation.rank_count; part += context.size()) {
      QUIRE_ASSIGN_OR_RETURN(sees, Sees(chain, generation, part));
    }
    if (!sees) return false;
  }
  return true;
}

// Returns one byte for each part: 1 if this rank sees it.
Result<std::string> SeenParts(const GenerationChain::Options& chain) {
  std::string seen;
  for (const Generation& generation : chain.generations) {
    for (int rank = 0; rank < generation.rank_count; ++rank) {
      QUIRE_ASSIGN_OR_RETURN(const bool there, Sees(chain, generation, rank));
      seen.push_back(there ? 1 : 0);
    }
  }
  return seen;
}

// Returns the rank that reads the part at `at`: the rank with its number, else the first that sees
// it; -1 if no rank sees it.
int ReaderOf(const std::vector<std::string>& seen, size_t at, int part) {
  const size_t preferred = static_cast<size_t>(part) % seen.size();
  if (seen[preferred][at] != 0) return static_cast<int>(preferred);
  for (size_t rank = 0; rank < seen.size(); ++rank) {
    if (seen[rank][at] != 0) return static_cast<int>(rank);
  }
  return -1;
}

Status Assign(const GenerationChain::Options& chain, const std::vector<std::string>& seen,
              OlderParts* old) {
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

void AssignInTurn(int size, const GenerationChain::Options& chain, OlderParts* old) {
  for (const Generation& generation : chain.generations) {
    std::vector<int>& readers = old->readers.emplace_back();
    for (int part = 0; part < generation.rank_count; ++part) readers.push_back(part % size);
  }
}

// Returns the seen parts of all ranks, by rank.
Result<std::vector<std::string>> GatherSeenParts(const runtime::ContextState& context,
                                                 const GenerationChain::Options& chain) {
  const Result<std::string> mine = SeenParts(chain);
  QUIRE_ASSIGN_OR_RETURN(
      std::vector<std::string> seen,
      runtime::GatherAgreed(*context.exchange, mine.status(), mine.ok() ? Slice(*mine) : Slice()));
  for (const std::string& one : seen) {
    if (one.size() == mine->size()) continue;
    return Status(Code::kCorruption, "the ranks do not look for the same older parts");
  }
  return seen;
}

Status AssignBySight(const runtime::ContextState& context, const GenerationChain::Options& chain,
                     OlderParts* old) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<std::string> seen, GatherSeenParts(context, chain));
  return Assign(chain, seen, old);
}

bool LiesByTurns(const std::vector<std::string>& seen, size_t ranks) {
  for (size_t part = 0; part < seen[0].size(); ++part) {
    if (seen[part % ranks][part] == 0) return false;
  }
  return true;
}

// Makes sure that no process writes any more to the parts that this rank is to read: the remaining
// processes of the job that did have ended.
Status HoldOwn(const runtime::ContextState& context, const OlderParts& old) {
  for (size_t at = 0; at < old.readers.size(); ++at) {
    for (size_t part = 0; part < old.readers[at].size(); ++part) {
      if (old.readers[at][part] != context.rank()) continue;
      QUIRE_RETURN_IF_ERROR(old.chain->Hold(at, static_cast<int>(part)));
    }
  }
  return Status();
}

}  // namespace

Result<bool> WasCopiedByFewerRanks(const runtime::ContextState& context,
                                   const GenerationChain::Options& options) {
  const Result<bool> own = Sees(options, options.generations[0], context.rank());
  // The failure of a rank that cannot look is returned below.
  QUIRE_ASSIGN_OR_RETURN(const uint64_t blind, context.exchange->Sum(own.ok() && *own ? 0 : 1));
  if (blind == 0) return false;
  QUIRE_ASSIGN_OR_RETURN(const std::vector<std::string> seen, GatherSeenParts(context, options));
  for (size_t fewer = 1; fewer < seen.size(); ++fewer) {
    if (LiesByTurns(seen, fewer)) return true;
  }
  return false;
}

Result<OlderParts> AssignOlderParts(const runtime::ContextState& context,
                                    GenerationChain::Options options) {
  OlderParts old;
  if (options.generations.empty()) return old;
  const Result<bool> mine = SeesItsShare(context, options);
  QUIRE_RETURN_IF_ERROR(context.exchange->Agree(mine.status()));
  QUIRE_ASSIGN_OR_RETURN(const uint64_t blind, context.exchange->Sum(*mine ? 0 : 1));
  old.shared = blind == 0;
  if (old.shared) {
    AssignInTurn(context.size(), options, &old);
  } else {
    QUIRE_RETURN_IF_ERROR(AssignBySight(context, options, &old));
  }
  if (!old.shared && options.generations.size() > 1) {
    return Status(Code::kUnsupported,
                  "the database at " + options.directory +
                      " has older generations that have not moved, and these ranks share no "
                      "storage: open it with " +
                      std::to_string(options.generations[0].rank_count) +
                      " ranks where they do first");
  }
  options.locks = true;
  options.reader.unchanging = true;
  old.chain = std::make_shared<const GenerationChain>(std::move(options));
  QUIRE_RETURN_IF_ERROR(context.exchange->Agree(HoldOwn(context, old)));
  return old;
}

}  // namespace quire::kv
