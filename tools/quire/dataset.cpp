// quire dataset: shows what a simulation wrote epoch by epoch.
#include <iostream>

#include "base/text/printable.h"
#include "dataset/part/files.h"
#include "io/files/machine.h"
#include "io/files/posix_error.h"
#include "quire/dataset.h"
#include "tools/quire/catalog.h"
#include "tools/quire/contents.h"
#include "tools/quire/output.h"

namespace quire::tool {
namespace {

using OwnedDatasetReader = std::unique_ptr<DatasetReader>;

Json EpochToJson(const DatasetEpoch& epoch) {
  return {{"epoch", epoch.number},
          {"ranks", epoch.rank_count},
          {"pairs", epoch.pair_count},
          {"unix_time", epoch.unix_time}};
}

// Returns the process that writes the dataset; empty if there is none.
std::string WriterOf(const std::string& directory) {
  const Result<std::string> writer =
      io::PosixFileSystem().LockHolder(directory + "/" + dataset::kLockName);
  return writer.ok() ? *writer : std::string();
}

std::string EpochNote(const std::string& writer) {
  return "open in " + base::Legible(io::HolderText(writer)) +
         "; an epoch that it has not ended is not shown";
}

void NoteWriter(const std::string& directory, const std::string& writer) {
  if (writer.empty()) return;
  std::cerr << "quire: " << base::Legible(directory) << " is " << EpochNote(writer) << "\n";
}

Json DatasetToJson(io::FileSystem& fs, const std::string& directory, int* exit_code) {
  Json json;
  json["directory"] = directory;
  const Result<OwnedDatasetReader> reader = DatasetReader::Open(directory);
  if (!reader.ok()) {
    json["problem"] = reader.status().ToString();
    *exit_code = kFoundWrong;
    return json;
  }
  json["format"] = dataset::FormatName((*reader)->format());
  json["partitioner"] = (*reader)->partitioner_name();
  const std::string writer = WriterOf(directory);
  if (!writer.empty()) json["open_in"] = writer;
  uint64_t bytes = 0;
  const Result<std::vector<io::FileInfo>> files = fs.List(directory);
  for (const io::FileInfo& file : files.ok() ? *files : std::vector<io::FileInfo>()) {
    bytes += file.size;
  }
  json["bytes"] = bytes;
  json["epochs"] = Json::array();
  for (const DatasetEpoch& epoch : (*reader)->Epochs()) {
    json["epochs"].push_back(EpochToJson(epoch));
  }
  return json;
}

void PrintDataset(const Json& dataset) {
  std::cout << Text(dataset["directory"]);
  if (dataset.contains("problem")) {
    std::cout << ": " << Text(dataset["problem"]) << "\n";
    return;
  }
  if (dataset.contains("open_in")) {
    std::cout << "  (" << EpochNote(dataset["open_in"].get<std::string>()) << ")";
  }
  std::cout << "\n  " << Text(dataset["format"]) << ", partitioner " << Text(dataset["partitioner"])
            << ", " << Counted(dataset["epochs"].size(), "epoch") << ", "
            << ShowSize(dataset["bytes"].get<uint64_t>()) << "\n";
  for (const Json& epoch : dataset["epochs"]) {
    std::cout << "  epoch " << epoch["epoch"] << ": " << Counted(epoch["pairs"], "pair") << " of "
              << Counted(epoch["ranks"], "rank") << "\n";
  }
}

bool InJson(const DatasetGetOptions& options) {
  return options.json || options.format == ByteFormat::kJson;
}

void PrintValue(const DatasetGetOptions& options, const std::string& writer, Slice key,
                const DatasetValue& value) {
  if (InJson(options)) {
    Json line;
    SetBytes(&line, "key", key);
    line["epoch"] = value.epoch;
    line["rank"] = value.rank;
    SetBytes(&line, "value", value.value);
    if (!writer.empty()) line["open_in"] = writer;
    PrintJsonLine(line);
    return;
  }
  std::cout << value.epoch << "\t" << value.rank << "\t" << ShowBytes(value.value, options.format)
            << "\n";
}

// If there is no dataset, the status names what is there instead.
Result<OwnedDatasetReader> OpenAt(const std::string& path,
                                  const DatasetReaderOptions& options = {}) {
  Result<OwnedDatasetReader> reader = DatasetReader::Open(path, options);
  if (reader.status().code() != Code::kNotFound) return reader;
  return Absent(io::PosixFileSystem(), reader.status().message(), path);
}

Result<int> GetAll(const DatasetGetOptions& options) {
  DatasetReaderOptions chosen;
  chosen.first_match = options.first;
  QUIRE_ASSIGN_OR_RETURN(const OwnedDatasetReader reader, OpenAt(options.path, chosen));
  const std::string writer = WriterOf(options.path);
  if (!InJson(options)) NoteWriter(options.path, writer);
  int exit_code = kFine;
  for (const std::string& given : options.keys) {
    const Result<std::string> key = options.hex_keys ? ParseHex(given) : Result<std::string>(given);
    QUIRE_RETURN_IF_ERROR(key.status());
    std::vector<DatasetValue> values;
    const Status status = options.epoch.has_value() ? reader->Get(*options.epoch, *key, &values)
                                                    : reader->GetTrajectory(*key, &values);
    const bool absent = status.code() == Code::kNotFound && status.message().empty();
    if (!status.ok() && !absent) return status;
    for (const DatasetValue& value : values) PrintValue(options, writer, *key, value);
    if (!absent) continue;
    SayAbsent(*key, Status());
    exit_code = kFoundWrong;
  }
  return exit_code;
}

Status ScanOne(const DatasetScanOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const OwnedDatasetReader reader, OpenAt(options.path));
  const auto scan = reader->Scan(options.epoch);
  const bool json = options.json || options.format == ByteFormat::kJson;
  const std::string writer = WriterOf(options.path);
  // In JSON each pair contains the writer; if there is no pair, a note names it.
  if (!json || !scan->Valid()) NoteWriter(options.path, writer);
  for (uint64_t count = 0; scan->Valid(); scan->Next()) {
    if (json) {
      Json line;
      SetBytes(&line, "key", scan->key());
      line["rank"] = scan->rank();
      if (!options.keys_only) SetBytes(&line, "value", scan->value());
      if (!writer.empty()) line["open_in"] = writer;
      PrintJsonLine(line);
    } else {
      std::cout << ShowBytes(scan->key(), options.format) << "\t" << scan->rank();
      if (!options.keys_only) std::cout << "\t" << ShowBytes(scan->value(), options.format);
      std::cout << "\n";
    }
    if (++count == options.limit) break;
  }
  return scan->status();
}

Status VerifyOne(const std::string& path, bool progress, uint64_t* epochs, Json* findings) {
  QUIRE_ASSIGN_OR_RETURN(const std::string directory, io::AbsolutePath(path));
  const Result<OwnedDatasetReader> reader = OpenAt(directory);
  if (!reader.ok()) {
    if (reader.status().code() != Code::kCorruption) return reader.status();
    findings->push_back({{"directory", directory}, {"problem", reader.status().ToString()}});
    return Status();
  }
  Progress line(directory, progress);
  const std::vector<DatasetEpoch> all = (*reader)->Epochs();
  for (size_t i = 0; i < all.size(); ++i) {
    const Status status = (*reader)->Verify(all[i].number);
    ++*epochs;
    line.Show(i + 1, all.size());
    if (status.ok()) continue;
    findings->push_back(
        {{"directory", directory}, {"epoch", all[i].number}, {"problem", status.ToString()}});
  }
  return Status();
}

}  // namespace

