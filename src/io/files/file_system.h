/// Files, maps, directories and locks: the one place that makes system calls on data, behind an
/// interface with a real form (Posix), a simulated one (SimFileSystem: crashes) and a faulty one
/// (FaultFileSystem: the n-th call fails).
///
/// Layer      io
/// Source     docs/durability.md; ALICE, CORDS and the fsync studies
/// Threads    a FileSystem from any thread; a File: reads from any thread, writes by one thread at
///            a time per range
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "quire/slice.h"
#include "quire/status.h"

namespace quire::io {

/// A file that is open as kReadImmutable stays readable if it is removed or replaced. One that is
/// open as kReadNamed may answer kCorruption then, and never reads from the other file.
enum class FileOpenMode {
  kRead,            ///< must exist
  kReadImmutable,   ///< must exist; what is read does not change: it may be copied from a mapping
  kReadNamed,       ///< the same, and it keeps its name while it is open: few stay open at a time
  kReadWrite,       ///< must exist
  kCreate,          ///< must not exist (else kInvalidArgument): O_EXCL | O_NOFOLLOW, 0600
  kReadWriteCreate  ///< opened, or created 0600 where absent; never follows a symbolic link
};

inline bool OnlyReads(FileOpenMode mode) {
  return mode == FileOpenMode::kRead || mode == FileOpenMode::kReadImmutable ||
         mode == FileOpenMode::kReadNamed;
}

/// One open file. Closed by destruction.
class File {
 public:
  virtual ~File() = default;
  /// Reads exactly `size` bytes at `offset` into `to`; short files are kCorruption ("file ends at
  /// ..."). If another program shortens a file that is open as kReadImmutable, the removed bytes of
  /// its last page may read as zeros.
  virtual Status ReadAt(uint64_t offset, size_t size, char* to) const = 0;
  /// Writes all of `bytes` at `offset`; interrupted and short writes are continued. In the page
  /// cache at return (P1).
  virtual Status WriteAt(uint64_t offset, Slice bytes) = 0;
  /// Sets aside room so that later writes into [0, size) cannot fail for lack of it; grows the file
  /// to `size`.
  virtual Status Allocate(uint64_t size) = 0;
  virtual Status Truncate(uint64_t size) = 0;
  /// Gives the room of [offset, offset + size) back: it reads as zeros then, and writing there
  /// takes an Allocate first. The size stays. OK also if the file system cannot: then nothing
  /// changes.
  virtual Status Deallocate(uint64_t offset, uint64_t size) = 0;
  /// Data (and the size) durable against power loss (P2). A failure is never retried as if it could
  /// help.
  virtual Status Sync() = 0;
  /// Has the system begin to write out what was written into [offset, offset + size), and waits for
  /// nothing: Sync has less to do then. Promises nothing; Sync reports failures.
  virtual void StartWriteBack(uint64_t offset, uint64_t size) = 0;
  virtual Result<uint64_t> Size() const = 0;
  virtual const std::string& path() const = 0;
};

/// A file mapped shared, its room set aside before it is stored to. Stores to it are P1 at once.
/// Unmapped by destruction.
class MappedFile {
 public:
  virtual ~MappedFile() = default;
  char* data() { return data_; }
  const char* data() const { return data_; }
  uint64_t size() const { return size_; }
  /// Whether it is persistent memory (DAX, MAP_SYNC): stores past the caches, or written back
  /// from them, are durable (P2) with the next fence.
  bool persistent() const { return persistent_; }
  /// Whether its pages are the file itself, and never written out: persistent memory, tmpfs.
  bool in_memory() const { return in_memory_; }
  /// Stores into [offset, offset + size) made durable (P2): msync, or flush and fence on DAX.
  virtual Status Sync(uint64_t offset, uint64_t size) = 0;
  /// Stores bytes of [offset, offset + size) once more as they are, one in each page, so that the
  /// next Sync writes all of these pages. Needed before a program relies on a Sync of bytes that an
  /// earlier program stored: after a sync that failed Linux takes the pages for written, and a
  /// later one would return OK for bytes that the device does not have. Other threads and programs
  /// may store there meanwhile. Does nothing for files in memory.
  ///
  /// Errors  kIo: a page cannot be read from the device. kOutOfMemory.
  Status StoreAgain(uint64_t offset, uint64_t size);
  /// Brings the pages of [offset, offset + size) into memory, as far as the file was mapped. A load
  /// from a page that the device cannot give, or that another program cut off the file, would end
  /// the program with SIGBUS: so ask before bytes are looked at that an earlier program stored. The
  /// kernel may drop the pages again later.
  ///
  /// Errors  kIo: a page cannot be had. kOutOfMemory. Never kNotFound.
  /// Cost    one system call
  virtual Status MakeReadable(uint64_t /*offset*/, uint64_t /*size*/) { return Status(); }
  /// The same for a caller that asks often: no system call if the pages can be had, unless this
  /// thread blocks SIGBUS; a load for each page.
  Status TouchReadable(uint64_t offset, uint64_t size);
  /// Copies [offset, offset + size) to `to`, with no system call. False: a page cannot be had, or
  /// this thread could not survive that (it blocks SIGBUS); then File::ReadAt reads, or names the
  /// error.
  bool TryCopy(uint64_t offset, size_t size, char* to) const;
  /// Touches the pages so that stores do not fault (background; best effort, never an error).
  virtual void Prefault(uint64_t offset, uint64_t size) = 0;
  virtual const std::string& path() const = 0;

