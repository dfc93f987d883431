#include "runtime/nearest_name.h"

#include <algorithm>
#include <limits>

#include "io/files/machine.h"

namespace quire::runtime {
namespace {

constexpr char kPrefix[] = "QUIRE_";
// Variables other than options that the library and its daemon read.
constexpr const char* kOtherVariables[] = {"QUIRE_LOG",           "QUIRE_NODE_ID",
                                           "QUIRE_STREAM_PLACE",  "QUIRE_STREAMD",
                                           "QUIRE_STREAMD_TOKEN", "QUIRE_STREAMD_METADATA"};
// No name of Quire is longer than this.
constexpr size_t kLettersMax = 64;
// Letters from which the beginning of a name counts: a shorter one identifies no name.
constexpr size_t kBeginningMin = 3;

// Counts the letters to insert, remove or replace, and the pairs of neighbours to swap.
size_t EditDistance(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> rows(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t j = 0; j <= b.size(); ++j) rows[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    rows[i][0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = rows[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0u : 1u);
      rows[i][j] = std::min({rows[i - 1][j] + 1, rows[i][j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
    }
  }
  return rows[a.size()][b.size()];
}

// Returns the variable of streams whose name lacks only the word for them in `name`, such as
// QUIRE_STREAM_LOG_BYTES of QUIRE_LOG_BYTES; empty if there is none.
std::string WithoutStream(const std::string& name, const std::vector<std::string>& known) {
  const std::string rest = name.substr(std::string(kPrefix).size());
  for (const char* streams : {"QUIRE_STREAM_", "QUIRE_STREAMD_"}) {
    const auto found = std::find(known.begin(), known.end(), streams + rest);
    if (found != known.end()) return *found;
  }
  return "";
}

// Returns the known name that `name` probably means; empty if there is none.
std::string MeantBy(const std::string& name, const std::vector<std::string>& known) {
  const size_t letters = name.size() - std::string(kPrefix).size();
  const NearestName nearest = FindNearestName(name, known);
  if (nearest.distance <= 1) return nearest.name;
  const std::string streams = WithoutStream(name, known);
  if (!streams.empty()) return streams;
  if (nearest.distance <= letters / 3) return nearest.name;
  if (letters < kBeginningMin) return "";
  std::string longest;  // prefer QUIRE_STREAMD_TOKEN to QUIRE_STREAMD
  for (const std::string& one : known) {
    if (one.rfind(name, 0) == 0) return one;
    if (name.rfind(one + "_", 0) == 0 && one.size() > longest.size()) longest = one;
  }
  return longest;
}

}  // namespace

NearestName FindNearestName(const std::string& name, const std::vector<std::string>& known) {
  NearestName nearest = {"", std::numeric_limits<size_t>::max()};
  const std::string start = name.substr(0, kLettersMax);
  for (const std::string& one : known) {
    const size_t distance = EditDistance(start, one);
    if (distance < nearest.distance) nearest = {one, distance};
  }
  return nearest;
}

Status CheckVariableNames(const std::vector<std::string>& options) {
  std::vector<std::string> known = options;
  known.insert(known.end(), std::begin(kOtherVariables), std::end(kOtherVariables));
  for (const std::string& name : io::EnvironmentNames(kPrefix)) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    if (name.size() > kLettersMax) continue;
    const std::string meant = MeantBy(name, known);
    if (meant.empty()) continue;
    return Status(Code::kInvalidArgument,
                  "environment variable " + name + ": Quire has no such variable; the nearest is " +
                      meant + "; correct the name, or unset the variable");
  }
  return Status();
}

}  // namespace quire::runtime
