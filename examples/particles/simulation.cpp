#include "simulation.h"

namespace quire::particles {

Simulation::Simulation(MPI_Comm communicator, const Scenario& scenario)
    : communicator_(communicator), scenario_(scenario) {
  int rank = 0;
  MPI_Comm_rank(communicator, &rank);
  rank_ = static_cast<uint32_t>(rank);
  // All ranks run the same program on the same kind of machine: structures are sent as their bytes
  // in memory.
  MPI_Type_contiguous(static_cast<int>(sizeof(Particle)), MPI_BYTE, &particle_type_);
  MPI_Type_commit(&particle_type_);
  const uint64_t first = rank_ * scenario.particles_per_rank;
  for (uint64_t i = 0; i < scenario.particles_per_rank; ++i) {
    particles_.push_back(ParticleAtStart(scenario, first + i));
  }
}

Simulation::~Simulation() {
  MPI_Type_free(&particle_type_);
}

void Simulation::Step() {
  ++step_;
  // With two ranks both neighbours are the same rank: everything is sent to the right.
  const uint32_t right = (rank_ + 1) % scenario_.ranks;
  const uint32_t left = (rank_ + scenario_.ranks - 1) % scenario_.ranks;
  std::vector<Particle> to_right;
  std::vector<Particle> to_left;
  size_t kept = 0;
  for (Particle particle : particles_) {
    Advance(scenario_, step_, &particle);
    const uint32_t box = BoxOf(particle);
    if (box == rank_) {
      particles_[kept++] = particle;
    } else {
      (box == right ? to_right : to_left).push_back(particle);
    }
  }
  particles_.resize(kept);
  left_count_ += to_right.size() + to_left.size();
  Exchange(to_right, static_cast<int>(right), static_cast<int>(left));
  Exchange(to_left, static_cast<int>(left), static_cast<int>(right));
}

void Simulation::Exchange(const std::vector<Particle>& leaving, int to, int from) {
  const int leaving_count = static_cast<int>(leaving.size());
  int coming_count = 0;
  MPI_Sendrecv(&leaving_count, 1, MPI_INT, to, 0, &coming_count, 1, MPI_INT, from, 0, communicator_,
               MPI_STATUS_IGNORE);
  const size_t here = particles_.size();
  particles_.resize(here + static_cast<size_t>(coming_count));
  MPI_Sendrecv(leaving.data(), leaving_count, particle_type_, to, 1, particles_.data() + here,
               coming_count, particle_type_, from, 1, communicator_, MPI_STATUS_IGNORE);
}

}  // namespace quire::particles
