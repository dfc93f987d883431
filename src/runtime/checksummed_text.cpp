#include "runtime/checksummed_text.h"

#include <charconv>

#include "base/hash/hash.h"

namespace quire::runtime {
namespace {

constexpr char kChecksumName[] = "checksum";

std::string ChecksumText(Slice lines) {
  return Hex(base::Checksum(lines, base::ChecksumSeed(base::ChecksumKind::kManifest, 0, 0)));
}

// Removes the first line from `text`; returns false if it has no end.
bool CutLine(Slice* text, Slice* line) {
  const size_t end = text->find('\n');
  if (end == Slice::npos) return false;
  *line = text->substr(0, end);
  text->remove_prefix(end + 1);
  return true;
}

Status CheckFirstLine(const TextKind& kind, Slice line, const std::string& path) {
  const Slice magic(kind.magic);
  if (line.substr(0, magic.size()) != magic) {
    return DamagedText(kind, path, "its first line is not \"" + std::string(magic) + "...\"");
  }
  const auto version = ParseNumber(line.substr(magic.size()), UINT32_MAX);
  if (!version || *version == 0) return DamagedText(kind, path, "its version is not a number");
  if (*version <= kind.version) return Status();
  return Status(Code::kUnsupported, path + " has version " + std::to_string(*version) +
                                        "; this library knows versions up to " +
                                        std::to_string(kind.version) + ": use a newer one");
}

}  // namespace

std::string BeginText(const TextKind& kind) {
  return kind.magic + std::to_string(kind.version) + "\n";
}

void AddLine(std::string* text, Slice name, Slice value) {
  text->append(name).append(" = ").append(value).append("\n");
}

void AppendChecksum(std::string* text) {
  const std::string checksum = ChecksumText(*text);
  AddLine(text, kChecksumName, checksum);
}

Status ReadChecksummedText(const TextKind& kind, Slice text, const std::string& path,
                           const TakeLine& take) {
  Slice rest = text;
  Slice line;
  if (!CutLine(&rest, &line)) return DamagedText(kind, path, "it has no complete first line");
  QUIRE_RETURN_IF_ERROR(CheckFirstLine(kind, line, path));
  for (int number = 2; CutLine(&rest, &line); ++number) {
    const size_t equals = line.find(" = ");
    const Slice name = line.substr(0, equals);
    const Slice value = equals == Slice::npos ? Slice() : line.substr(equals + 3);
    if (name == kChecksumName) {
      const Slice covered = text.substr(0, static_cast<size_t>(line.data() - text.data()));
      if (rest.empty() && value == ChecksumText(covered)) return Status();
      break;
    }
    if (equals == Slice::npos || !take(name, value)) {
      return DamagedText(kind, path, "line " + std::to_string(number) + " is not valid");
    }
  }
  return DamagedText(kind, path, "its checksum does not match its contents");
}

Status DamagedText(const TextKind& kind, const std::string& path, const std::string& what) {
  return Status(Code::kCorruption, path + ": " + what + "; " + kind.advice);
}

bool TakePrefix(Slice prefix, Slice* name) {
  if (name->substr(0, prefix.size()) != prefix) return false;
  name->remove_prefix(prefix.size());
  return true;
}

std::optional<uint64_t> ParseNumber(Slice text, uint64_t most) {
  uint64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || rest != text.data() + text.size() || number > most) {
    return std::nullopt;
  }
  return number;
}

std::optional<uint64_t> ChecksumOf(Slice text) {
  constexpr size_t kDigits = 16;
  if (text.size() <= kDigits || text.back() != '\n') return std::nullopt;
  return ParseHex(text.substr(text.size() - kDigits - 1, kDigits));
}

std::string Hex(uint64_t number) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[number >> shift & 15];
  return text;
}

std::optional<uint64_t> ParseHex(Slice text) {
  uint64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  if (text.size() != 16 || error != std::errc() || rest != text.data() + text.size()) {
    return std::nullopt;
  }
  return number;
}

}  // namespace quire::runtime
