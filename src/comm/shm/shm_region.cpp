#include "comm/shm/shm_region.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "comm/transport/frame.h"
#include "comm/transport/transport.h"

namespace quire::comm {
namespace {

constexpr uint64_t kPageBytes = 4096;

// The header of one page at the beginning of the region. Members and ring controls follow; the
// rings begin at the next page boundary.
struct Header {
  std::atomic<uint64_t> magic;
  std::atomic<uint64_t> ring_bytes;
  std::atomic<uint32_t> member_count;
  std::atomic<uint32_t> session;
};
constexpr uint64_t kMagic = 0x314D485345524951;  // "QIRESHM1"

uint64_t PairCount(int member_count) {
  const auto count = static_cast<uint64_t>(member_count);
  return count * (count - 1);
}

uint64_t ControlsOffset(int member_count) {
  return kPageBytes + static_cast<uint64_t>(member_count) * sizeof(ShmMember);
}

uint64_t RingsOffset(int member_count) {
  const uint64_t end = ControlsOffset(member_count) + PairCount(member_count) * sizeof(RingControl);
  return (end + kPageBytes - 1) / kPageBytes * kPageBytes;
}

uint64_t RegionBytes(int member_count, uint64_t ring_bytes) {
  return RingsOffset(member_count) + PairCount(member_count) * ring_bytes;
}

void WriteHeader(char* data, int member_count, uint64_t ring_bytes, uint32_t session) {
  auto* const header = reinterpret_cast<Header*>(data);
  header->ring_bytes.store(ring_bytes, std::memory_order_relaxed);
  header->member_count.store(static_cast<uint32_t>(member_count), std::memory_order_relaxed);
  header->session.store(session, std::memory_order_relaxed);
  header->magic.store(kMagic, std::memory_order_release);
}

Status CheckMemberCount(int member_count) {
  if (member_count >= 2 && member_count <= kShmMembersMax) return Status();
  return Status(Code::kInvalidArgument,
                std::to_string(member_count) + " ranks cannot share rings in memory; 2 to " +
                    std::to_string(kShmMembersMax) + " can (or choose MPI for all messages)");
}

// The size came from another process. With an invalid size, the places of the rings would be wrong.
Status CheckRingBytes(uint64_t ring_bytes) {
  if (std::has_single_bit(ring_bytes) && ring_bytes >= kShmRingBytesMin &&
      ring_bytes <= kShmRingBytesMax) {
    return Status();
  }
  return Status(Code::kInvalidArgument,
                "rings of " + std::to_string(ring_bytes) + " bytes were announced; a power of " +
                    "two, " +
                    std::to_string(kShmRingBytesMin) + " to " + std::to_string(kShmRingBytesMax) +
                    ", is possible (do all ranks use the same version of Quire?)");
}

}  // namespace

uint32_t ShmFrameBytesMax(uint64_t ring_bytes) {
  const uint64_t record_max = ring_bytes / 4 - kRingRecordHeaderBytes - kFrameHeaderBytes;
  return static_cast<uint32_t>(std::min<uint64_t>(kFrameBytesMax, record_max));
}

ShmRegion::ShmRegion(std::shared_ptr<io::SharedMemory> memory, int member_count,
                     uint64_t ring_bytes, uint32_t session)
    : memory_(std::move(memory)),
      member_count_(member_count),
      ring_bytes_(ring_bytes),
      session_(session) {}

Result<std::unique_ptr<ShmRegion>> ShmRegion::Create(int member_count,
                                                     uint64_t ring_bytes_total_max,
                                                     uint32_t session) {
  QUIRE_RETURN_IF_ERROR(CheckMemberCount(member_count));
  const uint64_t share = ring_bytes_total_max / PairCount(member_count);
  uint64_t ring_bytes = std::clamp(std::bit_floor(share), kShmRingBytesMin, kShmRingBytesMax);
  for (;; ring_bytes /= 2) {
    auto memory = io::SharedMemory::Create(RegionBytes(member_count, ring_bytes));
    // A small /dev/shm (64 MiB in many containers) still has room for smaller rings.
    if (!memory.ok() && memory.status().code() == Code::kNoSpace && ring_bytes > kShmRingBytesMin) {
      continue;
    }
    if (!memory.ok()) return memory.status();
    WriteHeader((*memory)->data(), member_count, ring_bytes, session);
    return std::unique_ptr<ShmRegion>(
        new ShmRegion(std::move(*memory), member_count, ring_bytes, session));
  }
}

Result<std::unique_ptr<ShmRegion>> ShmRegion::CreatePrivate(int member_count, uint64_t ring_bytes,
                                                            uint32_t session) {
  QUIRE_RETURN_IF_ERROR(CheckMemberCount(member_count));
  QUIRE_ASSIGN_OR_RETURN(auto memory,
                         io::SharedMemory::CreatePrivate(RegionBytes(member_count, ring_bytes)));
  WriteHeader(memory->data(), member_count, ring_bytes, session);
  return std::unique_ptr<ShmRegion>(
      new ShmRegion(std::move(memory), member_count, ring_bytes, session));
}

Result<std::unique_ptr<ShmRegion>> ShmRegion::Open(const std::string& name, int member_count,
                                                   uint64_t ring_bytes, uint32_t session) {
  QUIRE_RETURN_IF_ERROR(CheckMemberCount(member_count));
  QUIRE_RETURN_IF_ERROR(CheckRingBytes(ring_bytes));
  QUIRE_ASSIGN_OR_RETURN(auto memory,
                         io::SharedMemory::Open(name, RegionBytes(member_count, ring_bytes),
                                                io::SharedMemory::Access::kReadWrite));
  const auto* const header = reinterpret_cast<const Header*>(memory->data());
  if (header->magic.load(std::memory_order_acquire) != kMagic ||
      header->ring_bytes.load(std::memory_order_relaxed) != ring_bytes ||
      header->member_count.load(std::memory_order_relaxed) != static_cast<uint32_t>(member_count) ||
      header->session.load(std::memory_order_relaxed) != session) {
    return Status(Code::kCorruption, "shared memory " + name + " is not that of this job");
  }
  return std::unique_ptr<ShmRegion>(
      new ShmRegion(std::move(memory), member_count, ring_bytes, session));
}

std::unique_ptr<ShmRegion> ShmRegion::Share() const {
  return std::unique_ptr<ShmRegion>(new ShmRegion(memory_, member_count_, ring_bytes_, session_));
}

ShmMember& ShmRegion::member(int index) const {
  char* const members = memory_->data() + kPageBytes;
  return reinterpret_cast<ShmMember*>(members)[index];
}

uint64_t ShmRegion::PairIndex(int writer, int reader) const {
  const int column = reader < writer ? reader : reader - 1;
  return static_cast<uint64_t>(writer) * static_cast<uint64_t>(member_count_ - 1) +
         static_cast<uint64_t>(column);
}

RingControl* ShmRegion::ring_control(int writer, int reader) const {
  char* const controls = memory_->data() + ControlsOffset(member_count_);
  return reinterpret_cast<RingControl*>(controls) + PairIndex(writer, reader);
}

char* ShmRegion::ring_data(int writer, int reader) const {
  return memory_->data() + RingsOffset(member_count_) + PairIndex(writer, reader) * ring_bytes_;
}

}  // namespace quire::comm
