// quire stream: shows what simulations store version by version.
#include <algorithm>
#include <iostream>
#include <memory>
#include <utility>

#include "base/text/printable.h"
#include "io/files/file_system.h"
#include "io/files/machine.h"
#include "stream/store/listing.h"
#include "stream/store/local_reader.h"
#include "stream/store/tending.h"
#include "tools/quire/catalog.h"
#include "tools/quire/contents.h"
#include "tools/quire/output.h"
#include "tools/quire/stream_form.h"

namespace quire::tool {
namespace {

using OwnedStreamReader = std::unique_ptr<StreamReader>;

// One rank's part of a store.
struct PartName {
  std::string place;
  std::string name;
  uint32_t rank;
};

Result<OwnedStreamReader> Open(const PartName& part) {
  return stream::OpenLocalReader(io::PosixFileSystem(), part.place, part.name, part.rank,
                                 stream::Access::kLook);
}

Json VersionToJson(const StreamVersion& version) {
  Json json;
  json["version"] = version.version;
  json["snapshot"] = version.snapshot;
  json["bytes"] = version.bytes;
  json["stored_bytes"] = version.stored_bytes;
  json["unix_time_ns"] = version.unix_time_ns;
  json["whole"] = version.whole;
  SetShape(&json, version.shape);
  return json;
}

// Returns whether the item is gone: it may be collected between its listing and its reading.
bool Gone(const Status& status) {
  return status.code() == Code::kNotFound;
}

Result<Json> ObjectsToJson(StreamReader& reader) {
  QUIRE_ASSIGN_OR_RETURN(std::vector<std::string> keys, reader.Objects());
  std::sort(keys.begin(), keys.end());
  Json objects = Json::array();
  for (const std::string& key : keys) {
    const Result<std::vector<StreamVersion>> versions = reader.Versions(key);
    if (Gone(versions.status())) continue;
    QUIRE_RETURN_IF_ERROR(versions.status());
    Json object;
    SetBytes(&object, "key", key);
    object["versions"] = Json::array();
    for (const StreamVersion& version : *versions) {
      object["versions"].push_back(VersionToJson(version));
    }
    objects.push_back(std::move(object));
  }
  return objects;
}

Status FillPart(const PartName& part, Json* json) {
  QUIRE_ASSIGN_OR_RETURN(const OwnedStreamReader reader, Open(part));
  QUIRE_ASSIGN_OR_RETURN((*json)["last_snapshot"], reader->LastSnapshot());
  QUIRE_ASSIGN_OR_RETURN((*json)["finished"], reader->Finished());
  QUIRE_ASSIGN_OR_RETURN((*json)["objects"], ObjectsToJson(*reader));
  return Status();
}

Json PartToJson(const PartName& part, int* exit_code) {
  Json json;
  json["rank"] = part.rank;
  const Status filled = FillPart(part, &json);
  if (filled.ok()) return json;
  json["problem"] = filled.ToString();
  *exit_code = kFoundWrong;
  return json;
}

// Returns the object's key as it was given, or its digits.
std::string KeyOf(const Json& object) {
  return object.contains("key") ? base::Printable(object["key"].get<std::string>())
                                : "0x" + object["key_hex"].get<std::string>();
}

void PrintVersion(const Json& version) {
  std::cout << "    version " << version["version"] << ", snapshot " << version["snapshot"] << ": "
            << Text(version["element"]);
  for (size_t i = 0; i < version["extents"].size(); ++i) {
    std::cout << (i == 0 ? " " : " x ") << version["extents"][i];
  }
  std::cout << ", " << ShowSize(version["bytes"].get<uint64_t>());
  if (!version["whole"].get<bool>()) {
    std::cout << " (" << ShowSize(version["stored_bytes"].get<uint64_t>()) << " changed)";
  }
  std::cout << "\n";
}

void PrintStreamPart(const Json& part) {
  std::cout << "rank " << part["rank"] << ": ";
  if (part.contains("problem")) {
    std::cout << Text(part["problem"]) << "\n";
    return;
  }
  std::cout << "snapshot " << part["last_snapshot"]
            << (part["finished"].get<bool>() ? ", finished\n" : ", not finished\n");
  for (const Json& object : part["objects"]) {
    std::cout << "  " << KeyOf(object) << "\n";
    for (const Json& version : object["versions"]) PrintVersion(version);
  }
}

// Returns the parts that the command reads: of one rank, or of all.
Result<std::vector<PartName>> PartsOf(const StreamPartOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const std::string place, io::AbsolutePath(options.path));
  io::FileSystem& fs = io::PosixFileSystem();
  const Result<std::vector<uint32_t>> ranks = stream::ListRanks(fs, place, options.name);
  if (ranks.status().code() == Code::kNotFound) {
    return Absent(fs, "there is no stream " + options.name + " at " + place, place);
  }
  QUIRE_RETURN_IF_ERROR(ranks.status());
  if (ranks->empty()) {
    const std::string directory = place + "/" + options.name;
    return Absent(fs, directory + " is no stream", directory);
  }
  std::vector<PartName> parts;
  for (const uint32_t rank : *ranks) {
    if (options.rank.has_value() && *options.rank != rank) continue;
    parts.push_back({place, options.name, rank});
  }
  if (!parts.empty()) return parts;
  return Status(Code::kNotFound, "there is no part of rank " + std::to_string(*options.rank) +
                                     " of " + options.name + " at " + place);
}

Result<int> ListStore(const StreamPartOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<PartName> parts, PartsOf(options));
  int exit_code = kFine;
  Json ranks = Json::array();
  for (const PartName& part : parts) ranks.push_back(PartToJson(part, &exit_code));
  if (options.json) {
    PrintJson({{"store", options.name}, {"ranks", ranks}});
  } else {
    for (const Json& part : ranks) PrintStreamPart(part);
  }
  return exit_code;
}

