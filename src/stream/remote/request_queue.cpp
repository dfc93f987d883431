#include "stream/remote/request_queue.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/core/check.h"
#include "base/core/out_of_memory.h"
#include "io/files/machine.h"
#include "io/ipc/shared_memory.h"

namespace quire::stream {
namespace {

// A daemon that dies wakes no reader: a waiting reader checks at this interval whether the daemon
// runs.
constexpr uint64_t kQueueLookNs = 100'000'000;

uint32_t Value(SlotState state) {
  return static_cast<uint32_t>(state);
}

bool Change(std::atomic<uint32_t>& word, SlotState from, SlotState to) {
  uint32_t expected = Value(from);
  return word.compare_exchange_strong(expected, Value(to));
}

Status AnswerIn(const QueueSlot& slot, std::string* answer) {
  const uint32_t size = slot.answer_bytes.load();
  if (size > kAnswerBytesMax) {
    return Status(Code::kCorruption, "the daemon's answer has an impossible length");
  }
  answer->assign(slot.answer, size);
  return Status();
}

void WakeReader(QueueSlot& slot) {
  ++slot.turns;
  io::FutexWake(&slot.turns, 1);
}

Status DaemonGone() {
  return Status(Code::kPeerFailed, "the daemon of this node has gone; the next call looks again");
}

}  // namespace

QueueClient::QueueClient(std::unique_ptr<io::SealedMemory> memory, std::function<Status()> ring,
                         std::function<bool()> gone)
    : memory_(std::move(memory)),
      layout_(reinterpret_cast<QueueLayout*>(memory_->data())),
      ring_(std::move(ring)),
      gone_(std::move(gone)) {}

Result<uint32_t> QueueClient::TakeSlot(uint64_t deadline_ns) {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    for (uint32_t i = 0; i < kQueueSlots; ++i) {
      const bool free = layout_->slots[i].state.load() == Value(SlotState::kFree);
      if (!used_[i] && free) {
        used_[i] = true;
        return i;
      }
    }
    const uint64_t now = io::RealClock().NowNs();
    if (now >= deadline_ns) return Status(Code::kTimedOut, "too many requests wait already");
    if (gone_()) return DaemonGone();
    // The daemon frees an abandoned slot without a notice.
    freed_.wait_for(lock, std::chrono::nanoseconds(std::min(deadline_ns - now, kQueueLookNs)));
  }
}

Result<std::string> QueueClient::Call(Slice request, uint64_t deadline_ns,
                                      const OnArrival& on_arrival) {
  if (request.size() > kPartRequestBytesMax) {
    return Status(Code::kInvalidArgument,
                  "a request to the daemon of this node has " + std::to_string(request.size()) +
                      " bytes; it may have " + std::to_string(kPartRequestBytesMax));
  }
  QUIRE_ASSIGN_OR_RETURN(const uint32_t index, TakeSlot(deadline_ns));
  QueueSlot& slot = layout_->slots[index];
  std::memcpy(slot.request, request.data(), request.size());
  slot.request_bytes = static_cast<uint32_t>(request.size());
  slot.deadline_ns = deadline_ns;
  slot.arrival_bytes = 0;
  slot.hears = on_arrival ? 1 : 0;
  slot.state.store(Value(SlotState::kAsked));
  Status status = ring_();
  // Even if the bell failed, the daemon may have taken the request.
  if (!status.ok() && !Change(slot.state, SlotState::kAsked, SlotState::kFree)) status = Status();
  if (status.ok()) status = Await(slot, deadline_ns, on_arrival);
  std::string answer;
  if (status.ok()) {
    status = base::OrOutOfMemory([&] { return AnswerIn(slot, &answer); });
    slot.state.store(Value(SlotState::kFree));
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    used_[index] = false;
  }
  freed_.notify_one();
  QUIRE_RETURN_IF_ERROR(status);
  QUIRE_ASSIGN_OR_RETURN(const Slice body, DecodeAnswer(answer));
  return std::string(body);
}

Status QueueClient::Await(QueueSlot& slot, uint64_t deadline_ns, const OnArrival& on_arrival) {
  uint64_t told = UINT64_MAX;
  for (;;) {
    const uint32_t turns = slot.turns.load();
    if (slot.state.load() == Value(SlotState::kAnswered)) return Status();
    const uint64_t bytes = slot.arrival_bytes.load();
    const uint64_t arrived = slot.arrived.load();
    if (on_arrival && bytes != 0 && arrived != told) {
      told = arrived;
      on_arrival({slot.arrival_at.load(), bytes, arrived});
    }
    const uint64_t now = io::RealClock().NowNs();
    const bool late = now >= deadline_ns;
    if (late || gone_()) {
      if (Change(slot.state, SlotState::kAsked, SlotState::kFree) ||
          Change(slot.state, SlotState::kTaken, SlotState::kAbandoned)) {
        return late ? Status(Code::kTimedOut, "the daemon did not answer in time") : DaemonGone();
      }
      if (slot.state.load() == Value(SlotState::kAnswered)) return Status();
      return DaemonGone();  // the slot's state is invalid
    }
    io::FutexWait(&slot.turns, turns, std::min(deadline_ns - now, kQueueLookNs));
  }
}

Result<std::unique_ptr<QueueServer>> QueueServer::New() {
  QUIRE_ASSIGN_OR_RETURN(auto memory, io::SealedMemory::Create(sizeof(QueueLayout)));
  return std::unique_ptr<QueueServer>(new QueueServer(std::move(memory)));
}

QueueServer::QueueServer(std::unique_ptr<io::SealedMemory> memory)
    : memory_(std::move(memory)), layout_(reinterpret_cast<QueueLayout*>(memory_->data())) {
  layout_->magic = kQueueMagic;
  layout_->slot_count = kQueueSlots;
}

std::vector<QueueServer::Asked> QueueServer::Take() {
  std::vector<Asked> asked;
  for (uint32_t i = 0; i < kQueueSlots; ++i) {
    QueueSlot& slot = layout_->slots[i];
    if (working_[i].load()) continue;
    if (!Change(slot.state, SlotState::kAsked, SlotState::kTaken)) continue;
    working_[i].store(true);
    const uint32_t size = std::min(slot.request_bytes.load(), kPartRequestBytesMax);
    asked.push_back({i, slot.deadline_ns, std::string(slot.request, size)});
  }
  return asked;
}

void QueueServer::Tell(uint32_t slot_index, const Arrival& arrival) {
  QUIRE_CHECK(slot_index < kQueueSlots);
  QueueSlot& slot = layout_->slots[slot_index];
  slot.arrival_at = arrival.at;
  slot.arrived = arrival.arrived;
  slot.arrival_bytes = arrival.bytes;
  if (slot.hears.load() != 0) WakeReader(slot);
}

void QueueServer::Answer(uint32_t slot_index, Slice answer) {
  QUIRE_CHECK(slot_index < kQueueSlots && answer.size() <= kAnswerBytesMax);
  QueueSlot& slot = layout_->slots[slot_index];
  std::memcpy(slot.answer, answer.data(), answer.size());
  slot.answer_bytes = static_cast<uint32_t>(answer.size());
  working_[slot_index].store(false);
  if (!Change(slot.state, SlotState::kTaken, SlotState::kAnswered)) {
    slot.state.store(Value(SlotState::kFree));
  }
  WakeReader(slot);
}

}  // namespace quire::stream
