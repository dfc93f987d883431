#include "kv/protocol/descriptor.h"

#include <algorithm>
#include <iterator>

#include "io/paths/sole_writer.h"
#include "quire/option_table.h"
#include "runtime/checksummed_text.h"
#include "runtime/repository.h"

namespace quire::kv {
namespace {

// Memory for a generation is proportional to its ranks, and a descriptor may contain any number.
constexpr uint64_t kRankCountMax = 1 << 22;
constexpr uint64_t kDescriptorBytesMax = 64 * 1024;
constexpr uint64_t kLastLineBytes = 64;  // or more
constexpr uint32_t kGenerationMax = 1u << 30;
constexpr runtime::TextKind kKind = {"quire database ", kDescriptorVersion,
                                     "restore the file from a copy, or remove the database"};
constexpr const char* kStateNames[] = {"creating", "ready", "destroying", "filling"};
constexpr char kGenerationPrefix[] = "generation.";
constexpr char kLocationPrefix[] = "location.";
constexpr char kCheckpointPrefix[] = "checkpoint.";
constexpr char kTaken[] = "taken";
constexpr char kId[] = "id";

bool SetState(Slice value, DatabaseDescriptor* descriptor) {
  for (size_t i = 0; i < std::size(kStateNames); ++i) {
    if (value != kStateNames[i]) continue;
    descriptor->state = static_cast<DescriptorState>(i);
    return true;
  }
  return false;
}

// generation.<number> = <ranks> <partitioner>, numbers falling from line to line
bool AddGeneration(Slice number_text, Slice value, DatabaseDescriptor* descriptor) {
  const auto number = runtime::ParseNumber(number_text, kGenerationMax);
  const size_t space = value.find(' ');
  if (!number || *number == 0 || space == Slice::npos) return false;
  const auto ranks = runtime::ParseNumber(value.substr(0, space), kRankCountMax);
  if (!ranks || *ranks == 0 || space + 1 == value.size()) return false;
  std::vector<Generation>& all = descriptor->generations;
  if (!all.empty() && all.back().number <= *number) return false;
  all.push_back({static_cast<uint32_t>(*number), static_cast<int>(*ranks),
                 std::string(value.substr(space + 1)), "", 0});
  return true;
}

// id = <16 hexadecimal digits>
bool SetId(Slice value, DatabaseDescriptor* descriptor) {
  const auto id = runtime::ParseHex(value);
  if (!id || *id == 0 || descriptor->id != 0) return false;
  descriptor->id = *id;
  return true;
}

// taken = <number>
bool SetTaken(Slice value, DatabaseDescriptor* descriptor) {
  const auto number = runtime::ParseNumber(value, kGenerationMax);
  if (!number || *number == 0 || descriptor->taken != 0) return false;
  descriptor->taken = static_cast<uint32_t>(*number);
  return true;
}

// location.<number> = <absolute path>, behind the line of its generation
bool SetLocation(Slice number_text, Slice value, DatabaseDescriptor* descriptor) {
  const auto number = runtime::ParseNumber(number_text, kGenerationMax);
  if (!number || descriptor->generations.empty() || value.empty() || value[0] != '/') return false;
  Generation& last = descriptor->generations.back();
  if (last.number != *number || !last.location.empty()) return false;
  last.location = std::string(value);
  return true;
}

// checkpoint.<number> = <16 hexadecimal digits>, behind the line of its location
bool SetCheckpointChecksum(Slice number_text, Slice value, DatabaseDescriptor* descriptor) {
  const auto number = runtime::ParseNumber(number_text, kGenerationMax);
  const auto seal = runtime::ParseHex(value);
  if (!number || !seal || *seal == 0 || descriptor->generations.empty()) return false;
  Generation& last = descriptor->generations.back();
  if (last.number != *number || last.location.empty() || last.seal != 0) return false;
  last.seal = *seal;
  return true;
}

// Reads the last line of a sealed text, and a little more: such a text has a line for each rank.
Result<std::string> LastLine(io::FileSystem& fs, const std::string& path) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<io::File> file,
                         fs.Open(path, io::FileOpenMode::kRead));
  QUIRE_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
  std::string line(std::min(size, kLastLineBytes), '\0');
  QUIRE_RETURN_IF_ERROR(file->ReadAt(size - line.size(), line.size(), line.data()));
  return line;
}

bool SetEntry(Slice name, Slice value, DatabaseDescriptor* descriptor) {
  if (name == "state") return SetState(value, descriptor);
  if (name == kId) return SetId(value, descriptor);
  if (name == kTaken) return SetTaken(value, descriptor);
  if (runtime::TakePrefix(kGenerationPrefix, &name)) return AddGeneration(name, value, descriptor);
  if (runtime::TakePrefix(kLocationPrefix, &name)) return SetLocation(name, value, descriptor);
  if (runtime::TakePrefix(kCheckpointPrefix, &name))
    return SetCheckpointChecksum(name, value, descriptor);
  if (!runtime::TakePrefix(kOptionPrefix, &name)) return false;
  descriptor->options.push_back(std::string(name) + "=" + std::string(value));
  return true;
}

}  // namespace

bool IsThere(const DatabaseDescriptor& descriptor) {
  const bool whole =
      descriptor.state == DescriptorState::kReady || descriptor.state == DescriptorState::kFilling;
  return whole && !descriptor.generations.empty();
}

