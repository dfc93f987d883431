/// Which Quire this is.
///
/// Layer      public
/// Threads    any
#pragma once

#include "quire/export.h"

namespace quire QUIRE_EXPORT {

/// The version of the library that is linked, as "0.1.0": it may differ from the headers'. Lives
/// for ever.
const char* Version();

}  // namespace quire
