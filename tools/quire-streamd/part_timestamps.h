/// The times of the last write to each part of a place.
///
/// Layer      tools
/// Threads    an object belongs to one thread at a time
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "io/files/file_system.h"
#include "stream/remote/request.h"
#include "stream/store/part.h"

namespace quire::streamd {

class PartTimestamps {
 public:
  PartTimestamps(io::FileSystem& fs, std::string place) : fs_(fs), place_(std::move(place)) {}

  /// Returns the registrations of `parts`. A part whose versions are damaged counts as the oldest.
  /// If reading it fails for another reason, such as a shortage of descriptors, the part has the
  /// date of the last successful read (none: it counts as the oldest), and the next call retries.
  ///
  /// Cost  For each part: checks its lock and its gate. Reads its versions if they have changed
  ///       since the last call and no program writes it.
  std::vector<stream::RegisteredPart> Of(const std::vector<stream::StorePart>& parts);

 private:
  /// Numbers that change whenever a log without a writer changes.
  struct Numbers {
    uint64_t index_number = 0;
    uint64_t snapshot = 0;
    bool operator==(const Numbers& other) const = default;
  };
  struct Known {
    uint64_t newest_ns = 0;
    std::optional<Numbers> of;  ///< nullopt: the next call reads again
  };
  Result<Known> Look(const stream::StorePart& part, const Known& before) const;
  Result<Numbers> NumbersOf(const stream::PartName& name) const;
  Result<uint64_t> NewestIn(const stream::StorePart& part) const;

  io::FileSystem& fs_;
  const std::string place_;
  std::map<stream::StorePart, Known> known_;
};

}  // namespace quire::streamd
