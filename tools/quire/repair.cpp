// quire repair: makes databases that do not open openable again, and says what was lost.
#include "lsm/repair.h"

#include <iostream>

#include "io/machine.h"
#include "lsm/manifest.h"
#include "tools/quire/output.h"
#include "tools/quire/places.h"

namespace quire::tool {
namespace {

std::string PrefixOf(const Part& part) {
  return "gen-" + std::to_string(part.generation) + ".rank-" + std::to_string(part.rank) + ".";
}

Result<Json> RepairPart(io::FileSystem& fs, const DatabasePlace& place, const Part& part,
                        bool yes) {
  lsm::RepairOptions options;
  options.dry_run = !yes;
  options.lost_directory =
      (place.directory == part.directory ? place.directory.substr(0, place.directory.rfind('/'))
                                         : place.directory) +
      "/lost";
  options.lost_prefix = PrefixOf(part);
  options.holder = io::ProcessDescription() + ", quire repair";
  // What tables are written with, where some are: as the last opener of the database did.
  const Result<lsm::Manifest> manifest = lsm::ReadManifest(fs, part.directory);
  if (manifest.ok()) options.storage = manifest->options;
  QUIRE_ASSIGN_OR_RETURN(const lsm::RepairReport report, lsm::Repair(fs, part.directory, options));
  Json json;
  json["directory"] = part.directory;
  json["needed"] = report.needed;
  json["done"] = report.needed && yes;
  json["steps"] = report.steps;
  json["losses"] = report.losses;
  return json;
}

void PrintPart(const Json& part) {
  if (!part["needed"].get<bool>() && part["losses"].empty()) return;
  std::cout << part["directory"].get<std::string>() << "\n";
  for (const Json& step : part["steps"]) {
    std::cout << (part["done"].get<bool>() ? "  done: " : "  to do: ") << step.get<std::string>()
              << "\n";
  }
  for (const Json& loss : part["losses"]) {
    std::cout << "  lost: " << loss.get<std::string>() << "\n";
  }
}

// A database that is open as a whole, or has lost its descriptor, is not worked on.
Status CheckPlace(const DatabasePlace& place) {
  QUIRE_RETURN_IF_ERROR(place.status);
  if (place.writer.empty()) return Status();
  return Status(Code::kBusy, place.directory + " is open in " + place.writer +
                                 "; wait for it to end, or end it");
}

struct Repaired {
  Json parts = Json::array();
  bool needed = false;
  bool lost = false;
};

Status RepairAll(const ChangeOptions& options, Repaired* repaired) {
  io::FileSystem& fs = io::PosixFileSystem();
  for (const std::string& path : options.paths) {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<DatabasePlace> places, FindDatabases(fs, path));
    for (const DatabasePlace& place : places) {
      QUIRE_RETURN_IF_ERROR(CheckPlace(place));
      for (const Part& part : place.parts) {
        if (!part.here) continue;  // on another node: to be repaired there
        QUIRE_ASSIGN_OR_RETURN(Json json, RepairPart(fs, place, part, options.yes));
        repaired->needed |= json["needed"].get<bool>();
        repaired->lost |= !json["losses"].empty();
        repaired->parts.push_back(std::move(json));
      }
    }
  }
  return Status();
}

}  // namespace

int Repair(const ChangeOptions& options) {
  Repaired repaired;
  const Status status = RepairAll(options, &repaired);
  if (options.json) {
    PrintJson({{"needed", repaired.needed},
               {"done", repaired.needed && options.yes && status.ok()},
               {"parts", repaired.parts}});
  } else {
    for (const Json& part : repaired.parts) PrintPart(part);
    if (status.ok() && !repaired.needed) std::cout << "nothing keeps it from being opened\n";
    if (repaired.needed && !options.yes) std::cout << "nothing was changed: --yes does it\n";
  }
  if (!status.ok()) return Fail(status);
  return repaired.lost || (repaired.needed && !options.yes) ? kFoundWrong : kFine;
}

}  // namespace quire::tool
