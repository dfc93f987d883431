#include "comm/exchange/call_table.h"

#include <algorithm>
#include <utility>

#include "base/core/log_sink.h"
#include "comm/exchange/lost_answer.h"
#include "comm/transport/in_service.h"

namespace quire::comm {
namespace {

constexpr size_t kFirstSlots = 16;

}  // namespace

bool AnswerWasLost(const Call& call) {
  return static_cast<const PendingCall&>(call).answer_lost();
}

void PendingCall::Complete(Status status, std::string answer) {
  if (then_ != nullptr) {
    const ServiceScope scope;
    try {
      std::exchange(then_, nullptr)({status, answer, answer_lost_});
    } catch (...) {
      base::Log(LogLevel::kError, "the callback of a request's answer threw an exception");
    }
  }
  status_ = std::move(status);
  answer_ = std::move(answer);
  done_.store(true, std::memory_order_release);
}

uint64_t CallTable::Add(std::shared_ptr<PendingCall> call) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (free_.empty()) {
    if (slots_.size() == slots_.capacity()) {
      slots_.reserve(std::max(kFirstSlots, 2 * slots_.size()));
    }
    free_.reserve(slots_.capacity());  // so that removing a call takes no memory
    free_.push_back(static_cast<uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const uint32_t index = free_.back();
  free_.pop_back();
  slots_[index].call = std::move(call);
  return (static_cast<uint64_t>(slots_[index].generation) << 32) | index;
}

std::shared_ptr<PendingCall> CallTable::Take(uint64_t number) {
  const auto index = static_cast<uint32_t>(number);
  const auto generation = static_cast<uint32_t>(number >> 32);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (index >= slots_.size() || slots_[index].generation != generation) return nullptr;
  if (slots_[index].call == nullptr) return nullptr;
  ++slots_[index].generation;
  free_.push_back(index);
  return std::exchange(slots_[index].call, nullptr);
}

std::shared_ptr<PendingCall> CallTable::TakeOne(int destination) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (slot.call == nullptr || slot.call->destination() != destination) continue;
    ++slot.generation;
    free_.push_back(static_cast<uint32_t>(i));
    return std::exchange(slot.call, nullptr);
  }
  return nullptr;
}

}  // namespace quire::comm
