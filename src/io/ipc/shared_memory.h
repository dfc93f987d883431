/// Memory that the ranks of a node share: made by one, opened by name by the others, unlinked once
/// all have it, so that no death leaves it behind. Allocated up front: a full /dev/shm is kNoSpace
/// here, never SIGBUS later. Futexes on words in it wake sleepers of other processes.
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
  /// A new region of `size` zero bytes, 0600, named with the user and randomness. Room is set aside
  /// for the first `room` bytes; the rest is for SetAside.
  ///
  /// Errors  kNoSpace: there is none for `size` bytes at this moment. kIo, kOutOfMemory.
  static Result<std::unique_ptr<SharedMemory>> Create(uint64_t size, uint64_t room = UINT64_MAX);
  /// A region of this process alone (simulation; no name): same use, no file.
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

  /// Sets room aside for [offset, offset + size), before it is stored to. By its creator. Again:
  /// does nothing.
  ///
  /// Errors  kNoSpace, kIo.
  Status SetAside(uint64_t offset, uint64_t size);

  char* data() const { return data_; }
  uint64_t size() const { return size_; }
  const std::string& name() const { return name_; }
  /// Takes the name away; mappings stay. Idempotent.
  void Unlink();

 private:
  SharedMemory() = default;
  char* data_ = nullptr;
  uint64_t size_ = 0;
  std::string name_;
  bool owner_ = false;
  FileDescriptor fd_{-1};  // while not all room is set aside
};

/// The directory of this user for `purpose` in shared memory: "/dev/shm/quire-<purpose>-<user>". It
/// is not made.
std::string UserDirectory(const std::string& purpose);

/// Sleeps while *word == expected, until FutexWake or `timeout_ns` from now; may return early.
void FutexWait(const std::atomic<uint32_t>* word, uint32_t expected, uint64_t timeout_ns);
/// Wakes up to `count` sleepers, in all processes that map the word.
void FutexWake(const std::atomic<uint32_t>* word, int count);

}  // namespace quire::io
