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

/// The first line; the caller appends its own, then AppendChecksum().
std::string BeginText(const TextKind& kind);
/// Appends "name = value\n".
void AddLine(std::string* text, Slice name, Slice value);
/// Appends the checksum line.
void AppendChecksum(std::string* text);

/// Takes a line's name and value; false: it is not valid.
using TakeLine = std::function<bool(Slice name, Slice value)>;
/// Checks first line and checksum, and gives each line between them to `take`.
///
/// Errors  kCorruption (names the line), kUnsupported (a newer version); `path` is for the text.
Status ReadChecksummedText(const TextKind& kind, Slice text, const std::string& path,
                           const TakeLine& take);
/// The value of the checksum line, the last one: it tells this text from others of its kind. Not
/// compared with the lines before. nullopt: the text has none.
std::optional<uint64_t> ChecksumOf(Slice text);
/// That a file of the kind is damaged: `what`, and the advice.
Status DamagedText(const TextKind& kind, const std::string& path, const std::string& what);

/// Takes `prefix` off `name`; false: it does not begin so.
bool TakePrefix(Slice prefix, Slice* name);
/// A decimal number up to `most`, nothing else.
std::optional<uint64_t> ParseNumber(Slice text, uint64_t most);
/// 16 hexadecimal digits.
std::string Hex(uint64_t number);
std::optional<uint64_t> ParseHex(Slice text);

}  // namespace quire::runtime
