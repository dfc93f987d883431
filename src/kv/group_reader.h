/// The tables of the storage group: what its members' memory does not have is read from their
/// tables, as files, by whoever asks.
///
/// Layer      kv
/// Source     PapyrusKV, SC17, section 2.7
/// Threads    any; a member's tables are opened when they are first asked
/// Invariants what is read is of the edition that the owner told, or of a later one
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "kv/descriptor.h"
#include "lsm/reader.h"

namespace quire::kv {

/// Whether two ranks are in one group, of a size as in DatabaseOptions::group_size.
inline bool SameGroup(int a, int b, int group_size, bool same_node) {
  return group_size == 0 ? same_node : group_size > 0 && a / group_size == b / group_size;
}

class GroupReader {
 public:
  struct Options {
    io::FileSystem* fs = nullptr;
    std::string directory;  ///< of the database
    Generation generation;  ///< the present one
    int rank = 0;
    int group_size = 0;
    lsm::ReaderOptions reader;
  };
  explicit GroupReader(Options options);

  /// Whether `owner` may be read: of this group, and not found out of sight.
  bool Reaches(int owner) const;
  /// The value of `key` in the tables of `owner`, at `edition` or later. kNotFound: absent. kBusy:
  /// ask the owner for the value.
  Status Get(int owner, uint64_t store_id, uint64_t edition, Slice key,
             const lsm::AllocateFn& place);

 private:
  struct Member {
    std::mutex mutex;
    std::shared_ptr<lsm::Reader> reader;
    uint64_t edition = 0;
    std::atomic<bool> out_of_sight{false};
  };
  Result<std::shared_ptr<lsm::Reader>> ReaderAt(int owner, Member* member, uint64_t store_id,
                                                uint64_t edition);
  Status Open(int owner, Member* member, uint64_t store_id);
  Member& MemberOf(int owner) const;

  const Options options_;
  const int first_;  // rank of the group
  const int count_;  // of ranks in it
  const std::unique_ptr<Member[]> members_;
};

}  // namespace quire::kv
