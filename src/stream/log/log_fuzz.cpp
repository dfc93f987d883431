// Logs with arbitrary bytes, and logs with valid checksums and arbitrary fields: opening, walking,
// reading and continuing them returns versions or kCorruption.
//
// Input: one byte of choices. Bit 1: the machine was rebooted since. Bit 2: the fields of a record
// (u32 kind, 4 u64, u32 entries), in place of the first record's, or, with bit 3, behind the last
// record. Bit 4: the fields of the newest head (6 u64, 2 u32, u8 count of kept snapshots, as many
// u64; with bit 5: u64 relies_on). Then, if bit 0 is clear: patches of the log, 3 bytes each (u16
// place, u8 to be xored); if bit 0 is set: the fields of an entry (7 u64, u8 flags), and its data.
#include <cstdint>
#include <memory>
#include <string>

#include "base/core/check.h"
#include "base/text/coding.h"
#include "io/sim/sim_file_system.h"
#include "stream/log/delta.h"
#include "stream/log/log_heap.h"
#include "stream/store/local_reader.h"
#include "stream/store/writer.h"

namespace quire::stream {
namespace {

constexpr char kLog[] = "/place/store/log-0";
constexpr uint64_t kLogId = 99;
constexpr uint64_t kCapacity = 16 << 10;
constexpr uint64_t kObjectBytesMax = 1 << 20;

void Append(LogHeap* heap, VersionEntry entry, Slice data) {
  const uint64_t bytes = kRecordBytes + AlignUp(data.size(), kRecordBytes) +
                         EntryBytes(entry.key.size(), entry.shape.extents.size());
  if (!heap->Begin(bytes).ok()) return;
  const Position at = heap->cursor();
  heap->Append(data, 0);
  if (entry.data == 0) entry.data = at;
  heap->AppendEntry(entry);
  heap->Commit(RecordKind::kCommit, entry.snapshot, 1);
}

VersionEntry Whole(uint64_t version, Slice data) {
  VersionEntry entry;
  entry.key = "key";
  entry.version = version;
  entry.snapshot = version;
  entry.bytes = data.size();
  entry.stored = data.size();
  entry.checksum = DataHash(data);
  return entry;
}

// Returns an entry with fields from the input. The checksum is that of the data, unless the flags
// say otherwise.
VersionEntry Forged(base::ByteReader* fields, Slice* data) {
  VersionEntry entry = Whole(2, Slice());
  uint8_t flags = 0;
  fields->Fixed(&entry.version);
  fields->Fixed(&entry.snapshot);
  fields->Fixed(&entry.bytes);
  fields->Fixed(&entry.data);
  fields->Fixed(&entry.stored);
  fields->Fixed(&entry.checksum);
  fields->Fixed(&entry.content_hash);
  fields->Fixed(&flags);
  *data = fields->rest().substr(0, 4096);
  entry.bytes %= kObjectBytesMax;
  entry.delta = (flags & 1) != 0;
  entry.packed = (flags & 2) != 0;
  entry.has_content_hash = (flags & 4) != 0;
  if ((flags & 8) == 0) entry.stored = data->size();
  if ((flags & 16) == 0) entry.checksum = DataHash(*data);
  if ((flags & 32) == 0) entry.data = 0;
  return entry;
}

Record ForgedRecord(base::ByteReader* fields) {
  Record record;
  uint32_t kind = 0;
  fields->Fixed(&kind);
  fields->Fixed(&record.bytes);
  fields->Fixed(&record.directory);
  fields->Fixed(&record.snapshot);
  fields->Fixed(&record.unix_time_ns);
  fields->Fixed(&record.entry_count);
  record.kind = static_cast<RecordKind>(kind);
  return record;
}

Head ForgedHead(base::ByteReader* fields, bool relies) {
  Head head;
  uint32_t finished = 0;
  uint8_t kept = 0;
  fields->Fixed(&head.sequence);
  fields->Fixed(&head.synced);
  fields->Fixed(&head.head);
  fields->Fixed(&head.durable);
  fields->Fixed(&head.boot_id);
  fields->Fixed(&head.keep_ms);
  fields->Fixed(&head.keep_versions);
  fields->Fixed(&finished);
  fields->Fixed(&kept);
  head.finished = (finished & 1) != 0;
  head.kept.resize(kept);
  for (uint64_t& snapshot : head.kept) fields->Fixed(&snapshot);
  if (relies) fields->Fixed(&head.relies_on);
  return head;
}

void Lay(io::SimFileSystem* fs, uint64_t at, const std::string& bytes) {
  const Status laid = fs->Damage(kLog, [&](std::string* log) {
    if (at + bytes.size() <= log->size()) log->replace(at, bytes.size(), bytes);
  });
  QUIRE_CHECK(laid.ok());
}

// A writer opens the log and goes on.
void WriteOn(io::FileSystem& fs) {
  StreamOptions options;
  options.log_bytes = kCapacity;
  const auto writer = OpenWriter(fs, "/place", "store", 0, options);
  if (!writer.ok()) {
    QUIRE_CHECK(writer.status().code() == Code::kCorruption);
    return;
  }
  QUIRE_CHECK((*writer)->Create("key", 700).ok());
  for (int i = 0; i < 30; ++i) {
    const Result<uint64_t> put = (*writer)->Put("key");
    QUIRE_CHECK(put.ok() || put.status().code() == Code::kNoSpace ||
                put.status().code() == Code::kCorruption);
  }
}

void ReadAll(io::FileSystem& fs) {
  const auto reader = OpenLocalReader(fs, "/place", "store", 0);
  if (!reader.ok()) {
    QUIRE_CHECK(reader.status().code() == Code::kCorruption);
    return;
  }
  const auto keys = (*reader)->Objects();
  if (!keys.ok()) return;
  for (const std::string& key : *keys) {
    const auto versions = (*reader)->Versions(key);
    if (!versions.ok()) continue;
    for (const StreamVersion& version : *versions) {
      std::string bytes;
      const Status status = (*reader)->Get(key, version.version, &bytes);
      QUIRE_CHECK(!status.ok() || bytes.size() == version.bytes);
      const auto view = (*reader)->View(key, version.version);
      if (view.ok() && (*view)->Verify().ok())
        QUIRE_CHECK((*view)->bytes().size() == version.bytes);
    }
  }
}

void Run(uint8_t choices, Slice input) {
  base::ByteReader fields(input);
  const std::unique_ptr<io::SimFileSystem> fs = io::NewSimFileSystem();
  QUIRE_CHECK(fs->MakeDirectory("/place").ok() && fs->MakeDirectory("/place/store").ok());
  Head head;
  head.sequence = head.synced = 1;
  head.boot_id = fs->BootId() + ((choices & 2) != 0 ? 1 : 0);
  QUIRE_CHECK(LogHeap::Create(*fs, kLog, {kLogId, kCapacity, 0, "store"}, head).ok());
  {
    auto heap = LogHeap::Open(*fs, kLog, io::MapMode::kReadWrite);
    QUIRE_CHECK(heap.ok());
    const std::string first(700, 'a');
    Append(heap->get(), Whole(1, first), first);
    if ((choices & 4) != 0) {
      const Position at = (choices & 8) != 0 ? (*heap)->tail() : 0;
      Lay(fs.get(), kLogHeaderBytes + at, EncodeRecord(ForgedRecord(&fields), kLogId, at));
    }
    if ((choices & 16) != 0) {
      const Head forged = ForgedHead(&fields, (choices & 32) != 0);
      Lay(fs.get(), 2 * kPageBytes, EncodeHead(forged, kLogId));
    }
    input = fields.rest();
    if ((choices & 1) != 0) {
      Slice data;
      const VersionEntry entry = Forged(&fields, &data);
      Append(heap->get(), entry, data);
    }
  }
  if ((choices & 1) == 0) {
    const Status patched = fs->Damage(kLog, [&](std::string* bytes) {
      for (size_t at = 0; at + 3 <= input.size(); at += 3) {
        const uint16_t place = base::LoadLe<uint16_t>(input.data() + at);
        (*bytes)[place % bytes->size()] ^= input[at + 2];
      }
    });
    QUIRE_CHECK(patched.ok());
  }
  ReadAll(*fs);
  WriteOn(*fs);
}

}  // namespace
}  // namespace quire::stream

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  quire::stream::Run(data[0], quire::Slice(reinterpret_cast<const char*>(data) + 1, size - 1));
  return 0;
}
