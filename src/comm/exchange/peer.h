/// The state of one other rank in an Exchange. Made when it is first needed.
///
/// Layer      comm
/// Threads    as noted at each member; PeerTable: any
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "base/core/out_of_memory.h"
#include "comm/exchange/exchange.h"
#include "comm/exchange/message.h"
#include "comm/exchange/window_queue.h"
#include "quire/status.h"

namespace quire::comm {

/// A request or signal that arrived but cannot be handled yet.
struct HeldMessage {
  MessageKind kind = MessageKind::kRequest;
  uint32_t channel = 0;
  uint64_t call = 0;
  std::string payload;
};

/// A request that its service has not finished, or a message that waits behind one.
struct UnfinishedMessage {
  HeldMessage message;  ///< without its payload, where `rest` has it
  uint32_t order = 0;   ///< of its channel; 0: a signal, which waits for all before it
  std::unique_ptr<UnfinishedRequest> rest;  ///< null: it has not begun
};

/// An answer that waits for room.
struct QueuedAnswer {
  MessageHeader header;  ///< `offset`: what has been sent
  std::string payload;
};

struct Peer {
  explicit Peer(int peer_rank) : rank(peer_rank) {}
  /// Returns why the peer failed, with its rank; requires that it has failed. If there is no memory
  /// for the text, the rank is omitted, but the code is the same.
  Status Failure() const {
    const Status failure = base::OrOutOfMemory(
        [this] { return why_failed.WithContext("rank " + std::to_string(rank)); });
    return failure.code() == why_failed.code() ? failure : why_failed;
  }

  /// Releases the bytes that a request has reserved of the window.
  void ReleaseWindow(uint64_t bytes) {
    outstanding_bytes.fetch_sub(bytes, std::memory_order_acq_rel);
  }

  int rank;  ///< set once, before other threads see it

  // Any thread.
  std::atomic<uint64_t> outstanding_bytes{0};  ///< requests under way to it
  WindowQueue window_queue;  ///< threads whose requests wait for answers to those
  std::atomic<bool> sending{false};            ///< a thread sends a message to it, frame by frame
  std::atomic<bool> failed{false};
  Status why_failed;  ///< written before `failed`

  // The holder of the poll right.
  MessageJoiner requests;  ///< of all kinds but answers
  MessageJoiner answers;
  std::deque<QueuedAnswer> queued_answers;
  uint64_t queued_bytes = 0;
  std::list<HeldMessage> held;  ///< while too many answers to it are queued
  bool in_held_list = false;
  std::list<HeldMessage> unserved;  ///< requests whose channel has no service yet
  bool in_unserved_list = false;
  std::list<UnfinishedMessage> unfinished;
  std::vector<uint32_t> unfinished_orders;  ///< which orders those have
  bool in_unfinished_list = false;
};

/// A table that creates a peer when it is first needed. One spare peer exists at any time, so that
/// the first message of another rank is not lost if an allocation fails.
class PeerTable {
 public:
  explicit PeerTable(int size)
      : peers_(static_cast<size_t>(size)), spare_(std::make_unique<Peer>(0)) {}
  ~PeerTable() {
    for (const std::atomic<Peer*>& place : peers_) delete place.load();
  }
  PeerTable(const PeerTable&) = delete;
  PeerTable& operator=(const PeerTable&) = delete;

  /// Returns the peer of that rank, which must be in range.
  Peer& Get(int rank) {
    std::atomic<Peer*>& place = peers_[static_cast<size_t>(rank)];
    Peer* const peer = place.load(std::memory_order_acquire);
    return peer != nullptr ? *peer : Make(rank);
  }

 private:
  Peer& Make(int rank) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::atomic<Peer*>& place = peers_[static_cast<size_t>(rank)];
    if (Peer* const peer = place.load(std::memory_order_acquire); peer != nullptr) return *peer;
    if (spare_ == nullptr) spare_ = std::make_unique<Peer>(rank);
    Peer* const made = spare_.release();
    made->rank = rank;
    place.store(made, std::memory_order_release);
    try {
      spare_ = std::make_unique<Peer>(0);
    } catch (const std::bad_alloc&) {
      // The next one is made when it is asked for.
    }
    return *made;
  }

  std::vector<std::atomic<Peer*>> peers_;
  std::mutex mutex_;
  std::unique_ptr<Peer> spare_;
};

}  // namespace quire::comm
