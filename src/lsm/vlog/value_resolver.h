/// Copies the value of a lookup's result into the caller's memory, whether it is stored beside its
/// key or apart from it. A small one is copied within the lookup's EpochGuard, a large one after
/// the guard is left, because other threads wait for guards.
///
/// Layer      lsm (internal)
/// Encoding   docs/format/record.md (ValueRef)
/// Threads    any
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "log/record.h"
#include "lsm/vlog/value_log.h"
#include "quire/buffer_allocator.h"
#include "quire/slice.h"
#include "quire/status.h"
#include "table/block_cache.h"
#include "table/lookup_result.h"

namespace quire::lsm {

/// A large value that was found and is still to be read. If the caller of Resolve has set `holder`,
/// this keeps alive what contains the value.
struct LateValue {
  std::optional<log::ValueRef> reference;  ///< the value is stored apart from its key
  Slice beside_key;                        ///< else the value; empty: there is no late value
  std::shared_ptr<const void> holder;      ///< of `beside_key`, or of the segment
  table::BlockPin block;                   ///< of `beside_key`

  bool there() const { return reference.has_value() || !beside_key.empty(); }
};

class ValueResolver {
 public:
  /// As ValueReader::Read, but the error says what a missing segment means.
  using ReadSeparated =
      std::function<Status(const log::ValueRef& reference, const BufferAllocator& allocate)>;
  explicit ValueResolver(ReadSeparated read) : read_(std::move(read)) {}

  /// Within the lookup's guard: copies a small value; leaves a large one in `late`, with its block.
  ///
  /// Errors  kNotFound: the key is absent or deleted. kOutOfMemory: `allocate` returned none. Those
  ///         of the read of a separated value.
  Status Resolve(const table::LookupResult& found, const BufferAllocator& allocate,
                 LateValue* late) const;
  /// Within the guard: sets `late` to the value to which the bytes of a reference refer.
  static void Postpone(Slice reference, LateValue* late);
  /// Without the guard: copies the late value; does nothing if there is none.
  Status ResolveLate(const LateValue& late, const BufferAllocator& allocate) const;
  /// Copies the value to which the bytes of a reference refer.
  Status ResolveReference(Slice reference, const BufferAllocator& allocate) const;

 private:
  const ReadSeparated read_;
};

}  // namespace quire::lsm
