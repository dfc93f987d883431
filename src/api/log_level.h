/// The environment variable QUIRE_LOG: if it is set, the library's log goes to standard error.
///
/// Layer      api
/// Threads    any
#pragma once

#include "quire/status.h"

namespace quire::api {

/// Installs a sink on standard error if QUIRE_LOG is error, warning, info or debug, and the program
/// has installed none. Does this once per process. kInvalidArgument: QUIRE_LOG has another value.
Status InstallLogSink();

}  // namespace quire::api
