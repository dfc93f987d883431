#include "tools/quire/catalog.h"

#include <algorithm>
#include <charconv>
#include <iostream>
#include <optional>

#include "base/text/printable.h"
#include "io/files/machine.h"
#include "kv/persistence/checkpoint_files.h"
#include "lsm/version/manifest.h"
#include "runtime/repository.h"
#include "tools/quire/contents.h"
#include "tools/quire/output.h"

namespace quire::tool {
namespace {

// Returns the number in "rank-<r>" or "gen-<g>".
std::optional<int> NumberIn(const std::string& name, const std::string& prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  int number = 0;
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + prefix.size(), end, number);
  if (error != std::errc() || rest != end || number < 0) return std::nullopt;
  return number;
}

std::optional<int> RankIn(const std::string& name) {
  return NumberIn(name, kv::kPartDirectoryPrefix);
}

Result<bool> IsHere(io::FileSystem& fs, const std::string& directory) {
  return fs.Exists(directory);
}

Status AddParts(io::FileSystem& fs, DatabaseOnDisk* place) {
  for (const kv::Generation& generation : place->descriptor.generations) {
    const Status same = kv::CheckCheckpoint(fs, generation);
    if (place->status.ok()) place->status = same;
    for (int rank = 0; rank < generation.rank_count; ++rank) {
      PartOnDisk part;
      part.generation = generation.number;
      part.rank = rank;
      part.directory = kv::PartDirectory(place->directory, generation, rank);
      QUIRE_ASSIGN_OR_RETURN(part.here, IsHere(fs, part.directory));
      place->parts.push_back(std::move(part));
    }
  }
  return Status();
}

// Describes parts without a descriptor. The owner of a key is unknown then, so every part is asked.
DatabaseOnDisk Undescribed(const std::string& directory, const std::vector<PartOnDisk>& parts) {
  DatabaseOnDisk place;
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

// Adds what a checkpoint's commit record contains.
void AddCommitRecord(io::FileSystem& fs, DatabaseOnDisk* place) {
  const Result<kv::CommitRecord> record = kv::ReadCommitRecord(fs, place->directory);
  place->status = record.status();
  if (!record.ok()) return;
  place->name = record->database + " (checkpoint " + place->name + ")";
  kv::Generation& generation = place->descriptor.generations.front();
  generation.partitioner = record->partitioner;
  generation.rank_count = static_cast<int>(record->parts.size());
  // A checkpoint has all its parts, so an absent one is lost.
  std::vector<PartOnDisk> all;
  for (int rank = 0; rank < generation.rank_count; ++rank) {
    const auto found = std::find_if(place->parts.begin(), place->parts.end(),
                                    [rank](const PartOnDisk& part) { return part.rank == rank; });
    const bool here = found != place->parts.end();
    const std::string directory =
        place->directory + "/" + kv::kPartDirectoryPrefix + std::to_string(rank);
    all.push_back(here ? *found : PartOnDisk{0, rank, directory, false});
  }
  place->parts = std::move(all);
}

std::vector<PartOnDisk> PartsAmong(const std::vector<io::FileInfo>& entries,
                                   const std::string& directory) {
  std::vector<PartOnDisk> parts;
  for (const io::FileInfo& entry : entries) {
    const std::optional<int> rank = RankIn(entry.name);
    if (!entry.is_directory || !rank) continue;
    parts.push_back({0, *rank, directory + "/" + entry.name, true});
  }
  std::sort(parts.begin(), parts.end(),
            [](const PartOnDisk& a, const PartOnDisk& b) { return a.rank < b.rank; });
  return parts;
}

bool HasFile(const std::vector<io::FileInfo>& entries, const std::string& name) {
  return std::any_of(entries.begin(), entries.end(), [&](const io::FileInfo& entry) {
    return entry.name == name && !entry.is_directory;
  });
}

// Returns the numbers of the generations in a database's directory, newest first.
std::vector<uint32_t> GenerationsAmong(const std::vector<io::FileInfo>& entries) {
  std::vector<uint32_t> numbers;
  for (const io::FileInfo& entry : entries) {
    const auto number = NumberIn(entry.name, kv::kGenerationDirectoryPrefix);
    if (entry.is_directory && number) numbers.push_back(static_cast<uint32_t>(*number));
  }
  std::sort(numbers.rbegin(), numbers.rend());
  return numbers;
}

// Adds the present parts of a database whose descriptor cannot be read. The parts of ranks on other
// nodes stay unknown.
Status AddWhatIsThere(io::FileSystem& fs, const std::vector<io::FileInfo>& entries,
                      DatabaseOnDisk* place) {
  for (const uint32_t number : GenerationsAmong(entries)) {
    kv::Generation generation;
    generation.number = number;
    generation.partitioner = "unknown";
    const std::string directory = kv::GenerationDirectory(place->directory, generation);
    QUIRE_ASSIGN_OR_RETURN(const std::vector<io::FileInfo> within, fs.List(directory));
    std::vector<PartOnDisk> parts = PartsAmong(within, directory);
    if (parts.empty()) continue;
    for (PartOnDisk& part : parts) part.generation = number;
    generation.rank_count = parts.back().rank + 1;
    place->descriptor.generations.push_back(std::move(generation));
    place->parts.insert(place->parts.end(), parts.begin(), parts.end());
  }
  return Status();
}

// Returns whether rank 0's part is here. Rank 0 stores the descriptor, so without its part here no
// descriptor is missing.
bool HasRankZero(const std::vector<PartOnDisk>& parts) {
  return std::any_of(parts.begin(), parts.end(), [&](const PartOnDisk& part) {
    return part.rank == 0 && part.generation == parts.front().generation;
  });
}

Result<DatabaseOnDisk> PlaceIn(io::FileSystem& fs, const std::string& directory,
                               const std::vector<io::FileInfo>& entries) {
  DatabaseOnDisk place;
  place.name = LastPart(directory);
  place.directory = directory;
  QUIRE_ASSIGN_OR_RETURN(place.writer, fs.LockHolder(DatabaseLockPath(directory)));
  Result<kv::DatabaseDescriptor> descriptor = kv::ReadDescriptor(fs, directory);
  if (descriptor.ok()) {
    place.descriptor = std::move(*descriptor);
    place.described = true;
    QUIRE_RETURN_IF_ERROR(AddParts(fs, &place));
    return place;
  }
  const bool missing = descriptor.status().code() == Code::kNotFound;
  place.status = descriptor.status();
  if (!missing && place.status.code() != Code::kCorruption) return place;
  QUIRE_RETURN_IF_ERROR(AddWhatIsThere(fs, entries, &place));
  place.lost_descriptor = !missing || HasRankZero(place.parts);
  if (missing) {
    place.status = place.lost_descriptor
                       ? Status(Code::kCorruption,
                                kv::DescriptorPath(directory) +
                                    " is missing: restore it from a copy, or run quire repair")
                       : Status();
  }
  return place;
}

// Finds the writer of a single part: a rank of a job whose rank 0 is on another node, or a program
// that needs no more than the part.
void FindWriter(io::FileSystem& fs, DatabaseOnDisk* place) {
  for (const PartOnDisk& part : place->parts) {
    if (!place->writer.empty()) return;
    if (!part.here) continue;
    const Result<std::string> holder = fs.LockHolder(DatabaseLockPath(part.directory));
    if (holder.ok()) place->writer = *holder;
  }
}

bool IsDatabase(const std::vector<io::FileInfo>& entries) {
  return HasFile(entries, runtime::kDatabaseFile) || !GenerationsAmong(entries).empty();
}

Result<std::vector<DatabaseOnDisk>> PlacesAt(io::FileSystem& fs, const std::string& path) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<io::FileInfo> entries, fs.List(path));
  std::vector<DatabaseOnDisk> places;
  if (IsDatabase(entries)) {
    QUIRE_ASSIGN_OR_RETURN(DatabaseOnDisk place, PlaceIn(fs, path, entries));
    places.push_back(std::move(place));
    return places;
  }
  const std::optional<int> rank = RankIn(LastPart(path));
  if (rank || HasFile(entries, lsm::ManifestName())) {
    places.push_back(Undescribed(path, {{0, rank.value_or(0), path, true}}));
    return places;
  }
  if (const std::vector<PartOnDisk> parts = PartsAmong(entries, path); !parts.empty()) {
    places.push_back(Undescribed(path, parts));
    if (HasFile(entries, kv::kCommitName)) AddCommitRecord(fs, &places.back());
    return places;
  }
  for (const io::FileInfo& entry : entries) {
    if (!entry.is_directory) continue;
    const std::string directory = path + "/" + entry.name;
    const Result<std::vector<io::FileInfo>> within = fs.List(directory);
    if (!within.ok() || !IsDatabase(*within)) continue;
    QUIRE_ASSIGN_OR_RETURN(DatabaseOnDisk place, PlaceIn(fs, directory, *within));
    places.push_back(std::move(place));
  }
  return places;
}

}  // namespace