Result<int> ListPlace(const StreamPartOptions& options) {
  io::FileSystem& fs = io::PosixFileSystem();
  QUIRE_ASSIGN_OR_RETURN(const std::string place, io::AbsolutePath(options.path));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<std::string> names, stream::ListStores(fs, place));
  Json stores = Json::array();
  for (const std::string& name : names) {
    const Result<std::vector<uint32_t>> ranks = stream::ListRanks(fs, place, name);
    if (ranks.ok()) stores.push_back({{"store", name}, {"ranks", *ranks}});
  }
  if (stores.empty()) return Absent(fs, "there is no stream at " + place, place);
  if (options.json) {
    PrintJson({{"place", place}, {"stores", stores}});
    return kFine;
  }
  for (const Json& store : stores) {
    std::cout << Text(store["store"]) << ": ranks";
    for (const Json& rank : store["ranks"]) std::cout << " " << rank;
    std::cout << "\n";
  }
  return kFine;
}

Status StatPart(const PartName& part, Json* json) {
  QUIRE_ASSIGN_OR_RETURN(const OwnedStreamReader reader, Open(part));
  QUIRE_ASSIGN_OR_RETURN((*json)["last_snapshot"], reader->LastSnapshot());
  QUIRE_ASSIGN_OR_RETURN((*json)["finished"], reader->Finished());
  QUIRE_ASSIGN_OR_RETURN(const std::vector<std::string> keys, reader->Objects());
  uint64_t versions = 0, deltas = 0, bytes = 0, stored = 0;
  for (const std::string& key : keys) {
    const Result<std::vector<StreamVersion>> all = reader->Versions(key);
    if (Gone(all.status())) continue;
    QUIRE_RETURN_IF_ERROR(all.status());
    for (const StreamVersion& version : *all) {
      ++versions;
      deltas += version.whole ? 0 : 1;
      bytes += version.bytes;
      stored += version.stored_bytes;
    }
  }
  (*json)["objects"] = keys.size();
  (*json)["versions"] = versions;
  (*json)["deltas"] = deltas;
  (*json)["object_bytes"] = bytes;
  (*json)["stored_bytes"] = stored;
  return Status();
}

void PrintCounts(const Json& part) {
  std::cout << "rank " << part["rank"] << ": ";
  if (part.contains("problem")) {
    std::cout << Text(part["problem"]) << "\n";
    return;
  }
  std::cout << part["objects"] << " objects, " << part["versions"] << " versions, "
            << part["deltas"] << " of them deltas; "
            << ShowSize(part["object_bytes"].get<uint64_t>()) << " in "
            << ShowSize(part["stored_bytes"].get<uint64_t>()) << "; snapshot "
            << part["last_snapshot"]
            << (part["finished"].get<bool>() ? ", finished\n" : ", not finished\n");
}

