#include "oracle.h"

#include <algorithm>
#include <cstdio>
#include <random>

namespace quire::particles {
namespace {

std::string Show(const Particle& particle) {
  char text[200];
  std::snprintf(text, sizeof text, "position %.17g %.17g %.17g, velocity %.17g %.17g %.17g",
                particle.position[0], particle.position[1], particle.position[2],
                particle.velocity[0], particle.velocity[1], particle.velocity[2]);
  return text;
}

Status Wrong(uint64_t id, uint64_t epoch, const std::string& what) {
  return Status(Code::kCorruption, "particle " + std::to_string(id) + ", epoch " +
                                       std::to_string(epoch) + ": " + what);
}

Status CompareValue(const DatasetValue& value, const Scenario& scenario, const Particle& expected) {
  if (value.rank != BoxOf(expected)) {
    return Wrong(expected.id, value.epoch,
                 "rank " + std::to_string(value.rank) + " has it, not rank " +
                     std::to_string(BoxOf(expected)));
  }
  std::string bytes;
  EncodeState(expected, scenario.padding_bytes, &bytes);
  if (value.value == bytes) return Status();
  Particle found;
  const Status status = DecodeState(value.value, &found);
  if (!status.ok()) return Wrong(expected.id, value.epoch, status.message());
  return Wrong(expected.id, value.epoch,
               Show(found) + " in " + std::to_string(value.value.size()) + " bytes, not " +
                   Show(expected) + " in " + std::to_string(bytes.size()));
}

Status CheckTrajectory(const DatasetReader& reader, const Scenario& scenario, uint64_t id) {
  std::vector<DatasetValue> values;
  const Status status = reader.GetTrajectory(KeyOf(id), &values);
  if (!status.ok() && status.code() != Code::kNotFound) return status;
  Particle expected = ParticleAtStart(scenario, id);
  uint64_t step = 0;
  auto value = values.begin();
  for (const DatasetEpoch& epoch : reader.Epochs()) {
    while (step < epoch.number) Advance(scenario, ++step, &expected);
    const auto first = value;
    while (value != values.end() && value->epoch == epoch.number) ++value;
    if (value - first != 1) {
      return Wrong(id, epoch.number, std::to_string(value - first) + " values, not one");
    }
    QUIRE_RETURN_IF_ERROR(CompareValue(*first, scenario, expected));
  }
  if (value == values.end()) return Status();
  return Wrong(id, value->epoch, "a value out of order, or of an epoch that is not listed");
}

}  // namespace

Result<Scenario> ReadScenario(const DatasetReader& reader) {
  const std::vector<DatasetEpoch> epochs = reader.Epochs();
  if (epochs.empty()) return Status(Code::kNotFound, "the dataset has no complete epoch");
  std::vector<DatasetValue> values;
  const Status status = reader.Get(epochs.front().number, kScenarioKey, &values);
  if (status.code() == Code::kNotFound) {
    return Status(Code::kNotFound, "the dataset has no key \"" + std::string(kScenarioKey) +
                                       "\": the program particles did not write it");
  }
  QUIRE_RETURN_IF_ERROR(status);
  return ScenarioFromJson(values.front().value);
}

std::vector<uint64_t> ChooseParticles(const Scenario& scenario, uint64_t count, uint64_t seed) {
  std::vector<uint64_t> ids;
  std::mt19937_64 random(seed);
  for (uint64_t i = 0; i < std::min(count, scenario.particle_count()); ++i) {
    ids.push_back(count < scenario.particle_count() ? random() % scenario.particle_count() : i);
  }
  return ids;
}

Status CheckTrajectories(const DatasetReader& reader, const Scenario& scenario,
                         const std::vector<uint64_t>& ids) {
  for (const uint64_t id : ids) QUIRE_RETURN_IF_ERROR(CheckTrajectory(reader, scenario, id));
  return Status();
}

}  // namespace quire::particles
