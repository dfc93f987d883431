/// Memory that the ranks of a node share: one rank creates it, the others open it by name, and it
/// is unlinked once all have opened it, so that no death leaves it behind. Allocated up front: a
/// full /dev/shm is kNoSpace here, never SIGBUS later. Futexes on words in it wake sleepers of
/// other processes.
///
/// Layer      io
/// Threads    the words are the users' business; create, open, unlink: any thread
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "io/files/descriptor.h"
#include "quire/status.h"

namespace quire::io {

class SharedMemory {
 public:
  /// Creates a region of `size` zero bytes, 0600, whose name contains the user and random bits.
  /// Allocates memory for the first `room` bytes; SetAside allocates the rest.
  ///
  /// Errors  kNoSpace: there is currently no memory for `size` bytes. kIo, kOutOfMemory.
  static Result<std::unique_ptr<SharedMemory>> Create(uint64_t size, uint64_t room = UINT64_MAX);
  /// Creates a region of this process alone, without a name or file (for simulations).
  static Result<std::unique_ptr<SharedMemory>> CreatePrivate(uint64_t size);
  enum class Access { kRead, kReadWrite };
  /// Maps another process's region. kInvalidArgument: it belongs to another user, or is smaller
  /// than `size`.
  static Result<std::unique_ptr<SharedMemory>> Open(const std::string& name, uint64_t size,
                                                    Access access);
  /// For tests: from now on Create and SetAside find no room beyond `size` bytes of a region, and
  /// Open refuses a larger one.
  static void LimitForTests(uint64_t size);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  /// Allocates memory for [offset, offset + size) before it is stored to. Only the creator may call
  /// it. A repeated call does nothing.
  ///
  /// Errors  kNoSpace, kIo.
  Status SetAside(uint64_t offset, uint64_t size);

  char* data() const { return data_; }
  uint64_t size() const { return size_; }
  const std::string& name() const { return name_; }
  /// Removes the name; mappings stay. Idempotent.
  void Unlink();

 private:
  SharedMemory() = default;
  char* data_ = nullptr;
  uint64_t size_ = 0;
  std::string name_;
  bool owner_ = false;
  FileDescriptor fd_{-1};  // open until all memory is allocated
};

/// Returns this user's directory for `purpose` in shared memory: "/dev/shm/quire-<purpose>-<user>".
/// Does not create it.
std::string UserDirectory(const std::string& purpose);

/// Sleeps while *word == expected, until FutexWake or `timeout_ns` from now; may return early.
void FutexWait(const std::atomic<uint32_t>* word, uint32_t expected, uint64_t timeout_ns);
/// Wakes up to `count` sleepers, in all processes that map the word.
void FutexWake(const std::atomic<uint32_t>* word, int count);

}  // namespace quire::io