  /// Bytes from the beginning for which room is set aside: no store goes beyond.
  uint64_t room() const { return room_.load(std::memory_order_acquire); }
  /// So many were set aside so far, not all of the file. Before other threads know of it.
  void LimitRoom(uint64_t bytes) { room_.store(bytes, std::memory_order_relaxed); }
  /// Sets room aside up to `end`, within the file. Any thread; waits for another that does it.
  ///
  /// Errors  kNoSpace: room() is what it was. kCorruption: another file has its name. kIo,
  ///         kOutOfMemory.
  Status GrowRoom(uint64_t end);

  /// Marks, for a simulated file system, the stores so far as a step at which a crash may happen;
  /// size 0: a fence. Free on real ones.
  void Stored(uint64_t offset, uint64_t size) {
    if (observe_stores_) [[unlikely]] OnStored(offset, size);
  }

 protected:
  virtual void OnStored(uint64_t /*offset*/, uint64_t /*size*/) {}
  /// Makes the pages present, so that stores to them do not raise SIGBUS. OK also if the system
  /// cannot: then the stores themselves do it.
  virtual Status MakePresent(uint64_t /*offset*/, uint64_t /*size*/) { return Status(); }
  /// Room for [begin, end); one call at a time.
  virtual Status SetAside(uint64_t /*begin*/, uint64_t /*end*/) { return Status(); }
  char* data_ = nullptr;
  uint64_t size_ = 0;
  bool observe_stores_ = false;
  bool persistent_ = false;
  bool in_memory_ = false;