Result<int> StatStore(const StreamPartOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<PartName> parts, PartsOf(options));
  int exit_code = kFine;
  Json ranks = Json::array();
  for (const PartName& part : parts) {
    Json json;
    json["rank"] = part.rank;
    const Status counted = StatPart(part, &json);
    if (!counted.ok()) {
      json["problem"] = counted.ToString();
      exit_code = kFoundWrong;
    }
    if (!options.json) PrintCounts(json);
    ranks.push_back(std::move(json));
  }
  if (options.json) PrintJson({{"store", options.name}, {"ranks", ranks}});
  return exit_code;
}

// The findings of reading the parts.
struct Findings {
  uint64_t versions = 0;
  Json list = Json::array();

  void Add(const PartName& part, Json what, const Status& status) {
    what["rank"] = part.rank;
    what["problem"] = status.ToString();
    list.push_back(std::move(what));
  }
};

Status VerifyObject(const PartName& part, StreamReader& reader, const std::string& key,
                    Findings* findings) {
  const Result<std::vector<StreamVersion>> versions = reader.Versions(key);
  if (Gone(versions.status())) return Status();
  QUIRE_RETURN_IF_ERROR(versions.status());
  for (const StreamVersion& version : *versions) {
    const auto view = reader.View(key, version.version);
    if (Gone(view.status())) continue;
    const Status sound = view.ok() ? (*view)->Verify() : view.status();
    ++findings->versions;
    if (sound.ok()) continue;
    Json what;
    SetBytes(&what, "key", key);
    what["version"] = version.version;
    findings->Add(part, std::move(what), sound);
  }
  return Status();
}

// Verifies the versions first, which shows whose bytes are damaged, and then the log, walked as a
// writer would: damage that no reader sees can still stop a writer.
Status VerifyPart(const PartName& part, bool progress, Findings* findings) {
  QUIRE_ASSIGN_OR_RETURN(const OwnedStreamReader reader, Open(part));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<std::string> keys, reader->Objects());
  const size_t found_before = findings->list.size();
  Progress line(part.name + "/" + std::to_string(part.rank), progress);
  for (size_t i = 0; i < keys.size(); ++i) {
    QUIRE_RETURN_IF_ERROR(VerifyObject(part, *reader, keys[i], findings));
    line.Show(i + 1, keys.size());
  }
  const bool data_sound = findings->list.size() == found_before;
  return stream::CheckLog(io::PosixFileSystem(), part.place, part.name, part.rank, data_sound);
}

Result<int> VerifyStore(const StreamPartOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<PartName> parts, PartsOf(options));
  Findings findings;
  for (const PartName& part : parts) {
    const Status read = VerifyPart(part, options.progress || OnTerminal(), &findings);
    if (!read.ok() && read.code() != Code::kCorruption) return read;
    if (!read.ok()) findings.Add(part, Json::object(), read);
  }
  const bool sound = findings.list.empty();
  if (options.json) {
    PrintJson({{"sound", sound}, {"versions", findings.versions}, {"findings", findings.list}});
  } else {
    for (const Json& finding : findings.list) {
      std::cout << "rank " << finding["rank"] << ": " << Text(finding["problem"]) << "\n";
    }
    std::cout << (sound ? "sound: " : "not sound; looked at ") << findings.versions
              << " versions\n";
  }
  return sound ? kFine : kFoundWrong;
}

int ExitCodeOf(const Result<int>& done) {
  return done.ok() ? *done : Fail(done.status());
}

}  // namespace

int StreamList(const StreamPartOptions& options) {
  return ExitCodeOf(options.name.empty() ? ListPlace(options) : ListStore(options));
}

int StreamStat(const StreamPartOptions& options) {
  return ExitCodeOf(StatStore(options));
}

int StreamVerify(const StreamPartOptions& options) {
  return ExitCodeOf(VerifyStore(options));
}

}  // namespace quire::tool
