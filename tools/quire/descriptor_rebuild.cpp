#include "tools/quire/descriptor_rebuild.h"

#include <memory>
#include <utility>

#include "base/hash/hash.h"
#include "base/text/printable.h"
#include "lsm/offline/reader.h"
#include "lsm/version/manifest.h"
#include "runtime/partitioning.h"

namespace quire::tool {
namespace {

// Keys tried in each part: with the wrong rule, hardly any key is in the part where it should be.
constexpr int kKeysTried = 100;
constexpr uint64_t kDescriptorBytesMax = 64 << 10;

Status Unknown(const DatabaseOnDisk& place, const std::string& why) {
  return Status(Code::kInvalidArgument,
                place.directory + " has lost its DATABASE, and " + why +
                    ": say with --ranks how many ranks wrote the newest generation, and with "
                    "--partitioner by which rule they owned keys");
}

Status CheckAllHere(const DatabaseOnDisk& place, const kv::Generation& generation) {
  int next = 0;
  for (const PartOnDisk& part : place.parts) {
    if (part.generation != generation.number) continue;
    if (part.rank != next++) break;
  }
  if (next == generation.rank_count) return Status();
  return Unknown(place, "generation " + std::to_string(generation.number) + " has parts of " +
                            std::to_string(next) + " ranks here, of " +
                            std::to_string(generation.rank_count) + " or more");
}

// Returns the first key of the part that another rank would own if `rank_count` ranks owned keys by
// their hash. Empty (which is no key) if all tried keys are its rank's.
Result<std::string> StrangeKey(io::FileSystem& fs, const PartOnDisk& part, int rank_count) {
  QUIRE_ASSIGN_OR_RETURN(const std::shared_ptr<lsm::Reader> reader,
                         lsm::Reader::Open(fs, part.directory, {}));
  const std::unique_ptr<engine::Iterator> iterator = reader->NewIterator({});
  iterator->SeekToFirst();
  for (int tried = 0; tried < kKeysTried && iterator->Valid(); ++tried, iterator->Next()) {
    const Slice key = iterator->key();
    if (base::OwnerOf(base::HashKey(key), rank_count) != part.rank) return std::string(key);
  }
  QUIRE_RETURN_IF_ERROR(iterator->status());
  return std::string();
}

Status CheckKeys(io::FileSystem& fs, const DatabaseOnDisk& place, const kv::Generation& generation,
                 const PartOnDisk& part) {
  QUIRE_ASSIGN_OR_RETURN(const std::string key, StrangeKey(fs, part, generation.rank_count));
  if (key.empty()) return Status();
  return Unknown(place, "key " + base::Printable(key) + " in " + part.directory +
                            " would not be there if the " + std::to_string(generation.rank_count) +
                            " ranks that are here had owned keys by their hash");
}

// Returns whether the keys exclude that there were more ranks, with parts on other nodes: the first
// parts of many ranks contain only keys that fewer ranks would place there, too. A key that its
// rank would not own among one more rank, it would not own among more, either: ranks own hashes in
// ranges.
Result<bool> AllAreHere(io::FileSystem& fs, const DatabaseOnDisk& place,
                        const kv::Generation& generation) {
  for (const PartOnDisk& part : place.parts) {
    if (part.generation != generation.number) continue;
    QUIRE_ASSIGN_OR_RETURN(const std::string key, StrangeKey(fs, part, generation.rank_count + 1));
    if (!key.empty()) return true;
  }
  return false;
}

Result<kv::Generation> Identified(io::FileSystem& fs, const DatabaseOnDisk& place,
                                  kv::Generation generation) {
  QUIRE_RETURN_IF_ERROR(CheckAllHere(place, generation));
  generation.partitioner = runtime::Partitioning::kByHash;
  for (const PartOnDisk& part : place.parts) {
    if (part.generation != generation.number) continue;
    QUIRE_RETURN_IF_ERROR(CheckKeys(fs, place, generation, part));
  }
  return generation;
}

// The user's options count for the newest generation; the older ones must be identified by their
// keys.
Result<kv::DatabaseDescriptor> Guess(io::FileSystem& fs, const DatabaseOnDisk& place,
                                     const RebuildOptions& options, lsm::RepairReport* report) {
  kv::DatabaseDescriptor descriptor;
  for (kv::Generation generation : place.descriptor.generations) {
    const bool newest = descriptor.generations.empty();
    if (newest && options.rank_count != 0) {
      if (options.rank_count < generation.rank_count) {
        return Unknown(place, "there are parts of " + std::to_string(generation.rank_count) +
                                  " ranks, more than --ranks says");
      }
      generation.rank_count = options.rank_count;
    }
    if (newest && !options.partitioner.empty()) {
      if (options.rank_count == 0) {
        return Unknown(place, "only the hash of keys could tell how many ranks there were");
      }
      generation.partitioner = options.partitioner;
    } else {
      QUIRE_ASSIGN_OR_RETURN(generation, Identified(fs, place, generation));
      QUIRE_ASSIGN_OR_RETURN(const bool all, AllAreHere(fs, place, generation));
      const std::string more = "more than " + std::to_string(generation.rank_count) +
                               " ranks, with parts on other nodes";
      if (!all && newest && options.rank_count == 0) {
        return Unknown(place, "the keys here could be those of " + more);
      }
      if (!all && !newest) {
        report->losses.push_back("Generation " + std::to_string(generation.number) +
                                 " may be of " + more + ": pairs there are not found.");
      }
    }
    descriptor.generations.push_back(std::move(generation));
  }
  return descriptor;
}

Status Write(io::FileSystem& fs, const DatabaseOnDisk& place,
             const kv::DatabaseDescriptor& descriptor, const RebuildOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<io::FileLock> lock,
                         fs.Lock(DatabaseLockPath(place.directory), options.holder));
  const std::string path = kv::DescriptorPath(place.directory);
  const Result<std::string> before = io::ReadFile(fs, path, kDescriptorBytesMax);
  if (before.ok()) {
    QUIRE_RETURN_IF_ERROR(io::MakeDurableDirectory(fs, options.lost_directory));
    QUIRE_ASSIGN_OR_RETURN(const std::string lost,
                           lsm::FreePath(fs, options.lost_directory + "/DATABASE"));
    QUIRE_RETURN_IF_ERROR(io::ReplaceFile(fs, lost, *before));
  }
  return kv::WriteDescriptor(fs, place.directory, descriptor);
}

}  // namespace

