/// How the writer of a database makes files in its directory.
///
/// Layer      lsm
/// Source     CheckHeld in lsm/version/manifest.h says why
/// Threads    any
#pragma once

#include <cstdint>
#include <functional>

#include "quire/status.h"

namespace quire::lsm {

/// CheckHeld for one opener. Before a file is made or removed by its path; reads a file.
using CheckHeldFn = std::function<Status()>;

/// Whether that answer says that the directory is another's: nothing in it may be touched. Any
/// other error says that nobody knows.
inline bool IsAnothers(const Status& held) {
  return held.code() == Code::kBusy || held.code() == Code::kNotFound;
}

/// Where there is no manifest to ask, or nobody else.
inline Status AlwaysHeld() { return Status(); }

/// Makes a file of the name that belongs to `number`, by `make`, which creates it anew. Takes the
/// next number where that name is in use: a stray file, of a writer that lost the directory between
/// its look at it and its creation of the file, stops nobody.
template <typename Make>
auto MakeNumbered(const CheckHeldFn& check_held, uint64_t number,
                  const std::function<uint64_t()>& next_number, const Make& make)
    -> decltype(make(number)) {
  constexpr int kStraysMax = 100;
  for (int strays = 0;; ++strays) {
    QUIRE_RETURN_IF_ERROR(check_held());
    auto made = make(number);
    // This is also the code for a path that cannot be: hence the limit.
    const bool in_use = made.status().code() == Code::kInvalidArgument;
    if (!in_use || strays == kStraysMax) return made;
    number = next_number();
  }
}

}  // namespace quire::lsm
