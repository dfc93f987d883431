/// The files of a partitioned dataset that describe its content: DATASET, EPOCHS, the index of a
/// part, and the list at the end of an epoch's bytes in a part.
///
/// Layer      dataset
/// Source     FilterKV, CMU-PDL-19-104, section 3.3 (main tables, auxiliary tables)
/// Encoding   docs/format/dataset.md
/// Threads    pure functions
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/files/file_system.h"
#include "quire/dataset.h"
#include "quire/slice.h"
#include "quire/status.h"
#include "runtime/partitioning.h"

namespace quire::dataset {

constexpr char kEpochsName[] = "EPOCHS";
constexpr char kLockName[] = "LOCK";

/// <directory>/part-<rank>: the tables and maps of a rank.
std::string PartPath(const std::string& directory, uint32_t rank);
/// <directory>/part-<rank>.index
std::string IndexPath(const std::string& directory, uint32_t rank);
/// <directory>/part-<rank>.values: format pointer
std::string ValuesPath(const std::string& directory, uint32_t rank);
/// <directory>/part-<rank>.lock: held by the writer of the other three
std::string PartLockPath(const std::string& directory, uint32_t rank);
/// Returns kCorruption: a file that complete epochs need is missing.
Status MissingFile(const std::string& path);
/// Returns kCorruption: what a rank `found` does not match what rank 0 found, because the two see
/// storages of the dataset in `directory` that do not belong together.
Status OtherStorage(const std::string& found, const std::string& directory);

/// The constant properties of a dataset.
struct DatasetDescriptor {
  DatasetFormat format = DatasetFormat::kRibbon;
  uint64_t id = 0;                    ///< random
  /// the name of the rule that maps keys to partitions
  std::string partitioner = runtime::Partitioning::kByHash;
};
/// Checks the rule's name. kInvalidArgument, with both names: the dataset at `directory` has a rule
/// other than `name`.
Status CheckPartitioner(const DatasetDescriptor& descriptor, const std::string& name,
                        const std::string& directory);
/// Returns the name of a format, as in options and files.
const char* FormatName(DatasetFormat format);
std::string EncodeDescriptor(const DatasetDescriptor& descriptor);
/// Errors  kCorruption (names the line), kUnsupported (a newer version).
Result<DatasetDescriptor> DecodeDescriptor(Slice text, const std::string& path);
/// kNotFound: there is none.
Result<DatasetDescriptor> ReadDescriptor(io::FileSystem& fs, const std::string& directory);

/// One complete epoch, in EPOCHS.
struct EpochRecord {
  uint64_t number = 0;
  uint64_t attempt = 0;  ///< the attempt whose bytes are valid; a failed one had another number
  uint64_t pair_count = 0;
  uint64_t unix_time = 0;
  uint32_t rank_count = 0;

  friend bool operator==(const EpochRecord& a, const EpochRecord& b) = default;
};

std::string EncodeEpochs(const std::vector<EpochRecord>& epochs, uint64_t id);
/// Returns the epochs in rising order. `id` is the dataset's. Errors  kCorruption: not what was
/// written.
Result<std::vector<EpochRecord>> DecodeEpochs(Slice bytes, uint64_t id, const std::string& path);
/// Reads <directory>/EPOCHS; none if there is neither such a file nor an epoch in the part of rank
/// 0: it is created before the parts. kCorruption: it is missing.
Result<std::vector<EpochRecord>> ReadEpochs(io::FileSystem& fs, const std::string& directory,
                                            uint64_t id);
/// Returns the number of epochs in <directory>/EPOCHS by its size, without reading it; 0 if there
/// is no such file.
Result<uint64_t> CountEpochs(io::FileSystem& fs, const std::string& directory);

/// The size of a record of an index [bytes].
constexpr uint64_t kRecordBytes = 64;

/// The places of one epoch's bytes in a part, in its index.
struct PartRecord {
  uint64_t at = 0;  ///< the record's place in the index, counted
  uint64_t number = 0;
  uint64_t attempt = 0;
  uint64_t pair_count = 0;   ///< in the tables
  uint64_t list_offset = 0;  ///< in the part; bytes after the list belong to the next epoch
  uint32_t list_bytes = 0;
  uint64_t values_end = 0;  ///< where the epoch ends in the file of values

  uint64_t end() const { return list_offset + list_bytes; }
  friend bool operator==(const PartRecord& a, const PartRecord& b) = default;
};

std::string EncodePart(const PartRecord& record, uint64_t id, uint32_t rank);
/// Returns the valid records of an index. Other records were cut off by a crash, or are damaged: a
/// complete epoch without a record means damage.
std::vector<PartRecord> DecodeIndex(Slice bytes, uint64_t id, uint32_t rank);
/// Reads the records of the rank's index; none if there is no such file.
Result<std::vector<PartRecord>> ReadIndex(io::FileSystem& fs, const std::string& directory,
                                          uint64_t id, uint32_t rank);
/// Returns the record of `epoch` among `records`. Errors  kCorruption: there is none.
Result<PartRecord> FindRecord(const std::vector<PartRecord>& records, const EpochRecord& epoch,
                              const std::string& path);

/// Reads only the record of epochs[which], which is complete, from the index of `rank`.
Result<PartRecord> ReadRecord(const io::File& index, uint64_t id, uint32_t rank,
                              const std::vector<EpochRecord>& epochs, size_t which);

/// Returns whether the first record of `index` names an epoch that is complete in `part`, but
/// belongs to another dataset than `id` or another rank than `rank`.
Result<bool> HasEpochOfOther(const io::File& index, const io::File& part, uint64_t id,
                             uint32_t rank);

/// The place of a table or a map in a part.
struct Extent {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t file_id = 0;  ///< of a table; for a map the checksum of its head

  friend bool operator==(const Extent& a, const Extent& b) = default;
};

/// The content of a part for one epoch: its tables, oldest first, and its maps.
struct PartList {
  std::vector<Extent> tables;
  std::vector<Extent> maps;

  friend bool operator==(const PartList& a, const PartList& b) = default;
};

std::string EncodeList(const PartList& list, uint64_t attempt);
/// Errors  kCorruption: not what was written, or an extent is not below `offset`, the list's.
Result<PartList> DecodeList(Slice bytes, uint64_t attempt, uint64_t offset,
                            const std::string& path);

}  // namespace quire::dataset
