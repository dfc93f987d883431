#include "tools/quire/places.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

#include "kv/checkpoint_files.h"
#include "lsm/manifest.h"

namespace quire::tool {
namespace {

std::string LastPart(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

// The rank in "rank-<r>".
std::optional<int> RankIn(const std::string& name) {
  const std::string prefix = kv::kPartDirectoryPrefix;
  if (!name.starts_with(prefix)) return std::nullopt;
  int rank = 0;
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + prefix.size(), end, rank);
  if (error != std::errc() || rest != end || rank < 0) return std::nullopt;
  return rank;
}

Result<bool> IsHere(io::FileSystem& fs, const std::string& directory) {
  return fs.Exists(directory);
}

Status AddParts(io::FileSystem& fs, DatabasePlace* place) {
  for (const kv::Generation& generation : place->descriptor.generations) {
    for (int rank = 0; rank < generation.rank_count; ++rank) {
      Part part;
      part.generation = generation.number;
      part.rank = rank;
      part.directory = kv::PartDirectory(place->directory, generation, rank);
      QUIRE_ASSIGN_OR_RETURN(part.here, IsHere(fs, part.directory));
      place->parts.push_back(std::move(part));
    }
  }
  return Status();
}

Result<DatabasePlace> Described(io::FileSystem& fs, const std::string& directory) {
  DatabasePlace place;
  place.name = LastPart(directory);
  place.directory = directory;
  QUIRE_ASSIGN_OR_RETURN(place.writer, fs.LockHolder(DatabaseLockPath(directory)));
  Result<kv::Descriptor> descriptor = kv::ReadDescriptor(fs, directory);
  place.status = descriptor.status();
  if (descriptor.ok()) {
    place.descriptor = std::move(*descriptor);
    QUIRE_RETURN_IF_ERROR(AddParts(fs, &place));
  }
  return place;
}

// Of parts without a descriptor: which key is whose nobody says, so every part is asked.
DatabasePlace Undescribed(const std::string& directory, const std::vector<Part>& parts) {
  DatabasePlace place;
  place.name = LastPart(directory);
  place.directory = directory;
  place.parts = parts;
  kv::Generation generation;
  generation.number = 0;
  generation.rank_count = static_cast<int>(parts.size());
  generation.partitioner = "unknown";
  place.descriptor.generations.push_back(generation);
  return place;
}

// Of a checkpoint.
void AddCommitRecord(io::FileSystem& fs, DatabasePlace* place) {
  const Result<kv::CommitRecord> record = kv::ReadCommitRecord(fs, place->directory);
  place->status = record.status();
  if (!record.ok()) return;
  place->name = record->database + " (checkpoint " + place->name + ")";
  kv::Generation& generation = place->descriptor.generations.front();
  generation.partitioner = record->partitioner;
  generation.rank_count = static_cast<int>(record->parts.size());
}

std::vector<Part> PartsAmong(const std::vector<io::FileInfo>& entries,
                             const std::string& directory) {
  std::vector<Part> parts;
  for (const io::FileInfo& entry : entries) {
    const std::optional<int> rank = RankIn(entry.name);
    if (!entry.is_directory || !rank) continue;
    parts.push_back({0, *rank, directory + "/" + entry.name, true});
  }
  std::sort(parts.begin(), parts.end(),
            [](const Part& a, const Part& b) { return a.rank < b.rank; });
  return parts;
}

bool HasFile(const std::vector<io::FileInfo>& entries, const std::string& name) {
  return std::any_of(entries.begin(), entries.end(), [&](const io::FileInfo& entry) {
    return entry.name == name && !entry.is_directory;
  });
}

}  // namespace

std::string AbsolutePath(const std::string& path) {
  std::string whole = std::filesystem::absolute(path).lexically_normal().string();
  while (whole.size() > 1 && whole.back() == '/') whole.pop_back();
  return whole;
}

std::string DatabaseLockPath(const std::string& directory) {
  return directory + "/LOCK";
}

Result<std::vector<DatabasePlace>> FindDatabases(io::FileSystem& fs, const std::string& named) {
  const std::string path = AbsolutePath(named);
  const std::string descriptor = LastPart(kv::DescriptorPath(path));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<io::FileInfo> entries, fs.List(path));
  std::vector<DatabasePlace> places;
  if (HasFile(entries, descriptor)) {
    QUIRE_ASSIGN_OR_RETURN(DatabasePlace place, Described(fs, path));
    places.push_back(std::move(place));
    return places;
  }
  if (HasFile(entries, lsm::ManifestName())) {
    const int rank = RankIn(LastPart(path)).value_or(0);
    places.push_back(Undescribed(path, {{0, rank, path, true}}));
    return places;
  }
  if (const std::vector<Part> parts = PartsAmong(entries, path); !parts.empty()) {
    places.push_back(Undescribed(path, parts));
    if (HasFile(entries, kv::kCommitName)) AddCommitRecord(fs, &places.back());
    return places;
  }
  for (const io::FileInfo& entry : entries) {
    if (!entry.is_directory) continue;
    const std::string directory = path + "/" + entry.name;
    QUIRE_ASSIGN_OR_RETURN(const bool is_database, fs.Exists(directory + "/" + descriptor));
    if (!is_database) continue;
    QUIRE_ASSIGN_OR_RETURN(DatabasePlace place, Described(fs, directory));
    places.push_back(std::move(place));
  }
  return places;
}

Result<DatabasePlace> FindDatabase(io::FileSystem& fs, const std::string& path) {
  QUIRE_ASSIGN_OR_RETURN(std::vector<DatabasePlace> places, FindDatabases(fs, path));
  if (places.empty()) return Status(Code::kNotFound, "there is no database in " + path);
  if (places.size() == 1) return std::move(places.front());
  std::string names;
  for (const DatabasePlace& place : places) names += (names.empty() ? "" : ", ") + place.name;
  return Status(Code::kInvalidArgument,
                path + " has several databases: " + names + "; give the directory of one");
}

}  // namespace quire::tool
