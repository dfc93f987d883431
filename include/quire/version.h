/// The version of the library.
///
/// Layer      public
/// Threads    any
#pragma once

#include "quire/export.h"

namespace quire QUIRE_EXPORT {

/// Returns the version of the linked library, such as "0.1.0"; it may differ from the headers'
/// version. The text lives forever.
const char* Version();

}  // namespace quire
