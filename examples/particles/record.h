// The form of a particle in a dataset. examples/lammps writes the same form.
//
//   key    8 bytes    the particle's id, big-endian, so that keys sort by number
//   value  48 bytes   x, y, z, vx, vy, vz: doubles, little-endian; then padding, if any, each byte
//                     of it the lowest byte of the id
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>

#include "quire/slice.h"
#include "quire/status.h"

namespace quire::particles {

struct Particle {
  uint64_t id = 0;
  std::array<double, 3> position = {};
  std::array<double, 3> velocity = {};
};

inline constexpr size_t kStateBytes = 6 * sizeof(double);

inline std::string KeyOf(uint64_t id) {
  std::string key;
  for (int shift = 56; shift >= 0; shift -= 8) key += static_cast<char>(id >> shift);
  return key;
}

/// Sets `value` to the state of `particle`, followed by padding of `padding_bytes`.
inline void EncodeState(const Particle& particle, uint64_t padding_bytes, std::string* value) {
  value->resize(kStateBytes);
  std::memcpy(value->data(), particle.position.data(), kStateBytes / 2);
  std::memcpy(value->data() + kStateBytes / 2, particle.velocity.data(), kStateBytes / 2);
  value->append(padding_bytes, static_cast<char>(particle.id));
}

/// Sets the position and the velocity of `particle` from a value. kCorruption: it is too short.
inline Status DecodeState(Slice value, Particle* particle) {
  if (value.size() < kStateBytes) {
    return Status(Code::kCorruption, "a value of " + std::to_string(value.size()) +
                                         " bytes is no particle: " + std::to_string(kStateBytes) +
                                         " are its position and velocity");
  }
  std::memcpy(particle->position.data(), value.data(), kStateBytes / 2);
  std::memcpy(particle->velocity.data(), value.data() + kStateBytes / 2, kStateBytes / 2);
  return Status();
}

}  // namespace quire::particles
