/// PapyrusKV allows any bytes in the name of a database; Quire's names are file names of harmless
/// characters. This maps PapyrusKV's names to Quire's, so that different names stay different.
///
/// Layer      api
/// Source     docs/papyruskv.md
/// Threads    pure functions
#pragma once

#include <string>

#include "quire/slice.h"
#include "quire/status.h"

namespace quire::compat {

constexpr size_t kNameBytesMax = 255;

/// Returns Quire's name of a database. Names of letters, digits, '.', '_' and '-' that do not begin
/// with '.' or '-' are unchanged. Any other byte becomes "_x" and two hexadecimal digits; so does a
/// '_' that would otherwise look like the beginning of such a code. If that makes more than 255
/// characters, the name becomes "_h", 32 hexadecimal digits of its hashes, and as much of its
/// beginning as fits.
///
/// Errors  kInvalidArgument  It is empty, or longer than 255 bytes.
Result<std::string> NameInRepository(Slice name);

}  // namespace quire::compat
