#include "kv/generations/part_files.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/core/out_of_memory.h"
#include "base/hash/hash.h"
#include "base/text/coding.h"
#include "kv/protocol/part_engine.h"
#include "runtime/agreement.h"
#include "runtime/repository.h"

namespace quire::kv {
namespace {

// Returns the number behind `prefix` if `name` consists of these two alone.
std::optional<uint32_t> NumberIn(const std::string& name, const std::string& prefix) {
  if (name.rfind(prefix, 0) != 0) return std::nullopt;
  uint32_t number = 0;
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + prefix.size(), end, number);
  if (error != std::errc() || rest != end || number > 1u << 30) return std::nullopt;
  return number;
}

// Returns the subdirectories `prefix`<number>, by number; none if there is no directory.
Result<std::vector<std::pair<uint32_t, std::string>>> Numbered(io::FileSystem& fs,
                                                               const std::string& directory,
                                                               const std::string& prefix) {
  std::vector<std::pair<uint32_t, std::string>> found;
  const Result<std::vector<io::FileInfo>> entries = fs.List(directory);
  if (entries.status().code() == Code::kNotFound) return found;
  if (!entries.ok()) return entries.status();
  for (const io::FileInfo& entry : *entries) {
    const std::optional<uint32_t> number = NumberIn(entry.name, prefix);
    if (entry.is_directory && number) found.emplace_back(*number, directory + "/" + entry.name);
  }
  std::sort(found.begin(), found.end());
  return found;
}

// Removes `prefix`, a number and a dot from the beginning of `name`; returns false if it does not
// begin so.
bool TakeNumber(std::string* name, const std::string& prefix) {
  const size_t dot = name->find('.');
  if (dot == std::string::npos || !NumberIn(name->substr(0, dot), prefix)) return false;
  name->erase(0, dot + 1);
  return true;
}

bool IsOfRepair(std::string name) {
  const std::string descriptor = runtime::kDatabaseFile;
  if (name == descriptor || name.rfind(descriptor + ".", 0) == 0) return true;
  return TakeNumber(&name, kGenerationDirectoryPrefix) && TakeNumber(&name, kPartDirectoryPrefix) &&
         !name.empty();
}

// At most so many numbers were taken since a part was left behind.
constexpr uint32_t kLeftMax = 1000;

// Whether `number` is of these generations, or may be of one that was forgotten or never counted.
bool MayBeOf(const DatabaseDescriptor& descriptor, uint32_t number) {
  const auto near = [number](uint32_t last) { return number <= last && last - number < kLeftMax; };
  for (const Generation& generation : descriptor.generations) {
    if (number == generation.number) return true;
  }
  return near(descriptor.taken) || near(descriptor.generations[0].number);
}

// On storage that rank 0 has, too, each part is of its database.
Status LookForForeign(io::FileSystem& fs, const std::string& directory,
                      const DatabaseDescriptor& descriptor) {
  const Result<DatabaseDescriptor> mine = ReadDescriptor(fs, directory);
  if (!mine.ok() && mine.status().code() != Code::kNotFound) return mine.status();
  if (mine.ok() && mine->id == descriptor.id) return Status();
  // A creation or destruction with another rank 0 that was cut off leaves one that counts no more.
  const bool other = mine.ok() && IsThere(*mine);
  QUIRE_ASSIGN_OR_RETURN(const std::vector<PartFound> parts, FindParts(fs, directory, {}));
  for (const PartFound& part : parts) {
    if (!other && MayBeOf(descriptor, part.generation)) continue;
    return Status(Code::kCorruption,
                  part.path + " is no part of the database that rank 0 has, or a newer one: start "
                              "the ranks on the nodes that hold their parts, or remove " +
                      part.path + " if nobody needs it");
  }
  return Status();
}

// Removes the whole share at once. Returns true if something was removed.
Result<bool> RemoveShare(io::FileSystem& fs, const PartInventory& inventory,
                         const std::vector<uint64_t>& digests, int rank) {
  ShareRemoval removal(fs, inventory, digests, rank);
  while (true) {
    QUIRE_ASSIGN_OR_RETURN(const bool gone, removal.Advance());
    if (gone) return removal.removed();
  }
}

// The share of one of `count` ranks: every part whose rank is `index` modulo `count`.
struct Share {
  int index = 0;
  int count = 0;
};

Share ShareOf(const std::vector<uint64_t>& digests, int rank) {
  Share share;
  const auto own = static_cast<size_t>(rank);
  for (size_t i = 0; i < digests.size(); ++i) {
    if (digests[i] != digests[own]) continue;
    if (i < own) ++share.index;
    ++share.count;
  }
  return share;
}

}  // namespace

