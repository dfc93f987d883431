/// The options of one kind as text, which ranks compare: all must pass the same.
///
/// Layer      runtime
/// Threads    pure functions
#pragma once

#include <string>

#include "quire/option_table.h"

namespace quire::runtime {

/// Returns each of these options in the table's order as "name = value", with `separator` between
/// them.
template <typename Options>
std::string OptionsText(const Options& options, const char* separator) {
  std::string text;
  for (const OptionRow& row : OptionTable::Rows()) {
    const Result<std::string> value = OptionTable::Get(row.name, options);
    if (!value.ok()) continue;  // an option of another kind
    if (!text.empty()) text += separator;
    text += row.name + " = " + *value;
  }
  return text;
}

}  // namespace quire::runtime
