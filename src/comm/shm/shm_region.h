/// The memory that the ranks of a node share: a slot per rank, which identifies it and wakes it,
/// and a ring per ordered pair.
///
/// Layer      comm
/// Encoding   docs/format/frame.md
/// Threads    the members are atomics; each ring as in ring.h
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "comm/transport/ring.h"
#include "io/ipc/shared_memory.h"
#include "quire/status.h"

namespace quire::comm {

constexpr int kShmMembersMax = 1024;
constexpr int kShmWordsMax = kShmMembersMax / 64;
constexpr uint64_t kShmRingBytesMin = 16 * 1024;
constexpr uint64_t kShmRingBytesMax = 1024 * 1024;

/// The state of a member's thread; a futex word.
enum ShmActivity : uint32_t {
  kShmAbsent = 0,    ///< caller: there is none. handler: it is awake
  kShmPolling = 1,   ///< caller: it is awake and polls
  kShmSleeping = 2,  ///< wake it
};

struct alignas(64) ShmMember {
  /// distinguishes a process from a later one with the same id
  std::atomic<uint64_t> process_start;
  std::atomic<uint32_t> process_id;     ///< 0: not here yet
  std::atomic<uint32_t> closed;         ///< 1: has left
  alignas(64) std::atomic<uint32_t> caller;
  std::atomic<uint32_t> handler;
  alignas(64) std::atomic<uint64_t> arrived[kShmWordsMax];  ///< bit i: member i has sent
  alignas(64) std::atomic<uint64_t> room[kShmWordsMax];     ///< bit i: there is room to member i
};

class ShmRegion {
 public:
  /// Creates a region. Its rings are as large as `ring_bytes_total_max` and /dev/shm allow, but at
  /// least kShmRingBytesMin each: with more than 64 members all rings together exceed 64 MiB.
  /// Errors: kNoSpace, kIo (/dev/shm cannot be written); kInvalidArgument if there are more than
  /// kShmMembersMax members.
  static Result<std::unique_ptr<ShmRegion>> Create(int member_count, uint64_t ring_bytes_total_max,
                                                   uint32_t session);
  /// Creates a region in memory that only this process and its forks see.
  static Result<std::unique_ptr<ShmRegion>> CreatePrivate(int member_count, uint64_t ring_bytes,
                                                          uint32_t session);
  /// Opens a region that another process of this job created. Errors: kInvalidArgument if rings
  /// cannot have that size; kCorruption if the region has other numbers; those of
  /// io::SharedMemory::Open.
  static Result<std::unique_ptr<ShmRegion>> Open(const std::string& name, int member_count,
                                                 uint64_t ring_bytes, uint32_t session);

  /// Returns a second reference to the same memory: for forks, and for several members in one
  /// process (tests).
  std::unique_ptr<ShmRegion> Share() const;

  int member_count() const { return member_count_; }
  uint64_t ring_bytes() const { return ring_bytes_; }
  uint32_t session() const { return session_; }
  const std::string& name() const { return memory_->name(); }
  void Unlink() { memory_->Unlink(); }
  ShmMember& member(int index) const;
  RingControl* ring_control(int writer, int reader) const;
  char* ring_data(int writer, int reader) const;

 private:
  ShmRegion(std::shared_ptr<io::SharedMemory> memory, int member_count, uint64_t ring_bytes,
            uint32_t session);
  uint64_t PairIndex(int writer, int reader) const;

  std::shared_ptr<io::SharedMemory> memory_;
  int member_count_;
  uint64_t ring_bytes_;
  uint32_t session_;
};

/// Returns the largest frame body that fits into a ring of so many bytes.
uint32_t ShmFrameBytesMax(uint64_t ring_bytes);

}  // namespace quire::comm
