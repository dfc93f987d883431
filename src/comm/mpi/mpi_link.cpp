#include "comm/mpi/mpi_link.h"

#include <algorithm>
#include <utility>

#include "base/log_sink.h"
#include "io/ipc/shared_memory.h"

namespace quire::comm {
namespace {

constexpr size_t kFrameBufferBytes = kFrameHeaderBytes + kFrameBytesMax;
constexpr int kReceiveCount = 64;
constexpr size_t kSendBuffersMax = 512;
constexpr int kTag = 0;
// Usually the receive posted first is the next to complete; the others are looked at this often.
constexpr unsigned kMissesPerTestAll = 32;
// Receives that may wait to be posted again until nothing else is to be done.
constexpr size_t kUnpostedMax = kReceiveCount / 4;

}  // namespace

MpiLink::MpiLink(std::unique_ptr<MpiSession> session, const MpiLinkOptions& options)
    : session_(std::move(session)), options_(options) {
  const Lock lock(session_->mutex());
  peers_.resize(static_cast<size_t>(session_->size()));
  receives_.assign(kReceiveCount, MPI_REQUEST_NULL);
  receive_buffers_.resize(kReceiveCount);
  unposted_.reserve(kReceiveCount);
  send_spare_.reserve(kSendBuffersMax);
  test_indices_.resize(kReceiveCount);
  test_statuses_.resize(kReceiveCount);
  for (size_t slot = 0; slot < kReceiveCount; ++slot) PostReceive(slot);
  session_->OnClose([this] { Cancel(); });
}

MpiLink::Peer& MpiLink::PeerOf(int rank) {
  auto& peer = peers_[static_cast<size_t>(rank)];
  if (peer == nullptr) peer = std::make_unique<Peer>();
  return *peer;
}

void MpiLink::PostReceive(size_t slot) {
  if (receive_buffers_[slot] == nullptr) {
    if (spare_.empty()) spare_.push_back(std::make_unique_for_overwrite<char[]>(kFrameBufferBytes));
    receive_buffers_[slot] = std::move(spare_.back());
    spare_.pop_back();
  }
  MPI_Irecv(receive_buffers_[slot].get(), static_cast<int>(kFrameBufferBytes), MPI_BYTE,
            MPI_ANY_SOURCE, kTag, session_->comm(), &receives_[slot]);
  receive_order_.push_back(slot);
}

// Posting a receive again takes longer than handing on what it brought, and can wait.
void MpiLink::PostReceives() {
  for (; !unposted_.empty(); unposted_.pop_back()) PostReceive(unposted_.back());
}

// The receive at `position` of receive_order_ is complete: takes the frame. false: it failed, of
// which nothing but an error of MPI can be the cause.
bool MpiLink::TakeSlot(size_t position, int error, const MPI_Status& status, Arrived* arrived) {
  const size_t slot = receive_order_[position];
  receive_order_.erase(receive_order_.begin() + static_cast<ptrdiff_t>(position));
  arrived->buffer = std::move(receive_buffers_[slot]);
  unposted_.push_back(slot);
  const Status received = MpiStatus(error, "MPI_Irecv");
  if (!received.ok()) {
    base::Log(LogLevel::kError, received.ToString());
    spare_.push_back(std::move(arrived->buffer));
    return false;
  }
  arrived->source = status.MPI_SOURCE;
  MPI_Get_count(&status, MPI_BYTE, &arrived->bytes);
  return true;
}

// Receives are matched in the order they were posted, but a large frame may complete after a small
// one behind it; a stopped sender must not hold up the others.
void MpiLink::TestAllReceives() {
  int count = 0;
  const int outcome = MPI_Testsome(static_cast<int>(receives_.size()), receives_.data(), &count,
                                   test_indices_.data(), test_statuses_.data());
  if (count == MPI_UNDEFINED) return;
  std::map<size_t, const MPI_Status*> complete;  // by slot
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    complete[static_cast<size_t>(test_indices_[i])] = &test_statuses_[i];
  }
  for (size_t position = 0; position < receive_order_.size() && !complete.empty();) {
    const auto found = complete.find(receive_order_[position]);
    if (found == complete.end()) {
      ++position;
      continue;
    }
    const MPI_Status& status = *found->second;
    const int error = outcome == MPI_ERR_IN_STATUS ? status.MPI_ERROR : outcome;
    complete.erase(found);
    Arrived arrived;
    if (TakeSlot(position, error, status, &arrived)) arrived_.push_back(std::move(arrived));
  }
}

