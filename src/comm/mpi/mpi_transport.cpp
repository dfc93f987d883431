#include "comm/mpi/mpi_transport.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/core/log_sink.h"
#include "base/core/out_of_memory.h"
#include "io/ipc/shared_memory.h"

namespace quire::comm {
namespace {

constexpr size_t kFrameBufferBytes = kFrameHeaderBytes + kFrameBytesMax;
constexpr size_t kSendBuffersMax = 512;
constexpr int kTag = 0;
// Usually the receive posted first is the next to complete; after this many misses all are tested.
constexpr unsigned kMissesPerTestAll = 32;
// Receives that may wait to be posted again until there is nothing else to do.
constexpr size_t kUnpostedMax = 16;

Status Finalized() {
  return PeerGone("MPI was finalized");
}

// Throws nothing. A `rank` below 0 means all ranks.
void LogGone(int rank, const Status& why) {
  if (!base::LogEnabled()) return;
  static_cast<void>(base::OrOutOfMemory([&] {
    const std::string who = rank < 0 ? "all ranks over MPI" : "rank " + std::to_string(rank);
    base::Log(LogLevel::kWarning, who + ": " + why.ToString());
    return Status();
  }));
}

std::unique_ptr<char[]> NewBuffer() {
  return std::make_unique_for_overwrite<char[]>(kFrameBufferBytes);
}

}  // namespace

MpiTransport::MpiTransport(int size, const MpiTransportOptions& options) : options_(options) {
  const auto count = static_cast<size_t>(size);
  peers_.resize(count);
  receives_.fill(MPI_REQUEST_NULL);
  for (Buffer& buffer : receive_buffers_) buffer = NewBuffer();
  receive_order_.reserve(kReceiveCount);
  unposted_.reserve(kReceiveCount);
  arrived_.reserve(kReceiveCount);
  spare_.reserve(kReceiveCount);
  send_spare_.reserve(kSendBuffersMax);
  refused_.reserve(count);
  telling_.reserve(count);
  credits_due_.reserve(count);
  counts_ = std::make_unique<char[]>(2 * count * sizeof(uint64_t));
}

void MpiTransport::Start(std::unique_ptr<MpiSession> session) {
  session_ = std::move(session);
  const Lock lock(session_->mutex());
  for (size_t slot = kReceiveCount; slot > 0; --slot) unposted_.push_back(slot - 1);
  PostReceives();
  session_->OnClose([this] { Cancel(); });
}

MpiTransport::Peer& MpiTransport::PeerOf(int rank) {
  auto& peer = peers_[static_cast<size_t>(rank)];
  if (peer == nullptr) peer = std::make_unique<Peer>();
  return *peer;
}

// Returns false if there is no memory for it now, or MPI refuses it.
bool MpiTransport::PostReceive(size_t slot) {
  Buffer& buffer = receive_buffers_[slot];
  if (buffer == nullptr && !spare_.empty()) {
    buffer = std::move(spare_.back());
    spare_.pop_back();
  }
  if (buffer == nullptr) buffer.reset(new (std::nothrow) char[kFrameBufferBytes]);
  if (buffer == nullptr) return false;
  const int error = MPI_Irecv(buffer.get(), static_cast<int>(kFrameBufferBytes), MPI_BYTE,
                              MPI_ANY_SOURCE, kTag, session_->comm(), &receives_[slot]);
  if (error != MPI_SUCCESS) {
    receives_[slot] = MPI_REQUEST_NULL;
    Break(MpiStatus(error, "MPI_Irecv"));
    return false;
  }
  receive_order_.push_back(slot);
  return true;
}

// Posts receives again. This takes longer than delivering the received frame, and can wait. If
// there is no memory for some of them, they are posted later, and the others receive meanwhile.
void MpiTransport::PostReceives() {
  while (broken_.ok() && !unposted_.empty() && PostReceive(unposted_.back())) unposted_.pop_back();
}

// Marks all ranks as failed: MPI is finalized, or a receive failed, and the lost message may be
// from any rank. (Ranks that are not in the table fail as soon as they are asked for.)
void MpiTransport::Break(const Status& why) {
  const bool first = broken_.ok();
  if (first) broken_ = why;
  for (const std::unique_ptr<Peer>& peer : peers_) {
    if (peer != nullptr) SetGone(*peer, broken_);
  }
  if (first) LogGone(-1, why);
}

void MpiTransport::GiveBack(Buffer buffer) {
  if (spare_.size() < spare_.capacity()) spare_.push_back(std::move(buffer));
}

// Takes the frame of the complete receive at `position` of receive_order_. Returns false if the
// receive failed, which only an error of MPI can cause.
bool MpiTransport::TakeSlot(size_t position, int error, const MPI_Status& status,
                            Arrived* arrived) {
  const size_t slot = receive_order_[position];
  receive_order_.erase(receive_order_.begin() + static_cast<ptrdiff_t>(position));
  if (receives_[slot] != MPI_REQUEST_NULL) {  // it failed, but is not over: MPI owns its buffer
    KeepForEver(std::move(receive_buffers_[slot]));
  } else {
    arrived->buffer = std::move(receive_buffers_[slot]);
  }
  unposted_.push_back(slot);
  if (error != MPI_SUCCESS) {
    Break(MpiStatus(error, "MPI_Irecv"));
    return false;
  }
  arrived->source = status.MPI_SOURCE;
  MPI_Get_count(&status, MPI_BYTE, &arrived->bytes);
  return true;
}

// Tests all receives. They are matched in the order in which they were posted, but a large frame
// may complete after a smaller, later one: a stopped sender must not hold up the others.
void MpiTransport::TestAllReceives() {
  int count = 0;
  const int outcome = MPI_Testsome(static_cast<int>(receives_.size()), receives_.data(), &count,
                                   test_indices_.data(), test_statuses_.data());
  if (outcome != MPI_SUCCESS && outcome != MPI_ERR_IN_STATUS) {
    return Break(MpiStatus(outcome, "MPI_Testsome"));
  }
  if (count == MPI_UNDEFINED) return;
  std::array<const MPI_Status*, kReceiveCount> complete{};  // by slot
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    complete[static_cast<size_t>(test_indices_[i])] = &test_statuses_[i];
  }
  for (size_t position = 0; position < receive_order_.size();) {
    const MPI_Status* const status = complete[receive_order_[position]];
    if (status == nullptr) {
      ++position;
      continue;
    }
    const int error = outcome == MPI_ERR_IN_STATUS ? status->MPI_ERROR : outcome;
    Arrived arrived;
    if (TakeSlot(position, error, *status, &arrived)) arrived_.push_back(std::move(arrived));
  }
  std::reverse(arrived_.begin(), arrived_.end());
}

