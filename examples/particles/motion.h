// The positions of particles: a pure function of the scenario, the particle and the step. The
// simulation moves its particles by it; a checker of a dataset repeats it, and needs no stored
// data.
//
// Space is a ring of boxes along x, one for each rank, each 1 long, wide and high: x in [0, ranks),
// y and z in [0, 1), all three periodic. In each step a particle either stays in its box or, with
// the probability `movers`, moves to one of the two boxes beside it. Its velocity is its
// displacement in one step.
#pragma once

#include <cstdint>
#include <string>

#include "quire/status.h"
#include "record.h"

namespace quire::particles {

/// Everything on which a run depends. Two runs of the same scenario are equal, to the last bit.
struct Scenario {
  uint64_t seed = 1;
  double movers = 0.1;  ///< [0 .. 1] share of particles that go to another box in a step
  uint32_t ranks = 1;
  uint64_t particles_per_rank = 10'000;  ///< at step 0
  uint64_t padding_bytes = 0;            ///< of each value

  uint64_t particle_count() const { return particles_per_rank * ranks; }
};

/// The key of a further pair of each epoch, put by rank 0: the scenario, as JSON.
inline constexpr const char* kScenarioKey = "scenario";
std::string ToJson(const Scenario& scenario);
/// Parses a scenario. kCorruption: the text is no scenario.
Result<Scenario> ScenarioFromJson(const std::string& text);

/// Returns the particle at step 0, at rest. Ids are [0, particle_count()), box by box.
Particle ParticleAtStart(const Scenario& scenario, uint64_t id);
/// Moves a particle from step - 1 to `step`.
void Advance(const Scenario& scenario, uint64_t step, Particle* particle);
/// Returns the box, and so the rank, that contains the particle.
uint32_t BoxOf(const Particle& particle);
/// Returns `coordinate` wrapped into [0, length), from which it is at most one length away.
double Wrap(double coordinate, double length);

}  // namespace quire::particles
