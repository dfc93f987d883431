#include "kv/descriptor.h"

#include <charconv>
#include <optional>

#include "base/hash.h"
#include "quire/option_table.h"

namespace quire::kv {
namespace {

constexpr uint64_t kDescriptorBytesMax = 64 * 1024;
constexpr uint32_t kGenerationMax = 1u << 30;
constexpr char kMagic[] = "quire database ";
constexpr const char* kStateNames[] = {"creating", "ready", "destroying"};
constexpr char kGenerationPrefix[] = "generation.";
constexpr char kLocationPrefix[] = "location.";
constexpr char kOptionPrefix[] = "option.";
constexpr char kChecksumName[] = "checksum";

std::string ChecksumText(Slice lines) {
  constexpr char kDigits[] = "0123456789abcdef";
  const uint64_t checksum =
      base::Checksum(lines, base::ChecksumSeed(base::ChecksumKind::kManifest, 0, 0));
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[checksum >> shift & 15];
  return text;
}

Status Damaged(const std::string& path, const std::string& what) {
  return Status(Code::kCorruption,
                path + ": " + what + "; restore the file from a copy, or remove the database");
}

std::optional<uint32_t> ParseNumber(Slice text, uint32_t most) {
  uint32_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || rest != text.data() + text.size() || number > most) {
    return std::nullopt;
  }
  return number;
}

// Takes the first line off `text`; false where it does not end.
bool TakeLine(Slice* text, Slice* line) {
  const size_t end = text->find('\n');
  if (end == Slice::npos) return false;
  *line = text->substr(0, end);
  text->remove_prefix(end + 1);
  return true;
}

// Takes `prefix` off `name`; false where it does not begin so.
bool TakePrefix(Slice prefix, Slice* name) {
  if (name->substr(0, prefix.size()) != prefix) return false;
  name->remove_prefix(prefix.size());
  return true;
}

bool SetState(Slice value, Descriptor* descriptor) {
  for (int i = 0; i < 3; ++i) {
    if (value != kStateNames[i]) continue;
    descriptor->state = static_cast<DescriptorState>(i);
    return true;
  }
  return false;
}

// generation.<number> = <ranks> <partitioner>, numbers falling from line to line
bool AddGeneration(Slice number_text, Slice value, Descriptor* descriptor) {
  const auto number = ParseNumber(number_text, kGenerationMax);
  const size_t space = value.find(' ');
  if (!number || *number == 0 || space == Slice::npos) return false;
  const auto ranks = ParseNumber(value.substr(0, space), 1u << 30);
  if (!ranks || *ranks == 0 || space + 1 == value.size()) return false;
  std::vector<Generation>& all = descriptor->generations;
  if (!all.empty() && all.back().number <= *number) return false;
  all.push_back({*number, static_cast<int>(*ranks), std::string(value.substr(space + 1)), ""});
  return true;
}

// location.<number> = <absolute path>, behind the line of its generation
bool SetLocation(Slice number_text, Slice value, Descriptor* descriptor) {
  const auto number = ParseNumber(number_text, kGenerationMax);
  if (!number || descriptor->generations.empty() || value.empty() || value[0] != '/') return false;
  Generation& last = descriptor->generations.back();
  if (last.number != *number || !last.location.empty()) return false;
  last.location = std::string(value);
  return true;
}

bool SetEntry(Slice name, Slice value, Descriptor* descriptor) {
  if (name == "state") return SetState(value, descriptor);
  if (TakePrefix(kGenerationPrefix, &name)) return AddGeneration(name, value, descriptor);
  if (TakePrefix(kLocationPrefix, &name)) return SetLocation(name, value, descriptor);
  if (!TakePrefix(kOptionPrefix, &name)) return false;
  descriptor->options.push_back(std::string(name) + "=" + std::string(value));
  return true;
}

// "quire database <version>"
Status CheckFirstLine(Slice line, const std::string& path) {
  const Slice magic(kMagic);
  if (line.substr(0, magic.size()) != magic) {
    return Damaged(path, "its first line is not that of a database");
  }
  const auto version = ParseNumber(line.substr(magic.size()), UINT32_MAX);
  if (!version || *version == 0) return Damaged(path, "its version is not a number");
  if (*version > kDescriptorVersion) {
    return Status(Code::kUnsupported, path + " has version " + std::to_string(*version) +
                                          "; this library knows versions up to " +
                                          std::to_string(kDescriptorVersion) + ": use a newer one");
  }
  return Status();
}

}  // namespace

std::string EncodeDescriptor(const Descriptor& descriptor) {
  std::string text = kMagic + std::to_string(kDescriptorVersion) + "\n";
  text += std::string("state = ") + kStateNames[static_cast<int>(descriptor.state)] + "\n";
  for (const Generation& generation : descriptor.generations) {
    const std::string number = std::to_string(generation.number);
    text += kGenerationPrefix + number + " = " + std::to_string(generation.rank_count) + " " +
            generation.partitioner + "\n";
    if (generation.location.empty()) continue;
    text += kLocationPrefix + number + " = " + generation.location + "\n";
  }
  for (const std::string& option : descriptor.options) {
    const size_t equals = option.find('=');
    text += kOptionPrefix + option.substr(0, equals) + " = " + option.substr(equals + 1) + "\n";
  }
  return text + kChecksumName + " = " + ChecksumText(text) + "\n";
}

Result<Descriptor> DecodeDescriptor(Slice text, const std::string& path) {
  Slice rest = text;
  Slice line;
  if (!TakeLine(&rest, &line)) return Damaged(path, "it has no complete first line");
  QUIRE_RETURN_IF_ERROR(CheckFirstLine(line, path));
  Descriptor descriptor;
  for (int number = 2; TakeLine(&rest, &line); ++number) {
    const size_t equals = line.find(" = ");
    const Slice name = line.substr(0, equals);
    const Slice value = equals == Slice::npos ? Slice() : line.substr(equals + 3);
    if (name == kChecksumName) {
      const Slice covered = text.substr(0, static_cast<size_t>(line.data() - text.data()));
      if (value != ChecksumText(covered) || !rest.empty()) break;
      if (descriptor.generations.empty()) break;
      return descriptor;
    }
    if (equals == Slice::npos || !SetEntry(name, value, &descriptor)) {
      return Damaged(path, "line " + std::to_string(number) + " is not valid");
    }
  }
  return Damaged(path, "its checksum does not match its contents");
}

std::string GenerationDirectory(const std::string& directory, const Generation& generation) {
  if (!generation.location.empty()) return generation.location;
  return directory + "/" + kGenerationDirectoryPrefix + std::to_string(generation.number);
}

std::string PartDirectory(const std::string& directory, const Generation& generation, int rank) {
  return GenerationDirectory(directory, generation) + "/" + kPartDirectoryPrefix +
         std::to_string(rank);
}

std::string DescriptorPath(const std::string& directory) {
  return directory + "/DATABASE";
}

Result<Descriptor> ReadDescriptor(io::FileSystem& fs, const std::string& directory) {
  const std::string path = DescriptorPath(directory);
  QUIRE_ASSIGN_OR_RETURN(const std::string text, io::ReadFile(fs, path, kDescriptorBytesMax));
  return DecodeDescriptor(text, path);
}

Status WriteDescriptor(io::FileSystem& fs, const std::string& directory,
                       const Descriptor& descriptor) {
  return io::ReplaceFile(fs, DescriptorPath(directory), EncodeDescriptor(descriptor));
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
