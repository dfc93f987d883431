#include "api/compat/papyruskv_settings.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "base/text/units.h"
#include "io/files/machine.h"

namespace quire::compat {
namespace {

using base::kGiB;
using base::kMiB;
constexpr uint64_t kMemTableBytesDefault = kGiB;
constexpr uint64_t kMemTableBytesMin = 64ull << 10;
constexpr uint64_t kMemTableBytesMax = 16 * kGiB;
constexpr uint64_t kCacheBytesDefault = 128 * kMiB;
constexpr uint64_t kBatchBytesMin = 1024;
constexpr uint64_t kBatchBytesMax = 16 * kMiB;
// MemTables take their memory when the database is opened. A size that was asked for may take a
// quarter of the memory, and PapyrusKV's default, which few programs need, an eighth. If databases
// are open already, a size may take less, so that 256 databases find room.
constexpr int kAskedPercent = 25;
constexpr int kDefaultPercent = 12;

constexpr int kConsistencies = PAPYRUSKV_SEQUENTIAL | PAPYRUSKV_RELAXED;
constexpr int kProtections =
    PAPYRUSKV_RDWR | PAPYRUSKV_WRONLY | PAPYRUSKV_RDONLY | PAPYRUSKV_UDONLY;

struct Range {
  int64_t least;
  int64_t most;
};

// Returns the number in a variable; empty if it is not set.
Result<std::optional<int64_t>> Number(const char* name, Range range) {
  const auto text = io::Environment(name);
  if (!text || text->empty()) return std::optional<int64_t>();
  int64_t number = 0;
  const char* const end = text->data() + text->size();
  const auto [rest, error] = std::from_chars(text->data(), end, number);
  if (error == std::errc() && rest == end && number >= range.least && number <= range.most) {
    return std::optional<int64_t>(number);
  }
  return Status(Code::kInvalidArgument, "environment variable " + std::string(name) + " is \"" +
                                            text->substr(0, 64) + "\"; it must be a number from " +
                                            std::to_string(range.least) + " to " +
                                            std::to_string(range.most));
}

Result<bool> Switch(const char* name, bool otherwise) {
  QUIRE_ASSIGN_OR_RETURN(const auto number, Number(name, {INT64_MIN, INT64_MAX}));
  return number ? *number > 0 : otherwise;
}

Result<std::optional<uint64_t>> Bytes(const char* name) {
  QUIRE_ASSIGN_OR_RETURN(const auto number, Number(name, {0, INT64_MAX}));
  if (!number) return std::optional<uint64_t>();
  return std::optional<uint64_t>(static_cast<uint64_t>(*number));
}

// Reads the search mode. Both variables are in use; if both are set, PAPYRUSKV_BIN_SEARCH counts.
Status ReadSearch(Settings* settings) {
  for (const char* const name : {"PAPYRUSKV_SSTABLE", "PAPYRUSKV_BIN_SEARCH"}) {
    QUIRE_ASSIGN_OR_RETURN(const auto number, Number(name, {1, 2}));
    if (number) settings->search = static_cast<SearchMode>(*number);
  }
  return Status();
}

Status ReadCaches(Settings* settings) {
  QUIRE_ASSIGN_OR_RETURN(const auto size, Bytes("PAPYRUSKV_CACHE_SIZE"));
  const uint64_t bytes = size.value_or(kCacheBytesDefault);
  QUIRE_ASSIGN_OR_RETURN(const bool local, Switch("PAPYRUSKV_CACHE_LOCAL", false));
  QUIRE_ASSIGN_OR_RETURN(const bool remote, Switch("PAPYRUSKV_CACHE_REMOTE", false));
  if (local) settings->local_cache_bytes = bytes;
  if (remote) settings->remote_cache_bytes = bytes;
  return Status();
}

Status ReadSizes(Settings* settings) {
  QUIRE_ASSIGN_OR_RETURN(const auto memtable, Bytes("PAPYRUSKV_MEMTABLE_SIZE"));
  if (memtable) {
    settings->memtable_bytes = std::clamp(*memtable, kMemTableBytesMin, kMemTableBytesMax);
  }
  QUIRE_ASSIGN_OR_RETURN(const auto batch, Bytes("PAPYRUSKV_REMOTE_BUFFER_SIZE"));
  if (batch) settings->batch_bytes = std::clamp(*batch, kBatchBytesMin, kBatchBytesMax);
  // Pairs of any size are staged, so the variable has no effect; it must still be a number.
  return Bytes("PAPYRUSKV_REMOTE_BUFFER_ENTRY_MAX").status();
}

// Returns the one bit of `flags` among `known`, or `otherwise` if there is none.
Result<int> OneOf(int flags, int known, int otherwise) {
  const int bits = flags & known;
  if (bits == 0) return otherwise;
  if ((bits & (bits - 1)) == 0) return bits;
  return Status(Code::kInvalidArgument, "the flags " + std::to_string(flags) +
                                            " name more than one consistency or protection");
}

}  // namespace

Result<Settings> ReadSettings() {
  Settings settings;
  QUIRE_ASSIGN_OR_RETURN(settings.group_size, Number("PAPYRUSKV_GROUP_SIZE", {-1, 1 << 30}));
  if (settings.group_size == 0) {
    return Status(Code::kInvalidArgument,
                  "environment variable PAPYRUSKV_GROUP_SIZE is 0; it must be a number of ranks, "
                  "or -1");
  }
  QUIRE_ASSIGN_OR_RETURN(const auto consistency, Number("PAPYRUSKV_CONSISTENCY", {1, 2}));
  if (consistency) settings.consistency = static_cast<Consistency>(*consistency);
  QUIRE_RETURN_IF_ERROR(ReadSearch(&settings));
  QUIRE_RETURN_IF_ERROR(ReadCaches(&settings));
  QUIRE_RETURN_IF_ERROR(ReadSizes(&settings));
  QUIRE_ASSIGN_OR_RETURN(settings.bloom, Switch("PAPYRUSKV_BLOOM", true));
  QUIRE_ASSIGN_OR_RETURN(settings.redistribute, Switch("PAPYRUSKV_FORCE_REDISTRIBUTE", false));
  QUIRE_ASSIGN_OR_RETURN(settings.destroy_repository, Switch("PAPYRUSKV_DESTROY_REPOSITORY", true));
  return settings;
}

int MemoryPercent(const Settings& settings, int open_count) {
  const int first = settings.memtable_bytes ? kAskedPercent : kDefaultPercent;
  return std::max(1, first / (1 + open_count));
}

Result<DatabaseOptions> OptionsOf(const Settings& settings, int flags,
                                  const papyruskv_option_t* option) {
  if ((flags & ~(PAPYRUSKV_CREATE | kConsistencies | kProtections)) != 0) {
    return Status(Code::kInvalidArgument, "there are no flags " + std::to_string(flags));
  }
  DatabaseOptions options;
  options.mode = (flags & PAPYRUSKV_CREATE) != 0 ? OpenMode::kOpenOrCreate : OpenMode::kMustExist;
  QUIRE_ASSIGN_OR_RETURN(const int consistency,
                         OneOf(flags, kConsistencies, static_cast<int>(settings.consistency)));
  options.consistency = static_cast<Consistency>(consistency);
  QUIRE_ASSIGN_OR_RETURN(const int protection, OneOf(flags, kProtections, PAPYRUSKV_RDWR));
  options.protection = static_cast<Protection>(protection);
  if (option != nullptr) options.partitioner = PartitionerOf(option->hash);
  // PapyrusKV writes no log. QUIRE_WAL=on enables one.
  if (!io::Environment("QUIRE_WAL")) options.storage.wal = WalMode::kOff;
  options.storage.memtable_bytes = settings.memtable_bytes.value_or(kMemTableBytesDefault);
  options.memory_percent_max = MemoryPercent(settings, 0);
  if (settings.search) options.storage.search = *settings.search;
  if (!settings.bloom) options.storage.bloom_bits_per_key = 0;
  if (settings.batch_bytes) options.migrate_batch_bytes = *settings.batch_bytes;
  options.local_cache_bytes = settings.local_cache_bytes;
  options.remote_cache_bytes = settings.remote_cache_bytes;
  if (settings.group_size)
    options.group_size = static_cast<int>(std::max<int64_t>(*settings.group_size, 1));
  return options;
}

Result<Protection> ProtectionOf(int number) {
  if ((number & ~kProtections) == 0) {
    QUIRE_ASSIGN_OR_RETURN(const int bit, OneOf(number, kProtections, 0));
    if (bit != 0) return static_cast<Protection>(bit);
  }
  return Status(Code::kInvalidArgument, "there is no protection " + std::to_string(number));
}

Result<Consistency> ConsistencyOf(int number) {
  if (number == PAPYRUSKV_SEQUENTIAL) return Consistency::kSequential;
  if (number == PAPYRUSKV_RELAXED) return Consistency::kRelaxed;
  return Status(Code::kInvalidArgument, "there is no consistency " + std::to_string(number));
}

Result<Level> LevelOf(int number) {
  constexpr int kLevels = PAPYRUSKV_MEMTABLE | PAPYRUSKV_SSTABLE;
  if (number == 0 || (number & ~kLevels) != 0) {
    return Status(Code::kInvalidArgument, "there is no level " + std::to_string(number));
  }
  return (number & PAPYRUSKV_SSTABLE) != 0 ? Level::kSsTable : Level::kMemTable;
}

Partitioner PartitionerOf(papyruskv_hash_fn_t function) {
  if (function == nullptr) return Partitioner();
  return [function](Slice key, int rank_count) {
    return function(key.data(), key.size(), static_cast<size_t>(rank_count));
  };
}

}  // namespace quire::compat
