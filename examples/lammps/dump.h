// The files that LAMMPS writes for in.melt: the atoms of one of its ranks at one step.
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

#include "quire/status.h"
#include "record.h"

namespace quire::lammps {

std::string DumpPath(const std::string& folder, int rank, uint64_t step);

/// Returns the steps, in order, for which `folder` contains files of rank 0. kNotFound: there is
/// none.
Result<std::vector<uint64_t>> StepsIn(const std::string& folder);

/// Reads the atoms of a file whose columns are id x y z vx vy vz. `name` is its name in errors.
///
/// Errors     kCorruption  It is of another step, has other columns, or is truncated; the text has
///                         the line.
Result<std::vector<particles::Particle>> ReadAtoms(std::istream& file, const std::string& name,
                                                   uint64_t step);

}  // namespace quire::lammps