std::string LastPart(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

std::string DatabaseLockPath(const std::string& directory) {
  return directory + "/LOCK";
}

void NoteWriter(const DatabaseOnDisk& place) {
  if (place.writer.empty()) return;
  std::cerr << "quire: " << base::Legible(place.name) << " is " << MemoryNote(place.writer) << "\n";
}

uint64_t AllocatedBytes(io::FileSystem& fs, const std::string& directory) {
  const Result<std::vector<io::FileInfo>> files = fs.List(directory);
  uint64_t bytes = 0;
  if (!files.ok()) return bytes;
  for (const io::FileInfo& file : *files) bytes += file.allocated;
  return bytes;
}

Result<std::vector<DatabaseOnDisk>> DatabasesAt(io::FileSystem& fs, const std::string& named) {
  QUIRE_ASSIGN_OR_RETURN(const std::string path, io::AbsolutePath(named));
  QUIRE_ASSIGN_OR_RETURN(std::vector<DatabaseOnDisk> places, PlacesAt(fs, path));
  for (DatabaseOnDisk& place : places) FindWriter(fs, &place);
  return places;
}

Result<std::vector<DatabaseOnDisk>> FindDatabases(io::FileSystem& fs, const std::string& path) {
  QUIRE_ASSIGN_OR_RETURN(std::vector<DatabaseOnDisk> places, DatabasesAt(fs, path));
  if (places.empty()) return Absent(fs, "there is no database in " + path, path);
  return places;
}

Result<DatabaseOnDisk> FindDatabase(io::FileSystem& fs, const std::string& path) {
  QUIRE_ASSIGN_OR_RETURN(std::vector<DatabaseOnDisk> places, FindDatabases(fs, path));
  if (places.size() == 1) return std::move(places.front());
  std::string names;
  for (const DatabaseOnDisk& place : places) names += (names.empty() ? "" : ", ") + place.name;
  return Status(Code::kInvalidArgument,
                path + " has several databases: " + names + "; give the directory of one");
}

Result<std::vector<std::string>> FindDatasets(io::FileSystem& fs, const std::string& named) {
  QUIRE_ASSIGN_OR_RETURN(const std::string path, io::AbsolutePath(named));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<io::FileInfo> entries, fs.List(path));
  if (HasFile(entries, runtime::kDatasetFile)) return std::vector{path};
  std::vector<std::string> found;
  for (const io::FileInfo& entry : entries) {
    const std::string directory = path + "/" + entry.name;
    if (!entry.is_directory) continue;
    QUIRE_ASSIGN_OR_RETURN(const bool dataset, fs.Exists(directory + "/" + runtime::kDatasetFile));
    if (dataset) found.push_back(directory);
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace quire::tool
