// quire checkpoint: list, verify, drop, export.
#include <algorithm>
#include <iostream>

#include "base/text/printable.h"
#include "io/files/machine.h"
#include "tools/quire/catalog.h"
#include "tools/quire/checkpoints.h"
#include "tools/quire/contents.h"
#include "tools/quire/output.h"

namespace quire::tool {
namespace {

constexpr const char* kCheckpointStates[] = {"complete", "partial", "failed", "dropped",
                                             "unrecorded"};

// Returns whether a restart can use the checkpoint, or would take it for a usable one.
bool IsPublished(const CheckpointPlace& place) {
  return place.found.state == kv::CheckpointState::kComplete ||
         place.found.state == kv::CheckpointState::kUnrecorded;
}

Json ToJson(const CheckpointPlace& place) {
  Json json;
  json["database"] = place.database;
  json["number"] = place.found.number;
  json["state"] = kCheckpointStates[static_cast<int>(place.found.state)];
  json["directory"] = place.found.directory;
  return json;
}

// Returns the checkpoint with the contents of its commit record.
Json DescribedToJson(io::FileSystem& fs, const CheckpointPlace& place, int* exit_code) {
  Json json = ToJson(place);
  if (!IsPublished(place)) return json;
  const Result<kv::CommitRecord> record = kv::ReadCommitRecord(fs, place.found.directory);
  if (!record.ok()) {
    *exit_code = kFoundWrong;
    json["problem"] = record.status().ToString();
    return json;
  }
  uint64_t files = 0;
  uint64_t bytes = 0;
  for (const kv::CommitRecord::Part& part : record->parts) {
    files += part.files;
    bytes += part.bytes;
  }
  json["ranks"] = record->parts.size();
  json["partitioner"] = record->partitioner;
  json["time"] = record->time;
  json["files"] = files;
  json["bytes"] = bytes;
  return json;
}

// Returns whether a directory of checkpoints contains none any more.
bool IsEmptied(io::FileSystem& fs, const std::string& path) {
  const Result<std::vector<io::FileInfo>> entries = fs.List(path);
  if (!entries.ok()) return false;
  return std::all_of(entries->begin(), entries->end(), [&](const io::FileInfo& entry) {
    if (!entry.is_directory) return false;
    const Result<std::vector<io::FileInfo>> within = fs.List(path + "/" + entry.name);
    return within.ok() && within->empty();
  });
}

Result<std::vector<CheckpointPlace>> FindAll(io::FileSystem& fs,
                                             const std::vector<std::string>& paths) {
  std::vector<CheckpointPlace> all;
  for (const std::string& path : paths) {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<CheckpointPlace> places,
                           FindCheckpointPlaces(fs, path));
    if (places.empty() && !IsEmptied(fs, path)) {
      return Absent(fs, "there is no checkpoint in " + path, path);
    }
    all.insert(all.end(), places.begin(), places.end());
  }
  return all;
}

void PrintOne(const Json& one) {
  std::cout << Text(one["database"]) << " " << one["number"] << "  " << Text(one["state"]);
  if (one.contains("ranks")) {
    std::cout << "  " << Counted(one["ranks"], "rank") << "  " << Counted(one["files"], "file")
              << "  " << ShowSize(one["bytes"].get<uint64_t>());
  }
  if (one.contains("problem")) std::cout << "  " << Text(one["problem"]);
  std::cout << "\n";
}

void PrintFinding(const CheckpointFinding& finding) {
  std::cout << base::Legible(finding.path) << ": " << finding.status.ToString() << "\n";
}

// Does not drop a checkpoint that is being written: its writer goes on with it.
Status Drop(io::FileSystem& fs, const CheckpointPlace& place) {
  if (place.found.state == kv::CheckpointState::kPartial) {
    return Status(Code::kBusy, place.found.directory + " is being written");
  }
  if (place.found.state != kv::CheckpointState::kFailed) {
    return kv::DropCheckpoint(fs, place.home, place.found);
  }
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<io::FileLock> lock,
                         fs.Lock(DatabaseLockPath(place.found.directory),
                                 io::ProcessDescription() + ", quire checkpoint drop"));
  return kv::DropCheckpoint(fs, place.home, place.found);
}

}  // namespace

