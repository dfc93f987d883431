#include "tools/quire/output.h"

#include <unistd.h>

#include <cstdio>
#include <iostream>

#include "base/text/printable.h"
#include "io/files/posix_error.h"

namespace quire::tool {
namespace {

// Returns whether JSON can contain the bytes as they are, and a person can read them.
bool IsPlainText(Slice bytes) {
  for (const char c : bytes) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') return false;
  }
  try {
    static_cast<void>(Json(std::string(bytes)).dump());
    return true;
  } catch (const Json::exception&) {
    return false;  // no UTF-8
  }
}

int DigitOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

void PrintJson(const Json& document) {
  std::cout << document.dump(2, ' ', true, Json::error_handler_t::replace) << "\n";
}

void PrintJsonLine(const Json& document) {
  std::cout << document.dump(-1, ' ', true, Json::error_handler_t::replace) << "\n";
}

std::string Text(const Json& text) {
  return base::Legible(text.get<std::string>());
}

int Fail(const Status& status) {
  std::cout.flush();
  std::cerr << "quire: " << status.ToString() << "\n";
  switch (status.code()) {
    case Code::kOk:
      return kFine;
    case Code::kInvalidArgument:
      return kWrongUsage;
    case Code::kCorruption:
      return kFoundWrong;
    default:
      return kCannotRead;
  }
}

void SetBytes(Json* object, const std::string& name, Slice bytes) {
  if (IsPlainText(bytes)) {
    (*object)[name] = std::string(bytes);
  } else {
    (*object)[name + "_hex"] = base::Hex(bytes);
  }
}

std::string ShowBytes(Slice bytes, ByteFormat format) {
  return format == ByteFormat::kHex ? base::Hex(bytes) : base::Printable(bytes);
}

std::string MemoryNote(const std::string& writer) {
  return "open in " + base::Legible(io::HolderText(writer)) +
         "; what only its memory has is not shown";
}

std::string ShowSize(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  int unit = 0;
  auto size = static_cast<double>(bytes);
  for (; size >= 1024 && unit < 6; ++unit) size /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", size, kUnits[unit]);
  return text;
}

std::string Counted(uint64_t count, const std::string& noun) {
  const std::string number = std::to_string(count) + " ";
  if (count == 1) return number + noun;
  if (noun.ends_with("y")) return number + noun.substr(0, noun.size() - 1) + "ies";
  return number + noun + "s";
}

void SayAbsent(Slice key, const Status& why) {
  std::cerr << "quire: key \"" << base::Printable(key) << "\" is not there";
  if (!why.message().empty()) std::cerr << ": " << base::Legible(why.message());
  std::cerr << "\n";
}

Result<std::string> ParseHex(const std::string& digits) {
  std::string bytes;
  for (size_t i = 0; i + 1 < digits.size(); i += 2) {
    const int high = DigitOf(digits[i]);
    const int low = DigitOf(digits[i + 1]);
    if (high < 0 || low < 0) break;
    bytes += static_cast<char>(high * 16 + low);
  }
  if (bytes.size() * 2 == digits.size()) return bytes;
  return Status(Code::kInvalidArgument,
                "\"" + base::Printable(digits) + "\" is not made of pairs of hexadecimal digits");
}

Progress::Progress(const std::string& what, bool wanted)
    : what_(base::Legible(what)), wanted_(wanted) {}

Progress::~Progress() {
  if (shown_ >= 0) std::cerr << "\n";
}

void Progress::Show(uint64_t done, uint64_t total) {
  if (!wanted_) return;
  const int percent = total == 0 ? 100 : static_cast<int>(done * 100 / total);
  if (percent == shown_) return;
  shown_ = percent;
  std::cerr << "\r" << what_ << ": " << percent << " % of " << ShowSize(total) << std::flush;
}

bool OnTerminal() {
  return ::isatty(STDERR_FILENO) == 1;
}

}  // namespace quire::tool
