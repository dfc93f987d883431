/// The output of a benchmark: one line of JSON per case on standard output, with the machine and
/// the commit of the build; text for people goes to standard error.
///
/// Layer      bench
/// Threads    one thread at a time
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace quire::bench {

using Json = nlohmann::ordered_json;

/// Prints {"bench", "params", "results", "machine", "commit"} as one line on standard output.
void PrintCase(const std::string& bench, const Json& params, const Json& results);

/// Prints the progress: one line on standard error.
void Say(const std::string& text);

/// Returns `x` rounded to `digits` significant digits, so that lines stay short.
double Rounded(double x, int digits = 4);

}  // namespace quire::bench