bool MpiTransport::TakeArrived(Arrived* arrived) {
  if (arrived_.empty()) {
    if (receive_order_.empty()) PostReceives();
    if (receive_order_.empty()) return false;
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
  *arrived = std::move(arrived_.back());
  arrived_.pop_back();
  return true;
}

MpiTransport::Buffer MpiTransport::TakeSendBuffer() {
  if (send_spare_.empty()) {
    if (send_buffer_count_ == kSendBuffersMax) return nullptr;
    Buffer buffer = NewBuffer();
    ++send_buffer_count_;
    return buffer;
  }
  Buffer buffer = std::move(send_spare_.back());
  send_spare_.pop_back();
  return buffer;
}

void MpiTransport::ReserveSend() {
  if (sends_.size() < send_statuses_.size()) return;
  const size_t size = 2 * sends_.size() + 1;
  sends_.reserve(size);
  send_records_.reserve(size);
  send_indices_.resize(size);
  send_statuses_.resize(size);
}

// Marks the receiver as failed if a frame was not sent: without it, later frames are useless to the
// receiver.
void MpiTransport::FailSend(int rank, int error, const char* call) {
  if (error != MPI_SUCCESS) MarkGone(rank, PeerOf(rank), MpiStatus(error, call));
}

Result<bool> MpiTransport::TrySend(int destination, const FrameParts& frame) {
  const Lock lock(session_->mutex());
  if (session_->closed() || closing_) return Finalized();
  if (!broken_.ok()) return broken_;
  Peer& peer = PeerOf(destination);
  if (peer.health.load(std::memory_order_relaxed) != Health::kSound) return peer.why;
  if (peer.sent_count - peer.acknowledged >= static_cast<uint64_t>(options_.window_frames)) {
    peer.room_wanted = true;
    return false;
  }
  ReserveSend();  // a send that MPI has begun is not abandoned for lack of memory
  Buffer buffer = TakeSendBuffer();
  if (buffer == nullptr) {
    if (!std::exchange(peer.refused, true)) refused_.push_back(destination);
    return false;
  }
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
    send_spare_.push_back(std::move(buffer));
    FailSend(destination, error, "MPI_Isend");
    return peer.why;
  }
  ++peer.wire_sent;
  int done = 0;
  FailSend(destination, MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
  if (request == MPI_REQUEST_NULL) {
    send_spare_.push_back(std::move(buffer));
  } else {
    sends_.push_back(request);
    send_records_.push_back({std::move(buffer), destination});
  }
  naps_.Activity();
  return true;
}

void MpiTransport::FinishSends() {
  if (sends_.empty()) return;
  int count = 0;
  const int outcome = MPI_Testsome(static_cast<int>(sends_.size()), sends_.data(), &count,
                                   send_indices_.data(), send_statuses_.data());
  if (outcome == MPI_ERR_IN_STATUS) {
    for (int i = 0; i < count; ++i) {
      const auto at = static_cast<size_t>(i);
      const Send& send = send_records_[static_cast<size_t>(send_indices_[at])];
      FailSend(send.destination, send_statuses_[at].MPI_ERROR, "MPI_Isend");
    }
  }
  if (count == 0) return;
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

void MpiTransport::TellRefused(Lock& lock, FrameSink& sink) {
  if (refused_.empty() || (send_spare_.empty() && send_buffer_count_ == kSendBuffersMax)) return;
  telling_.clear();
  telling_.swap(refused_);
  for (int destination : telling_) PeerOf(destination).refused = false;
  lock.unlock();
  for (int destination : telling_) sink.OnRoom(destination);
  lock.lock();
}

// Requires the mutex. The first reason stays, because TellGone may be passing it on: returns false
// if there is one.
bool MpiTransport::SetGone(Peer& peer, const Status& why) {
  if (peer.health.load(std::memory_order_relaxed) != Health::kSound) return false;
  peer.why = why;
  peer.health.store(Health::kGone, std::memory_order_seq_cst);
  gone_count_.fetch_add(1, std::memory_order_seq_cst);
  session_->Leak();
  return true;
}

void MpiTransport::MarkGone(int rank, Peer& peer, const Status& why) {
  if (SetGone(peer, why)) LogGone(rank, why);
}

int MpiTransport::TellGone(Lock& lock, FrameSink& sink) {
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

void MpiTransport::TakeCredit(Lock& lock, Peer& peer, int rank, uint64_t acknowledged,
                              FrameSink& sink) {
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

// Queues a credit if half a window of frames was taken and no frame went back to say so.
void MpiTransport::ReturnCredit(int rank, Peer& peer) {
  const auto window = static_cast<uint64_t>(options_.window_frames);
  if (peer.received_count - peer.returned < (window + 1) / 2 || peer.credit_due) return;
  peer.credit_due = true;
  credits_due_.push_back(rank);
}

void MpiTransport::SendCredits() {
  const auto window = static_cast<uint64_t>(options_.window_frames);
  for (size_t i = 0; i < credits_due_.size();) {
    const int rank_due = credits_due_[i];
    Peer& peer = PeerOf(rank_due);
    int free = 1;
    const bool due = peer.received_count - peer.returned >= (window + 1) / 2 &&
                     peer.health.load(std::memory_order_relaxed) == Health::kSound;
    if (due) MPI_Test(&peer.credit_request, &free, MPI_STATUS_IGNORE);
    if (free == 0) {  // the previous one is still in flight
      ++i;
      continue;
    }
    if (due) {
      FrameHeader header;
      header.kind = FrameKind::kCredit;
      header.session = options_.number;
      header.acknowledged = peer.returned = peer.received_count;
      SealFrame({rank(), rank_due}, header, peer.credit);
      FailSend(rank_due,
               MPI_Isend(peer.credit, static_cast<int>(kFrameHeaderBytes), MPI_BYTE, rank_due, kTag,
                         session_->comm(), &peer.credit_request),
               "MPI_Isend");
      ++peer.wire_sent;
    }
    peer.credit_due = false;
    credits_due_[i] = credits_due_.back();
    credits_due_.pop_back();
  }
}

void MpiTransport::Deliver(Lock& lock, Peer& peer, Arrived arrived, FrameSink& sink) {
  const auto bytes = static_cast<size_t>(arrived.bytes);
  lock.unlock();
  sink.OnFrame(arrived.source, Slice(arrived.buffer.get(), bytes).substr(kFrameHeaderBytes));
  lock.lock();
  ++peer.received_count;
  GiveBack(std::move(arrived.buffer));
  ReturnCredit(arrived.source, peer);
}

void MpiTransport::Handle(Lock& lock, Arrived arrived, FrameSink& sink) {
  const int source = arrived.source;
  Peer& peer = PeerOf(source);
  const Slice frame(arrived.buffer.get(), static_cast<size_t>(arrived.bytes));
  if (peer.health.load(std::memory_order_relaxed) == Health::kFailed) {
    return GiveBack(std::move(arrived.buffer));
  }
  const Result<FrameHeader> header = DecodeFrameHeader(frame);
  Status status = header.status();
  // The frame is of an earlier session, whose communicator had the same context.
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
    GiveBack(std::move(arrived.buffer));
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

// Handles a frame. If there is no memory for it, the frame is lost, and so is everything that its
// sender sends after it.
void MpiTransport::HandleOrFail(Lock& lock, Arrived arrived, FrameSink& sink) {
  const int source = arrived.source;
  try {
    Handle(lock, std::move(arrived), sink);
  } catch (const std::bad_alloc&) {
    if (!lock.owns_lock()) lock.lock();
    MarkGone(source, PeerOf(source), base::OutOfMemory());
  }
}

// Takes one frame and returns. Finding that there is no other costs more than the frame itself
// (Open MPI may yield the processor), and the threads that wait for this frame would pay for it.
int MpiTransport::Poll(FrameSink& sink, int) {
  Lock lock(session_->mutex());
  if (session_->closed()) {
    Break(Finalized());
    return TellGone(lock, sink);
  }
  Arrived arrived;
  int count = 0;
  if (TakeArrived(&arrived)) {
    count = 1;
    naps_.Activity();
    HandleOrFail(lock, std::move(arrived), sink);
  }
  if (session_->closed()) return count;
  if (!credits_due_.empty()) SendCredits();
  if (count != 0 && unposted_.size() < kUnpostedMax) return count;
  PostReceives();
  FinishSends();
  TellRefused(lock, sink);
  // A peer that has left may have sent frames before; these come first.
  if (count == 0 && gone_count_.load(std::memory_order_relaxed) != 0) count = TellGone(lock, sink);
  return count;
}

uint64_t MpiTransport::SleepNs(Waiter who) {
  const bool is_backup = who == Waiter::kHandler && led_.load(std::memory_order_relaxed);
  return naps_.SleepNs(io::RealClock().NowNs(), is_backup);
}

bool MpiTransport::Wait(Waiter who, uint64_t timeout_ns) {
  std::atomic<uint32_t>& woken = woken_[static_cast<int>(who)];
  if (Pending()) return true;
  SleepPrecisely(&woken, std::min(timeout_ns, SleepNs(who)));
  woken.exchange(0, std::memory_order_acq_rel);
  return false;
}

void MpiTransport::Wake(Waiter who) {
  std::atomic<uint32_t>& woken = woken_[static_cast<int>(who)];
  if (woken.exchange(1, std::memory_order_acq_rel) == 0) io::FutexWake(&woken, 1);
}

bool MpiTransport::Alive(int rank) {
  const auto neighbour = options_.neighbours.find(rank);
  if (neighbour != options_.neighbours.end() && !IsRunning(neighbour->second)) {
    {
      const Lock lock(session_->mutex());
      MarkGone(rank, PeerOf(rank), PeerGone("the process died"));
    }
    Wake(Waiter::kHandler);
    Wake(Waiter::kCaller);
    return false;
  }
  const Lock lock(session_->mutex());
  Peer& peer = PeerOf(rank);
  if (session_->closed()) Break(Finalized());
  if (!broken_.ok()) SetGone(peer, broken_);
  return peer.health.load(std::memory_order_relaxed) == Health::kSound;
}

}  // namespace quire::comm
