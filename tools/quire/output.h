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

/// Prints the document, indented, and a newline. Uses only ASCII, so that stored bytes cannot
/// control the terminal; programs that parse the output receive the same texts.
void PrintJson(const Json& document);
/// Prints the document on one line.
void PrintJsonLine(const Json& document);
/// Returns a text of a document in a form that is safe to print: base::Legible.
std::string Text(const Json& text);
/// Prints the failure on standard error; returns its exit code.
int Fail(const Status& status);
/// Sets object[name] to the bytes as text if they are valid UTF-8 without control characters, else
/// object[name + "_hex"] to two digits for each.
void SetBytes(Json* object, const std::string& name, Slice bytes);
/// Returns the bytes in `format`, without a newline; not for kJson.
std::string ShowBytes(Slice bytes, ByteFormat format);
/// Returns the notice of every command that shows a database while a job has it open.
std::string MemoryNote(const std::string& writer);
/// "12.3 MiB".
std::string ShowSize(uint64_t bytes);
/// Returns the number and the noun, which is in the plural unless the number is 1: "2 ranks".
std::string Counted(uint64_t count, const std::string& noun);
/// Prints on standard error that the key is absent, and the message of `why` if it has one.
void SayAbsent(Slice key, const Status& why);
/// Returns the bytes of pairs of hexadecimal digits. kInvalidArgument: the text contains others.
Result<std::string> ParseHex(const std::string& digits);

/// A line on a terminal that shows the progress of a command; prints nothing unless requested.
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
/// Returns whether standard error is a terminal.
bool OnTerminal();

}  // namespace quire::tool