bool MpiLink::TakeArrived(Arrived* arrived) {
  if (arrived_.empty()) {
    if (receive_order_.empty()) PostReceives();
    MPI_Status status;
    int done = 0;
    const int error = MPI_Test(&receives_[receive_order_.front()], &done, &status);
    if (done != 0 || error != MPI_SUCCESS) {
      misses_ = 0;
      return TakeSlot(0, error, status, arrived);
    }
    if (++misses_ % kMissesPerTestAll == 0) TestAllReceives();
  }
  if (arrived_.empty()) return false;
  *arrived = std::move(arrived_.front());
  arrived_.pop_front();
  return true;
}

MpiLink::Buffer MpiLink::TakeSendBuffer() {
  if (send_spare_.empty()) {
    if (send_buffer_count_ == kSendBuffersMax) return nullptr;
    auto buffer = std::make_unique_for_overwrite<char[]>(kFrameBufferBytes);
    ++send_buffer_count_;
    return buffer;
  }
  Buffer buffer = std::move(send_spare_.back());
  send_spare_.pop_back();
  return buffer;
}

void MpiLink::ReserveSend() {
  if (sends_.size() < sends_.capacity() && send_records_.size() < send_records_.capacity()) return;
  sends_.reserve(2 * sends_.size() + 1);
  send_records_.reserve(2 * sends_.size() + 1);
}

Result<bool> MpiLink::TrySend(int destination, const FrameParts& frame) {
  const Lock lock(session_->mutex());
  if (session_->closed() || closing_) return Status(Code::kPeerFailed, "MPI was finalized");
  Peer& peer = PeerOf(destination);
  if (peer.health.load(std::memory_order_relaxed) != Health::kSound) return peer.why;
  if (peer.sent_count - peer.acknowledged >= static_cast<uint64_t>(options_.window_frames)) {
    peer.room_wanted = true;
    return false;
  }
  Buffer buffer = TakeSendBuffer();
  if (buffer == nullptr) {
    if (!std::exchange(peer.refused, true)) refused_.push_back(destination);
    return false;
  }
  ReserveSend();  // what MPI has begun to send is not given up for want of memory
  JoinParts(frame, buffer.get() + kFrameHeaderBytes);
  FrameHeader header;
  header.size = static_cast<uint32_t>(frame.size());
  header.session = options_.number;
  header.sequence = peer.sent_count++;
  header.acknowledged = peer.returned = peer.received_count;
  SealFrame({rank(), destination}, header, buffer.get());
  MPI_Request request = MPI_REQUEST_NULL;
  const int error = MPI_Isend(buffer.get(), static_cast<int>(kFrameHeaderBytes + frame.size()),
                              MPI_BYTE, destination, kTag, session_->comm(), &request);
  if (error != MPI_SUCCESS) {
    MarkGone(destination, peer, MpiStatus(error, "MPI_Isend"));
    return peer.why;
  }
  ++peer.wire_sent;
  int done = 0;
  MPI_Test(&request, &done, MPI_STATUS_IGNORE);
  if (done != 0) {
    send_spare_.push_back(std::move(buffer));
  } else {
    sends_.push_back(request);
    send_records_.push_back({std::move(buffer), destination});
  }
  naps_.Activity();
  return true;
}

void MpiLink::FinishSends() {
  if (sends_.empty()) return;
  std::vector<int> indices(sends_.size());
  int count = 0;
  MPI_Testsome(static_cast<int>(sends_.size()), sends_.data(), &count, indices.data(),
               MPI_STATUSES_IGNORE);
  if (count == MPI_UNDEFINED || count == 0) return;
  size_t kept = 0;
  for (size_t i = 0; i < sends_.size(); ++i) {
    if (sends_[i] == MPI_REQUEST_NULL) {
      send_spare_.push_back(std::move(send_records_[i].buffer));
    } else {
      sends_[kept] = sends_[i];
      if (kept != i) send_records_[kept] = std::move(send_records_[i]);
      ++kept;
    }
  }
  sends_.resize(kept);
  send_records_.resize(kept);
}

