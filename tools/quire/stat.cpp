// quire stat: prints sizes, entries and derived figures, of each rank and of each database.
#include <iostream>

#include "lsm/offline/inspect.h"
#include "tools/quire/catalog.h"
#include "tools/quire/output.h"

namespace quire::tool {
namespace {

// The figures of one part, or the sums of several.
struct Sums {
  uint64_t runs = 0;  // of several parts: the most
  uint64_t tables = 0;
  uint64_t entries = 0;
  uint64_t keys = 0;
  uint64_t tombstones = 0;
  uint64_t table_bytes = 0;
  uint64_t raw_bytes = 0;
  uint64_t value_segments = 0;
  uint64_t value_segment_bytes = 0;
  uint64_t referenced_bytes = 0;  // of value segments, by tables
  uint64_t log_records = 0;
  uint64_t oldest_run_bytes = 0;  // with the values it refers to
  uint64_t tables_written = 0;    // since the database was made
  uint64_t allocated_bytes = 0;   // on the device, of all files

  void Add(const Sums& other);
  void AddRun(const std::vector<table::TableInfo>& run);
  uint64_t live_bytes() const { return table_bytes + referenced_bytes; }
};

void Sums::Add(const Sums& other) {
  runs = std::max(runs, other.runs);
  tables += other.tables;
  entries += other.entries;
  keys += other.keys;
  tombstones += other.tombstones;
  table_bytes += other.table_bytes;
  raw_bytes += other.raw_bytes;
  value_segments += other.value_segments;
  value_segment_bytes += other.value_segment_bytes;
  referenced_bytes += other.referenced_bytes;
  log_records += other.log_records;
  oldest_run_bytes += other.oldest_run_bytes;
  tables_written += other.tables_written;
  allocated_bytes += other.allocated_bytes;
}

void Sums::AddRun(const std::vector<table::TableInfo>& run) {
  ++runs;
  oldest_run_bytes = 0;
  for (const table::TableInfo& table : run) {
    ++tables;
    entries += table.entry_count;
    keys += table.key_count;
    tombstones += table.tombstone_count;
    table_bytes += table.file_bytes;
    raw_bytes += table.raw_bytes;
    oldest_run_bytes += table.file_bytes;
    for (const table::SegmentUse& use : table.segments) {
      referenced_bytes += use.bytes;
      oldest_run_bytes += use.bytes;
    }
  }
}

Sums SumsOf(const lsm::Inspection& part) {
  Sums sums;
  for (const std::vector<table::TableInfo>& run : part.manifest.runs) sums.AddRun(run);
  for (const lsm::StoredSegment& segment : part.files.value_segments) {
    ++sums.value_segments;
    sums.value_segment_bytes += segment.file_bytes;
  }
  sums.log_records = part.log_records;
  sums.tables_written = part.manifest.next_ssid - 1;
  return sums;
}

double Ratio(uint64_t of, uint64_t to) {
  return to == 0 ? 1.0 : static_cast<double>(of) / static_cast<double>(to);
}

Json ToJson(const Sums& sums) {
  Json json;
  json["runs"] = sums.runs;
  json["tables"] = sums.tables;
  json["entries"] = sums.entries;
  json["keys_of_runs"] = sums.keys;
  json["tombstones"] = sums.tombstones;
  json["table_bytes"] = sums.table_bytes;
  json["raw_bytes"] = sums.raw_bytes;
  json["value_segments"] = sums.value_segments;
  json["value_segment_bytes"] = sums.value_segment_bytes;
  json["referenced_value_bytes"] = sums.referenced_bytes;
  json["log_records"] = sums.log_records;
  json["tables_written"] = sums.tables_written;
  json["allocated_bytes"] = sums.allocated_bytes;
  // The oldest run is the best estimate of the size after a full merge.
  json["space_amplification"] =
      Ratio(sums.table_bytes + sums.value_segment_bytes, sums.oldest_run_bytes);
  json["read_amplification"] = sums.runs;
  return json;
}

Json PartToJson(io::FileSystem& fs, const PartOnDisk& part, Sums* total, int* exit_code) {
  Json json;
  json["generation"] = part.generation;
  json["rank"] = part.rank;
  json["here"] = part.here;
  if (!part.here) return json;
  lsm::InspectOptions options;
  options.contents = false;
  const Result<lsm::Inspection> found = lsm::Inspect(fs, part.directory, options);
  std::string problem = found.ok() ? "" : found.status().ToString();
  if (found.ok()) {
    Sums sums = SumsOf(*found);
    sums.allocated_bytes = AllocatedBytes(fs, part.directory);
    total->Add(sums);
    json.update(ToJson(sums));
    if (!found->writer.empty()) json["open_in"] = found->writer;
    if (!found->findings.empty()) problem = found->findings.front().status.ToString();
  }
  if (!problem.empty()) {
    json["problem"] = problem;
    *exit_code = kFoundWrong;
  }
  return json;
}

Json StatisticsToJson(io::FileSystem& fs, const DatabaseOnDisk& place, int* exit_code) {
  Json json;
  json["name"] = place.name;
  json["directory"] = place.directory;
  if (!place.writer.empty()) json["open_in"] = place.writer;
  if (!place.status.ok()) {
    json["problem"] = place.status.ToString();
    *exit_code = kFoundWrong;
  }
  Sums total;
  Json parts = Json::array();
  for (const PartOnDisk& part : place.parts)
    parts.push_back(PartToJson(fs, part, &total, exit_code));
  json["total"] = ToJson(total);
  json["parts"] = std::move(parts);
  return json;
}

void PrintSums(const Json& sums, const char* indent) {
  const auto size = [&](const char* name) { return ShowSize(sums[name].get<uint64_t>()); };
  char ratio[32];
  std::snprintf(ratio, sizeof ratio, "%.2f", sums["space_amplification"].get<double>());
  const auto counted = [&](const char* name, const char* noun) {
    return Counted(sums[name].get<uint64_t>(), noun);
  };
  std::cout << indent << counted("tables", "table") << " in " << counted("runs", "run") << ", "
            << size("table_bytes") << " (" << size("raw_bytes") << " of keys and values)\n"
            << indent << counted("entries", "entry") << ", " << counted("tombstones", "tombstone")
            << " among them; " << sums["log_records"] << " more in the log\n"
            << indent << counted("value_segments", "value segment") << ", "
            << size("value_segment_bytes") << ", of which tables refer to "
            << size("referenced_value_bytes") << "\n"
            << indent << size("allocated_bytes") << " on the device, logs included\n"
            << indent << "space amplification at most " << ratio << ", a get looks into at most "
            << counted("read_amplification", "run") << "\n";
}

void PrintStatistics(const Json& place) {
  std::cout << Text(place["name"]);
  if (place.contains("open_in")) {
    std::cout << "  (" << MemoryNote(Text(place["open_in"])) << ")";
  }
  std::cout << "\n";
  if (place.contains("problem")) {
    std::cout << "  " << Text(place["problem"]) << "\n";
  }
  PrintSums(place["total"], "  ");
  for (const Json& part : place["parts"]) {
    std::cout << "  generation " << part["generation"] << " rank " << part["rank"]
              << (part["here"].get<bool>() ? "\n" : ": not here\n");
    if (part.contains("problem")) {
      std::cout << "    " << Text(part["problem"]) << "\n";
    }
    if (part.contains("tables")) PrintSums(part, "    ");
  }
}

}  // namespace

int Stat(const PathsOptions& options) {
  io::FileSystem& fs = io::PosixFileSystem();
  int exit_code = kFine;
  Json databases = Json::array();
  for (const std::string& path : options.paths) {
    const Result<std::vector<DatabaseOnDisk>> places = FindDatabases(fs, path);
    if (!places.ok()) return Fail(places.status());
    for (const DatabaseOnDisk& place : *places) {
      databases.push_back(StatisticsToJson(fs, place, &exit_code));
    }
  }
  if (options.json) {
    PrintJson({{"databases", databases}});
  } else {
    for (const Json& database : databases) PrintStatistics(database);
  }
  return exit_code;
}

}  // namespace quire::tool
