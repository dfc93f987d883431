#include "api/compat/papyruskv_names.h"

#include <algorithm>

#include "base/hash/hash.h"

namespace quire::compat {
namespace {

constexpr char kDigits[] = "0123456789ABCDEF";
constexpr size_t kEscapeBytes = 4;

bool IsPlain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

bool IsDigit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F');
}

// Returns whether the text at `at` would read as an escape or, at the beginning, as a hashed name.
bool LooksEscaped(Slice name, size_t at) {
  if (name[at] != '_') return false;
  const Slice rest = name.substr(at);
  if (at == 0 && rest.size() > 1 && rest[1] == 'h') return true;
  return rest.size() >= kEscapeBytes && rest[1] == 'x' && IsDigit(rest[2]) && IsDigit(rest[3]);
}

void AppendEscape(std::string* to, char c) {
  const auto byte = static_cast<unsigned char>(c);
  *to += "_x";
  *to += kDigits[byte >> 4];
  *to += kDigits[byte & 15];
}

void AppendHex(std::string* to, uint64_t number) {
  for (int shift = 60; shift >= 0; shift -= 4) *to += kDigits[number >> shift & 15];
}

}  // namespace

Result<std::string> NameInRepository(Slice name) {
  if (name.empty() || name.size() > kNameBytesMax) {
    return Status(Code::kInvalidArgument, "a name of " + std::to_string(name.size()) +
                                              " bytes; databases have names of 1 to " +
                                              std::to_string(kNameBytesMax));
  }
  std::string mapped;
  for (size_t at = 0; at < name.size(); ++at) {
    const char c = name[at];
    const bool leads = at == 0 && (c == '.' || c == '-');
    if (IsPlain(c) && !leads && !LooksEscaped(name, at)) {
      mapped += c;
    } else {
      AppendEscape(&mapped, c);
    }
  }
  if (mapped.size() <= kNameBytesMax) return mapped;
  std::string hashed = "_h";
  AppendHex(&hashed, base::HashKey(name));
  AppendHex(&hashed, base::Checksum(name, name.size()));
  hashed += '_';
  return hashed + mapped.substr(0, kNameBytesMax - hashed.size());
}

}  // namespace quire::compat
