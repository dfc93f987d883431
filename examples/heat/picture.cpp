#include "picture.h"

#include <algorithm>
#include <cstdio>
#include <fstream>

namespace quire::heat {

Pixel ColourOf(double share) {
  // Each of the three colours comes in over a third of the way.
  const auto part = [&](double third) {
    return static_cast<unsigned char>(255 * std::clamp(3 * share - third, 0.0, 1.0));
  };
  return {part(0), part(1), part(2)};
}

Status WritePicture(const std::string& path, const Plate& plate, const std::vector<double>& field,
                    double greatest) {
  std::vector<Pixel> pixels;
  pixels.reserve(field.size());
  for (const double value : field) {
    pixels.push_back(ColourOf(greatest > 0 ? value / greatest : 0));
  }
  const std::string partial = path + ".partial";
  std::ofstream file(partial, std::ios::binary);
  file << "P6\n" << plate.width << " " << plate.height << "\n255\n";
  static_assert(sizeof(Pixel) == 3);
  file.write(reinterpret_cast<const char*>(pixels.data()),
             static_cast<std::streamsize>(pixels.size() * sizeof(Pixel)));
  file.close();
  if (!file || std::rename(partial.c_str(), path.c_str()) != 0) {
    return Status(Code::kIo, path + " cannot be written");
  }
  return Status();
}

}  // namespace quire::heat
