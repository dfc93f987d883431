/// Several writes as one: consecutive log records, encoded as on the wire and in the log.
///
/// Layer      engine
/// Encoding   docs/format/record.md (checksums 0: the code that stores or sends the batch covers
///            it)
/// Threads    one thread at a time
#pragma once

#include <string>
#include <vector>

#include "log/record.h"
#include "quire/slice.h"
#include "quire/status.h"

namespace quire::engine {

/// One operation of a write.
struct WriteOp {
  log::RecordType type;
  Slice key;
  Slice value;
};

class WriteBatch {
 public:
  void Put(Slice key, Slice value) { Add(log::RecordType::kPut, key, value); }
  void Delete(Slice key) { Add(log::RecordType::kDelete, key, {}); }
  void DeleteRange(Slice begin, Slice end) { Add(log::RecordType::kRangeDelete, begin, end); }
  /// Adds a call of a registered function at the owner.
  void Update(Slice key, uint32_t function, Slice argument);
  /// Adds an operation of any of these types. The caller has checked the sizes: key 1 ..
  /// kKeyBytesMax, value up to kValueBytesMax. The database refuses a range whose end is longer
  /// than a key.
  void Add(log::RecordType type, Slice key, Slice value);
  void Clear() {
    bytes_.clear();
    count_ = 0;
  }
  size_t count() const { return count_; }
  const std::string& bytes() const { return bytes_; }

 private:
  void AddHeader(log::RecordType type, Slice key, size_t value_size);
  void AddPadding(size_t key_size, size_t value_size);

  std::string bytes_;
  size_t count_ = 0;
};

/// Returns the operations in `bytes` (a received batch); kCorruption if a length or a type is
/// impossible. The slices point into `bytes`, which need not be aligned. Possible types: kPut,
/// kDelete, kRangeDelete and kUpdate (value: at least the function's 4 bytes).
Result<std::vector<WriteOp>> DecodeBatch(Slice bytes);

}  // namespace quire::engine
