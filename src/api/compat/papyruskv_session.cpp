#include "api/compat/papyruskv_session.h"

#include <algorithm>
#include <utility>

#include "base/core/log_sink.h"
#include "base/core/out_of_memory.h"
#include "kv/database/together.h"

namespace quire::compat {
namespace {

// Handles are (generation * 256 + slot) + 1, so that a closed handle does not stand for a newer
// database.
constexpr int kGenerationsMax = 1 << 22;

std::atomic<Session*> current{nullptr};

}  // namespace

Session* Session::Current() {
  return current.load(std::memory_order_acquire);
}

std::unique_ptr<Session> Session::Exchange(std::unique_ptr<Session> next) {
  return std::unique_ptr<Session>(current.exchange(next.release()));
}

OpenDatabase* Session::Find(int handle) const {
  if (handle <= 0) return nullptr;
  const size_t slot = static_cast<size_t>(handle - 1) % kDatabasesMax;
  OpenDatabase* const open = slots_[slot].load(std::memory_order_acquire);
  return open != nullptr && open->handle == handle ? open : nullptr;
}

Result<OpenDatabase*> Session::Reserve(const std::string& name, const DatabaseOptions& options) {
  size_t slot = 0;
  while (slot < kDatabasesMax && slots_[slot].load() != nullptr) ++slot;
  if (slot == kDatabasesMax) {
    return Status(Code::kBusy, std::to_string(kDatabasesMax) + " databases are open; close one");
  }
  auto open = std::make_unique<OpenDatabase>();
  open->name = name;
  open->options = options;
  const auto open_count = std::count_if(slots_.begin(), slots_.end(),
                                        [](const auto& other) { return other.load() != nullptr; });
  open->options.memory_percent_max = MemoryPercent(settings_, static_cast<int>(open_count));
  const int generation = generations_[slot]++ % kGenerationsMax;
  open->handle = generation * static_cast<int>(kDatabasesMax) + static_cast<int>(slot) + 1;
  owned_[slot] = std::move(open);
  slots_[slot].store(owned_[slot].get(), std::memory_order_release);
  return owned_[slot].get();
}

Status Session::Open(OpenDatabase* open) {
  QUIRE_ASSIGN_OR_RETURN(open->database, context_->Open(open->name, open->options));
  open->ready.store(true, std::memory_order_release);
  return Status();
}

void Session::Free(OpenDatabase* open) {
  if (open == nullptr) return;
  slots_[static_cast<size_t>(open->handle - 1) % kDatabasesMax].store(nullptr);
}

int Session::Add(Pending pending) {
  pending_.emplace(++last_event_, std::move(pending));
  return last_event_;
}

void Session::Begun(int event, std::unique_ptr<Event> begun) {
  pending_.at(event).event = std::move(begun);
}

Status Session::FinishRestart(OpenDatabase* open) {
  QUIRE_RETURN_IF_ERROR(Open(open));
  open->options.force_redistribute = false;  // it was meant for the restart alone
  return Status();
}

Status Session::Wait(int handle, int event) {
  const auto at = pending_.find(event);
  if (at == pending_.end() || at->second.handle != handle) {
    return Status(Code::kInvalidArgument, "the database has no event " + std::to_string(event) +
                                              ", or it was waited for already");
  }
  Status ended = kv::WaitTogether(*context_, *at->second.event);
  // The operation goes on, and the program may wait for it again.
  if (ended.code() == Code::kTimedOut) return ended;
  const bool is_restart = at->second.is_restart;
  pending_.erase(at);
  if (!is_restart) return ended;
  OpenDatabase* const open = Find(handle);
  if (ended.ok()) ended = FinishRestart(open);
  if (!ended.ok()) Free(open);
  return ended;
}

Status Session::WaitForAll() {
  Status first;
  for (auto& [number, pending] : pending_) {
    Event& event = *pending.event;
    const Status ended = base::OrOutOfMemory([&] { return event.Wait(); });
    if (first.ok()) first = ended;
    if (pending.is_restart) Free(Find(pending.handle));
  }
  pending_.clear();
  return context_->Agree(first);
}

Status Session::Reopen(OpenDatabase* open, DatabaseOptions options) {
  open->options = std::move(options);
  QUIRE_ASSIGN_OR_RETURN(open->database, context_->Open(open->name, open->options));
  Status registered;
  for (const auto& [id, function] : open->updates) {
    const Status one =
        base::OrOutOfMemory([&] { return open->database->RegisterAnsweringUpdate(id, function); });
    if (registered.ok()) registered = one;
  }
  return context_->Agree(registered);
}

Status Session::Close(OpenDatabase* open) {
  Free(open);
  {
    const std::lock_guard<std::mutex> lock(open->mutex);
    open->walks.clear();
  }
  return open->database->Close();
}

Status Session::CloseAll() {
  Status first;
  for (auto& slot : slots_) {
    OpenDatabase* const open = slot.load();
    if (open == nullptr) continue;
    const Status closed = Close(open);
    if (first.ok()) first = closed;
  }
  return first;
}

Status NullArgument(const char* name) {
  return Status(Code::kInvalidArgument, std::string("the argument ") + name + " is null");
}

int CodeOf(const char* call, const Status& status) {
  if (status.ok()) return PAPYRUSKV_OK;
  const bool absent = status.code() == Code::kNotFound;
  // An absent key is a result, not a failure: if it has no text, it is not logged.
  if (!(absent && status.message().empty()) && base::LogEnabled()) {
    static_cast<void>(base::OrOutOfMemory([&] {
      base::Log(LogLevel::kWarning, std::string(call) + ": " + status.ToString());
      return Status();
    }));
  }
  // Error numbers of papyrus/kv.h: -3 for Code 2, and so on.
  return absent ? PAPYRUSKV_NOT_FOUND : -1 - static_cast<int>(status.code());
}

}  // namespace quire::compat
