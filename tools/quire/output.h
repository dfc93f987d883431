/// The output of the commands: one JSON document or text on standard output, errors and progress on
/// standard error.
///
/// Layer      tools
/// Threads    one
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "quire/slice.h"
#include "quire/status.h"
#include "tools/quire/commands.h"

namespace quire::tool {

using Json = nlohmann::ordered_json;

/// Prints the document, indented, and a line's end. In ASCII alone, so that no terminal obeys what
/// was stored; programs that parse it get the same texts.
void PrintJson(const Json& document);
/// The same on one line.
void PrintJsonLine(const Json& document);
/// A text of a document as people may be shown it: base::Legible.
std::string Text(const Json& text);
/// Says on standard error what went wrong; the exit code that belongs to it.
int Fail(const Status& status);
/// Sets object[name] to the bytes as text if they are valid UTF-8 without control characters, else
/// object[name + "_hex"] to two digits for each.
void SetBytes(Json* object, const std::string& name, Slice bytes);
/// The bytes as `format` says, without a line's end; not for kJson.
std::string ShowBytes(Slice bytes, ByteFormat format);
/// The notice of every command that shows a database while a job has it open.
std::string MemoryNote(const std::string& writer);
/// "12.3 MiB".
std::string ShowSize(uint64_t bytes);
/// The bytes that pairs of digits stand for. kInvalidArgument: they are none.
Result<std::string> ParseHex(const std::string& digits);

/// A line on a terminal that says how far something is; nothing where it was not asked for.
class Progress {
 public:
  Progress(const std::string& what, bool wanted);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void Show(uint64_t done, uint64_t total);

 private:
  const std::string what_;
  const bool wanted_;
  int shown_ = -1;  // percent
};
/// Whether standard error is a terminal.
bool OnTerminal();

}  // namespace quire::tool
