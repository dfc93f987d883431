/// A stream's reader for the process that opened it: in a forked child its calls fail, and so do
/// calls of its views that return a Status.
///
/// Layer      api
/// Threads    those of StreamReader
#pragma once

#include <memory>

#include "quire/stream.h"

namespace quire::api {

/// kOutOfMemory.
Result<std::unique_ptr<StreamReader>> NewOwnReader(std::unique_ptr<StreamReader> reader);

}  // namespace quire::api
