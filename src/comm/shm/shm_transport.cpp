#include "comm/shm/shm_transport.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <mutex>
#include <utility>

#include "base/core/check.h"
#include "comm/transport/frame.h"
#include "comm/transport/peer_process.h"
#include "comm/transport/ring.h"

namespace quire::comm {
namespace {

enum class Health : int {
  kSound,
  kGone,    // has died or left: Poll reports it once all its frames are delivered
  kFailed,  // Poll has reported it
};

// Another member, as this one sees it.
struct Neighbour {
  Neighbour(const ShmRegion& region, int own, int other)
      : writer(region.ring_control(own, other), region.ring_data(own, other), region.ring_bytes()),
        reader(region.ring_control(other, own), region.ring_data(other, own), region.ring_bytes()) {
  }
  std::atomic<Health> health{Health::kSound};
  std::mutex send_mutex;
  Status damage;      // guarded by send_mutex: why it is gone if it neither died nor left
  RingWriter writer;  // guarded by send_mutex, like sent_count
  uint64_t sent_count = 0;
  RingReader reader;  // used by the thread that polls, like received_count
  uint64_t received_count = 0;
};

class ShmTransport final : public Transport {
 public:
  ShmTransport(std::unique_ptr<ShmRegion> region, const ShmPlace& place);
  ~ShmTransport() override { self_.closed.store(1, std::memory_order_seq_cst); }

  int rank() const override { return place_.rank; }
  int size() const override { return place_.size; }
  bool SharesMemory(int rank) const override { return IndexOf(rank) >= 0; }
  uint32_t frame_bytes_max(int) const override { return ShmFrameBytesMax(region_->ring_bytes()); }
  Result<bool> TrySend(int destination, const FrameParts& frame) override;
  int Poll(FrameSink& sink, int frames_max) override;
  void CallerArrives() override;
  void CallerLeaves() override;
  bool Wait(Waiter who, uint64_t timeout_ns) override;
  void Wake(Waiter who) override;
  uint64_t spin_ns() const override { return place_.spin_ns; }
  bool Alive(int rank) override;
  io::Clock& clock() override { return io::RealClock(); }
  bool AllowsThreads() const override { return true; }
  ProgressGroup* progress_group() const override { return nullptr; }
  Status CheckThread() const override { return Status(); }
  std::string Name() const override { return "shm"; }

 private:
  int IndexOf(int rank) const;
  int RankOf(int index) const { return place_.members[static_cast<size_t>(index)]; }
  Neighbour& NeighbourOf(int index) { return *neighbours_[static_cast<size_t>(index)]; }
  int WordCount() const { return (region_->member_count() + 63) / 64; }
  bool Pending() const;
  void Raise(std::atomic<uint64_t>* words, int index);
  static void WakeMember(ShmMember& member);
  static void WakeSleeper(std::atomic<uint32_t>& activity, uint32_t awake);
  void TellRoom(int index);
  void MarkGone(Neighbour& neighbour);
  Status WhyGone(int index);
  Status CheckFrame(int index, Slice frame);
  bool Drain(int index, FrameSink& sink, int frames_max, int* count);
  void Fail(int index, const Status& why, FrameSink& sink);
  int PollRoom(FrameSink& sink);
  int PollGone(FrameSink& sink);

