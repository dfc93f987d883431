#include "oracle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "quire/database.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"

namespace quire::particles {
namespace {

using testing::HasSubstr;

// A test's change to a particle before it is put; false omits the particle.
using Change = std::function<bool(uint64_t step, Particle*)>;

// A dataset of one rank, steps 0 to 3, of 50 particles that a Change spoils.
class Oracle : public testing::Test {
 protected:
  Oracle() {
    scenario_.particles_per_rank = 50;
    scenario_.padding_bytes = 3;
  }

  Status WriteStep(DatasetWriter& writer, uint64_t step, const Change& change) {
    QUIRE_RETURN_IF_ERROR(writer.BeginEpoch(step));
    QUIRE_RETURN_IF_ERROR(writer.Put(kScenarioKey, ToJson(scenario_)));
    for (Particle& particle : particles_) {
      if (step > 0) Advance(scenario_, step, &particle);
      Particle changed = particle;
      if (!change(step, &changed)) continue;
      std::string value;
      EncodeState(changed, scenario_.padding_bytes, &value);
      QUIRE_RETURN_IF_ERROR(writer.Put(KeyOf(changed.id), value));
    }
    return writer.EndEpoch();
  }

  Status Write(const Change& change) {
    QUIRE_ASSIGN_OR_RETURN(const auto context, Context::OpenSerial(directory_ / "repository"));
    QUIRE_ASSIGN_OR_RETURN(const auto writer, DatasetWriter::Open(*context, "steps"));
    for (uint64_t id = 0; id < scenario_.particle_count(); ++id) {
      particles_.push_back(ParticleAtStart(scenario_, id));
    }
    for (uint64_t step = 0; step <= 3; ++step) {
      QUIRE_RETURN_IF_ERROR(WriteStep(*writer, step, change));
    }
    return writer->Finish();
  }

  // Returns the oracle's verdict on a dataset with this change.
  Status Check(const Change& change) {
    QUIRE_RETURN_IF_ERROR(Write(change));
    QUIRE_ASSIGN_OR_RETURN(const auto reader, DatasetReader::Open(directory_ / "repository/steps"));
    QUIRE_ASSIGN_OR_RETURN(const Scenario scenario, ReadScenario(*reader));
    return CheckTrajectories(*reader, scenario, ChooseParticles(scenario, 50, 1));
  }

  test::TempDirectory directory_;
  Scenario scenario_;
  std::vector<Particle> particles_;
};

TEST_F(Oracle, AgreesWithWhatWasWrittenRight) {
  EXPECT_OK(Check([](uint64_t, Particle*) { return true; }));
}

TEST_F(Oracle, NamesAParticleThatIsMissingInOneEpoch) {
  const Status status =
      Check([](uint64_t step, Particle* particle) { return step != 2 || particle->id != 7; });
  EXPECT_CODE(status, Code::kCorruption);
  EXPECT_THAT(status.message(), HasSubstr("particle 7, epoch 2: 0 values, not one"));
}

TEST_F(Oracle, NamesAParticleThatIsMissingInAll) {
  const Status status = Check([](uint64_t, Particle* particle) { return particle->id != 49; });
  EXPECT_CODE(status, Code::kCorruption);
  EXPECT_THAT(status.message(), HasSubstr("particle 49, epoch 0: 0 values"));
}

TEST_F(Oracle, NamesAVelocityThatDiffersInItsLastBit) {
  const Status status = Check([](uint64_t step, Particle* particle) {
    if (step == 3 && particle->id == 8) {
      particle->velocity[2] = std::nextafter(particle->velocity[2], 1);
    }
    return true;
  });
  EXPECT_CODE(status, Code::kCorruption);
  EXPECT_THAT(status.message(), HasSubstr("particle 8, epoch 3: position "));
}

TEST_F(Oracle, NamesTheStateOfAnotherParticle) {
  const Status status = Check([this](uint64_t, Particle* particle) {
    if (particle->id == 8) particle->position = particles_[9].position;
    return true;
  });
  EXPECT_THAT(status.message(), HasSubstr("particle 8, epoch 0: position "));
}

TEST_F(Oracle, NamesAValueOfAnotherSize) {
  const Status status = Check([this](uint64_t step, Particle* particle) {
    scenario_.padding_bytes = step == 2 && particle->id == 8 ? 4 : 3;
    return true;
  });
  EXPECT_CODE(status, Code::kCorruption);
  EXPECT_THAT(status.message(), HasSubstr("particle 8, epoch 2: position "));
  EXPECT_THAT(status.message(), HasSubstr(" in 52 bytes, not "));
}

// All of it is written by one rank, as if no particle ever went to its new one.
TEST_F(Oracle, NamesAParticleAtTheWrongRank) {
  scenario_.ranks = 2;
  scenario_.particles_per_rank = 25;
  const Status status = Check([](uint64_t, Particle*) { return true; });
  EXPECT_CODE(status, Code::kCorruption);
  EXPECT_THAT(status.message(), HasSubstr("rank 0 has it, not rank 1"));
}

TEST_F(Oracle, SaysWhereParticlesDidNotWriteTheDataset) {
  ASSERT_OK(Write([](uint64_t, Particle*) { return true; }));
  const auto context = Context::OpenSerial(directory_ / "repository");
  ASSERT_OK(context.status());
  const auto writer = DatasetWriter::Open(**context, "other");
  ASSERT_OK(writer.status());
  const auto reader = DatasetReader::Open(directory_ / "repository/other");
  ASSERT_OK(reader.status());
  EXPECT_THAT(ReadScenario(**reader).status().message(), HasSubstr("no complete epoch"));
  ASSERT_OK((*writer)->BeginEpoch(1));
  ASSERT_OK((*writer)->EndEpoch());
  ASSERT_OK((*reader)->Refresh());
  EXPECT_THAT(ReadScenario(**reader).status().message(), HasSubstr("did not write it"));
  ASSERT_OK((*writer)->Finish());
}

TEST_F(Oracle, ChoosesAsManyParticlesAsAskedForOrAll) {
  EXPECT_EQ(ChooseParticles(scenario_, 10, 1).size(), 10u);
  EXPECT_NE(ChooseParticles(scenario_, 10, 1), ChooseParticles(scenario_, 10, 2));
  const std::vector<uint64_t> all = ChooseParticles(scenario_, 1000, 1);
  ASSERT_EQ(all.size(), 50u);
  for (uint64_t i = 0; i < 50; ++i) EXPECT_EQ(all[i], i);
}

}  // namespace
}  // namespace quire::particles
