// quire checkpoint: list, verify, drop, export.
#include <iostream>

#include "io/machine.h"
#include "tools/quire/checkpoints.h"
#include "tools/quire/output.h"
#include "tools/quire/places.h"

namespace quire::tool {
namespace {

constexpr const char* kStateNames[] = {"complete", "partial", "failed", "dropped"};

Json ToJson(const CheckpointPlace& place) {
  Json json;
  json["database"] = place.database;
  json["number"] = place.found.number;
  json["state"] = kStateNames[static_cast<int>(place.found.state)];
  json["directory"] = place.found.directory;
  return json;
}

// With what the commit record says.
Json DescribedToJson(io::FileSystem& fs, const CheckpointPlace& place, int* exit_code) {
  Json json = ToJson(place);
  if (place.found.state != kv::CheckpointState::kComplete) return json;
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

Result<std::vector<CheckpointPlace>> FindAll(io::FileSystem& fs,
                                             const std::vector<std::string>& paths) {
  std::vector<CheckpointPlace> all;
  for (const std::string& path : paths) {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<CheckpointPlace> places,
                           FindCheckpointPlaces(fs, path));
    all.insert(all.end(), places.begin(), places.end());
  }
  return all;
}

void PrintOne(const Json& one) {
  std::cout << one["database"].get<std::string>() << " " << one["number"] << "  "
            << one["state"].get<std::string>();
  if (one.contains("ranks")) {
    std::cout << "  " << one["ranks"] << " ranks  " << one["files"] << " files  "
              << ShowSize(one["bytes"].get<uint64_t>());
  }
  if (one.contains("problem")) std::cout << "  " << one["problem"].get<std::string>();
  std::cout << "\n";
}

// A directory whose name is a number is a checkpoint only if it has a commit record, sound or not.
Status CheckIsCheckpoint(io::FileSystem& fs, const CheckpointPlace& place) {
  if (place.found.state != kv::CheckpointState::kComplete) return Status();
  const std::string record = place.found.directory + "/" + kv::kCommitName;
  QUIRE_ASSIGN_OR_RETURN(const bool there, fs.Exists(record));
  if (there) return Status();
  return Status(Code::kNotFound, place.found.directory + " is no checkpoint: there is no " +
                                     record + "; nothing of it was removed");
}

// Whoever writes it goes on with it: it is not dropped.
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
    if (place.found.state != kv::CheckpointState::kComplete) continue;
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
      if (!options.json) std::cout << finding.path << ": " << finding.status.ToString() << "\n";
    }
    if (!options.json) {
      std::cout << place.database << " " << place.found.number
                << (findings.empty() ? "  sound, " : "  not sound, ") << ShowSize(bytes) << "\n";
    }
    list.push_back(std::move(one));
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
    const Status is_one = CheckIsCheckpoint(fs, *place);
    if (!is_one.ok()) return Fail(is_one);
    const Status dropped = options.yes ? Drop(fs, *place) : Status();
    if (!dropped.ok()) return Fail(dropped);
    list.push_back(ToJson(*place));
    if (!options.json) {
      std::cout << (options.yes ? "dropped " : "to be dropped: ") << place->found.directory << "\n";
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
    std::cout << *copy << "\n";
  }
  return kFine;
}

}  // namespace quire::tool
