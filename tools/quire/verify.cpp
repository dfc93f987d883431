// quire verify: verifies every checksum of every file.
#include <iostream>

#include "lsm/offline/inspect.h"
#include "tools/quire/catalog.h"
#include "tools/quire/output.h"
#include "tools/quire/unverified.h"

namespace quire::tool {
namespace {

constexpr const char* kKindNames[] = {"manifest", "table", "value segment", "log"};

struct Verified {
  uint64_t bytes = 0;
  uint64_t tables = 0;
  uint64_t values = 0;
  uint64_t log_records = 0;
  uint64_t parts = 0;
  Json open_in = Json::object();  // the process that has a database open, by directory
  Json findings = Json::array();
};

void AddFinding(const std::string& kind, const std::string& path, const Status& status,
                Verified* verified) {
  verified->findings.push_back({{"kind", kind}, {"path", path}, {"problem", status.ToString()}});
}

void VerifyPart(io::FileSystem& fs, const PartOnDisk& part, bool progress, Verified* verified) {
  if (!part.here) {
    const Status absent(Code::kNotFound, "it is not here: it may be on another node");
    return AddFinding("part", part.directory, absent, verified);
  }
  Progress line(part.directory, progress);
  lsm::InspectOptions options;
  options.progress = [&](uint64_t done, uint64_t total) { line.Show(done, total); };
  const Result<lsm::Inspection> found = lsm::Inspect(fs, part.directory, options);
  if (!found.ok()) return AddFinding("part", part.directory, found.status(), verified);
  ++verified->parts;
  verified->bytes += found->bytes;
  verified->tables += found->tables.size();
  verified->values += found->values;
  verified->log_records += found->log_records;
  for (const lsm::Finding& finding : found->findings) {
    AddFinding(kKindNames[static_cast<int>(finding.kind)], finding.path, finding.status, verified);
  }
}

}  // namespace

int Verify(const VerifyOptions& options) {
  io::FileSystem& fs = io::PosixFileSystem();
  Verified verified;
  Unverified unverified;
  for (const std::string& path : options.paths) {
    const Result<std::vector<DatabaseOnDisk>> places = FindDatabases(fs, path);
    if (!places.ok()) return Fail(places.status());
    unverified.Add(fs, path, *places);
    for (const DatabaseOnDisk& place : *places) {
      if (!options.json) NoteWriter(place);
      if (!place.writer.empty()) verified.open_in[place.directory] = place.writer;
      if (!place.status.ok()) {
        AddFinding("descriptor", kv::DescriptorPath(place.directory), place.status, &verified);
      }
      for (const PartOnDisk& part : place.parts) {
        VerifyPart(fs, part, options.progress || OnTerminal(), &verified);
      }
    }
  }
  const bool sound = verified.findings.empty();
  if (options.json) {
    Json report = {{"sound", sound},
                   {"parts", verified.parts},
                   {"tables", verified.tables},
                   {"values", verified.values},
                   {"log_records", verified.log_records},
                   {"bytes", verified.bytes},
                   {"findings", verified.findings}};
    if (!verified.open_in.empty()) report["open_in"] = verified.open_in;
    unverified.AddTo(&report);
    PrintJson(report);
  } else {
    unverified.Print();
    for (const Json& finding : verified.findings) {
      std::cout << Text(finding["kind"]) << " " << Text(finding["path"])
                << ": " << Text(finding["problem"]) << "\n";
    }
    std::cout << (sound ? "sound: " : "not sound; looked at ") << verified.parts << " parts, "
              << verified.tables << " tables, " << verified.values << " large values, "
              << verified.log_records << " log records, " << ShowSize(verified.bytes) << "\n";
  }
  return sound ? kFine : kFoundWrong;
}

}  // namespace quire::tool
