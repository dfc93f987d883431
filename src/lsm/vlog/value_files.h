/// Reads values out of value segment files, with a bounded number of descriptors kept open.
///
/// Layer      lsm (internal)
/// Encoding   docs/format/segment.md, docs/format/record.md
/// Threads    any number of threads; a hit takes no lock
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "io/files/file_system.h"
#include "log/record.h"
#include "lsm/vlog/value_log.h"
#include "quire/slice.h"
#include "quire/status.h"

namespace quire::lsm {

/// Returns the offset of the value of `ref` in its file.
inline uint64_t ValueOffset(const log::ValueRef& ref) {
  return ref.offset + sizeof(log::RecordHeader) + ref.key_size;
}

/// Returns OK, or a kCorruption that names file and offset.
Status VerifyValue(Slice value, const log::ValueRef& ref, const std::string& path);

class ValueFiles {
 public:
  /// `mode`: kReadNamed for the owner, whose segments keep their names as long as a value in them
  /// can be read; kReadImmutable for all others.
  ValueFiles(io::FileSystem& fs, std::string directory, io::FileOpenMode mode)
      : fs_(fs), directory_(std::move(directory)), mode_(mode) {}
  /// Called when no reader is inside any more.
  ~ValueFiles();
  ValueFiles(const ValueFiles&) = delete;
  ValueFiles& operator=(const ValueFiles&) = delete;

  /// See ValueLog.
  Status Read(const log::ValueRef& ref, const BufferAllocator& allocate) const;
  Status Check(const log::ValueRef& ref) const;
  /// Closes the segment's file, if it is open.
  void Forget(uint64_t segment_id);
  std::string PathOf(uint64_t segment_id) const;

 private:
  struct OpenFile {
    uint64_t segment_id;
    std::shared_ptr<io::File> file;
  };
  // One place per id modulo this: ids of live segments are mostly neighbours of each other.
  static constexpr size_t kOpenFilesMax = 128;

  Result<std::shared_ptr<io::File>> Find(uint64_t segment_id) const;
  void Replace(std::atomic<OpenFile*>& place, std::unique_ptr<OpenFile> file) const;

  io::FileSystem& fs_;
  const std::string directory_;
  const io::FileOpenMode mode_;
  mutable std::array<std::atomic<OpenFile*>, kOpenFilesMax> places_{};
};

}  // namespace quire::lsm