int DatasetList(const PathsOptions& options) {
  io::FileSystem& fs = io::PosixFileSystem();
  int exit_code = kFine;
  Json datasets = Json::array();
  for (const std::string& path : options.paths) {
    const Result<std::vector<std::string>> found = FindDatasets(fs, path);
    if (!found.ok()) return Fail(found.status());
    if (found->empty()) return Fail(Absent(fs, "there is no dataset in " + path, path));
    for (const std::string& directory : *found) {
      datasets.push_back(DatasetToJson(fs, directory, &exit_code));
    }
  }
  if (options.json) {
    PrintJson({{"datasets", datasets}});
  } else {
    for (const Json& dataset : datasets) PrintDataset(dataset);
  }
  return exit_code;
}

int DatasetGet(const DatasetGetOptions& options) {
  const Result<int> exit_code = GetAll(options);
  return exit_code.ok() ? *exit_code : Fail(exit_code.status());
}

int DatasetScanPairs(const DatasetScanOptions& options) {
  const Status status = ScanOne(options);
  return status.ok() ? kFine : Fail(status);
}

int DatasetVerify(const VerifyOptions& options) {
  uint64_t epochs = 0;
  Json findings = Json::array();
  Json open_in = Json::object();  // the writers, by directory
  for (const std::string& path : options.paths) {
    const std::string writer = WriterOf(path);
    if (!writer.empty()) open_in[path] = writer;
    if (!options.json) NoteWriter(path, writer);
    const Status status = VerifyOne(path, options.progress || OnTerminal(), &epochs, &findings);
    if (!status.ok()) return Fail(status);
  }
  const bool sound = findings.empty();
  if (options.json) {
    Json report = {{"sound", sound}, {"epochs", epochs}, {"findings", findings}};
    if (!open_in.empty()) report["open_in"] = open_in;
    PrintJson(report);
  } else {
    for (const Json& finding : findings) {
      std::cout << Text(finding["problem"]) << "\n";
    }
    std::cout << (sound ? "sound: " : "not sound; looked at ") << epochs << " epochs\n";
  }
  return sound ? kFine : kFoundWrong;
}

}  // namespace quire::tool
