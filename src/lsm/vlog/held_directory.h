/// Creates files in the directory of a database, for its writer.
///
/// Layer      lsm
/// Source     CheckHeld in lsm/version/manifest.h says why
/// Threads    any
#pragma once

#include <cstdint>
#include <functional>

#include "quire/status.h"

namespace quire::lsm {

/// CheckHeld for one opener. Called before a file is created or removed by its path; reads a file.
using CheckHeldFn = std::function<Status()>;

/// Returns whether `held` says that the directory belongs to another opener: nothing in it may be
/// touched. After any other error it is not known.
inline bool IsAnothers(const Status& held) {
  return held.code() == Code::kBusy || held.code() == Code::kNotFound;
}

/// Returns OK: for directories without a manifest to read, or without other openers.
inline Status AlwaysHeld() { return Status(); }

/// Creates the file whose name belongs to `number`, by `make`, which must not find it there. Takes
/// the next number if the name is in use: a stray file, of a writer that lost the directory between
/// its check and its creation of the file, stops no other writer.
template <typename Make>
auto MakeNumbered(const CheckHeldFn& check_held, uint64_t number,
                  const std::function<uint64_t()>& next_number, const Make& make)
    -> decltype(make(number)) {
  constexpr int kStraysMax = 100;
  for (int strays = 0;; ++strays) {
    QUIRE_RETURN_IF_ERROR(check_held());
    auto made = make(number);
    // An impossible path has the same code: hence the limit.
    const bool in_use = made.status().code() == Code::kInvalidArgument;
    if (!in_use || strays == kStraysMax) return made;
    number = next_number();
  }
}

}  // namespace quire::lsm