 private:
  std::atomic<uint64_t> room_ = UINT64_MAX;
  std::mutex growing_;
};

/// Held while it lives; released by destruction or by the death of the process.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

enum class MapMode { kRead, kReadWrite };

struct FileInfo {
  std::string name;  ///< within its directory
  bool is_directory = false;
  uint64_t size = 0;
  uint64_t modified_ns = 0;  ///< when its contents changed last, by the clock of the file system
  uint64_t allocated = 0;    ///< bytes that it takes on the device
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual Result<std::unique_ptr<File>> Open(const std::string& path, FileOpenMode mode) = 0;
  /// Maps an existing file of at least `size` bytes. For kReadWrite the caller has called
  /// Allocate() on it, of `size` or of what LimitRoom() then says.
  virtual Result<std::unique_ptr<MappedFile>> Map(const std::string& path, uint64_t size,
                                                  MapMode mode) = 0;
  virtual Status Rename(const std::string& from, const std::string& to) = 0;
  virtual Status Unlink(const std::string& path) = 0;
  /// Gives the file `from` the second name `to`, which is not there yet. kUnsupported where the
  /// file system has no hard links, or the two are on different ones: copy instead.
  virtual Status Link(const std::string& from, const std::string& to) = 0;
  /// Makes one directory, 0700; OK if it exists already as a directory of this user to which
  /// neither the group nor others may write (never through a symbolic link).
  virtual Status MakeDirectory(const std::string& path) = 0;
  /// OK if there is such a directory already; kNotFound.
  virtual Status CheckDirectory(const std::string& path) = 0;
  /// Returns the user who alone may change the file or directory at `path`: its owner.
  /// kInvalidArgument: its group or others may write to it. kNotFound.
  virtual Result<uint32_t> SoleWriter(const std::string& path) = 0;
  virtual Status RemoveDirectory(const std::string& path) = 0;
  /// Removes a directory and all that is in it. Follows no symbolic link, also none that takes the
  /// place of a directory meanwhile.
  Status RemoveTree(const std::string& directory);
  /// The same piece by piece, for large ones: removes at most `*most` files and directories, and
  /// counts `*most` down. True once `directory` is gone.
  virtual Result<bool> RemoveSome(const std::string& directory, size_t* most);
  virtual Result<std::vector<FileInfo>> List(const std::string& directory) = 0;
  /// Creations, renames and unlinks in `directory` made durable. If that is impossible: OK, and
  /// logged.
  virtual Status SyncDirectory(const std::string& directory) = 0;
  virtual Result<bool> Exists(const std::string& path) = 0;
  /// An exclusive open-file-description lock on `path` (created where absent), with `holder`
  /// written into it. kBusy with its holder's text, at once, if taken. kUnsupported: no locks here.
  virtual Result<std::unique_ptr<FileLock>> Lock(const std::string& path,
                                                 const std::string& holder) = 0;
  /// Takes a lock on an existing `path` that any number of readers may have at once. While it is
  /// held, Lock fails with kBusy. Writes nothing. kBusy, with the holder's text: another program
  /// has Lock's lock. kNotFound.
  virtual Result<std::unique_ptr<FileLock>> LockShared(const std::string& path) = 0;
  /// Returns the holder of Lock's lock on `path`, this process included, as in the text of kBusy;
  /// empty if it is free, or if there is no such file. Takes no lock and writes nothing.
  virtual Result<std::string> LockHolder(const std::string& path) = 0;
  /// Bytes that this user may still write below `path`.
  virtual Result<uint64_t> FreeBytes(const std::string& path) = 0;
  /// Changes when what was not synced may have been lost: io::BootId() of the machine, or a
  /// simulated one. Never 0.
  virtual uint64_t BootId() = 0;
};

/// The real one; lives as long as the process.
FileSystem& PosixFileSystem();

/// The directory that holds `path`: of "/a/b" and "/a/b/" it is "/a", of "b" it is ".".
std::string DirectoryOf(const std::string& path);
/// Writes a new file with `bytes` and syncs it, but not its name in the directory. A crash may
/// leave any beginning of it.
Status WriteFile(FileSystem& fs, const std::string& path, Slice bytes);
/// Replaces the contents of `path` by `bytes`, or leaves it as it was: temporary file
/// (`path`.tmp), sync, rename, directory sync. If only the last of these fails (kIo, no shortage),
/// the new contents are there, but a power loss may still bring the old ones back.
Status ReplaceFile(FileSystem& fs, const std::string& path, Slice bytes);
/// Makes one directory as FileSystem::MakeDirectory does, and its name in the one above durable.
Status MakeDurableDirectory(FileSystem& fs, const std::string& path);
/// The whole file, which must be at most `size_max` bytes (kCorruption otherwise).
Result<std::string> ReadFile(FileSystem& fs, const std::string& path, uint64_t size_max);
/// kInvalidArgument unless `name` is [A-Za-z0-9._-]{1,255} without a leading dot or dash.
Status CheckName(Slice name);

}  // namespace quire::io
