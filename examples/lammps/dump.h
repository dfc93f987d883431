// The files that in.melt has LAMMPS write: the atoms that one of its ranks had at one step.
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

#include "quire/status.h"
#include "record.h"

namespace quire::lammps {

std::string DumpPath(const std::string& folder, int rank, uint64_t step);

/// The steps, in order, of which `folder` has files of rank 0. kNotFound: there is none.
Result<std::vector<uint64_t>> StepsIn(const std::string& folder);

/// The atoms of a file whose columns are id x y z vx vy vz. `name` is what errors call it.
///
/// Errors     kCorruption  It is of another step, has other columns, or is cut off: with the line.
Result<std::vector<particles::Particle>> ReadAtoms(std::istream& file, const std::string& name,
                                                   uint64_t step);

}  // namespace quire::lammps