Result<std::vector<PartFound>> FindParts(io::FileSystem& fs, const std::string& directory,
                                         const std::set<uint32_t>& kept) {
  std::vector<PartFound> parts;
  QUIRE_ASSIGN_OR_RETURN(const auto generations,
                         Numbered(fs, directory, kGenerationDirectoryPrefix));
  for (const auto& [generation, path] : generations) {
    if (kept.contains(generation)) continue;
    QUIRE_ASSIGN_OR_RETURN(const auto ranks, Numbered(fs, path, kPartDirectoryPrefix));
    for (const auto& [rank, part] : ranks) {
      parts.push_back({generation, static_cast<int>(rank), part});
    }
  }
  return parts;
}

Result<PartInventory> ListParts(io::FileSystem& fs, const std::string& directory,
                                const std::set<uint32_t>& kept) {
  PartInventory inventory;
  QUIRE_ASSIGN_OR_RETURN(inventory.parts, FindParts(fs, directory, kept));
  if (inventory.parts.empty()) return inventory;
  std::string names;
  for (const PartFound& part : inventory.parts) names += part.path + "\n";
  inventory.digest = std::max<uint64_t>(base::HashKey(names), 1);
  return inventory;
}

ShareRemoval::ShareRemoval(io::FileSystem& fs, const PartInventory& inventory,
                           const std::vector<uint64_t>& digests, int rank)
    : fs_(fs) {
  const Share share = ShareOf(digests, rank);
  for (const PartFound& part : inventory.parts) {
    if (part.rank % share.count == share.index) parts_.push_back(part.path);
  }
  std::reverse(parts_.begin(), parts_.end());
}

Result<bool> ShareRemoval::Advance() {
  if (!parts_.empty()) QUIRE_RETURN_IF_ERROR(AdvancePart());
  if (!parts_.empty()) return false;
  // Rank 0 forgets them next, perhaps on another device: no power loss may bring them back.
  for (const std::string& generation : changed_) {
    const Status synced = fs_.SyncDirectory(generation);
    // If another rank removed the empty directory meanwhile, that rank makes this durable.
    if (!synced.ok() && synced.code() != Code::kNotFound) return synced;
  }
  return true;
}

Status ShareRemoval::AdvancePart() {
  const std::string& part = parts_.back();
  if (part_ == nullptr) {
    QUIRE_ASSIGN_OR_RETURN(const bool exists, fs_.Exists(part));
    if (!exists) {  // a network file system may list for a while what is gone
      parts_.pop_back();
      return Status();
    }
    part_ = PartsOnDisk().NewRemoval(fs_, part, nullptr);
  }
  QUIRE_ASSIGN_OR_RETURN(const bool gone, part_->Advance());
  if (!gone) return Status();
  changed_.insert(io::DirectoryOf(part));
  part_.reset();
  parts_.pop_back();
  return Status();
}

Status CheckGenerations(io::FileSystem& fs, const std::string& directory) {
  QUIRE_ASSIGN_OR_RETURN(const auto generations,
                         Numbered(fs, directory, kGenerationDirectoryPrefix));
  for (const auto& [number, path] : generations) {
    const Status own = fs.CheckDirectory(path);
    // Another rank may remove one that is empty.
    if (!own.ok() && own.code() != Code::kNotFound) return own;
  }
  return Status();
}

