#include "tools/quire/contents.h"

#include <algorithm>
#include <utility>

#include "io/files/machine.h"
#include "stream/store/listing.h"
#include "tools/quire/catalog.h"
#include "tools/quire/checkpoints.h"

namespace quire::tool {
namespace {

// A checkpoint's contents can be read like a database's, but it counts as a checkpoint first.
std::vector<std::string> DatabasesOf(io::FileSystem& fs, const std::string& path,
                                     bool is_checkpoint) {
  std::vector<std::string> directories;
  const Result<std::vector<DatabaseOnDisk>> places = DatabasesAt(fs, path);
  if (!places.ok()) return directories;
  for (const DatabaseOnDisk& place : *places) {
    if (place.described || !is_checkpoint) directories.push_back(place.directory);
  }
  return directories;
}

std::vector<std::string> CheckpointHomesOf(io::FileSystem& fs, const std::string& path) {
  std::vector<std::string> homes;
  const Result<std::vector<CheckpointPlace>> places = FindCheckpointPlaces(fs, path);
  if (!places.ok()) return homes;
  for (const CheckpointPlace& place : *places) {
    if (homes.empty() || homes.back() != place.home) homes.push_back(place.home);
  }
  return homes;
}

std::vector<std::string> StoresOf(io::FileSystem& fs, const std::string& path) {
  const Result<std::vector<uint32_t>> ranks =
      stream::ListRanks(fs, io::DirectoryOf(path), LastPart(path));
  if (ranks.ok() && !ranks->empty()) return {path};
  std::vector<std::string> stores;
  const Result<std::vector<std::string>> names = stream::ListStores(fs, path);
  for (const std::string& name : names.ok() ? *names : stores) stores.push_back(path + "/" + name);
  return stores;
}

// Appends "a database (quire ls /run)", or "2 databases (...)".
void Add(size_t count, const std::string& kind, const std::string& command, std::string* text) {
  if (count == 0) return;
  if (!text->empty()) *text += " and ";
  *text += (count == 1 ? "a " + kind : std::to_string(count) + " " + kind + "s") + " (" + command +
           ")";
}

std::string Described(const Contents& contents, const std::string& path) {
  std::string text;
  Add(contents.databases.size(), "database", "quire ls " + path, &text);
  Add(contents.datasets.size(), "dataset", "quire dataset list " + path, &text);
  Add(contents.checkpoints.size(), "checkpointed database", "quire checkpoint list " + path,
      &text);
  if (contents.stores.empty()) return text;
  Add(contents.stores.size(), "stream", StreamCommand(contents.stores), &text);
  return text;
}

// Returns what the first few directories in `path` contain that have data of Quire; may be empty.
std::string DescribedBelow(io::FileSystem& fs, const std::vector<io::FileInfo>& entries,
                           const std::string& path) {
  constexpr size_t kEntriesMax = 256;
  constexpr int kDirectoriesMax = 3;
  std::string text;
  int described = 0;
  for (size_t i = 0; i < std::min(entries.size(), kEntriesMax); ++i) {
    if (!entries[i].is_directory || described == kDirectoriesMax) continue;
    const std::string below = path + "/" + entries[i].name;
    const std::string contents = Described(ContentsOf(fs, below), below);
    if (contents.empty()) continue;
    text += (text.empty() ? "" : ", ") + contents;
    ++described;
  }
  return text;
}

}  // namespace

std::string StreamCommand(const std::vector<std::string>& directories) {
  const std::string command = "quire stream ls " + io::DirectoryOf(directories.front());
  return directories.size() == 1 ? command + " " + LastPart(directories.front()) : command;
}

Contents ContentsOf(io::FileSystem& fs, const std::string& named) {
  Contents contents;
  const Result<std::string> path = io::AbsolutePath(named);
  if (!path.ok()) return contents;
  contents.checkpoints = CheckpointHomesOf(fs, *path);
  contents.databases = DatabasesOf(fs, *path, !contents.checkpoints.empty());
  Result<std::vector<std::string>> datasets = FindDatasets(fs, *path);
  if (datasets.ok()) contents.datasets = std::move(*datasets);
  contents.stores = StoresOf(fs, *path);
  return contents;
}

Status Absent(io::FileSystem& fs, const std::string& missing, const std::string& named) {
  QUIRE_ASSIGN_OR_RETURN(const std::string path, io::AbsolutePath(named));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<io::FileInfo> entries, fs.List(path));
  const std::string instead = Described(ContentsOf(fs, path), path);
  if (instead.empty()) {
    const std::string below = DescribedBelow(fs, entries, path);
    return Status(Code::kNotFound, missing + "; nothing of Quire is in " + path +
                                       (below.empty() ? "" : "; in its folders: " + below));
  }
  const bool one = instead.rfind("a ", 0) == 0;
  return Status(Code::kNotFound, missing + (one ? "; there is " : "; there are ") + instead);
}

}  // namespace quire::tool
