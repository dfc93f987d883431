/// Finds the known name nearest to a misspelt one, and misspelt environment variables of Quire.
///
/// Layer      runtime
/// Threads    pure functions; the environment is read, which no thread may change meanwhile
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "quire/status.h"

namespace quire::runtime {

struct NearestName {
  std::string name;
  size_t distance;  ///< letters to insert, remove or replace
};

/// Returns the name in `known` (at least one) with the smallest distance from `name`.
NearestName FindNearestName(const std::string& name, const std::vector<std::string>& known);

/// Looks for variables of the environment that begin with QUIRE_, have a value, and are neither in
/// `options` nor another variable of the library. Such a name is misspelt if at most a third of its
/// letters differ from a known name, if it is the beginning of one (QUIRE_TIMEOUT), or if it begins
/// with one and an underscore (QUIRE_WAL_MODE); the others belong to the program or to scripts.
///
/// Errors   kInvalidArgument  A variable is misspelt: names it and the nearest name.
Status CheckVariableNames(const std::vector<std::string>& options);
/// Does the same with the variables of all options (quire/option_table.h).
Status CheckVariableNames();

}  // namespace quire::runtime