  const std::unique_ptr<ShmRegion> region_;
  const ShmPlace place_;
  int own_index_ = 0;
  ShmMember& self_;
  std::vector<std::unique_ptr<Neighbour>> neighbours_;  // by index; null for this one
  std::atomic<uint32_t> woken_[2] = {0, 0};             // by Waiter: Wake() was called
  std::atomic<uint32_t> gone_count_{0};                 // neighbours whose health is kGone
};

int ShmTransport::IndexOf(int rank) const {
  const auto& members = place_.members;
  const auto found = std::lower_bound(members.begin(), members.end(), rank);
  if (found == members.end() || *found != rank) return -1;
  return static_cast<int>(found - members.begin());
}

ShmTransport::ShmTransport(std::unique_ptr<ShmRegion> region, const ShmPlace& place)
    : region_(std::move(region)),
      place_(place),
      own_index_(IndexOf(place.rank)),
      self_(region_->member(own_index_)) {
  QUIRE_CHECK(own_index_ >= 0);
  QUIRE_CHECK(static_cast<int>(place_.members.size()) == region_->member_count());
  for (int i = 0; i < region_->member_count(); ++i) {
    neighbours_.push_back(i == own_index_ ? nullptr
                                          : std::make_unique<Neighbour>(*region_, own_index_, i));
  }
  const PeerProcess process = OwnProcess();
  self_.process_start.store(process.start, std::memory_order_relaxed);
  self_.process_id.store(static_cast<uint32_t>(process.id), std::memory_order_release);
}

// Wakes a sleeper once: the thread that changes the word makes the system call.
void ShmTransport::WakeSleeper(std::atomic<uint32_t>& activity, uint32_t awake) {
  uint32_t expected = kShmSleeping;
  if (activity.compare_exchange_strong(expected, awake, std::memory_order_seq_cst)) {
    io::FutexWake(&activity, 1);
  }
}

// Wakes the caller or, if no caller polls or sleeps, the handler.
void ShmTransport::WakeMember(ShmMember& member) {
  const uint32_t caller = member.caller.load(std::memory_order_seq_cst);
  if (caller == kShmSleeping) return WakeSleeper(member.caller, kShmPolling);
  if (caller == kShmPolling) return;
  if (member.handler.load(std::memory_order_seq_cst) == kShmSleeping) {
    WakeSleeper(member.handler, kShmAbsent);
  }
}

// Sets this member's bit in the words of another member, and wakes that member. If the bit was set
// already, the thread that set it has woken the member, which has not looked since.
void ShmTransport::Raise(std::atomic<uint64_t>* words, int index) {
  const uint64_t bit = uint64_t{1} << (own_index_ % 64);
  const uint64_t before = words[own_index_ / 64].fetch_or(bit, std::memory_order_seq_cst);
  if ((before & bit) == 0) WakeMember(region_->member(index));
}

Result<bool> ShmTransport::TrySend(int destination, const FrameParts& frame) {
  const int index = IndexOf(destination);
  if (index < 0 || index == own_index_) {
    return Status(Code::kInvalidArgument,
                  "rank " + std::to_string(destination) + " is not a neighbour in shared memory");
  }
  Neighbour& neighbour = NeighbourOf(index);
  if (neighbour.health.load(std::memory_order_relaxed) != Health::kSound) {
    return PeerGone("the process has died or left");
  }
  {
    const std::lock_guard<std::mutex> lock(neighbour.send_mutex);
    const Result<char*> reserved = neighbour.writer.Reserve(kFrameHeaderBytes + frame.size());
    if (!reserved.ok()) {
      neighbour.damage = reserved.status();
      MarkGone(neighbour);
      return reserved.status();
    }
    char* const place = *reserved;
    if (place == nullptr) return false;
    JoinParts(frame, place + kFrameHeaderBytes);
    FrameHeader header;
    header.size = static_cast<uint32_t>(frame.size());
    header.session = region_->session();
    header.sequence = neighbour.sent_count++;
    SealFrame({place_.rank, destination}, header, place);
    neighbour.writer.Publish();
  }
  Raise(region_->member(index).arrived, index);
  return true;
}

// Marks a neighbour as gone. Poll reports the reason when all frames that it sent are delivered.
void ShmTransport::MarkGone(Neighbour& neighbour) {
  Health expected = Health::kSound;
  if (!neighbour.health.compare_exchange_strong(expected, Health::kGone)) return;
  gone_count_.fetch_add(1, std::memory_order_seq_cst);
  Wake(Waiter::kHandler);
  Wake(Waiter::kCaller);
}

Status ShmTransport::WhyGone(int index) {
  Neighbour& neighbour = NeighbourOf(index);
  const std::lock_guard<std::mutex> lock(neighbour.send_mutex);
  if (!neighbour.damage.ok()) return neighbour.damage;
  const bool left = region_->member(index).closed.load(std::memory_order_acquire) != 0;
  return PeerGone(left ? "the process left" : "the process died");
}

Status ShmTransport::CheckFrame(int index, Slice frame) {
  Neighbour& neighbour = NeighbourOf(index);
  const Result<FrameHeader> header = DecodeFrameHeader(frame);
  if (!header.ok()) return header.status();
  const uint64_t due = neighbour.received_count++;
  if (header->session != region_->session() || header->sequence != due) {
    return Status(Code::kCorruption, "received frame " + std::to_string(header->sequence) +
                                         " where " + std::to_string(due) + " was due");
  }
  return VerifyFrame({RankOf(index), place_.rank}, *header, frame);
}

void ShmTransport::Fail(int index, const Status& why, FrameSink& sink) {
  Neighbour& neighbour = NeighbourOf(index);
  const Health before = neighbour.health.exchange(Health::kFailed);
  if (before == Health::kGone) gone_count_.fetch_sub(1, std::memory_order_relaxed);
  if (before != Health::kFailed) sink.OnPeerFailed(RankOf(index), why);
}

void ShmTransport::TellRoom(int index) {
  Raise(region_->member(index).room, index);
}

// Delivers up to `frames_max` frames of one neighbour; returns whether there are more.
bool ShmTransport::Drain(int index, FrameSink& sink, int frames_max, int* count) {
  Neighbour& neighbour = NeighbourOf(index);
  for (int taken = 0;; ++taken) {
    if (neighbour.health.load(std::memory_order_relaxed) == Health::kFailed) return false;
    const Result<Slice> record = neighbour.reader.Front();
    Status status = record.status();
    if (record.ok()) {
      if (record->data() == nullptr) return false;
      if (taken == frames_max) return true;
      status = CheckFrame(index, *record);
    }
    if (!status.ok()) {
      Fail(index, status, sink);
      return false;
    }
    ++*count;
    sink.OnFrame(RankOf(index), record->substr(kFrameHeaderBytes));
    if (neighbour.reader.Pop()) TellRoom(index);
  }
}

int ShmTransport::PollRoom(FrameSink& sink) {
  int count = 0;
  for (int word = 0; word < WordCount(); ++word) {
    std::atomic<uint64_t>& room = self_.room[word];
    if (room.load(std::memory_order_relaxed) == 0) continue;
    for (uint64_t bits = room.exchange(0, std::memory_order_seq_cst); bits != 0; bits &= bits - 1) {
      const int index = word * 64 + std::countr_zero(bits);
      if (index >= region_->member_count() || index == own_index_) continue;
      ++count;
      sink.OnRoom(RankOf(index));
    }
  }
  return count;
}

int ShmTransport::PollGone(FrameSink& sink) {
  int count = 0;
  for (int index = 0; index < region_->member_count(); ++index) {
    if (index == own_index_ || NeighbourOf(index).health != Health::kGone) continue;
    while (Drain(index, sink, kShmMembersMax, &count)) {
    }
    Fail(index, WhyGone(index), sink);
    ++count;
  }
  return count;
}

int ShmTransport::Poll(FrameSink& sink, int frames_max) {
  int count = 0;
  for (int word = 0; word < WordCount(); ++word) {
    std::atomic<uint64_t>& arrived = self_.arrived[word];
    if (arrived.load(std::memory_order_relaxed) == 0) continue;
    uint64_t bits = arrived.exchange(0, std::memory_order_seq_cst);
    const int each = std::max(1, frames_max / std::popcount(bits));
    uint64_t more = 0;
    for (; bits != 0; bits &= bits - 1) {
      const int index = word * 64 + std::countr_zero(bits);
      if (index >= region_->member_count() || index == own_index_) continue;
      if (Drain(index, sink, each, &count)) more |= bits & -bits;
    }
    // Visible to this rank's other threads, which may be the next to poll.
    if (more != 0) arrived.fetch_or(more, std::memory_order_seq_cst);
  }
  count += PollRoom(sink);
  if (gone_count_.load(std::memory_order_relaxed) != 0) count += PollGone(sink);
  return count;
}

bool ShmTransport::Pending() const {
  for (int word = 0; word < WordCount(); ++word) {
    if (self_.arrived[word].load(std::memory_order_seq_cst) != 0) return true;
    if (self_.room[word].load(std::memory_order_seq_cst) != 0) return true;
  }
  return gone_count_.load(std::memory_order_seq_cst) != 0;
}

void ShmTransport::CallerArrives() {
  self_.caller.store(kShmPolling, std::memory_order_seq_cst);
}

void ShmTransport::CallerLeaves() {
  self_.caller.store(kShmAbsent, std::memory_order_seq_cst);
  if (Pending()) WakeSleeper(self_.handler, kShmAbsent);
}

bool ShmTransport::Wait(Waiter who, uint64_t timeout_ns) {
  const bool is_caller = who == Waiter::kCaller;
  std::atomic<uint32_t>& activity = is_caller ? self_.caller : self_.handler;
  std::atomic<uint32_t>& woken = woken_[static_cast<int>(who)];
  bool pending = false;
  activity.store(kShmSleeping, std::memory_order_seq_cst);
  if (woken.exchange(0, std::memory_order_seq_cst) == 0) {
    // While a caller polls, it takes what arrives; it wakes the handler when it leaves.
    const bool led = !is_caller && self_.caller.load(std::memory_order_seq_cst) != kShmAbsent;
    pending = !led && Pending();
    if (!pending) io::FutexWait(&activity, kShmSleeping, timeout_ns);
    woken.exchange(0, std::memory_order_seq_cst);
  }
  activity.store(is_caller ? kShmPolling : kShmAbsent, std::memory_order_seq_cst);
  return pending;
}

void ShmTransport::Wake(Waiter who) {
  const bool is_caller = who == Waiter::kCaller;
  woken_[static_cast<int>(who)].store(1, std::memory_order_seq_cst);
  WakeSleeper(is_caller ? self_.caller : self_.handler, is_caller ? kShmPolling : kShmAbsent);
}

bool ShmTransport::Alive(int rank) {
  const int index = IndexOf(rank);
  if (index < 0 || index == own_index_) return true;
  Neighbour& neighbour = NeighbourOf(index);
  if (neighbour.health.load(std::memory_order_relaxed) != Health::kSound) return false;
  const ShmMember& member = region_->member(index);
  const PeerProcess process{static_cast<int>(member.process_id.load(std::memory_order_acquire)),
                            member.process_start.load(std::memory_order_relaxed)};
  if (member.closed.load(std::memory_order_acquire) == 0 && IsRunning(process)) return true;
  MarkGone(neighbour);
  return false;
}

}  // namespace

std::unique_ptr<Transport> NewShmTransport(std::unique_ptr<ShmRegion> region,
                                           const ShmPlace& place) {
  return std::make_unique<ShmTransport>(std::move(region), place);
}

}  // namespace quire::comm
