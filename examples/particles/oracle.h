// Checks a dataset of particles: compares their trajectories with the computed motion.
#pragma once

#include <vector>

#include "motion.h"
#include "quire/dataset.h"

namespace quire::particles {

/// Reads the scenario of the run that wrote the dataset.
///
/// Errors     kNotFound, kCorruption  The dataset was not written by the program particles.
Result<Scenario> ReadScenario(const DatasetReader& reader);

/// Returns `count` particles of the scenario, chosen by `seed`, some perhaps twice; returns all of
/// them, in order, if the scenario has no more.
std::vector<uint64_t> ChooseParticles(const Scenario& scenario, uint64_t count, uint64_t seed);

/// Checks the trajectory of each particle: in every epoch exactly the right rank has it, with the
/// right position, velocity and padding, bit by bit. The first difference is kCorruption, with
/// particle, epoch and difference.
Status CheckTrajectories(const DatasetReader& reader, const Scenario& scenario,
                         const std::vector<uint64_t>& ids);

}  // namespace quire::particles
