#include "kv/part_files.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "lsm/db.h"

namespace quire::kv {
namespace {

// The number behind `prefix`, where `name` is nothing but these.
std::optional<uint32_t> NumberIn(const std::string& name, const std::string& prefix) {
  if (name.rfind(prefix, 0) != 0) return std::nullopt;
  uint32_t number = 0;
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + prefix.size(), end, number);
  if (error != std::errc() || rest != end || number > 1u << 30) return std::nullopt;
  return number;
}

// The subdirectories `prefix`<number>, by number. No directory: none.
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

}  // namespace

Result<std::vector<PartFound>> FindParts(io::FileSystem& fs, const std::string& directory) {
  std::vector<PartFound> parts;
  QUIRE_ASSIGN_OR_RETURN(const auto generations,
                         Numbered(fs, directory, kGenerationDirectoryPrefix));
  for (const auto& [generation, path] : generations) {
    QUIRE_ASSIGN_OR_RETURN(const auto ranks, Numbered(fs, path, kPartDirectoryPrefix));
    for (const auto& [rank, part] : ranks) {
      parts.push_back({generation, static_cast<int>(rank), part});
    }
  }
  return parts;
}

Status RemoveParts(const Core& core, const std::string& directory, const std::set<uint32_t>& kept,
                   bool expected) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<PartFound> parts, FindParts(*core.fs, directory));
  std::set<std::string> changed;
  for (const PartFound& part : parts) {
    if (kept.contains(part.generation) || part.rank % core.size() != core.rank()) continue;
    if (!expected) {
      return Status(Code::kCorruption, part.path + " is there, but " + DescriptorPath(directory) +
                                           " is not: restore it, or remove the directory " +
                                           directory);
    }
    QUIRE_RETURN_IF_ERROR(lsm::DestroyDb(*core.fs, part.path));
    changed.insert(part.path.substr(0, part.path.rfind('/')));
  }
  // Rank 0 forgets them next, perhaps on another device: no power loss may bring them back.
  for (const std::string& generation : changed) {
    QUIRE_RETURN_IF_ERROR(core.fs->SyncDirectory(generation));
  }
  return Status();
}

Status RemoveEmptyGenerations(io::FileSystem& fs, const std::string& directory) {
  QUIRE_ASSIGN_OR_RETURN(const auto generations,
                         Numbered(fs, directory, kGenerationDirectoryPrefix));
  for (const auto& [number, path] : generations) QUIRE_RETURN_IF_ERROR(RemoveIfEmpty(fs, path));
  return Status();
}

Status RemoveIfEmpty(io::FileSystem& fs, const std::string& directory) {
  const Result<std::vector<io::FileInfo>> rest = fs.List(directory);
  // Another rank of this node may have been faster.
  if (rest.status().code() == Code::kNotFound) return Status();
  if (!rest.ok()) return rest.status();
  if (!rest->empty()) return Status();
  const Status removed = fs.RemoveDirectory(directory);
  return removed.code() == Code::kNotFound ? Status() : removed;
}

}  // namespace quire::kv
