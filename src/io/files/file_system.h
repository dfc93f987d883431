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

/// How a file is opened. A file that is open as kReadImmutable stays readable if it is removed or
/// replaced. A file that is open as kReadNamed may return kCorruption then, but never reads from
/// the new file.
enum class FileOpenMode {
  kRead,            ///< must exist
  kReadImmutable,   ///< must exist; the bytes that are read never change: they may be copied from a
                    ///< mapping
  kReadNamed,       ///< like kReadImmutable; the file keeps its name while it is open, so that it
                    ///< can be closed and reopened
  kReadWrite,       ///< must exist
  kCreate,          ///< must not exist (else kInvalidArgument): O_EXCL | O_NOFOLLOW, 0600
  kReadWriteCreate  ///< opened, or created 0600 if absent; never follows a symbolic link
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
  /// Writes all of `bytes` at `offset`; interrupted and short writes are continued. The bytes are
  /// in the page cache at return (P1).
  virtual Status WriteAt(uint64_t offset, Slice bytes) = 0;
  /// Allocates space so that later writes into [0, size) cannot fail for lack of it; grows the file
  /// to `size`.
  virtual Status Allocate(uint64_t size) = 0;
  virtual Status Truncate(uint64_t size) = 0;
  /// Frees the space of [offset, offset + size): it then reads as zeros, and must be allocated
  /// again before it is written to. The size stays. Returns OK also if the file system cannot do
  /// this: then nothing changes.
  virtual Status Deallocate(uint64_t offset, uint64_t size) = 0;
  /// Makes the data (and the size) durable against power loss (P2). Never retries after a failure,
  /// because that would not help.
  virtual Status Sync() = 0;
  /// Makes the system begin to write [offset, offset + size) to the device, without waiting, so
  /// that Sync has less to do. Promises nothing; Sync reports failures.
  virtual void StartWriteBack(uint64_t offset, uint64_t size) = 0;
  virtual Result<uint64_t> Size() const = 0;
  virtual const std::string& path() const = 0;
};

/// A shared mapping of a file whose space is allocated before it is stored to. Stores to it are P1
/// at once. Destruction unmaps it.
class MappedFile {
 public:
  virtual ~MappedFile() = default;
  char* data() { return data_; }
  const char* data() const { return data_; }
  uint64_t size() const { return size_; }
  /// Returns whether it is persistent memory (DAX, MAP_SYNC): stores that bypass the caches, or are
  /// written back from them, are durable (P2) with the next fence.
  bool persistent() const { return persistent_; }
  /// Returns whether its pages are the file itself, and are never written to a device: persistent
  /// memory, tmpfs.
  bool in_memory() const { return in_memory_; }
  /// Makes stores into [offset, offset + size) durable (P2): msync, or flush and fence on DAX.
  virtual Status Sync(uint64_t offset, uint64_t size) = 0;
  /// Stores bytes of [offset, offset + size) once more as they are, one in each page, so that the
  /// next Sync writes all of these pages. Needed before a program relies on a Sync of bytes that an
  /// earlier program stored: after a failed sync Linux treats the pages as written, and a later
  /// sync would return OK for bytes that are not on the device. Other threads and programs may
  /// store there meanwhile. Does nothing for files in memory.
  ///
  /// Errors  kIo: a page cannot be read from the device. kOutOfMemory.
  Status StoreAgain(uint64_t offset, uint64_t size);
  /// Brings the pages of [offset, offset + size) into memory, as far as the file was mapped.
  /// Loading from a page that the device cannot read, or that another program cut off the file,
  /// would end the program with SIGBUS: so call this before reading bytes that an earlier program
  /// stored. The kernel may drop the pages again later.
  ///
  /// Errors  kIo: a page cannot be read. kOutOfMemory. Never kNotFound.
  /// Cost    one system call
  virtual Status MakeReadable(uint64_t /*offset*/, uint64_t /*size*/) { return Status(); }
  /// Does the same for a frequent caller: a load for each page, and no system call if the pages can
  /// be read, unless this thread blocks SIGBUS.
  Status TouchReadable(uint64_t offset, uint64_t size);
  /// Copies [offset, offset + size) to `to`, with no system call. Returns false if a page cannot be
  /// read, or if this thread could not survive that (it blocks SIGBUS); then File::ReadAt reads it
  /// or returns the error.
  bool TryCopy(uint64_t offset, size_t size, char* to) const;
  /// Touches the pages so that stores do not fault (background; best effort, never an error).
  virtual void Prefault(uint64_t offset, uint64_t size) = 0;
  virtual const std::string& path() const = 0;

  /// Returns the bytes from the beginning for which space is allocated: no store may go beyond.
  uint64_t room() const { return room_.load(std::memory_order_acquire); }
  /// Records that only the first `bytes` have been allocated so far. Must be called before other
  /// threads use the mapping.
  void LimitRoom(uint64_t bytes) { room_.store(bytes, std::memory_order_relaxed); }
  /// Allocates space up to `end`, within the file. Any thread may call it; it waits for another
  /// thread that does the same.
  ///
  /// Errors  kNoSpace: room() is unchanged. kCorruption: another file has its name. kIo,
  ///         kOutOfMemory.
  Status GrowRoom(uint64_t end);

  /// Marks, for a simulated file system, the stores so far as a step at which a crash may happen;
  /// size 0: a fence. Free on real ones.
  void Stored(uint64_t offset, uint64_t size) {
    if (observe_stores_) [[unlikely]] OnStored(offset, size);
  }

