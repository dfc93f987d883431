/// Brings the value of a lookup's result into the caller's memory: it stands beside its key, or
/// apart from it. A small one is copied within the lookup's EpochGuard, a large one once that is
/// left, since others wait for guards.
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

/// A large value that was found and is still to be read. It holds what the value is in, if
/// the caller of Resolve has set `holder`.
struct LateValue {
  std::optional<log::ValueRef> reference;  ///< it stands apart from its key
  Slice beside_key;                        ///< else: here; empty: there is no late value
  std::shared_ptr<const void> holder;      ///< of `beside_key`, or of the segment
  table::BlockPin block;                   ///< of `beside_key`

  bool there() const { return reference.has_value() || !beside_key.empty(); }
};

class ValueResolver {
 public:
  /// As ValueReader::Read, but it says what a missing segment means.
  using ReadSeparated =
      std::function<Status(const log::ValueRef& reference, const BufferAllocator& allocate)>;
  explicit ValueResolver(ReadSeparated read) : read_(std::move(read)) {}

  /// Within the lookup's guard: copies a small value; leaves a large one in `late`, with the block
  /// that it is in.
  ///
  /// Errors  kNotFound: the key is absent or deleted. kOutOfMemory: `allocate` gave none. Those of
  ///         the read of a separated value.
  Status Resolve(const table::LookupResult& found, const BufferAllocator& allocate,
                 LateValue* late) const;
  /// Within the guard: leaves the value that the bytes of a reference refer to in `late`.
  static void Postpone(Slice reference, LateValue* late);
  /// Without the guard: copies the late value; nothing if there is none.
  Status ResolveLate(const LateValue& late, const BufferAllocator& allocate) const;
  /// Copies the value that the bytes of a reference refer to.
  Status ResolveReference(Slice reference, const BufferAllocator& allocate) const;

 private:
  const ReadSeparated read_;
};

}  // namespace quire::lsm
