#include "stream/store/pins.h"

#include "base/threads/fork_generation.h"
#include "base/threads/sync_point.h"
#include "io/files/machine.h"

namespace quire::stream {

Pins::~Pins() {
  if (HasSlot()) gate_->Pin(slot_, kNoPin);
}

bool Pins::HasSlot() const {
  return lock_ != nullptr && generation_ == base::ForkGeneration();
}

Status Pins::TakeSlot() {
  if (HasSlot()) return Status();
  const std::string holder = io::ProcessDescription();
  for (uint32_t slot = 0; slot < kPinsMax; ++slot) {
    Result<std::unique_ptr<io::FileLock>> lock = fs_.Lock(name_.pin_path(slot), holder);
    if (lock.ok()) {
      // If the store was moved, another reader of this gate may have the slot.
      QUIRE_RETURN_IF_ERROR(CheckSamePart(fs_, name_, gate_->log_id()));
      slot_ = slot;
      lock_ = *std::move(lock);
      generation_ = base::ForkGeneration();
      base::SyncPoint("stream.pin.slot_locked");
      gate_->Pin(slot_, kNoPin);
      return Status();
    }
    if (lock.status().code() != Code::kBusy) return lock.status();
  }
  return Status(Code::kBusy, std::to_string(kPinsMax) + " readers hold " + name_.path("log"));
}

void Pins::Tell() {
  gate_->Pin(slot_, held_.empty() ? kNoPin : *held_.begin());
}

Result<std::optional<Pins::Held>> Pins::Hold(Position at) {
  const std::lock_guard guard(mutex_);
  // A forked child takes its own slot, and pins there also what it inherited from its parent.
  const bool first = !HasSlot();
  QUIRE_RETURN_IF_ERROR(TakeSlot());
  const auto held = held_.insert(at);
  if (first || held == held_.begin()) Tell();
  base::SyncPoint("stream.pin.told");
  if (gate_->head() <= at) return std::optional(Held(this, at));
  held_.erase(held);
  Tell();
  return std::optional<Held>();
}

void Pins::Release(Position at) {
  const std::lock_guard guard(mutex_);
  base::SyncPoint("stream.pin.before_release");
  held_.erase(held_.find(at));
  if (HasSlot()) Tell();
}

}  // namespace quire::stream