void MpiLink::TellRefused(Lock& lock, FrameSink& sink) {
  if (refused_.empty() || (send_spare_.empty() && send_buffer_count_ == kSendBuffersMax)) return;
  std::vector<int> refused;
  refused.swap(refused_);
  for (int destination : refused) PeerOf(destination).refused = false;
  lock.unlock();
  for (int destination : refused) sink.OnRoom(destination);
  lock.lock();
}

void MpiLink::MarkGone(int rank, Peer& peer, const Status& why) {
  // Under the mutex. The first reason stays: TellGone may be handing it out.
  if (peer.health.load(std::memory_order_relaxed) != Health::kSound) return;
  peer.why = why;
  peer.health.store(Health::kGone, std::memory_order_seq_cst);
  gone_count_.fetch_add(1, std::memory_order_seq_cst);
  session_->Leak();
  base::Log(LogLevel::kWarning, "rank " + std::to_string(rank) + ": " + why.ToString());
}

int MpiLink::TellGone(Lock& lock, FrameSink& sink) {
  int count = 0;
  for (size_t rank = 0; rank < peers_.size(); ++rank) {
    Peer* const peer = peers_[rank].get();
    if (peer == nullptr || peer->health.load(std::memory_order_relaxed) != Health::kGone) continue;
    peer->health.store(Health::kFailed, std::memory_order_relaxed);
    gone_count_.fetch_sub(1, std::memory_order_relaxed);
    peer->early.clear();
    ++count;
    const Status why = peer->why;
    lock.unlock();
    sink.OnPeerFailed(static_cast<int>(rank), why);
    lock.lock();
  }
  return count;
}

void MpiLink::TakeCredit(Lock& lock, Peer& peer, int rank, uint64_t acknowledged, FrameSink& sink) {
  if (acknowledged > peer.sent_count) {
    return MarkGone(rank, peer, Status(Code::kCorruption, "received credit for unsent frames"));
  }
  peer.acknowledged = std::max(peer.acknowledged, acknowledged);
  const auto window = static_cast<uint64_t>(options_.window_frames);
  if (!peer.room_wanted || peer.sent_count - peer.acknowledged > window / 2) return;
  peer.room_wanted = false;
  lock.unlock();
  sink.OnRoom(rank);
  lock.lock();
}

// Half a window of frames was taken and no frame went back to tell.
void MpiLink::ReturnCredit(int rank, Peer& peer) {
  const auto window = static_cast<uint64_t>(options_.window_frames);
  if (peer.received_count - peer.returned < (window + 1) / 2 || peer.credit_due) return;
  peer.credit_due = true;
  credits_due_.push_back(rank);
}

void MpiLink::SendCredits() {
  const auto window = static_cast<uint64_t>(options_.window_frames);
  for (size_t i = 0; i < credits_due_.size();) {
    const int rank_due = credits_due_[i];
    Peer& peer = PeerOf(rank_due);
    int free = 1;
    const bool due = peer.received_count - peer.returned >= (window + 1) / 2 &&
                     peer.health.load(std::memory_order_relaxed) == Health::kSound;
    if (due) MPI_Test(&peer.credit_request, &free, MPI_STATUS_IGNORE);
    if (free == 0) {  // the one before is still under way
      ++i;
      continue;
    }
    if (due) {
      FrameHeader header;
      header.kind = FrameKind::kCredit;
      header.session = options_.number;
      header.acknowledged = peer.returned = peer.received_count;
      SealFrame({rank(), rank_due}, header, peer.credit);
      MPI_Isend(peer.credit, static_cast<int>(kFrameHeaderBytes), MPI_BYTE, rank_due, kTag,
                session_->comm(), &peer.credit_request);
      ++peer.wire_sent;
    }
    peer.credit_due = false;
    credits_due_[i] = credits_due_.back();
    credits_due_.pop_back();
  }
}

void MpiLink::Deliver(Lock& lock, Peer& peer, Arrived arrived, FrameSink& sink) {
  const auto bytes = static_cast<size_t>(arrived.bytes);
  lock.unlock();
  sink.OnFrame(arrived.source, Slice(arrived.buffer.get(), bytes).substr(kFrameHeaderBytes));
  lock.lock();
  ++peer.received_count;
  spare_.push_back(std::move(arrived.buffer));
  ReturnCredit(arrived.source, peer);
}

