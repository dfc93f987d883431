// Arbitrary bytes opened as a table: opening, lookups, walks and verification end, within bounds,
// without a leak.
//
// Input: one byte of choices, then the file. Choice bit 0: the checksums of footer, index, filter
// and properties are made right first and those of data blocks switched off, so that the fuzzer
// comes past them. Bits 1 and 2: the search mode. Bit 3: a cache of a few blocks only.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "base/core/check.h"
#include "base/hash/hash.h"
#include "base/text/coding.h"
#include "base/threads/epoch.h"
#include "io/sim/sim_file_system.h"
#include "table/format.h"
#include "table/table.h"

namespace quire::table {
namespace {

constexpr uint64_t kSsid = 1;
constexpr char kPath[] = "/t-1.sst";
constexpr uint64_t kStepsMax = 5000;

// The fields of a footer, whatever they say.
Footer ReadFooter(Slice bytes) {
  Footer footer;
  footer.flags = base::LoadLe<uint32_t>(bytes.data() + 12);
  footer.file_id = base::LoadLe<uint64_t>(bytes.data() + 24);
  footer.data_bytes = base::LoadLe<uint64_t>(bytes.data() + 32);
  footer.index_bytes = base::LoadLe<uint64_t>(bytes.data() + 40);
  footer.filter_bytes = base::LoadLe<uint64_t>(bytes.data() + 48);
  footer.block_count = base::LoadLe<uint64_t>(bytes.data() + 64);
  return footer;
}

void ForgePart(std::string* file, base::ChecksumKind kind, uint64_t identity, uint64_t offset,
               uint64_t size) {
  if (size < kChecksumBytes || offset > file->size() || size > file->size() - offset) return;
  const Slice part = Slice(*file).substr(offset, size - kChecksumBytes);
  base::StoreLe(file->data() + offset + part.size(), PartChecksum(kind, identity, offset, part));
}

void Forge(std::string* file) {
  if (file->size() < kFooterBytes) return;
  Footer footer = ReadFooter(Slice(*file).substr(file->size() - kFooterBytes));
  footer.ssid = kSsid;
  footer.flags = (footer.flags & kFlagFilter) | kFlagUncheckedBlocks;
  // The sizes of the parts add up: properties take what the others leave.
  const uint64_t parts = file->size() - kFooterBytes;
  footer.data_bytes = std::min(footer.data_bytes, parts);
  footer.index_bytes = std::min(footer.index_bytes, parts - footer.data_bytes);
  footer.filter_bytes =
      footer.has_filter() ? std::min(footer.filter_bytes, parts - footer.filter_offset()) : 0;
  footer.properties_bytes = parts - footer.properties_offset();
  file->replace(parts, kFooterBytes, EncodeFooter(footer));
  const uint64_t identity = TableIdentity(footer.file_id, kSsid);
  ForgePart(file, base::ChecksumKind::kIndexBlock, identity, footer.index_offset(),
            footer.index_bytes);
  ForgePart(file, base::ChecksumKind::kFilterBlock, identity, footer.filter_offset(),
            footer.filter_bytes);
  ForgePart(file, base::ChecksumKind::kProperties, identity, footer.properties_offset(),
            footer.properties_bytes);
}

// Walks, and looks up what the walk finds. A table that opens but is damaged gives errors, no more.
void Walk(const Table& table, bool fill_cache) {
  const std::unique_ptr<EntryIterator> iterator = table.NewIterator(fill_cache);
  uint64_t steps = 0;
  std::string last_key;
  for (iterator->SeekToFirst(); iterator->Valid() && steps < kStepsMax; iterator->Next(), ++steps) {
    const std::string key(iterator->key());
    QUIRE_CHECK(!key.empty() && key >= last_key);
    last_key = key;
    const base::EpochGuard guard;
    LookupResult found;
    const uint64_t hash = base::HashKey(key);
    (void)table.MayContain(hash);
    const Status status = table.Get(key, hash, iterator->lsn(), &found);
    if (status.ok() && found.state != KeyState::kAbsent) {
      QUIRE_CHECK(found.lsn <= iterator->lsn());
      const std::string copied(found.value);  // reads all of it
    }
    (void)table.CoveringTombstone(key, UINT64_MAX);
  }
  for (iterator->SeekToLast(); iterator->Valid() && steps < 2 * kStepsMax; ++steps)
    iterator->Prev();
  for (const Slice key : {Slice("key/15"), Slice("versions"), Slice("\0", 1), Slice(last_key)}) {
    iterator->Seek(key);
    QUIRE_CHECK(!iterator->Valid() || iterator->key() >= key);
    iterator->SeekBefore(key);
    QUIRE_CHECK(!iterator->Valid() || iterator->key() < key);
  }
}

void OpenAndRead(const std::string& file, int choices) {
  const std::unique_ptr<io::SimFileSystem> fs = io::NewSimFileSystem();
  auto written = fs->Open(kPath, io::FileOpenMode::kCreate);
  QUIRE_CHECK(written.ok() && (*written)->WriteAt(0, file).ok());
  StorageOptions options;
  options.search = static_cast<SearchMode>(1 + (choices >> 1) % 3);
  const auto opened =
      Table::Open(*fs, kPath, kSsid, options, NewBlockCache((choices & 8) != 0 ? 2000 : 1 << 20));
  if (!opened.ok()) return;
  Walk(**opened, true);
  Walk(**opened, false);
  (void)(*opened)->Verify();
}

}  // namespace
}  // namespace quire::table

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const int choices = data[0];
  std::string file(reinterpret_cast<const char*>(data) + 1, size - 1);
  if ((choices & 1) != 0) quire::table::Forge(&file);
  quire::table::OpenAndRead(file, choices);
  quire::base::EpochCollect();
  return 0;
}
