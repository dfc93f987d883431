// quire ls: the tree of databases, generations, ranks and tables.
#include <iostream>
#include <set>

#include "base/text/printable.h"
#include "lsm/version/manifest.h"
#include "tools/quire/catalog.h"
#include "tools/quire/contents.h"
#include "tools/quire/output.h"

namespace quire::tool {
namespace {

constexpr const char* kDatabaseStates[] = {"creating", "ready", "destroying", "filling"};

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

Json PartToJson(io::FileSystem& fs, const PartOnDisk& part, int* exit_code) {
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

Json ListedToJson(io::FileSystem& fs, const DatabaseOnDisk& place, int* exit_code) {
  Json json;
  json["name"] = place.name;
  json["directory"] = place.directory;
  if (!place.writer.empty()) json["open_in"] = place.writer;
  if (!place.status.ok()) {
    json["problem"] = place.status.ToString();
    *exit_code = kFoundWrong;
    return json;
  }
  json["state"] = kDatabaseStates[static_cast<int>(place.descriptor.state)];
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
  for (const PartOnDisk& part : place.parts)
    json["parts"].push_back(PartToJson(fs, part, exit_code));
  return json;
}

std::string KeyText(const Json& table, const char* name) {
  const std::string plain = name;
  if (table.contains(plain)) return base::Printable(table[plain].get<std::string>());
  return "0x" + table[plain + "_hex"].get<std::string>();
}

void PrintListedPart(const Json& part) {
  std::cout << "    rank " << part["rank"];
  if (!part["here"].get<bool>()) {
    std::cout << ": not here\n";
    return;
  }
  if (part.contains("problem")) {
    std::cout << ": " << Text(part["problem"]) << "\n";
    return;
  }
  std::cout << ": " << Counted(part["runs"].size(), "run") << ", "
            << ShowSize(part["allocated_bytes"].get<uint64_t>()) << " on the device\n";
  for (const Json& run : part["runs"]) {
    for (const Json& table : run) {
      std::cout << "      t-" << table["ssid"] << ".sst  "
                << ShowSize(table["bytes"].get<uint64_t>()) << "  "
                << Counted(table["entries"], "entry") << "  " << KeyText(table, "smallest_key")
                << " .. " << KeyText(table, "largest_key") << "\n";
    }
  }
}

void PrintListed(const Json& place) {
  std::cout << Text(place["name"]);
  if (place.contains("open_in")) {
    std::cout << "  (" << MemoryNote(Text(place["open_in"])) << ")";
  }
  if (place.contains("problem")) {
    std::cout << "\n  " << Text(place["problem"]) << "\n";
    return;
  }
  if (place["state"] != "ready") std::cout << "  (" << Text(place["state"]) << ")";
  std::cout << "\n";
  for (const Json& generation : place["generations"]) {
    std::cout << "  generation " << generation["number"] << ": "
              << Counted(generation["ranks"], "rank") << ", partitioner "
              << Text(generation["partitioner"]);
    if (generation.contains("location")) {
      std::cout << ", in " << Text(generation["location"]);
    }
    std::cout << "\n";
    for (const Json& part : place["parts"]) {
      if (part["generation"] == generation["number"]) PrintListedPart(part);
    }
  }
}

// Kinds of content that have a command of their own.
struct Others {
  Json datasets = Json::array();
  Json checkpoints = Json::array();
  Json stores = Json::array();

  void Add(const Contents& contents) {
    for (const std::string& one : contents.datasets) datasets.push_back(one);
    for (const std::string& one : contents.checkpoints) checkpoints.push_back(one);
    for (const std::string& one : contents.stores) stores.push_back(one);
  }
  void Print() const {
    PrintEach(datasets, "a dataset: quire dataset list ");
    PrintEach(checkpoints, "checkpoints: quire checkpoint list ");
    for (const Json& store : stores) {
      const std::string directory = Text(store);
      std::cout << LastPart(directory) << "  (a stream: " << StreamCommand({directory}) << ")\n";
    }
  }

 private:
  static void PrintEach(const Json& directories, const char* command) {
    for (const Json& directory : directories) {
      const std::string path = Text(directory);
      std::cout << LastPart(path) << "  (" << command << path << ")\n";
    }
  }
};

}  // namespace

int Ls(const PathsOptions& options) {
  io::FileSystem& fs = io::PosixFileSystem();
  int exit_code = kFine;
  Json databases = Json::array();
  Others others;
  for (const std::string& path : options.paths) {
    const Result<std::vector<DatabaseOnDisk>> places = DatabasesAt(fs, path);
    if (!places.ok()) return Fail(places.status());
    const Contents contents = ContentsOf(fs, path);
    if (places->empty() && contents.empty()) {
      return Fail(Absent(fs, "there is no database in " + path, path));
    }
    others.Add(contents);
    for (const DatabaseOnDisk& place : *places) {
      databases.push_back(ListedToJson(fs, place, &exit_code));
    }
  }
  if (options.json) {
    PrintJson({{"databases", databases},
               {"datasets", others.datasets},
               {"checkpoints", others.checkpoints},
               {"streams", others.stores}});
    return exit_code;
  }
  for (const Json& database : databases) PrintListed(database);
  others.Print();
  return exit_code;
}

}  // namespace quire::tool