void MpiLink::Handle(Lock& lock, Arrived arrived, FrameSink& sink) {
  const int source = arrived.source;
  Peer& peer = PeerOf(source);
  const Slice frame(arrived.buffer.get(), static_cast<size_t>(arrived.bytes));
  if (peer.health.load(std::memory_order_relaxed) == Health::kFailed) {
    spare_.push_back(std::move(arrived.buffer));
    return;
  }
  const Result<FrameHeader> header = DecodeFrameHeader(frame);
  Status status = header.status();
  // A frame of an earlier session, whose communicator had the same context.
  if (header.ok() && header->session != options_.number) return;
  ++peer.wire_received;
  if (header.ok()) status = VerifyFrame({source, rank()}, *header, frame);
  const auto window = static_cast<uint64_t>(options_.window_frames);
  const bool is_data = header.ok() && header->kind == FrameKind::kData;
  if (status.ok() && is_data &&
      (header->sequence < peer.received_count || header->sequence >= peer.received_count + window ||
       peer.early.contains(header->sequence))) {
    status =
        Status(Code::kCorruption, "received frame " + std::to_string(header->sequence) + " where " +
                                      std::to_string(peer.received_count) + " was due");
  }
  if (!status.ok()) return MarkGone(source, peer, status);
  TakeCredit(lock, peer, source, header->acknowledged, sink);
  if (!is_data) {
    spare_.push_back(std::move(arrived.buffer));
  } else if (header->sequence != peer.received_count) {
    peer.early.emplace(header->sequence, std::move(arrived));
  } else {
    Deliver(lock, peer, std::move(arrived), sink);
    for (auto next = peer.early.find(peer.received_count); next != peer.early.end();
         next = peer.early.find(peer.received_count)) {
      Arrived early = std::move(next->second);
      peer.early.erase(next);
      Deliver(lock, peer, std::move(early), sink);
    }
  }
}

// Takes one frame and returns: to find out that there is no other costs more than the frame itself
// (Open MPI may give up the processor then), and those who wait for this one would pay for it.
int MpiLink::Poll(FrameSink& sink, int) {
  Lock lock(session_->mutex());
  if (session_->closed()) return 0;
  Arrived arrived;
  int count = 0;
  if (TakeArrived(&arrived)) {
    count = 1;
    naps_.Activity();
    Handle(lock, std::move(arrived), sink);
  }
  if (session_->closed()) return count;
  if (!credits_due_.empty()) SendCredits();
  if (count != 0 && unposted_.size() < kUnpostedMax) return count;
  PostReceives();
  FinishSends();
  TellRefused(lock, sink);
  // A peer that is gone may have sent before; what it sent comes first.
  if (count == 0 && gone_count_.load(std::memory_order_relaxed) != 0) count = TellGone(lock, sink);
  return count;
}

uint64_t MpiLink::NapNs(Waiter who) {
  const bool is_backup = who == Waiter::kHandler && led_.load(std::memory_order_relaxed);
  return naps_.NapNs(io::RealClock().NowNs(), is_backup);
}

bool MpiLink::Wait(Waiter who, uint64_t timeout_ns) {
  std::atomic<uint32_t>& woken = woken_[static_cast<int>(who)];
  if (Pending()) return true;
  SleepPrecisely(&woken, std::min(timeout_ns, NapNs(who)));
  woken.exchange(0, std::memory_order_acq_rel);
  return false;
}

void MpiLink::Wake(Waiter who) {
  std::atomic<uint32_t>& woken = woken_[static_cast<int>(who)];
  if (woken.exchange(1, std::memory_order_acq_rel) == 0) io::FutexWake(&woken, 1);
}

bool MpiLink::Alive(int rank) {
  const auto neighbour = options_.neighbours.find(rank);
  if (neighbour != options_.neighbours.end() && !IsRunning(neighbour->second)) {
    {
      const Lock lock(session_->mutex());
      MarkGone(rank, PeerOf(rank), Status(Code::kPeerFailed, "the process died"));
    }
    Wake(Waiter::kHandler);
    Wake(Waiter::kCaller);
    return false;
  }
  const Lock lock(session_->mutex());
  return PeerOf(rank).health.load(std::memory_order_relaxed) == Health::kSound;
}

}  // namespace quire::comm
