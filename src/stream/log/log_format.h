/// The bytes of a stream's log: its identity, its heads, its commits and their entries.
///
/// Layer      stream
/// Source     NVStream, HPDC18, section 4; docs/decisions/0013-streams.md
/// Encoding   docs/format/stream.md
/// Threads    pure functions
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quire/stream.h"
#include "stream/log/shape.h"

namespace quire::stream {

/// A count of bytes ever appended to a log. Byte p is stored at kLogHeaderBytes + p mod capacity.
using Position = uint64_t;

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kHeadSlots = 3;
constexpr uint64_t kLogHeaderBytes = (1 + kHeadSlots) * kPageBytes;  ///< the identity, heads
constexpr uint64_t kRecordBytes = 64;  ///< of a commit; everything is aligned to it
constexpr uint64_t kKeyBytesMax = 1024;
constexpr uint64_t kKeptMax = 480;
constexpr uint64_t kEntryFixedBytes = 80;
constexpr uint64_t kEntryBytesMax = 1280;

constexpr uint64_t AlignUp(uint64_t bytes, uint64_t to) {
  return (bytes + to - 1) / to * to;
}

/// The constant properties of a log; page 0.
struct Identity {
  uint64_t log_id = 0;    ///< random, seeds all checksums
  uint64_t capacity = 0;  ///< [bytes] behind the header
  uint32_t rank = 0;
  std::string store;  ///< its name
};
std::string EncodeIdentity(const Identity& identity);
/// kCorruption, kUnsupported (a newer version).
Result<Identity> DecodeIdentity(Slice page, const std::string& path);

/// The beginning of the log, and its policy. Stored in one of three slots, in pages 1 to 3: the
/// last synced head stays, and the older one of the other two is overwritten next.
struct Head {
  uint64_t sequence = 0;  ///< the largest one counts
  uint64_t synced = 0;    ///< the sequence of the last head before it that was synced
  Position head = 0;      ///< the first commit of the log
  Position durable = 0;   ///< everything below it was synced
  /// The tail when the head moved last: commits below it replace those that the head passed. 0: the
  /// head has not moved, or something was synced (`durable` is not 0).
  Position relies_on = 0;
  uint64_t boot_id = 0;   ///< of the machine that wrote last
  bool finished = false;
  uint32_t keep_versions = 1;
  uint64_t keep_ms = 0;
  std::vector<uint64_t> kept;  ///< snapshots, rising
};
/// Encodes a head into the memory of `page`; allocates none if `page` has room for kPageBytes.
std::string EncodeHead(const Head& head, uint64_t log_id, std::string page = {});
/// Decodes a head. kCorruption: the page is incomplete, or contains values that no writer stores.
Result<Head> DecodeHead(Slice page, uint64_t log_id);

enum class RecordKind : uint32_t {
  kCommit = 1,
  kRelocation = 2,  ///< of existing versions, under their own numbers
  kSkip = 3,        ///< nothing up to the end of the file
};

/// The first line of a commit, written last.
struct Record {
  RecordKind kind = RecordKind::kCommit;
  uint64_t bytes = 0;      ///< of the commit, this line included
  uint64_t directory = 0;  ///< offset of its entries from this line
  uint64_t snapshot = 0;   ///< 0 of relocations and skips
  uint64_t unix_time_ns = 0;
  uint32_t entry_count = 0;
  /// DirectoryHash of its entries, because entries of a lost commit at the same place would verify,
  /// too. 0: there are no entries, or an earlier version of the program wrote it.
  uint64_t directory_hash = 0;
};
/// Returns the hash of a directory that ends with `entry`; `before`: the hash of the entries before
/// it, 0 if there are none.
uint64_t DirectoryHash(Slice entry, uint64_t before);
/// Encodes a record. `at`: the position of the line.
std::string EncodeRecord(const Record& record, uint64_t log_id, Position at);
/// Returns whether the line may be a record, by its first bytes.
bool MayBeRecord(const char* line);
/// Returns the line that replaces a record behind a hole in the log.
std::string EncodeErased();
/// Returns whether the line may be an erased record, by its first bytes.
bool IsErased(const char* line);
/// Decodes a record. kCorruption: there is no commit there.
Result<Record> DecodeRecord(Slice line, uint64_t log_id, Position at);

/// One version of one object in a commit's directory.
struct VersionEntry {
  std::string key;
  StreamShape shape;
  uint64_t version = 0;
  uint64_t snapshot = 0;
  uint64_t unix_time_ns = 0;
  uint64_t bytes = 0;   ///< of the object
  Position data = 0;    ///< of the stored bytes
  uint64_t stored = 0;  ///< [bytes]
  uint64_t checksum = 0;
  uint64_t content_hash = 0;  ///< of the whole object, if has_content_hash
  bool delta = false;
  bool packed = false;  ///< by LZ4
  bool has_content_hash = false;
  /// Size of the entry itself, set by DecodeEntry and by the encoder.
  uint64_t encoded = 0;
};
/// Encodes an entry into `to`, which has room for kEntryBytesMax; pads it to whole lines. Returns
/// its size.
uint64_t EncodeEntry(const VersionEntry& entry, uint64_t log_id, Position at, char* to);
/// Decodes the bytes from `at` on, as many as there may be (kEntryBytesMax, or up to the commit's
/// end).
Result<VersionEntry> DecodeEntry(Slice bytes, uint64_t log_id, Position at);
/// Returns the size of an entry with so many key bytes and extents [bytes, whole lines].
uint64_t EntryBytes(uint64_t key_bytes, uint64_t extents);

/// Returns the entry in the form of the public interface.
StreamVersion VersionOf(const VersionEntry& entry);
/// Returns the seed of the checksums of data. It is the same for all places, so that a program that
/// copies the data can verify it. The entry binds the data to its place.
uint64_t DataSeed();

}  // namespace quire::stream
