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

/// A count of bytes ever appended to a log. Byte p lies at kLogHeaderBytes + p mod capacity.
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

/// The beginning of the log, and its policy. One of three slots, in pages 1 to 3: the last head
/// that was synced stays, and of the other two the older one is written next.
struct Head {
  uint64_t sequence = 0;  ///< the largest one counts
  uint64_t synced = 0;    ///< the sequence of the last head before it that was synced
  Position head = 0;      ///< the first commit that is there
  Position durable = 0;   ///< what lies below it was synced
  /// The tail when the head moved last: what lies below it replaces what the head passed. 0: the
  /// head has not moved, or something was synced (`durable` is not 0).
  Position relies_on = 0;
  uint64_t boot_id = 0;   ///< of the machine that wrote last
  bool finished = false;
  uint32_t keep_versions = 1;
  uint64_t keep_ms = 0;
  std::vector<uint64_t> kept;  ///< snapshots, rising
};
/// Into the memory of `page`: with room for kPageBytes, none is taken.
std::string EncodeHead(const Head& head, uint64_t log_id, std::string page = {});
/// kCorruption: the page is not whole, or says what no writer does.
Result<Head> DecodeHead(Slice page, uint64_t log_id);

enum class RecordKind : uint32_t {
  kCommit = 1,
  kRelocation = 2,  ///< of versions that are there already, under their own numbers
  kSkip = 3,        ///< nothing up to the end of the file
};

/// The first line of a commit, written last.
struct Record {
  RecordKind kind = RecordKind::kCommit;
  uint64_t bytes = 0;      ///< of the commit, this line among them
  uint64_t directory = 0;  ///< where its entries begin, from this line on
  uint64_t snapshot = 0;   ///< 0 of relocations and skips
  uint64_t unix_time_ns = 0;
  uint32_t entry_count = 0;
  /// DirectoryHash of its entries: those of a lost commit at the same place verify, too. 0: it has
  /// none, or an earlier program wrote it.
  uint64_t directory_hash = 0;
};
/// The hash of a directory that ends with `entry`; `before`: that of the entries before it, 0 of
/// none.
uint64_t DirectoryHash(Slice entry, uint64_t before);
/// `at`: where the line lies.
std::string EncodeRecord(const Record& record, uint64_t log_id, Position at);
/// Whether the line may be one; a look at its first bytes.
bool MayBeRecord(const char* line);
/// The line that takes a record's place behind a hole in the log.
std::string EncodeErased();
/// Whether the line may be such a one; a look at its first bytes.
bool IsErased(const char* line);
/// kCorruption: there is no commit there.
Result<Record> DecodeRecord(Slice line, uint64_t log_id, Position at);

/// One version of one object in a commit's directory.
struct VersionEntry {
  std::string key;
  StreamShape shape;
  uint64_t version = 0;
  uint64_t snapshot = 0;
  uint64_t unix_time_ns = 0;
  uint64_t bytes = 0;   ///< of the object
  Position data = 0;    ///< of what is stored
  uint64_t stored = 0;  ///< [bytes]
  uint64_t checksum = 0;
  uint64_t content_hash = 0;  ///< of the whole object, where has_content_hash
  bool delta = false;
  bool packed = false;  ///< by LZ4
  bool has_content_hash = false;
  /// Of the entry itself, set by DecodeEntry and by the encoder.
  uint64_t encoded = 0;
};
/// Into `to`, which has kEntryBytesMax; padded to whole lines. Returns the size.
uint64_t EncodeEntry(const VersionEntry& entry, uint64_t log_id, Position at, char* to);
/// Decodes the bytes from `at` on, as many as there may be (kEntryBytesMax, or up to the commit's
/// end).
Result<VersionEntry> DecodeEntry(Slice bytes, uint64_t log_id, Position at);
/// The size of an entry of a key with so many bytes and extents [bytes, whole lines].
uint64_t EntryBytes(uint64_t key_bytes, uint64_t extents);

/// The entry as the public interface shows it.
StreamVersion VersionOf(const VersionEntry& entry);
/// The seed of the checksums of data: the same for all places, so that a program that copies them
/// can verify them. Their entry binds them to their place.
uint64_t DataSeed();

}  // namespace quire::stream
