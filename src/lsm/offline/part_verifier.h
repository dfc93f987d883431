/// Whether the files of a part that was just copied are what their writer made: each against the
/// checksums in it, from front to back, as long as it is in the page cache.
///
/// Layer      lsm
/// Encoding   docs/format/table.md, segment.md, record.md
/// Threads    one
/// Invariants of a value segment only what no table refers to may be damaged
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "io/files/file_system.h"
#include "quire/options.h"
#include "quire/status.h"

namespace quire::table {
class BlockCache;
}

namespace quire::lsm {

class PartVerifier {
 public:
  PartVerifier(io::FileSystem& fs, std::string directory);

  /// A table or a value segment of the directory; `identity`: as in Capture::File.
  /// Errors  kCorruption: it is damaged, or another file (names it). kIo.
  /// Cost    One reading. Memory for some blocks, or for the largest value.
  Status Check(const std::string& name, uint64_t identity);
  /// Returns whether a checked segment has places that are no record.
  bool HasHoles(const std::string& name) const;
  /// Once all files are there, `names`: the values in segments that have places without a record,
  /// by the references of the tables. Such places come from a failed write or a kill, and no table
  /// refers to them. Errors as of Check.
  Status Finish(const std::vector<std::string>& names);

 private:
  Status CheckTable(uint64_t ssid, uint64_t file_id);
  Status CheckSegment(uint64_t id, uint64_t generation);
  Status CheckReferences(uint64_t ssid);
  std::string PathOf(const std::string& name) const { return directory_ + "/" + name; }

  io::FileSystem& fs_;
  const std::string directory_;
  const StorageOptions options_;
  const std::shared_ptr<table::BlockCache> cache_;
  std::set<uint64_t> with_holes_;  // segments
};

}  // namespace quire::lsm
