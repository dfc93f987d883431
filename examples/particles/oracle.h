// Whether a dataset tells of particles what is so: their trajectories as it gives them, compared
// with where the motion takes them.
#pragma once

#include <vector>

#include "motion.h"
#include "quire/dataset.h"

namespace quire::particles {

/// The scenario of the run that wrote the dataset.
///
/// Errors     kNotFound, kCorruption  The program particles did not write it.
Result<Scenario> ReadScenario(const DatasetReader& reader);

/// So many particles of the scenario, chosen by `seed`, perhaps one of them twice; all of them, in
/// order, where the scenario has no more.
std::vector<uint64_t> ChooseParticles(const Scenario& scenario, uint64_t count, uint64_t seed);

/// Asks for the trajectory of each particle: in every epoch one rank has it, the right one, with
/// the right position, velocity and padding, bit by bit. The first that is not so is kCorruption,
/// with particle, epoch and what differs.
Status CheckTrajectories(const DatasetReader& reader, const Scenario& scenario,
                         const std::vector<uint64_t>& ids);

}  // namespace quire::particles
