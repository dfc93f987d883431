/// PapyrusKV allows any bytes in the name of a database; Quire's names are file names of harmless
/// characters. This maps the one to the other, so that different names stay different.
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

/// Names of letters, digits, '.', '_' and '-' that do not begin with '.' or '-' stay as they are.
/// Any other byte becomes "_x" and two hexadecimal digits, and so does the '_' of what would
/// otherwise read as such. If that makes more than 255 characters, the name becomes "_h", 32
/// hexadecimal digits of its hashes, and as much of its beginning as fits.
///
/// Errors  kInvalidArgument  It is empty, or longer than 255 bytes.
Result<std::string> NameInRepository(Slice name);

}  // namespace quire::compat
