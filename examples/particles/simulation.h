// One rank's box of the simulation, and the particles in it.
#pragma once

#include <mpi.h>

#include <vector>

#include "motion.h"

namespace quire::particles {

class Simulation {
 public:
  /// Creates the particles of this rank's box at step 0. The communicator must have as many ranks
  /// as `scenario`.
  Simulation(MPI_Comm communicator, const Scenario& scenario);
  ~Simulation();
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  /// Moves all particles by one step, and sends those that left the box to their new rank, which is
  /// one of two neighbours. Collective.
  void Step();

  const std::vector<Particle>& particles() const { return particles_; }
  /// Returns the number of particles that left this rank in all steps.
  uint64_t left_count() const { return left_count_; }

 private:
  void Exchange(const std::vector<Particle>& leaving, int to, int from);

  MPI_Comm communicator_;
  Scenario scenario_;
  uint32_t rank_ = 0;
  MPI_Datatype particle_type_ = MPI_DATATYPE_NULL;
  uint64_t step_ = 0;
  uint64_t left_count_ = 0;
  std::vector<Particle> particles_;
};

}  // namespace quire::particles
