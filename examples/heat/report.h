// The report of both programs on the plate, as JSON, so that it can be compared as text.
#pragma once

#include <cinttypes>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "state.h"

namespace quire::heat {

/// Returns the report; `summary` is that of the whole plate.
inline nlohmann::ordered_json ToJson(const Plate& plate, const Summary& summary) {
  char hash[17];
  std::snprintf(hash, sizeof hash, "%016" PRIx64, summary.hash);
  return {{"min", summary.minimum},
          {"max", summary.maximum},
          {"mean", summary.heat / static_cast<double>(plate.height * plate.width)},
          {"heat", summary.heat},
          {"hottest", {summary.hottest_row, summary.hottest_column}},
          {"hash", hash}};
}

}  // namespace quire::heat