int CheckpointList(const PathsOptions& options) {
  io::FileSystem& fs = io::PosixFileSystem();
  const Result<std::vector<CheckpointPlace>> places = FindAll(fs, options.paths);
  if (!places.ok()) return Fail(places.status());
  int exit_code = kFine;
  Json list = Json::array();
  for (const CheckpointPlace& place : *places) {
    list.push_back(DescribedToJson(fs, place, &exit_code));
    if (!options.json) PrintOne(list.back());
  }
  if (options.json) PrintJson({{"checkpoints", list}});
  if (!options.json && list.empty()) std::cout << "no checkpoints\n";
  return exit_code;
}

int CheckpointVerify(const VerifyOptions& options) {
  io::FileSystem& fs = io::PosixFileSystem();
  const Result<std::vector<CheckpointPlace>> places = FindAll(fs, options.paths);
  if (!places.ok()) return Fail(places.status());
  bool sound = true;
  Json list = Json::array();
  for (const CheckpointPlace& place : *places) {
    if (!IsPublished(place)) continue;
    Progress line(place.found.directory, options.progress || OnTerminal());
    uint64_t bytes = 0;
    const std::vector<CheckpointFinding> findings = VerifyCheckpoint(
        fs, place.found.directory, [&](uint64_t done, uint64_t total) { line.Show(done, total); },
        &bytes);
    sound = sound && findings.empty();
    Json one = ToJson(place);
    one["sound"] = findings.empty();
    one["bytes"] = bytes;
    one["findings"] = Json::array();
    for (const CheckpointFinding& finding : findings) {
      one["findings"].push_back({{"path", finding.path}, {"problem", finding.status.ToString()}});
      if (!options.json) PrintFinding(finding);
    }
    if (!options.json) {
      std::cout << base::Legible(place.database) << " " << place.found.number
                << (findings.empty() ? "  sound, " : "  not sound, ") << ShowSize(bytes) << "\n";
    }
    list.push_back(std::move(one));
  }
  if (list.empty()) {
    return Fail(Status(Code::kNotFound,
                       "there is no complete checkpoint to verify; quire "
                       "checkpoint list shows what there is"));
  }
  if (options.json) PrintJson({{"sound", sound}, {"checkpoints", list}});
  return sound ? kFine : kFoundWrong;
}

int CheckpointDrop(const ChangeOptions& options) {
  io::FileSystem& fs = io::PosixFileSystem();
  Json list = Json::array();
  for (const std::string& path : options.paths) {
    const Result<CheckpointPlace> place = FindCheckpointPlace(fs, path);
    if (!place.ok()) return Fail(place.status());
    const Status dropped = options.yes ? Drop(fs, *place) : Status();
    if (!dropped.ok()) return Fail(dropped);
    list.push_back(ToJson(*place));
    if (!options.json) {
      std::cout << (options.yes ? "dropped " : "to be dropped: ")
                << base::Legible(place->found.directory) << "\n";
    }
  }
  if (options.json) PrintJson({{"done", options.yes}, {"checkpoints", list}});
  if (!options.json && !options.yes) std::cout << "nothing was changed: --yes does it\n";
  return options.yes ? kFine : kFoundWrong;
}

int CheckpointExport(const ExportOptions& options) {
  io::FileSystem& fs = io::PosixFileSystem();
  const Result<CheckpointPlace> place = FindCheckpointPlace(fs, options.path);
  if (!place.ok()) return Fail(place.status());
  Result<std::string> copy = Status(Code::kIo);
  {
    Progress line(place->found.directory, options.progress || OnTerminal());
    copy = ExportCheckpoint(fs, *place, options.target,
                            [&](uint64_t done, uint64_t total) { line.Show(done, total); });
  }
  if (!copy.ok()) return Fail(copy.status());
  if (options.json) {
    PrintJson({{"directory", *copy}});
  } else {
    std::cout << base::Legible(*copy) << "\n";
  }
  return kFine;
}

}  // namespace quire::tool
