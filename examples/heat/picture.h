// A picture of temperatures: black where it is cold, then red, yellow, and white where it is
// hottest.
#pragma once

#include <string>
#include <vector>

#include "plate.h"
#include "quire/status.h"

namespace quire::heat {

struct Pixel {
  unsigned char red;
  unsigned char green;
  unsigned char blue;
  bool operator==(const Pixel&) const = default;
};

/// Returns the colour of a `share` of the greatest temperature, 0 to 1.
Pixel ColourOf(double share);

/// Writes a file in PPM (P6), a pixel for each cell. If this fails, an earlier file is unchanged.
Status WritePicture(const std::string& path, const Plate& plate, const std::vector<double>& field,
                    double greatest);

}  // namespace quire::heat
