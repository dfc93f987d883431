/// The result of a point lookup in any source: a MemTable (also a neighbour's), a table, all runs,
/// or a database.
///
/// Layer      table
/// Threads    a value
#pragma once

#include <cstdint>

#include "log/record.h"
#include "quire/slice.h"

namespace quire::table {

class CachedBlock;

enum class KeyState : uint8_t {
  kAbsent,    ///< the source contains nothing about the key
  kDeleted,   ///< its newest version is a tombstone, or a tombstone of a range hides it
  kValue,     ///< `value` are the bytes
  kValueRef,  ///< `value` are the 32 bytes of a log::ValueRef
};

struct LookupResult {
  KeyState state = KeyState::kAbsent;
  /// Valid as long as the source; of a table, as long as the EpochGuard of the lookup.
  Slice value;
  uint64_t lsn = 0;              ///< of the version, or of the range tombstone that hides it
  CachedBlock* block = nullptr;  ///< of a table: the one into which `value` points
};

/// Returns the state of a key whose newest version has that type.
constexpr KeyState StateOf(log::RecordType type) {
  if (type == log::RecordType::kDelete) return KeyState::kDeleted;
  return type == log::RecordType::kValueRef ? KeyState::kValueRef : KeyState::kValue;
}

}  // namespace quire::table
