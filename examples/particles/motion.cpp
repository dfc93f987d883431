#include "motion.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace quire::particles {
namespace {

// So far from the walls that adding a velocity to a position never rounds across one.
constexpr double kMargin = 0.01;

// The random choices for a particle in a step.
enum Draw : uint64_t { kMoves, kDirection, kX, kY, kZ };

// The last round of SplitMix64: all bits of the result depend on all bits of `bits`.
uint64_t Mix(uint64_t bits) {
  bits += 0x9e3779b97f4a7c15;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  return bits ^ (bits >> 31);
}

// Returns a number in [0, 1), the same on every machine for the same arguments.
double Uniform(const Scenario& scenario, uint64_t id, uint64_t step, Draw draw) {
  const uint64_t bits = Mix(Mix(Mix(Mix(scenario.seed) ^ id) ^ step) ^ draw);
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

double PlaceInBox(const Scenario& scenario, uint64_t id, uint64_t step) {
  return kMargin + (1 - 2 * kMargin) * Uniform(scenario, id, step, kX);
}

}  // namespace

std::string ToJson(const Scenario& scenario) {
  return nlohmann::ordered_json{{"seed", scenario.seed},
                                {"movers", scenario.movers},
                                {"ranks", scenario.ranks},
                                {"particles_per_rank", scenario.particles_per_rank},
                                {"padding_bytes", scenario.padding_bytes}}
      .dump();
}

Result<Scenario> ScenarioFromJson(const std::string& text) try {
  const nlohmann::json json = nlohmann::json::parse(text);
  Scenario scenario;
  json.at("seed").get_to(scenario.seed);
  json.at("movers").get_to(scenario.movers);
  json.at("ranks").get_to(scenario.ranks);
  json.at("particles_per_rank").get_to(scenario.particles_per_rank);
  json.at("padding_bytes").get_to(scenario.padding_bytes);
  return scenario;
} catch (const nlohmann::json::exception& error) {
  return Status(Code::kCorruption, "\"" + text + "\" describes no scenario: " + error.what());
}

Particle ParticleAtStart(const Scenario& scenario, uint64_t id) {
  Particle particle;
  particle.id = id;
  particle.position = {
      static_cast<double>(id / scenario.particles_per_rank) + PlaceInBox(scenario, id, 0),
      Uniform(scenario, id, 0, kY), Uniform(scenario, id, 0, kZ)};
  return particle;
}

void Advance(const Scenario& scenario, uint64_t step, Particle* particle) {
  const uint64_t id = particle->id;
  double box = std::floor(particle->position[0]);
  if (Uniform(scenario, id, step, kMoves) < scenario.movers) {
    box += Uniform(scenario, id, step, kDirection) < 0.5 ? -1 : 1;
  }
  particle->velocity = {box + PlaceInBox(scenario, id, step) - particle->position[0],
                        (Uniform(scenario, id, step, kY) - 0.5) / 4,
                        (Uniform(scenario, id, step, kZ) - 0.5) / 4};
  const std::array<double, 3> lengths = {static_cast<double>(scenario.ranks), 1, 1};
  for (size_t i = 0; i < lengths.size(); ++i) {
    particle->position[i] = Wrap(particle->position[i] + particle->velocity[i], lengths[i]);
  }
}

uint32_t BoxOf(const Particle& particle) {
  return static_cast<uint32_t>(particle.position[0]);
}

double Wrap(double coordinate, double length) {
  if (coordinate < 0) coordinate += length;
  // Also a tiny negative one, to which the length was just added.
  return coordinate < length ? coordinate : coordinate - length;
}

}  // namespace quire::particles
