#include "base/text/printable.h"

#include <cstddef>
#include <cstdint>
#include <new>

namespace quire::base {
namespace {

constexpr char kDigits[] = "0123456789abcdef";
constexpr uint32_t kNoCharacter = UINT32_MAX;

void AppendHex(char c, std::string* to) {
  const auto byte = static_cast<unsigned char>(c);
  *to += kDigits[byte >> 4];
  *to += kDigits[byte & 15];
}

void AppendEscaped(char c, std::string* to) {
  *to += "\\x";
  AppendHex(c, to);
}

// Returns the bytes of the UTF-8 character that begins with `first`; 0 if none begins so.
size_t BytesOfCharacter(uint8_t first) {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first < 0xe0) return 2;
  if (first >= 0xe0 && first < 0xf0) return 3;
  return first >= 0xf0 && first < 0xf5 ? 4 : 0;
}

// Returns the character at the beginning of `text`, and its bytes; kNoCharacter and one byte if it
// is not UTF-8.
uint32_t FirstCharacter(Slice text, size_t* bytes) {
  constexpr uint32_t kLowest[] = {0, 0, 0x80, 0x800, 0x10000};  // by bytes: shorter forms exist
  const auto first = static_cast<uint8_t>(text[0]);
  const size_t count = BytesOfCharacter(first);
  *bytes = 1;
  if (count == 0 || count > text.size()) return kNoCharacter;
  uint32_t character = count == 1 ? first : first & (0x7fu >> count);
  for (size_t i = 1; i < count; ++i) {
    const auto next = static_cast<uint8_t>(text[i]);
    if ((next & 0xc0) != 0x80) return kNoCharacter;
    character = (character << 6) | (next & 0x3fu);
  }
  const bool surrogate = character >= 0xd800 && character < 0xe000;
  if (character < kLowest[count] || surrogate || character > 0x10ffff) return kNoCharacter;
  *bytes = count;
  return character;
}

bool IsControl(uint32_t character) {
  return character < ' ' || (character >= 0x7f && character < 0xa0);
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
      AppendEscaped(c, &text);
    }
  }
  return text;
}

std::string Legible(Slice text) {
  std::string legible;
  legible.reserve(text.size());
  while (!text.empty()) {
    size_t bytes = 0;
    const uint32_t character = FirstCharacter(text, &bytes);
    const Slice piece = text.substr(0, bytes);
    if (character == kNoCharacter || IsControl(character)) {
      for (const char c : piece) AppendEscaped(c, &legible);
    } else {
      legible += piece;
    }
    text.remove_prefix(bytes);
  }
  return legible;
}

std::string Hex(Slice bytes) {
  std::string text;
  for (const char c : bytes) AppendHex(c, &text);
  return text;
}

void SayWhy(const Status& status, std::string* text) noexcept {
  try {
    const std::string& message = status.message();
    *text = message.empty() ? CodeName(status.code()) : Legible(message);
  } catch (const std::bad_alloc&) {
    text->assign("no memory");  // short enough for a string that has none
  }
}

}  // namespace quire::base
