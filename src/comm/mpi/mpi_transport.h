/// The transport over MPI: frames as nonblocking sends into receives that are always posted, with
/// credits per pair.
///
/// Layer      comm (mpi_*.cpp only)
/// Source     PapyrusKV, SC17, section 2.4
/// Encoding   docs/format/frame.md
/// Threads    as Transport; MPI is called under the session's mutex
/// Invariants while MPI uses a buffer, nothing throws: the memory for the records of buffers is
///            allocated at the beginning
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/mpi/mpi_session.h"
#include "comm/transport/backoff.h"
#include "comm/transport/frame.h"
#include "comm/transport/peer_process.h"
#include "comm/transport/progress_group.h"
#include "comm/transport/transport.h"

namespace quire::comm {

struct MpiTransportOptions {
  int window_frames = 16;
  uint32_t number = 0;  ///< of the session, alike on all ranks: frames of others are dropped
  uint64_t spin_ns = 0;
  std::map<int, PeerProcess> neighbours;  ///< ranks on this node, whose processes can be watched
};

class MpiTransport final : public Transport {
 public:
  /// Allocates the memory for a job of `size` ranks. Start must come before any other call.
  MpiTransport(int size, const MpiTransportOptions& options);
  ~MpiTransport() override;
  /// Begins to receive. Allocates no memory.
  void Start(std::unique_ptr<MpiSession> session);

  int rank() const override { return session_->rank(); }
  int size() const override { return session_->size(); }
  bool SharesMemory(int rank) const override { return rank == session_->rank(); }
  uint32_t frame_bytes_max(int) const override { return kFrameBytesMax; }
  Result<bool> TrySend(int destination, const FrameParts& frame) override;
  int Poll(FrameSink& sink, int frames_max) override;
  void CallerArrives() override { led_.store(true, std::memory_order_relaxed); }
  void CallerLeaves() override { led_.store(false, std::memory_order_relaxed); }
  bool Wait(Waiter who, uint64_t timeout_ns) override;
  void Wake(Waiter who) override;
  uint64_t spin_ns() const override { return options_.spin_ns; }
  bool Alive(int rank) override;
  io::Clock& clock() override { return io::RealClock(); }
  bool AllowsThreads() const override { return session_->thread_level() == MPI_THREAD_MULTIPLE; }
  ProgressGroup* progress_group() const override { return &ProgressGroup::OfMpi(); }
  Status CheckThread() const override { return session_->CheckThread(); }
  std::string Name() const override { return "mpi"; }

  /// Returns how long `who` may sleep before it must poll again [ns].
  uint64_t SleepNs(Waiter who);
  /// Returns whether Poll has something to report although nothing will wake the poller for it.
  bool Pending() const { return gone_count_.load(std::memory_order_seq_cst) != 0; }

 private:
  using Lock = std::unique_lock<std::mutex>;
  using Buffer = std::unique_ptr<char[]>;
  struct Arrived {
    Buffer buffer;
    int source = 0;
    int bytes = 0;
  };
  static constexpr size_t kReceiveCount = 64;
  enum class Health : int { kSound, kGone, kFailed };  // as in the shared memory transport
  /// Guarded by the session's mutex, except `health`.
  struct Peer {
    std::atomic<Health> health{Health::kSound};
    Status why;
    uint64_t sent_count = 0;
    uint64_t acknowledged = 0;  ///< of those: taken by the peer
    uint64_t received_count = 0;
    uint64_t returned = 0;   ///< those of them that the peer knows
    uint64_t wire_sent = 0;  ///< frames of all kinds
    uint64_t wire_received = 0;
    bool room_wanted = false;
    bool refused = false;               ///< stands in refused_
    bool credit_due = false;            ///< stands in credits_due_
    std::map<uint64_t, Arrived> early;  ///< frames that overtook others
    MPI_Request credit_request = MPI_REQUEST_NULL;
    char credit[kFrameHeaderBytes];
  };
  struct Send {
    Buffer buffer;
    int destination;
  };

  Peer& PeerOf(int rank);
  bool PostReceive(size_t slot);
  void PostReceives();
  void Break(const Status& why);
  void GiveBack(Buffer buffer);
  bool TakeArrived(Arrived* arrived);
  bool TakeSlot(size_t position, int error, const MPI_Status& status, Arrived* arrived);
  void TestAllReceives();
  void Handle(Lock& lock, Arrived arrived, FrameSink& sink);
  void HandleOrFail(Lock& lock, Arrived arrived, FrameSink& sink);
  void Deliver(Lock& lock, Peer& peer, Arrived arrived, FrameSink& sink);
  void TakeCredit(Lock& lock, Peer& peer, int rank, uint64_t acknowledged, FrameSink& sink);
  void ReturnCredit(int rank, Peer& peer);
  void SendCredits();
  void FinishSends();
  void TellRefused(Lock& lock, FrameSink& sink);
  bool SetGone(Peer& peer, const Status& why);
  void MarkGone(int rank, Peer& peer, const Status& why);
  int TellGone(Lock& lock, FrameSink& sink);
  Buffer TakeSendBuffer();
  void ReserveSend();
  void FailSend(int rank, int error, const char* call);

  // mpi_close.cpp
  bool Quiesce();
  bool AllArrived(const uint64_t* expected) const;
  void DropArrived();
  bool SendsFinished();
  void Cancel();

  std::unique_ptr<MpiSession> session_;  ///< set once, by Start
  const MpiTransportOptions options_;
  Backoff naps_;
  std::atomic<bool> led_{false};
  std::atomic<uint32_t> woken_[2] = {0, 0};
  std::atomic<uint32_t> gone_count_{0};  ///< peers whose health is kGone

  // Guarded by the session's mutex.
  bool closing_ = false;
  Status broken_;  ///< why no rank can be reached any more
  std::vector<std::unique_ptr<Peer>> peers_;
  std::array<MPI_Request, kReceiveCount> receives_;
  std::array<Buffer, kReceiveCount> receive_buffers_;
  std::vector<size_t> receive_order_;            ///< slots, the first posted first
  std::vector<size_t> unposted_;                 ///< slots whose receive is to be posted again
  std::array<int, kReceiveCount> test_indices_;  ///< scratch of TestAllReceives
  std::array<MPI_Status, kReceiveCount> test_statuses_;
  std::vector<Arrived> arrived_;  ///< taken out of their order, the first at the end
  std::vector<Buffer> spare_;     ///< of receives; as many as it has room for
  std::vector<MPI_Request> sends_;
  std::vector<Send> send_records_;  ///< parallel to sends_
  std::vector<int> send_indices_;   ///< scratch of FinishSends, as long as sends_ can be
  std::vector<MPI_Status> send_statuses_;
  size_t send_buffer_count_ = 0;
  std::vector<Buffer> send_spare_;
  std::vector<int> refused_;  ///< destinations that found no send buffer
  std::vector<int> telling_;  ///< scratch of TellRefused
  std::vector<int> credits_due_;
  Buffer counts_;  ///< the counts that ranks exchange at the end
  unsigned misses_ = 0;
};

}  // namespace quire::comm
