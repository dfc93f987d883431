#include "kv/persistence/checkpoint_files.h"

#include <algorithm>
#include <optional>

#include "base/hash/hash.h"
#include "io/paths/sole_writer.h"
#include "kv/generations/locked_database.h"
#include "runtime/checksummed_text.h"

namespace quire::kv {
namespace {

constexpr uint64_t kPartsMax = 1u << 30;
// Files: some ms, also of a parallel file system.
constexpr size_t kRemovedAtOnce = 8;
constexpr uint64_t kTextBytesMax = 1ull << 30;
constexpr runtime::TextKind kCommitKind = {"quire checkpoint ", 1,
                                           "this checkpoint is damaged, use another one"};
constexpr runtime::TextKind kFilesKind = {"quire files ", 1,
                                          "this checkpoint is damaged, use another one"};
constexpr char kFilePrefix[] = "file.";
constexpr char kPartPrefix[] = "part.";
constexpr char kPartialPrefix[] = ".partial-";
constexpr char kDroppedPrefix[] = ".dropped-";

// Three words with one space between them.
bool Split(Slice value, Slice (&words)[3]) {
  for (int i = 0; i < 2; ++i) {
    const size_t space = value.find(' ');
    if (space == Slice::npos) return false;
    words[i] = value.substr(0, space);
    value.remove_prefix(space + 1);
  }
  words[2] = value;
  return true;
}

bool SetFileEntry(Slice name, Slice value, FileList* list) {
  Slice words[3];
  if (!runtime::TakePrefix(kFilePrefix, &name) || !Split(value, words)) return false;
  // The name becomes part of a path.
  if (!io::CheckName(name).ok()) return false;
  const auto bytes = runtime::ParseNumber(words[0], UINT64_MAX);
  const auto identity = runtime::ParseHex(words[1]);
  const auto sum = runtime::ParseHex(words[2]);
  if (!bytes || !identity || !sum) return false;
  return list->files.emplace(std::string(name), StoredFile{*bytes, *identity, *sum}).second;
}

bool AddPart(Slice number_text, Slice value, std::vector<CommitRecord::Part>* parts) {
  Slice words[3];
  const auto number = runtime::ParseNumber(number_text, kPartsMax);
  if (!number || *number != parts->size() || !Split(value, words)) return false;
  const auto files = runtime::ParseNumber(words[0], UINT64_MAX);
  const auto bytes = runtime::ParseNumber(words[1], UINT64_MAX);
  const auto sum = runtime::ParseHex(words[2]);
  if (!files || !bytes || !sum) return false;
  parts->push_back({*files, *bytes, *sum});
  return true;
}

struct CommitEntries {
  CommitRecord record;
  uint64_t ranks = 0;
};

bool SetCommitEntry(Slice name, Slice value, CommitEntries* entries) {
  CommitRecord& record = entries->record;
  if (name == "database") {
    record.database = std::string(value);
    return io::CheckName(value).ok();
  }
  if (name == "partitioner") {
    record.partitioner = std::string(value);
    return !value.empty();
  }
  if (name == "ranks" || name == "time") {
    const auto number = runtime::ParseNumber(value, name == "ranks" ? kPartsMax : UINT64_MAX);
    (name == "ranks" ? entries->ranks : record.time) = number.value_or(0);
    return number.has_value();
  }
  if (runtime::TakePrefix(kPartPrefix, &name)) return AddPart(name, value, &record.parts);
  if (!runtime::TakePrefix(kOptionPrefix, &name)) return false;
  record.options.push_back(std::string(name) + "=" + std::string(value));
  return true;
}

std::optional<uint64_t> NumberBehind(const std::string& name, Slice prefix) {
  if (Slice(name).substr(0, prefix.size()) != prefix) return std::nullopt;
  const auto number = runtime::ParseNumber(Slice(name).substr(prefix.size()), UINT64_MAX);
  // "007" is none of ours.
  const bool ours = number && *number != 0 && name == std::string(prefix) + std::to_string(*number);
  return ours ? number : std::nullopt;
}

// Returns the state of a directory whose name is a number. If it cannot be read, it counts as
// complete: its user then receives the reason.
CheckpointState StateOf(io::FileSystem& fs, const std::string& directory) {
  const Result<bool> recorded = fs.Exists(directory + "/" + kCommitName);
  return !recorded.ok() || *recorded ? CheckpointState::kComplete : CheckpointState::kUnrecorded;
}

}  // namespace

uint64_t FileList::bytes() const {
  uint64_t sum = 0;
  for (const auto& [name, file] : files) sum += file.bytes;
  return sum;
}

std::string EncodeFileList(const FileList& list) {
  std::string text = runtime::BeginText(kFilesKind);
  for (const auto& [name, file] : list.files) {
    runtime::AddLine(&text, kFilePrefix + name,
                     std::to_string(file.bytes) + " " + runtime::Hex(file.identity) + " " +
                         runtime::Hex(file.sum));
  }
  runtime::AppendChecksum(&text);
  return text;
}

Result<FileList> DecodeFileList(Slice text, const std::string& path) {
  FileList list;
  const auto take = [&list](Slice name, Slice value) { return SetFileEntry(name, value, &list); };
  QUIRE_RETURN_IF_ERROR(runtime::ReadChecksummedText(kFilesKind, text, path, take));
  return list;
}

std::string EncodeCommitRecord(const CommitRecord& record) {
  std::string text = runtime::BeginText(kCommitKind);
  runtime::AddLine(&text, "database", record.database);
  runtime::AddLine(&text, "ranks", std::to_string(record.parts.size()));
  runtime::AddLine(&text, "partitioner", record.partitioner);
  runtime::AddLine(&text, "time", std::to_string(record.time));
  for (const std::string& option : record.options) {
    const size_t equals = option.find('=');
    runtime::AddLine(&text, kOptionPrefix + option.substr(0, equals), option.substr(equals + 1));
  }
  for (size_t rank = 0; rank < record.parts.size(); ++rank) {
    const CommitRecord::Part& part = record.parts[rank];
    runtime::AddLine(&text, kPartPrefix + std::to_string(rank),
                     std::to_string(part.files) + " " + std::to_string(part.bytes) + " " +
                         runtime::Hex(part.sum));
  }
  runtime::AppendChecksum(&text);
  return text;
}

Result<CommitRecord> DecodeCommitRecord(Slice text, const std::string& path) {
  CommitEntries entries;
  const auto take = [&entries](Slice name, Slice value) {
    return SetCommitEntry(name, value, &entries);
  };
  QUIRE_RETURN_IF_ERROR(runtime::ReadChecksummedText(kCommitKind, text, path, take));
  CommitRecord& record = entries.record;
  record.seal = runtime::ChecksumOf(text).value_or(0);
  if (record.parts.empty() || record.parts.size() != entries.ranks || record.database.empty() ||
      record.partitioner.empty()) {
    return runtime::DamagedText(kCommitKind, path, "it does not say what every commit record says");
  }
  return std::move(record);
}

CommitRecord::Part PartOf(const FileList& list, Slice encoded) {
  return {list.files.size(), list.bytes(), runtime::ChecksumOf(encoded).value_or(0)};
}

uint64_t AddToSum(uint64_t so_far, uint64_t offset, Slice piece) {
  return base::Checksum(piece, base::ChecksumSeed(base::ChecksumKind::kFile, so_far, offset));
}

Result<uint64_t> SumOfFile(const io::File& file, uint64_t bytes,
                           const std::function<void(uint64_t bytes)>& advance) {
  uint64_t sum = 0;
  std::string piece;
  for (uint64_t at = 0; at < bytes; at += piece.size()) {
    piece.resize(std::min(kSumPieceBytes, bytes - at));
    QUIRE_RETURN_IF_ERROR(file.ReadAt(at, piece.size(), piece.data()));
    sum = AddToSum(sum, at, piece);
    advance(piece.size());
  }
  return sum;
}

Status MissingFile(const std::string& path) {
  return Status(Code::kCorruption,
                path + " is missing; restore it from a copy or another checkpoint");
}

Status AsFailure(const Status& status) {
  if (status.code() != Code::kNotFound) return status;
  return Status(Code::kIo, std::string(status.message()) +
                               "; the directory has to stay, and be one that all ranks share");
}

Result<FileList> ReadFileList(io::FileSystem& fs, const std::string& directory,
                              const CommitRecord::Part& part) {
  const std::string path = directory + "/" + kFilesName;
  QUIRE_RETURN_IF_ERROR(io::CheckSoleWriter(fs, directory));
  const Result<std::string> read = io::ReadFile(fs, path, kTextBytesMax);
  if (read.status().code() == Code::kNotFound) return MissingFile(path);
  QUIRE_ASSIGN_OR_RETURN(const std::string text, read);
  QUIRE_ASSIGN_OR_RETURN(FileList list, DecodeFileList(text, path));
  const CommitRecord::Part found = PartOf(list, text);
  if (found.sum == part.sum && found.files == part.files && found.bytes == part.bytes) return list;
  return runtime::DamagedText(kFilesKind, path, "it is not the list that the commit record names");
}

Result<CommitRecord> ReadCommitRecord(io::FileSystem& fs, const std::string& directory) {
  QUIRE_RETURN_IF_ERROR(io::CheckSoleWriter(fs, directory));
  const std::string path = directory + "/" + kCommitName;
  QUIRE_ASSIGN_OR_RETURN(const std::string text, io::ReadFile(fs, path, kTextBytesMax));
  return DecodeCommitRecord(text, path);
}

std::string CheckpointHome(const std::string& path, const std::string& database) {
  return path + "/" + database;
}

std::string CheckpointDirectory(const std::string& home, uint64_t number) {
  return home + "/" + std::to_string(number);
}

std::string PartialDirectory(const std::string& home, uint64_t number) {
  return home + "/" + kPartialPrefix + std::to_string(number);
}

Result<std::vector<CheckpointFound>> FindCheckpoints(io::FileSystem& fs, const std::string& home) {
  std::vector<CheckpointFound> found;
  const Result<std::vector<io::FileInfo>> entries = fs.List(home);
  if (entries.status().code() == Code::kNotFound) return found;
  if (!entries.ok()) return entries.status();
  for (const io::FileInfo& entry : *entries) {
    if (!entry.is_directory) continue;
    const std::string directory = home + "/" + entry.name;
    if (const auto complete = NumberBehind(entry.name, "")) {
      found.push_back({*complete, StateOf(fs, directory), directory});
    } else if (const auto dropped = NumberBehind(entry.name, kDroppedPrefix)) {
      found.push_back({*dropped, CheckpointState::kDropped, directory});
    } else if (const auto partial = NumberBehind(entry.name, kPartialPrefix)) {
      // If the holder cannot be determined, it is left alone.
      const auto holder = fs.LockHolder(LockedDatabase::LockPath(directory));
      const bool left = holder.ok() && holder->empty();
      found.push_back(
          {*partial, left ? CheckpointState::kFailed : CheckpointState::kPartial, directory});
    }
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.number < b.number; });
  return found;
}

Status DropCheckpoint(io::FileSystem& fs, const std::string& home, const CheckpointFound& found) {
  CheckpointFound left = found;
  while (true) {
    QUIRE_ASSIGN_OR_RETURN(const bool gone, DropSome(fs, home, &left));
    if (gone) return Status();
  }
}

Result<bool> DropSome(io::FileSystem& fs, const std::string& home, CheckpointFound* found) {
  if (found->state == CheckpointState::kUnrecorded) {
    return Status(Code::kInvalidArgument, found->directory + " is no checkpoint: there is no " +
                                              found->directory + "/" + kCommitName +
                                              "; nothing of it was removed");
  }
  if (found->state != CheckpointState::kComplete) {
    size_t most = kRemovedAtOnce;
    return fs.RemoveSome(found->directory, &most);
  }
  const std::string dropped = home + "/" + kDroppedPrefix + std::to_string(found->number);
  QUIRE_RETURN_IF_ERROR(fs.Rename(found->directory, dropped));
  QUIRE_RETURN_IF_ERROR(fs.SyncDirectory(home));
  found->state = CheckpointState::kDropped;
  found->directory = dropped;
  return false;
}

}  // namespace quire::kv
