#include "base/printable.h"

namespace quire::base {
namespace {

constexpr char kDigits[] = "0123456789abcdef";

void AppendHex(char c, std::string* to) {
  const auto byte = static_cast<unsigned char>(c);
  *to += kDigits[byte >> 4];
  *to += kDigits[byte & 15];
}

}  // namespace

std::string Printable(Slice bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (const char c : bytes) {
    if (c == '\\') {
      text += "\\\\";
    } else if (c >= ' ' && c <= '~') {
      text += c;
    } else {
      text += "\\x";
      AppendHex(c, &text);
    }
  }
  return text;
}

std::string Hex(Slice bytes) {
  std::string text;
  for (const char c : bytes) AppendHex(c, &text);
  return text;
}

}  // namespace quire::base
