/// Reads the tables of the storage group's members that share no memory: values that are not in a
/// member's memory are read from the member's tables, as files. (Members that share memory are read
/// without a message: shared_memory_group_reader.h. A member is read in one of the two ways.)
///
/// Layer      kv
/// Source     PapyrusKV, SC17, section 2.7
/// Threads    any; a member's tables are opened when they are first needed
/// Invariants the tables read are of the edition that the owner named, or of a later one
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/engine_kind.h"
#include "kv/protocol/descriptor.h"
#include "kv/protocol/wire.h"

namespace quire::kv {

/// Returns whether two ranks are in one group; `group_size` as in DatabaseOptions.
inline bool SameGroup(int a, int b, int group_size, bool same_machine) {
  return group_size == 0 ? same_machine : group_size > 0 && a / group_size == b / group_size;
}

class FileGroupReader {
 public:
  struct Options {
    io::FileSystem* fs = nullptr;
    std::string directory;     ///< of the database
    Generation generation;     ///< the present one
    std::vector<int> members;  ///< to be read from here
    bool expected = false;     ///< the program named the members, so their tables should be visible
    engine::ReaderOptions reader;
  };
  explicit FileGroupReader(Options options);

  /// Returns whether `owner` may be read: it is a member whose files were not found missing.
  bool Reaches(int owner) const;
  /// Returns whether `owner`'s tables can be read, and opens them first if necessary.
  bool Sees(int owner);
  /// Returns the value of `key` in these tables of `owner`, which it Reaches. kNotFound: absent.
  /// kBusy: ask the owner for the value.
  Status Get(int owner, const NamedTables& tables, Slice key, const BufferAllocator& allocate);

 private:
  struct Member {
    std::mutex mutex;
    std::shared_ptr<engine::StoredPart> reader;
    NamedTables seen;
    bool Has(const NamedTables& tables) const;
    void NoteSeen();
    std::atomic<bool> out_of_sight{false};
  };
  Result<std::shared_ptr<engine::StoredPart>> ReaderAt(int owner, Member* member,
                                                       const NamedTables& tables);
  Status Open(int owner, Member* member);
  void OutOfSight(int owner, Member* member);

  const Options options_;
  std::vector<std::unique_ptr<Member>> members_;  // by rank; null: none
};

}  // namespace quire::kv
