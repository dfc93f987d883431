/// Reads the tables of the storage group's members if they share no memory: a rank reads values
/// that are not in a member's memory from its tables, as files. (Those that share memory are read
/// without a question: direct_reader.h. A member is read in one of the two ways.)
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

/// Whether two ranks are in one group, of a size as in DatabaseOptions::group_size.
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
    bool expected = false;     ///< that their tables are seen: the program said who is a member
    engine::ReaderOptions reader;
  };
  explicit FileGroupReader(Options options);

  /// Whether `owner` may be read: a member, and not found out of sight.
  bool Reaches(int owner) const;
  /// The same after a look: for those who cannot ask again later.
  bool Sees(int owner);
  /// The value of `key` in these tables of `owner`, which it Reaches. kNotFound: absent. kBusy: ask
  /// the owner for the value.
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
