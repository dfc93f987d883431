#include "lsm/vlog/value_files.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/hash/hash.h"
#include "base/threads/epoch.h"
#include "log/segment.h"

namespace quire::lsm {
namespace {

// Larger values are checked piece by piece, and are believed to be there only after a look at the
// file's size.
constexpr uint32_t kLargeBytes = 1 << 20;
constexpr uint64_t kOffsetMax = uint64_t{1} << 62;

Status NoMemory(const log::ValueRef& ref, const std::string& path) {
  return Status(Code::kOutOfMemory, "no memory for a value of " + std::to_string(ref.value_size) +
                                        " bytes at offset " + std::to_string(ref.offset) + " of " +
                                        path);
}

// A reference that came from a damaged place must do no harm.
Status CheckRef(const log::ValueRef& ref, const io::File& file) {
  const bool possible = ref.offset % 8 == 0 && ref.offset >= log::kSegmentHeaderBytes &&
                        ref.offset < kOffsetMax && ref.key_size - 1 < log::kKeyBytesMax;
  if (possible && ref.value_size <= kLargeBytes) return Status();
  if (possible) {
    QUIRE_ASSIGN_OR_RETURN(const uint64_t size, file.Size());
    if (ValueOffset(ref) + ref.value_size <= size) return Status();
  }
  return Status(Code::kCorruption, file.path() + " has no value of " +
                                       std::to_string(ref.value_size) + " bytes at offset " +
                                       std::to_string(ref.offset));
}

Status CompareChecksum(uint64_t checksum, const log::ValueRef& ref, const std::string& path) {
  if (checksum == ref.checksum) return Status();
  return Status(Code::kCorruption, path + ": the value at offset " + std::to_string(ref.offset) +
                                       " (" + std::to_string(ref.value_size) +
                                       " bytes) does not match its checksum");
}

class FileValueReader : public ValueReader {
 public:
  FileValueReader(io::FileSystem& fs, const std::string& directory)
      : files_(fs, directory, io::FileOpenMode::kReadImmutable) {}
  Status Read(const log::ValueRef& ref, const BufferAllocator& allocate) const override {
    return files_.Read(ref, allocate);
  }
  Status Check(const log::ValueRef& ref) const override { return files_.Check(ref); }

 private:
  ValueFiles files_;
};

}  // namespace

Status Deliver(Slice value, const BufferAllocator& allocate) {
  char* const to = allocate(value.size());
  if (to == nullptr) {
    return Status(Code::kOutOfMemory,
                  "no memory for a value of " + std::to_string(value.size()) + " bytes");
  }
  if (!value.empty()) std::memcpy(to, value.data(), value.size());
  return Status();
}

std::string ValueSegmentName(uint64_t segment_id) {
  return "val-" + std::to_string(segment_id) + ".seg";
}

std::unique_ptr<ValueReader> ValueReader::Create(io::FileSystem& fs,
                                                 const std::string& directory) {
  return std::make_unique<FileValueReader>(fs, directory);
}

Status VerifyValue(Slice value, const log::ValueRef& ref, const std::string& path) {
  return CompareChecksum(log::ValueChecksum(value, ref.segment_id, ref.offset), ref, path);
}

ValueFiles::~ValueFiles() {
  for (auto& place : places_) delete place.load(std::memory_order_relaxed);
}

std::string ValueFiles::PathOf(uint64_t segment_id) const {
  return directory_ + "/" + ValueSegmentName(segment_id);
}

Status ValueFiles::Read(const log::ValueRef& ref, const BufferAllocator& allocate) const {
  QUIRE_ASSIGN_OR_RETURN(const std::shared_ptr<io::File> file, Find(ref.segment_id));
  QUIRE_RETURN_IF_ERROR(CheckRef(ref, *file));
  char* const to = allocate(ref.value_size);
  if (to == nullptr) return NoMemory(ref, file->path());
  QUIRE_RETURN_IF_ERROR(file->ReadAt(ValueOffset(ref), ref.value_size, to));
  return VerifyValue(Slice(to, ref.value_size), ref, file->path());
}

Status ValueFiles::Check(const log::ValueRef& ref) const {
  QUIRE_ASSIGN_OR_RETURN(const std::shared_ptr<io::File> file, Find(ref.segment_id));
  QUIRE_RETURN_IF_ERROR(CheckRef(ref, *file));
  std::string piece(std::min(ref.value_size, kLargeBytes), '\0');
  base::PiecewiseChecksum checksum(log::ValueChecksumSeed(ref.segment_id, ref.offset));
  for (uint64_t done = 0; done < ref.value_size; done += piece.size()) {
    piece.resize(std::min<uint64_t>(piece.size(), ref.value_size - done));
    QUIRE_RETURN_IF_ERROR(file->ReadAt(ValueOffset(ref) + done, piece.size(), piece.data()));
    checksum.Add(piece);
  }
  return CompareChecksum(checksum.Sum(), ref, file->path());
}

Result<std::shared_ptr<io::File>> ValueFiles::Find(uint64_t segment_id) const {
  std::atomic<OpenFile*>& place = places_[segment_id % kOpenFilesMax];
  {
    const base::EpochGuard guard;
    const OpenFile* open = place.load(std::memory_order_acquire);
    if (open != nullptr && open->segment_id == segment_id) return open->file;
  }
  QUIRE_ASSIGN_OR_RETURN(auto opened, fs_.Open(PathOf(segment_id), mode_));
  std::shared_ptr<io::File> file = std::move(opened);
  Replace(place, std::unique_ptr<OpenFile>(new OpenFile{segment_id, file}));
  return file;
}

void ValueFiles::Replace(std::atomic<OpenFile*>& place, std::unique_ptr<OpenFile> file) const {
  // Memory is taken first: nothing may fail once the place has changed.
  const auto former = std::make_shared<std::unique_ptr<OpenFile>>();
  auto retired = base::EpochPrepare([former] { former->reset(); });
  former->reset(place.exchange(file.release(), std::memory_order_acq_rel));
  base::EpochRetire(std::move(retired));
}

void ValueFiles::Forget(uint64_t segment_id) {
  std::atomic<OpenFile*>& place = places_[segment_id % kOpenFilesMax];
  const base::EpochGuard guard;
  OpenFile* open = place.load(std::memory_order_acquire);
  if (open == nullptr || open->segment_id != segment_id) return;
  auto retired = base::EpochPrepare([open] { delete open; });
  if (!place.compare_exchange_strong(open, nullptr, std::memory_order_acq_rel)) return;
  base::EpochRetire(std::move(retired));
}

}  // namespace quire::lsm
