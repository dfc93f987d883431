/// The error of a step that failed so late that it is unknown whether it took effect.
///
/// Layer      base
/// Threads    any
#pragma once

#include <string>

#include "quire/status.h"

namespace quire::base {

/// Returns kIo with the text of `why`, then `consequence`. The text begins with the kind of `why`,
/// unless that is kIo, too.
inline Status UnknownOutcome(const Status& why, const std::string& consequence) {
  const bool has_text = why.code() == Code::kIo && !why.message().empty();
  return Status(Code::kIo, (has_text ? why.message() : why.ToString()) + consequence);
}

}  // namespace quire::base
