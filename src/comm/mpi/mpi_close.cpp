// The end of a MpiTransport. A frame that arrives after its communicator was freed would stay in
// MPI, and disturb a later communicator that gets the same context (with Open MPI its matching
// stops). So the ranks exchange the numbers of frames that they have sent, and each waits for those
// addressed to it. If some ranks do not close in time, the communicator is not freed at all.
#include <algorithm>
#include <new>
#include <utility>

#include "base/core/log_sink.h"
#include "comm/mpi/mpi_transport.h"

namespace quire::comm {
namespace {

constexpr uint64_t kCloseNs = 2'000'000'000;
constexpr uint64_t kCancelNs = 200'000'000;
constexpr uint64_t kNapNsMin = 20'000;
constexpr uint64_t kNapNsMax = 1'000'000;

// Repeats `step` until it is true, with growing naps between; false after `timeout_ns`.
template <typename Step>
bool RepeatFor(uint64_t timeout_ns, const Step& step) {
  const std::atomic<uint32_t> never{0};
  const uint64_t end_ns = io::RealClock().NowNs() + timeout_ns;
  for (uint64_t nap_ns = kNapNsMin; !step(); nap_ns = std::min(2 * nap_ns, kNapNsMax)) {
    if (io::RealClock().NowNs() >= end_ns) return false;
    SleepPrecisely(&never, nap_ns);
  }
  return true;
}

}  // namespace

MpiTransport::~MpiTransport() {
  if (session_ == nullptr) return;
  {
    const Lock lock(session_->mutex());
    if (session_->closed()) return;
    closing_ = true;
  }
  bool quiet = false;
  try {
    quiet = Quiesce();
  } catch (const std::bad_alloc&) {
    // Then it is unknown what is still in flight.
  }
  if (!quiet) {
    KeepForEver(std::move(counts_));
    base::Log(LogLevel::kInfo,
              "not all ranks closed together; a communicator of Quire stays behind");
    const Lock lock(session_->mutex());
    session_->Leak();
  }
  session_->CloseNow();  // runs Cancel, while this object's members still live
}

bool MpiTransport::AllArrived(const uint64_t* expected) const {
  for (size_t rank = 0; rank < peers_.size(); ++rank) {
    const uint64_t received = peers_[rank] == nullptr ? 0 : peers_[rank]->wire_received;
    if (received < expected[rank]) return false;
  }
  return true;
}

// No thread waits for these frames any more: they are only counted.
void MpiTransport::DropArrived() {
  Arrived arrived;
  while (TakeArrived(&arrived)) {
    const Slice frame(arrived.buffer.get(), static_cast<size_t>(arrived.bytes));
    const Result<FrameHeader> header = DecodeFrameHeader(frame);
    if (header.ok() && header->session == options_.number) ++PeerOf(arrived.source).wire_received;
    GiveBack(std::move(arrived.buffer));
  }
  PostReceives();
}

bool MpiTransport::SendsFinished() {
  FinishSends();
  bool finished = sends_.empty();
  for (const auto& peer : peers_) {
    if (peer == nullptr || peer->credit_request == MPI_REQUEST_NULL) continue;
    int done = 0;
    MPI_Test(&peer->credit_request, &done, MPI_STATUS_IGNORE);
    finished = finished && done != 0;
  }
  return finished;
}

// Returns false if not all ranks come here in time, or if one is known to have died or left.
bool MpiTransport::Quiesce() {
  const size_t count = peers_.size();
  auto* const sent = reinterpret_cast<uint64_t*>(counts_.get());
  MPI_Request request = MPI_REQUEST_NULL;
  {
    const Lock lock(session_->mutex());
    for (size_t rank = 0; rank < count; ++rank) {
      const Peer* const peer = peers_[rank].get();
      if (peer == nullptr) continue;
      if (peer->health.load(std::memory_order_relaxed) != Health::kSound) return false;
      sent[rank] = peer->wire_sent;
    }
    if (MPI_Ialltoall(sent, 1, MPI_UINT64_T, sent + count, 1, MPI_UINT64_T, session_->comm(),
                      &request) != MPI_SUCCESS) {
      return false;
    }
  }
  bool told = false;
  bool failed = false;
  const bool quiet = RepeatFor(kCloseNs, [&] {
    const Lock lock(session_->mutex());
    if (session_->closed()) return true;
    DropArrived();
    int done = 0;
    if (!told) failed = MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS;
    told = told || done != 0;
    const bool sends_finished = SendsFinished();
    return failed || (told && sends_finished && AllArrived(sent + count));
  });
  return quiet && told && !failed;
}

// Requires the session's mutex, and that MPI still works.
void MpiTransport::Cancel() {
  for (MPI_Request& request : receives_) {
    if (request != MPI_REQUEST_NULL) MPI_Cancel(&request);
  }
  // A receive that a stopped rank has begun to fill can neither be cancelled nor completed.
  const bool cancelled = RepeatFor(kCancelNs, [&] {
    int done = 0;
    MPI_Testall(static_cast<int>(receives_.size()), receives_.data(), &done, MPI_STATUSES_IGNORE);
    return done != 0;
  });
  if (!cancelled) {
    session_->Leak();
    for (Buffer& buffer : receive_buffers_) KeepForEver(std::move(buffer));
  }
  if (SendsFinished()) return;
  base::Log(LogLevel::kWarning, "messages to other ranks were still under way at the end");
  session_->Leak();
  for (Send& send : send_records_) KeepForEver(std::move(send.buffer));
  for (auto& peer : peers_) {
    if (peer != nullptr && peer->credit_request != MPI_REQUEST_NULL) (void)peer.release();
  }
}

}  // namespace quire::comm
