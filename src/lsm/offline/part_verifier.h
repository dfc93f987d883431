/// Verifies the files of a part that was just copied: each against its own checksums, from front to
/// back, while it is still in the page cache.
///
/// Layer      lsm
/// Encoding   docs/format/table.md, segment.md, record.md
/// Threads    one
/// Invariants in a value segment only bytes to which no table refers may be damaged
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/engine_kind.h"
#include "io/files/file_system.h"
#include "quire/options.h"
#include "quire/status.h"

namespace quire::table {
class BlockCache;
class EntryIterator;
class Table;
}  // namespace quire::table

namespace quire::lsm {

class ValueReader;

class TablesVerifier final : public engine::PartVerifier {
 public:
  TablesVerifier(io::FileSystem& fs, std::string directory);
  ~TablesVerifier() override;

  Status Check(const std::string& name, uint64_t identity) override;
  bool HasHoles(const std::string& name) const override;
  /// Reads the values in segments that have places without a record, by the references of the
  /// tables. Such places come from a failed write or a kill, and no table refers to them.
  Result<bool> FinishSome(const std::vector<std::string>& names) override;

 private:
  Status CheckTable(uint64_t ssid, uint64_t file_id);
  Status CheckSegment(uint64_t id, uint64_t generation);
  // A table that refers to segments with holes, while its references are checked.
  struct References {
    std::shared_ptr<table::Table> table;
    std::unique_ptr<ValueReader> values;
    std::unique_ptr<table::EntryIterator> entries;
  };
  Status BeginReferences(uint64_t ssid);
  Result<bool> CheckReferences();
  std::string PathOf(const std::string& name) const { return directory_ + "/" + name; }

  io::FileSystem& fs_;
  const std::string directory_;
  const StorageOptions options_;
  const std::shared_ptr<table::BlockCache> cache_;
  std::set<uint64_t> with_holes_;  // segments
  size_t next_name_ = 0;           // of those of FinishSome
  References references_;          // null: none is begun
};

}  // namespace quire::lsm