Result<lsm::RepairReport> RebuildDescriptor(io::FileSystem& fs, const DatabaseOnDisk& place,
                                            const RebuildOptions& options) {
  if (place.parts.empty())
    return Status(Code::kNotFound, place.directory + " has no rank's part: restore it from a copy");
  lsm::RepairReport report;
  QUIRE_ASSIGN_OR_RETURN(const kv::DatabaseDescriptor descriptor,
                         Guess(fs, place, options, &report));
  report.needed = true;
  std::string all;
  for (const kv::Generation& generation : descriptor.generations) {
    all += (all.empty() ? "" : ", ") + std::to_string(generation.number) + " (" +
           std::to_string(generation.rank_count) + " ranks, " + generation.partitioner + ")";
  }
  report.steps.push_back("make a new " + kv::DescriptorPath(place.directory) +
                         " with generations " + all);
  report.losses.push_back(
      "Which generations belong to the database is guessed from what is there: where an older one "
      "was about to be removed, deleted keys may be back.");
  report.losses.push_back(
      "A checkpoint that the database used in place (a restart with in_place) is not known any "
      "more: if it had one, pairs that had not moved from there are absent; restart it again.");
  if (!options.dry_run) QUIRE_RETURN_IF_ERROR(Write(fs, place, descriptor, options));
  return report;
}

}  // namespace quire::tool
