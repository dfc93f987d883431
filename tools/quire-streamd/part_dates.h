// When the parts of a place were written last.
//
// Layer      tools
// Threads    an object belongs to one thread at a time
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "io/files/file_system.h"
#include "stream/remote/request.h"

namespace quire::streamd {

class PartDates {
 public:
  PartDates(io::FileSystem& fs, std::string place) : fs_(fs), place_(std::move(place)) {}

  // Returns the registrations of `parts`. A part whose versions cannot be read counts as the
  // oldest.
  //
  // Cost  Each part: one look at its lock and at its gate. Reads its versions if they have changed
  //       since the last call and no program writes it.
  std::vector<stream::ToldPart> Of(const std::vector<stream::StorePart>& parts);

 private:
  // For a part without a writer. Any change of the log is one of these numbers, too.
  struct Known {
    uint64_t index_number = 0;
    uint64_t snapshot = 0;
    uint64_t newest_ns = 0;
  };
  bool Written(const stream::StorePart& part) const;
  Known Look(const stream::StorePart& part) const;
  uint64_t NewestIn(const stream::StorePart& part) const;

  io::FileSystem& fs_;
  const std::string place_;
  std::map<stream::StorePart, Known> known_;
};

}  // namespace quire::streamd
