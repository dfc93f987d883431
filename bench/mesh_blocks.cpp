#include "mesh_blocks.h"

#include <algorithm>
#include <cmath>

namespace quire::bench {

MeshBlocks::MeshBlocks(const MeshShape& shape)
    : shape_(shape),
      cells_(uint64_t{shape.edge} * shape.edge * shape.edge),
      variables_(shape.blocks, cells_ * sizeof(double)),
      scratch_(cells_) {
  for (uint32_t block = 0; block < shape.blocks; ++block) {
    auto* cells = reinterpret_cast<double*>(variables_.at(block));
    for (uint64_t i = 0; i < cells_; ++i) cells[i] = static_cast<double>((i * 31 + block) % 1000);
  }
}

void MeshBlocks::Step(uint64_t step, double changed_percent) {
  const auto active = static_cast<uint32_t>(
      std::clamp(std::lround(shape_.blocks * changed_percent / 100), 1L, long{shape_.blocks}));
  const uint32_t first_sphere = (active + 1) / 2;
  for (uint32_t i = 0; i < active; ++i) {
    const uint64_t place = i < first_sphere ? i : shape_.blocks / 2 + i - first_sphere;
    const uint64_t block = (step + place) % shape_.blocks;
    Compute(static_cast<uint32_t>(block), static_cast<double>(step % 1000 + 1));
  }
}

void MeshBlocks::Compute(uint32_t block, double source) {
  auto* cells = reinterpret_cast<double*>(variables_.at(block));
  for (uint32_t sweep = 0; sweep + 1 < shape_.sweeps; sweep += 2) {
    Sweep(cells, scratch_.data(), source);
    Sweep(scratch_.data(), cells, source);
  }
}

// Seven points; the first and the last layer see their own side only.
void MeshBlocks::Sweep(const double* from, double* to, double source) const {
  const uint64_t row = shape_.edge;
  const uint64_t layer = row * row;
  const double added = source * 1e-3;
  for (uint64_t i = 0; i < layer; ++i) to[i] = (from[i] + from[i + layer]) * 0.5 + added;
  for (uint64_t i = layer; i < cells_ - layer; ++i) {
    const double sum = from[i] + from[i - 1] + from[i + 1] + from[i - row] + from[i + row] +
                       from[i - layer] + from[i + layer];
    to[i] = sum * (1.0 / 7) + added;
  }
  for (uint64_t i = cells_ - layer; i < cells_; ++i) {
    to[i] = (from[i] + from[i - layer]) * 0.5 + added;
  }
}

}  // namespace quire::bench
