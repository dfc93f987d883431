// quire repair: makes databases that cannot be opened usable again, and reports what was lost.
#include "lsm/offline/repair.h"

#include <iostream>
#include <string>
#include <vector>

#include "io/files/machine.h"
#include "io/files/posix_error.h"
#include "kv/generations/part_files.h"
#include "kv/persistence/checkpoint_files.h"
#include "lsm/version/manifest.h"
#include "tools/quire/catalog.h"
#include "tools/quire/descriptor_rebuild.h"
#include "tools/quire/output.h"
#include "tools/quire/unverified.h"

namespace quire::tool {
namespace {

std::string Holder() {
  return io::ProcessDescription() + ", quire repair";
}

Json Told(const std::string& directory, const lsm::RepairReport& report, bool yes) {
  Json json;
  json["directory"] = directory;
  json["needed"] = report.needed;
  json["done"] = report.needed && yes;
  json["steps"] = report.steps;
  json["losses"] = report.losses;
  return json;
}

// Does not change a part of a checkpoint: the checkpoint's checksums would no longer match.
Result<lsm::RepairReport> RepairPart(io::FileSystem& fs, const DatabaseOnDisk& place,
                                     const PartOnDisk& part, bool yes) {
  const std::string above = io::DirectoryOf(part.directory);
  QUIRE_ASSIGN_OR_RETURN(const bool of_checkpoint, fs.Exists(above + "/" + kv::kCommitName));
  lsm::RepairOptions options;
  options.dry_run = !yes || of_checkpoint;
  options.lost_directory = kv::LostDirectory(
      place.directory == part.directory ? io::DirectoryOf(place.directory) : place.directory);
  options.lost_prefix = kv::LostPrefix(part.generation, part.rank);
  options.holder = Holder();
  // Tables that this writes get the options of the last opener of the database.
  const Result<lsm::Manifest> manifest = lsm::ReadManifest(fs, part.directory);
  if (manifest.ok()) options.storage = manifest->options;
  QUIRE_ASSIGN_OR_RETURN(lsm::RepairReport report, lsm::Repair(fs, part.directory, options));
  if (!of_checkpoint || !report.needed) return report;
  return Status(Code::kUnsupported, part.directory +
                                        " is damaged, and belongs to a checkpoint, which is left "
                                        "as it is: restore it from a copy, or restart an earlier "
                                        "one");
}

void PrintRepairedPart(const Json& part) {
  if (!part["needed"].get<bool>() && part["losses"].empty()) return;
  std::cout << Text(part["directory"]) << "\n";
  for (const Json& step : part["steps"]) {
    std::cout << (part["done"].get<bool>() ? "  done: " : "  to do: ") << Text(step) << "\n";
  }
  for (const Json& loss : part["losses"]) {
    std::cout << "  lost: " << Text(loss) << "\n";
  }
}

// Fails if the database is open as a whole, or if only other users can read its descriptor.
Status CheckPlace(const DatabaseOnDisk& place) {
  if (!place.lost_descriptor) QUIRE_RETURN_IF_ERROR(place.status);
  if (place.writer.empty()) return Status();
  return Status(Code::kBusy, place.directory + " is open in " + io::HolderText(place.writer) +
                                 "; wait for it to end, or end it");
}

class Repairs {
 public:
  explicit Repairs(const RepairCommandOptions& options) : options_(options) {}

  Status Run(const std::string& path) {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<DatabaseOnDisk> places, FindDatabases(fs_, path));
    unverified_.Add(fs_, path, places);
    for (const DatabaseOnDisk& place : places) QUIRE_RETURN_IF_ERROR(Run(place));
    return Status();
  }
  const Json& parts() const { return parts_; }
  const Unverified& unverified() const { return unverified_; }
  bool needed() const { return needed_; }
  bool lost() const { return lost_; }

 private:
  Status Run(const DatabaseOnDisk& place) {
    QUIRE_RETURN_IF_ERROR(CheckPlace(place));
    bool parts_open = true;
    for (const PartOnDisk& part : place.parts) {
      if (!part.here) continue;  // on another node: to be repaired there
      QUIRE_ASSIGN_OR_RETURN(const lsm::RepairReport report,
                             RepairPart(fs_, place, part, options_.yes));
      parts_open = parts_open && (options_.yes || !report.needed);
      Add(part.directory, report);
    }
    return place.lost_descriptor ? Rebuild(place, parts_open) : Status();
  }

  // If the parts can be read, their keys show what DATABASE contained.
  Status Rebuild(const DatabaseOnDisk& place, bool parts_open) {
    RebuildOptions rebuild;
    rebuild.dry_run = !options_.yes;
    rebuild.rank_count = options_.rank_count;
    rebuild.partitioner = options_.partitioner;
    rebuild.lost_directory = kv::LostDirectory(place.directory);
    rebuild.holder = Holder();
    if (!parts_open) {
      Add(place.directory,
          {true,
           {"make a new " + kv::DescriptorPath(place.directory) + ", of the repaired parts"},
           {}});
      return Status();
    }
    QUIRE_ASSIGN_OR_RETURN(const lsm::RepairReport report, RebuildDescriptor(fs_, place, rebuild));
    Add(place.directory, report);
    return Status();
  }

  void Add(const std::string& directory, const lsm::RepairReport& report) {
    needed_ = needed_ || report.needed;
    lost_ = lost_ || !report.losses.empty();
    parts_.push_back(Told(directory, report, options_.yes));
  }

  io::FileSystem& fs_ = io::PosixFileSystem();
  const RepairCommandOptions& options_;
  Json parts_ = Json::array();
  Unverified unverified_;
  bool needed_ = false;
  bool lost_ = false;
};

}  // namespace

int Repair(const RepairCommandOptions& options) {
  Repairs repairs(options);
  Status status;
  for (size_t i = 0; status.ok() && i < options.paths.size(); ++i) {
    status = repairs.Run(options.paths[i]);
  }
  if (options.json) {
    Json report = {{"needed", repairs.needed()},
                   {"done", repairs.needed() && options.yes && status.ok()},
                   {"parts", repairs.parts()}};
    repairs.unverified().AddTo(&report);
    PrintJson(report);
  } else {
    repairs.unverified().Print();
    for (const Json& part : repairs.parts()) PrintRepairedPart(part);
    if (status.ok() && !repairs.needed()) std::cout << "nothing keeps it from being opened\n";
    if (repairs.needed() && !options.yes) std::cout << "nothing was changed: --yes does it\n";
  }
  if (!status.ok()) return Fail(status);
  return repairs.lost() || (repairs.needed() && !options.yes) ? kFoundWrong : kFine;
}

}  // namespace quire::tool
