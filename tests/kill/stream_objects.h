// What a stream holds whose writer is killed: which objects a commit stores, and every byte of each
// version, as pure functions of the commit's number. So who checks needs nothing that was stored.
//
// Threads: distinct objects are independent.
#ifndef QUIRE_TESTS_KILL_STREAM_OBJECTS_H_
#define QUIRE_TESTS_KILL_STREAM_OBJECTS_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace quire::test {

/// [bytes] Of each object; some 1.2 MiB in all.
constexpr std::array<uint64_t, 9> kObjectBytes = {1,    7,    255,     256,    257,
                                                  4096, 4097, 100'003, 1 << 20};
constexpr size_t kObjects = kObjectBytes.size();
/// Versions that are kept of each.
constexpr uint32_t kKeep = 3;
/// Each such commit is kept until the next such one is.
constexpr uint64_t kKeptEvery = 40;

inline std::string ObjectKey(size_t object) {
  return "object " + std::to_string(object);
}

inline uint64_t Mixed(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9e3779b97f4a7c15 + b;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// Whether commit `number` (1, 2, ..) stores the object: half of the commits store all, a quarter
/// store one.
inline bool IsIn(uint64_t number, size_t object) {
  const uint64_t random = Mixed(number, 17);
  if (number == 1 || random % 4 >= 2) return true;
  const size_t sure = (random >> 8) % kObjects;
  return object == sure || (random % 4 == 1 && (random >> (16 + object)) % 2 == 1);
}

inline std::vector<size_t> ObjectsOf(uint64_t number) {
  std::vector<size_t> objects;
  for (size_t i = 0; i < kObjects; ++i) {
    if (IsIn(number, i)) objects.push_back(i);
  }
  return objects;
}

/// Counts versions: of an object that commits 1 .. number have made.
class VersionTable {
 public:
  uint64_t At(uint64_t number, size_t object) {
    while (counts_.size() <= number) {
      counts_.push_back(counts_.back());
      for (const size_t i : ObjectsOf(counts_.size() - 1)) ++counts_.back()[i];
    }
    return counts_[number][object];
  }

 private:
  std::vector<std::array<uint64_t, kObjects>> counts_ = {{}};
};

/// An object's bytes. They change from version to version by blocks, so that deltas are worth
/// while: mostly an eighth of the blocks, now and then all.
class Content {
 public:
  Content(size_t object, char* bytes) : object_(object), bytes_(bytes) {}

  /// From version - 1 to `version`.
  void Advance(uint64_t version) const {
    for (uint64_t block = 0; block * kBlock < kObjectBytes[object_]; ++block) {
      if (Changes(block, version)) Fill(block, version);
    }
  }

  /// What it is at `version`, from nothing.
  static std::string Of(size_t object, uint64_t version) {
    std::string bytes(kObjectBytes[object], '\0');
    const Content content(object, bytes.data());
    for (uint64_t block = 0; block * kBlock < bytes.size(); ++block) {
      uint64_t last = version;
      while (!content.Changes(block, last)) --last;
      content.Fill(block, last);
    }
    return bytes;
  }

 private:
  static constexpr uint64_t kBlock = 200;  // no divisor of what deltas, pages or hashes count by

  bool Changes(uint64_t block, uint64_t version) const {
    return version <= 1 || Mixed(version, object_) % 16 == 0 ||
           Mixed(Mixed(version, block), object_) % 8 == 0;
  }

  void Fill(uint64_t block, uint64_t version) const {
    const uint64_t begin = block * kBlock;
    const uint64_t end = std::min(begin + kBlock, kObjectBytes[object_]);
    const uint64_t seed = Mixed(Mixed(object_, block), version);
    for (uint64_t at = begin; at < end; at += sizeof(uint64_t)) {
      const uint64_t word = Mixed(seed, at);
      std::memcpy(bytes_ + at, &word, std::min<uint64_t>(sizeof word, end - at));
    }
  }

  size_t object_;
  char* bytes_;
};

}  // namespace quire::test

#endif  // QUIRE_TESTS_KILL_STREAM_OBJECTS_H_
