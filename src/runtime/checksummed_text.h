/// Small text files of names and values that end in their own checksum: the descriptor, the commit
/// record of a checkpoint, its lists of files.
///
/// Layer      runtime
/// Encoding   docs/format/database.md, "Checksummed text"
/// Threads    pure functions
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "quire/slice.h"
#include "quire/status.h"

namespace quire::runtime {

/// The first line of a kind of file, and the advice of its errors.
struct TextKind {
  const char* magic;   ///< "quire database "; the version follows
  uint32_t version;    ///< the newest that is known
  const char* advice;  ///< "restore the file from a copy, or remove the database"
};

/// Returns the first line; the caller appends its own lines, then calls AppendChecksum().
std::string BeginText(const TextKind& kind);
/// Appends "name = value\n".
void AddLine(std::string* text, Slice name, Slice value);
/// Appends the checksum line.
void AppendChecksum(std::string* text);

/// A function that receives a line's name and value; returns false if it is not valid.
using TakeLine = std::function<bool(Slice name, Slice value)>;
/// Checks the first line and the checksum, and passes each line between them to `take`.
///
/// Errors  kCorruption (names the line), kUnsupported (a newer version); `path` is for the text.
Status ReadChecksummedText(const TextKind& kind, Slice text, const std::string& path,
                           const TakeLine& take);
/// Returns the value of the last line, the checksum, which distinguishes this text from others of
/// its kind. Does not compare it with the lines before. nullopt: the text has none.
std::optional<uint64_t> ChecksumOf(Slice text);
/// Returns the error that a file of the kind is damaged: `what`, and the advice.
Status DamagedText(const TextKind& kind, const std::string& path, const std::string& what);

/// Removes `prefix` from `name`; returns false if it does not begin with it.
bool TakePrefix(Slice prefix, Slice* name);
/// Parses a decimal number up to `most`; nullopt for any other text.
std::optional<uint64_t> ParseNumber(Slice text, uint64_t most);
/// Returns 16 hexadecimal digits.
std::string Hex(uint64_t number);
std::optional<uint64_t> ParseHex(Slice text);

}  // namespace quire::runtime