uint32_t NextNumber(const DatabaseDescriptor& descriptor) {
  uint32_t last = descriptor.taken;
  for (const Generation& generation : descriptor.generations) {
    last = std::max(last, generation.number);
  }
  return last + 1;
}

bool SameGeneration(const Generation& a, const Generation& b) {
  return a.number == b.number && a.location == b.location && a.seal == b.seal &&
         a.rank_count == b.rank_count && a.partitioner == b.partitioner;
}

bool SameGenerations(const std::vector<Generation>& a, const std::vector<Generation>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), SameGeneration);
}

std::string EncodeDescriptor(const DatabaseDescriptor& descriptor) {
  std::string text = runtime::BeginText(kKind);
  runtime::AddLine(&text, "state", kStateNames[static_cast<int>(descriptor.state)]);
  if (descriptor.id != 0) runtime::AddLine(&text, kId, runtime::Hex(descriptor.id));
  for (const Generation& generation : descriptor.generations) {
    const std::string number = std::to_string(generation.number);
    runtime::AddLine(&text, kGenerationPrefix + number,
                     std::to_string(generation.rank_count) + " " + generation.partitioner);
    if (generation.location.empty()) continue;
    runtime::AddLine(&text, kLocationPrefix + number, generation.location);
    if (generation.seal != 0) {
      runtime::AddLine(&text, kCheckpointPrefix + number, runtime::Hex(generation.seal));
    }
  }
  if (descriptor.taken != 0) runtime::AddLine(&text, kTaken, std::to_string(descriptor.taken));
  for (const std::string& option : descriptor.options) {
    const size_t equals = option.find('=');
    runtime::AddLine(&text, kOptionPrefix + option.substr(0, equals), option.substr(equals + 1));
  }
  runtime::AppendChecksum(&text);
  return text;
}

Result<DatabaseDescriptor> DecodeDescriptor(Slice text, const std::string& path) {
  DatabaseDescriptor descriptor;
  const auto take = [&descriptor](Slice name, Slice value) {
    return SetEntry(name, value, &descriptor);
  };
  QUIRE_RETURN_IF_ERROR(runtime::ReadChecksummedText(kKind, text, path, take));
  if (descriptor.generations.empty())
    return runtime::DamagedText(kKind, path, "it names no generation");
  if (descriptor.state == DescriptorState::kFilling && descriptor.generations.size() < 2)
    return runtime::DamagedText(kKind, path, "it names no generation that another is filled from");
  return descriptor;
}

std::string GenerationDirectory(const std::string& directory, const Generation& generation) {
  if (!generation.location.empty()) return generation.location;
  return directory + "/" + kGenerationDirectoryPrefix + std::to_string(generation.number);
}

std::string PartDirectory(const std::string& directory, const Generation& generation, int rank) {
  return GenerationDirectory(directory, generation) + "/" + kPartDirectoryPrefix +
         std::to_string(rank);
}

Status CheckCheckpoint(io::FileSystem& fs, const Generation& generation) {
  if (generation.seal == 0) return Status();
  const Result<std::string> line = LastLine(fs, generation.location + "/" + kCommitName);
  if (!line.ok() && line.status().code() != Code::kNotFound) return line.status();
  if (line.ok() && runtime::ChecksumOf(*line) == generation.seal) return Status();
  const std::string what = line.ok() ? " is another one by now" : " is gone";
  return Status(Code::kCorruption,
                "the checkpoint in which the database lies in place, " + generation.location + "," +
                    what + ": restart from a checkpoint, and have the database replaced");
}

std::string DescriptorPath(const std::string& directory) {
  return directory + "/" + runtime::kDatabaseFile;
}

Result<DatabaseDescriptor> ReadDescriptor(io::FileSystem& fs, const std::string& directory) {
  QUIRE_RETURN_IF_ERROR(io::CheckSoleWriter(fs, directory));
  const std::string path = DescriptorPath(directory);
  QUIRE_ASSIGN_OR_RETURN(const std::string text, io::ReadFile(fs, path, kDescriptorBytesMax));
  return DecodeDescriptor(text, path);
}

Status WriteDescriptor(io::FileSystem& fs, const std::string& directory,
                       const DatabaseDescriptor& descriptor) {
  return io::ReplaceFile(fs, DescriptorPath(directory), EncodeDescriptor(descriptor));
}

Status CheckSameDatabase(io::FileSystem& fs, const std::string& directory,
                         const DatabaseDescriptor& known) {
  QUIRE_ASSIGN_OR_RETURN(const DatabaseDescriptor stored, ReadDescriptor(fs, directory));
  const bool same = stored.id == known.id;
  if (same && SameGenerations(stored.generations, known.generations)) return Status();
  return Status(Code::kBusy, DescriptorPath(directory) +
                                 ": another database was made in the place of this one, whose "
                                 "directory was moved or removed while it was in use; close it "
                                 "here");
}

std::vector<std::string> ShapingOptions(const DatabaseOptions& options) {
  std::vector<std::string> shaping;
  for (const OptionRow& row : OptionTable::Rows()) {
    if (row.group != OptionGroup::kStorage) continue;
    const Result<std::string> value = OptionTable::Get(row.name, options);
    if (value.ok()) shaping.push_back(row.name + "=" + *value);
  }
  return shaping;
}

}  // namespace quire::kv
