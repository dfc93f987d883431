// quire ls: the tree of databases, generations, ranks and tables.
#include <iostream>
#include <set>

#include "base/printable.h"
#include "lsm/manifest.h"
#include "tools/quire/output.h"
#include "tools/quire/places.h"

namespace quire::tool {
namespace {

constexpr const char* kStateNames[] = {"creating", "ready", "destroying", "filling"};

Json TableToJson(const table::TableInfo& table) {
  Json json;
  json["ssid"] = table.ssid;
  json["bytes"] = table.file_bytes;
  json["entries"] = table.entry_count;
  json["tombstones"] = table.tombstone_count;
  SetBytes(&json, "smallest_key", table.smallest_key);
  SetBytes(&json, "largest_key", table.largest_key);
  return json;
}

Json PartToJson(io::FileSystem& fs, const Part& part, int* exit_code) {
  Json json;
  json["generation"] = part.generation;
  json["rank"] = part.rank;
  json["directory"] = part.directory;
  json["here"] = part.here;
  if (!part.here) return json;
  const Result<lsm::Manifest> manifest = lsm::ReadManifest(fs, part.directory);
  if (!manifest.ok()) {
    json["problem"] = manifest.status().ToString();
    *exit_code = kFoundWrong;
    return json;
  }
  json["edition"] = manifest->edition;
  json["allocated_bytes"] = AllocatedBytes(fs, part.directory);
  json["runs"] = Json::array();
  for (const std::vector<table::TableInfo>& run : manifest->runs) {
    Json tables = Json::array();
    for (const table::TableInfo& table : run) tables.push_back(TableToJson(table));
    json["runs"].push_back(std::move(tables));
  }
  return json;
}

Json PlaceToJson(io::FileSystem& fs, const DatabasePlace& place, int* exit_code) {
  Json json;
  json["name"] = place.name;
  json["directory"] = place.directory;
  if (!place.writer.empty()) json["open_in"] = place.writer;
  if (!place.status.ok()) {
    json["problem"] = place.status.ToString();
    *exit_code = kFoundWrong;
    return json;
  }
  json["state"] = kStateNames[static_cast<int>(place.descriptor.state)];
  json["generations"] = Json::array();
  for (const kv::Generation& generation : place.descriptor.generations) {
    Json one;
    one["number"] = generation.number;
    one["ranks"] = generation.rank_count;
    one["partitioner"] = generation.partitioner;
    if (!generation.location.empty()) one["location"] = generation.location;
    json["generations"].push_back(std::move(one));
  }
  json["parts"] = Json::array();
  for (const Part& part : place.parts) json["parts"].push_back(PartToJson(fs, part, exit_code));
  return json;
}

std::string KeyText(const Json& table, const char* name) {
  const std::string plain = name;
  if (table.contains(plain)) return base::Printable(table[plain].get<std::string>());
  return "0x" + table[plain + "_hex"].get<std::string>();
}

void PrintPart(const Json& part) {
  std::cout << "    rank " << part["rank"];
  if (!part["here"].get<bool>()) {
    std::cout << ": not here\n";
    return;
  }
  if (part.contains("problem")) {
    std::cout << ": " << part["problem"].get<std::string>() << "\n";
    return;
  }
  std::cout << ": " << part["runs"].size() << " runs, "
            << ShowSize(part["allocated_bytes"].get<uint64_t>()) << " on the device\n";
  for (const Json& run : part["runs"]) {
    for (const Json& table : run) {
      std::cout << "      t-" << table["ssid"] << ".sst  "
                << ShowSize(table["bytes"].get<uint64_t>()) << "  " << table["entries"]
                << " entries  " << KeyText(table, "smallest_key") << " .. "
                << KeyText(table, "largest_key") << "\n";
    }
  }
}

void PrintPlace(const Json& place) {
  std::cout << place["name"].get<std::string>();
  if (place.contains("open_in")) {
    std::cout << "  (open in " << place["open_in"].get<std::string>() << ")";
  }
  if (place.contains("problem")) {
    std::cout << "\n  " << place["problem"].get<std::string>() << "\n";
    return;
  }
  if (place["state"] != "ready") std::cout << "  (" << place["state"].get<std::string>() << ")";
  std::cout << "\n";
  for (const Json& generation : place["generations"]) {
    std::cout << "  generation " << generation["number"] << ": " << generation["ranks"]
              << " ranks, partitioner " << generation["partitioner"].get<std::string>();
    if (generation.contains("location")) {
      std::cout << ", in " << generation["location"].get<std::string>();
    }
    std::cout << "\n";
    for (const Json& part : place["parts"]) {
      if (part["generation"] == generation["number"]) PrintPart(part);
    }
  }
}

}  // namespace

int Ls(const PathsOptions& options) {
  io::FileSystem& fs = io::PosixFileSystem();
  int exit_code = kFine;
  Json databases = Json::array();
  Json datasets = Json::array();
  for (const std::string& path : options.paths) {
    const Result<std::vector<std::string>> found = FindDatasets(fs, path);
    if (!found.ok()) return Fail(found.status());
    for (const std::string& directory : *found) datasets.push_back(directory);
    const Result<std::vector<DatabasePlace>> places = FindDatabases(fs, path);
    if (!places.ok() && (found->empty() || places.status().code() != Code::kNotFound)) {
      return Fail(places.status());
    }
    for (const DatabasePlace& place : places.ok() ? *places : std::vector<DatabasePlace>()) {
      databases.push_back(PlaceToJson(fs, place, &exit_code));
    }
  }
  if (options.json) {
    PrintJson({{"databases", databases}, {"datasets", datasets}});
    return exit_code;
  }
  for (const Json& database : databases) PrintPlace(database);
  for (const Json& directory : datasets) {
    const std::string path = directory.get<std::string>();
    std::cout << LastPart(path) << "  (a dataset: quire dataset list " << path << ")\n";
  }
  return exit_code;
}

}  // namespace quire::tool
