#include "motion.h"

#include <gtest/gtest.h>

#include <cmath>

namespace quire::particles {
namespace {

Scenario ScenarioOf(uint32_t ranks, double movers) {
  Scenario scenario;
  scenario.ranks = ranks;
  scenario.movers = movers;
  scenario.particles_per_rank = 2000;
  return scenario;
}

TEST(Motion, StartsEachParticleInTheBoxOfItsId) {
  const Scenario scenario = ScenarioOf(3, 0.5);
  for (uint64_t id = 0; id < scenario.particle_count(); ++id) {
    const Particle particle = ParticleAtStart(scenario, id);
    EXPECT_EQ(particle.id, id);
    EXPECT_EQ(BoxOf(particle), id / scenario.particles_per_rank);
    EXPECT_EQ(particle.velocity, (std::array<double, 3>{}));
  }
}

// The share of all particles whose box another one is after each of some steps.
double ShareMoved(const Scenario& scenario, uint64_t steps) {
  uint64_t moved = 0;
  for (uint64_t id = 0; id < scenario.particle_count(); ++id) {
    Particle particle = ParticleAtStart(scenario, id);
    for (uint64_t step = 1; step <= steps; ++step) {
      const uint32_t before = BoxOf(particle);
      Advance(scenario, step, &particle);
      if (BoxOf(particle) != before) ++moved;
    }
  }
  return static_cast<double>(moved) / static_cast<double>(scenario.particle_count() * steps);
}

TEST(Motion, MovesTheShareAskedForToAnotherBox) {
  EXPECT_EQ(ShareMoved(ScenarioOf(4, 0), 5), 0);
  EXPECT_EQ(ShareMoved(ScenarioOf(4, 1), 5), 1);
  EXPECT_EQ(ShareMoved(ScenarioOf(2, 1), 5), 1);
  EXPECT_EQ(ShareMoved(ScenarioOf(1, 1), 5), 0);  // there is no other box
  EXPECT_NEAR(ShareMoved(ScenarioOf(4, 0.1), 5), 0.1, 0.01);
}

TEST(Motion, GoesToBothBoxesBesideAndNoFurther) {
  const Scenario scenario = ScenarioOf(5, 1);
  uint64_t right = 0;
  for (uint64_t id = 0; id < scenario.particle_count(); ++id) {
    Particle particle = ParticleAtStart(scenario, id);
    const uint32_t before = BoxOf(particle);
    Advance(scenario, 1, &particle);
    const uint32_t way = (BoxOf(particle) + scenario.ranks - before) % scenario.ranks;
    ASSERT_TRUE(way == 1 || way == scenario.ranks - 1) << way;
    if (way == 1) ++right;
  }
  EXPECT_NEAR(static_cast<double>(right) / static_cast<double>(scenario.particle_count()), 0.5,
              0.03);
}

TEST(Motion, StaysInSpaceAndItsVelocityIsItsWay) {
  const Scenario scenario = ScenarioOf(3, 0.5);
  for (uint64_t id = 0; id < scenario.particle_count(); id += 37) {
    Particle particle = ParticleAtStart(scenario, id);
    for (uint64_t step = 1; step <= 50; ++step) {
      const Particle before = particle;
      Advance(scenario, step, &particle);
      for (size_t i = 0; i < 3; ++i) {
        const double length = i == 0 ? scenario.ranks : 1;
        ASSERT_GE(particle.position[i], 0);
        ASSERT_LT(particle.position[i], length);
        ASSERT_NE(particle.velocity[i], 0);
        const double way = particle.position[i] - before.position[i] - particle.velocity[i];
        ASSERT_NEAR(way, length * std::round(way / length), 1e-12);
      }
    }
  }
}

TEST(Motion, IsAnotherForEachSeedAndTheSameForOne) {
  const auto after_ten = [](uint64_t seed) {
    Scenario scenario = ScenarioOf(4, 0.5);
    scenario.seed = seed;
    Particle particle = ParticleAtStart(scenario, 17);
    for (uint64_t step = 1; step <= 10; ++step) Advance(scenario, step, &particle);
    return particle;
  };
  EXPECT_EQ(after_ten(1).position, after_ten(1).position);
  EXPECT_EQ(after_ten(1).velocity, after_ten(1).velocity);
  EXPECT_NE(after_ten(1).position, after_ten(2).position);
}

TEST(Motion, WrapsIntoHalfOpenSpace) {
  EXPECT_EQ(Wrap(0, 3), 0);
  EXPECT_EQ(Wrap(2.5, 3), 2.5);
  EXPECT_EQ(Wrap(3, 3), 0);
  EXPECT_EQ(Wrap(3.25, 3), 0.25);
  EXPECT_EQ(Wrap(-0.25, 3), 2.75);
  EXPECT_EQ(Wrap(-1e-30, 3), 0);  // 3 less so little is 3, which is outside
}

TEST(Record, ComesBackAndItsKeysSortAsItsIds) {
  const Particle particle = {258, {1.5, -0.0, 1e-300}, {-2, 0.1, 3}};
  std::string value;
  EncodeState(particle, 5, &value);
  EXPECT_EQ(value.size(), 53u);
  EXPECT_EQ(value.substr(48), std::string(5, '\2'));
  Particle back;
  ASSERT_TRUE(DecodeState(value, &back).ok());
  EXPECT_EQ(back.position, particle.position);
  EXPECT_EQ(back.velocity, particle.velocity);
  EXPECT_EQ(DecodeState(value.substr(0, 47), &back).code(), Code::kCorruption);
  EXPECT_EQ(KeyOf(258), std::string("\0\0\0\0\0\0\1\2", 8));
  EXPECT_LT(KeyOf(255), KeyOf(256));
}

TEST(Scenario, ComesBackFromJson) {
  const Scenario scenario = {~uint64_t{0}, 1.0 / 3, 7, 123, 45};
  const Result<Scenario> back = ScenarioFromJson(ToJson(scenario));
  ASSERT_TRUE(back.ok()) << back.status().ToString();
  EXPECT_EQ(back->seed, scenario.seed);
  EXPECT_EQ(back->movers, scenario.movers);
  EXPECT_EQ(back->ranks, scenario.ranks);
  EXPECT_EQ(back->particles_per_rank, scenario.particles_per_rank);
  EXPECT_EQ(back->padding_bytes, scenario.padding_bytes);
  EXPECT_EQ(ScenarioFromJson("{}").status().code(), Code::kCorruption);
  EXPECT_EQ(ScenarioFromJson("scenario").status().code(), Code::kCorruption);
}

}  // namespace
}  // namespace quire::particles