 protected:
  virtual void OnStored(uint64_t /*offset*/, uint64_t /*size*/) {}
  /// Makes the pages present, so that stores to them do not raise SIGBUS. Returns OK also if the
  /// system cannot do this: then the stores themselves do it.
  virtual Status MakePresent(uint64_t /*offset*/, uint64_t /*size*/) { return Status(); }
  /// Allocates space for [begin, end); one call at a time.
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

/// A held lock; released by destruction or by the death of the process.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

enum class MapMode { kRead, kReadWrite };

struct FileInfo {
  std::string name;  ///< within its directory
  bool is_directory = false;
  uint64_t size = 0;
  uint64_t modified_ns = 0;  ///< time of its last change, by the clock of the file system
  uint64_t allocated = 0;    ///< bytes that it takes on the device
};

/// A directory that is ready to be synced: no later lack of descriptors can prevent that.
class OpenDirectory {
 public:
  virtual ~OpenDirectory() = default;
  /// Does what FileSystem::SyncDirectory does.
  virtual Status Sync() = 0;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual Result<std::unique_ptr<File>> Open(const std::string& path, FileOpenMode mode) = 0;
  /// Maps an existing file of at least `size` bytes. For kReadWrite the caller must have called
  /// Allocate() on it, for `size` bytes or for those that it passes to LimitRoom() afterwards.
  virtual Result<std::unique_ptr<MappedFile>> Map(const std::string& path, uint64_t size,
                                                  MapMode mode) = 0;
  virtual Status Rename(const std::string& from, const std::string& to) = 0;
  virtual Status Unlink(const std::string& path) = 0;
  /// Gives the file `from` a second name `to`, which must not exist. kUnsupported if the file
  /// system has no hard links, or if the two paths are on different file systems: copy instead.
  virtual Status Link(const std::string& from, const std::string& to) = 0;
  /// Makes one directory, 0700; OK if it exists already as a directory of this user to which
  /// neither the group nor others may write (never through a symbolic link).
  virtual Status MakeDirectory(const std::string& path) = 0;
  /// Returns OK if MakeDirectory would find such a directory; kNotFound.
  virtual Status CheckDirectory(const std::string& path) = 0;
  /// Returns the user who alone may change the file or directory at `path`: its owner.
  /// kInvalidArgument: its group or others may write to it. kNotFound.
  virtual Result<uint32_t> SoleWriter(const std::string& path) = 0;
  virtual Status RemoveDirectory(const std::string& path) = 0;
  /// Removes a directory and everything in it. Follows no symbolic link, not even one that replaces
  /// a directory meanwhile.
  Status RemoveTree(const std::string& directory);
  /// Does the same in pieces, for large directories: removes at most `*most` files and directories,
  /// and decreases `*most`. Returns true once `directory` is removed.
  virtual Result<bool> RemoveSome(const std::string& directory, size_t* most);
  virtual Result<std::vector<FileInfo>> List(const std::string& directory) = 0;
  /// Makes creations, renames and unlinks in `directory` durable. If that is impossible, returns OK
  /// and logs it.
  virtual Status SyncDirectory(const std::string& directory) = 0;
  /// Opens `directory` for a later sync; a file system without descriptors needs to open nothing.
  virtual Result<std::unique_ptr<OpenDirectory>> OpenForSync(const std::string& directory);
  virtual Result<bool> Exists(const std::string& path) = 0;
  /// Takes an exclusive open-file-description lock on `path` (created if absent) and writes
  /// `holder` into it. kBusy, at once, with the holder's text: another process has the lock.
  /// kUnsupported: the file system has no locks.
  virtual Result<std::unique_ptr<FileLock>> Lock(const std::string& path,
                                                 const std::string& holder) = 0;
  /// Takes a lock on an existing `path` that any number of readers may have at once. While it is
  /// held, Lock fails with kBusy. Writes nothing. kBusy, with the holder's text: another program
  /// has Lock's lock. kNotFound.
  virtual Result<std::unique_ptr<FileLock>> LockShared(const std::string& path) = 0;
  /// Returns the holder of Lock's lock on `path`, this process included, as in the text of kBusy;
  /// empty if it is free, or if there is no such file. Takes no lock and writes nothing.
  virtual Result<std::string> LockHolder(const std::string& path) = 0;
  /// Returns the bytes that this user may still write below `path`.
  virtual Result<uint64_t> FreeBytes(const std::string& path) = 0;
  /// Returns a number that changes whenever unsynced data may have been lost: io::BootId() of the
  /// machine, or a simulated one. Never 0.
  virtual uint64_t BootId() = 0;
};

/// Returns the real file system, which exists as long as the process.
FileSystem& PosixFileSystem();

/// Returns the directory that contains `path`: "/a" for "/a/b" and "/a/b/", "." for "b".
std::string DirectoryOf(const std::string& path);
/// Writes a new file with `bytes` and syncs it, but not its name in the directory. A crash may
/// leave any beginning of it.
Status WriteFile(FileSystem& fs, const std::string& path, Slice bytes);
/// Replaces the contents of `path` by `bytes`, or leaves it unchanged: temporary file (`path`.tmp),
/// sync, rename, directory sync. If only the last of these fails (kIo, no shortage), the file has
/// the new contents, but a power loss may still bring the old ones back. If it throws
/// std::bad_alloc, the old ones are in force.
Status ReplaceFile(FileSystem& fs, const std::string& path, Slice bytes);
/// Creates a directory as FileSystem::MakeDirectory does, and makes its name in its parent durable.
Status MakeDurableDirectory(FileSystem& fs, const std::string& path);
/// Returns the whole file, which must have at most `size_max` bytes (kCorruption otherwise).
Result<std::string> ReadFile(FileSystem& fs, const std::string& path, uint64_t size_max);
/// Returns kInvalidArgument unless `name` is [A-Za-z0-9._-]{1,255} without a leading dot or dash.
Status CheckName(Slice name);

}  // namespace quire::io