Status CheckNoParts(const runtime::ContextState& context, const std::string& directory) {
  const Result<std::vector<PartFound>> parts = FindParts(*context.fs, directory, {});
  Status mine = parts.status();
  if (mine.ok() && !parts->empty()) {
    mine = Status(Code::kCorruption,
                  (*parts)[0].path + " is there, but rank 0 has no " + DescriptorPath(directory) +
                      ": start the ranks on the nodes that hold their parts, or restore it, or "
                      "remove the directory " +
                      directory + " on all nodes");
  }
  return context.exchange->Agree(mine);
}

Status CheckForeignParts(const runtime::ContextState& context, const std::string& directory,
                         const DatabaseDescriptor& descriptor) {
  if (context.size() == 1) return Status();
  return context.exchange->Agree(
      base::OrOutOfMemory([&] { return LookForForeign(*context.fs, directory, descriptor); }));
}

Status RemoveParts(const runtime::ContextState& context, const std::string& directory,
                   const std::set<uint32_t>& kept) {
  while (true) {
    const Result<PartInventory> inventory = ListParts(*context.fs, directory, kept);
    std::string digest;
    base::PutFixed(&digest, inventory.ok() ? inventory->digest : 0);
    QUIRE_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                           runtime::GatherAgreed(*context.exchange, inventory.status(), digest));
    std::vector<uint64_t> digests;
    for (const std::string& text : texts) {
      base::ByteReader reader(text);
      if (!reader.Fixed(&digests.emplace_back())) {
        return Status(Code::kCorruption, "a rank does not say which parts it sees");
      }
    }
    Result<bool> removed = RemoveShare(*context.fs, *inventory, digests, context.rank());
    if (removed.ok()) {
      const Status tidied = RemoveEmptyGenerations(*context.fs, directory);
      if (!tidied.ok()) removed = tidied;
    }
    QUIRE_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                           runtime::GatherAgreed(*context.exchange, removed.status(),
                                                 removed.ok() && *removed ? "removed" : ""));
    if (std::all_of(all.begin(), all.end(), [](auto& text) { return text.empty(); })) {
      return Status();
    }
  }
}

Status RemoveEmptyGenerations(io::FileSystem& fs, const std::string& directory) {
  QUIRE_ASSIGN_OR_RETURN(const auto generations,
                         Numbered(fs, directory, kGenerationDirectoryPrefix));
  for (const auto& [number, path] : generations) {
    QUIRE_RETURN_IF_ERROR(RemoveIfEmpty(fs, path));
    QUIRE_ASSIGN_OR_RETURN(const bool stays, fs.Exists(path));
    if (!stays) QUIRE_RETURN_IF_ERROR(fs.SyncDirectory(directory));
  }
  return Status();
}

std::string LostDirectory(const std::string& directory) {
  return directory + "/lost";
}

std::string LostPrefix(uint32_t generation, int rank) {
  return kGenerationDirectoryPrefix + std::to_string(generation) + "." + kPartDirectoryPrefix +
         std::to_string(rank) + ".";
}

Status RemoveLost(io::FileSystem& fs, const std::string& directory) {
  const std::string lost = LostDirectory(directory);
  const Result<std::vector<io::FileInfo>> entries = fs.List(lost);
  if (entries.status().code() == Code::kNotFound) return Status();
  if (!entries.ok()) return entries.status();
  for (const io::FileInfo& entry : *entries) {
    if (entry.is_directory || !IsOfRepair(entry.name)) continue;
    const Status removed = fs.Unlink(lost + "/" + entry.name);
    if (!removed.ok() && removed.code() != Code::kNotFound) return removed;
  }
  return RemoveIfEmpty(fs, lost);
}

Status RemoveIfEmpty(io::FileSystem& fs, const std::string& directory) {
  Result<std::vector<io::FileInfo>> rest = fs.List(directory);
  // Another rank of this node may have been faster.
  if (rest.status().code() == Code::kNotFound) return Status();
  if (!rest.ok()) return rest.status();
  if (!rest->empty()) return Status();
  const Status removed = fs.RemoveDirectory(directory);
  if (removed.ok() || removed.code() == Code::kNotFound) return Status();
  // Or another process created something in it meanwhile.
  rest = fs.List(directory);
  const bool gone = rest.status().code() == Code::kNotFound;
  return gone || (rest.ok() && !rest->empty()) ? Status() : removed;
}

}  // namespace quire::kv
