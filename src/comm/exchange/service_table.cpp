#include "comm/exchange/service_table.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <new>
#include <utility>

#include "base/core/out_of_memory.h"
#include "comm/transport/in_service.h"

namespace quire::comm {

// A request may still use an entry that is being removed, so it shares ownership. The entries of
// low channels are never removed, and not counted.
std::shared_ptr<ServiceTable::Entry> ServiceTable::Find(uint32_t channel) {
  if (channel < kQuickChannels) {
    return {std::shared_ptr<Entry>(), quick_[channel].load(std::memory_order_acquire)};
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(channel);
  return found == entries_.end() ? nullptr : found->second;
}

void ServiceTable::Set(uint32_t channel, Service service) {
  if (service == nullptr) return TakeAway(channel);
  SetPatient(channel, 0,
             [run = std::move(service)](int source, Slice request, Status* status,
                                        std::string* answer) {
               *status = run(source, request, answer);
               return std::unique_ptr<UnfinishedRequest>();
             });
}

// Sets the service before the entry can be found. Otherwise a request that finds the entry without
// a service would get the answer that the channel was removed, though it could wait.
void ServiceTable::SetPatient(uint32_t channel, uint32_t order, PatientService service) {
  const auto fresh = std::make_shared<Entry>(order);
  fresh->service = std::move(service);
  std::shared_ptr<Entry> entry;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    entry = entries_.try_emplace(channel, fresh).first->second;
    if (std::exchange(entry->taken_away, false)) --taken_away_;
  }
  if (entry != fresh) {
    const std::lock_guard<std::mutex> lock(entry->running);
    entry->service = std::move(fresh->service);
  }
  if (channel < kQuickChannels) quick_[channel].store(entry.get(), std::memory_order_release);
}

void ServiceTable::TakeAway(uint32_t channel) {
  if (!Has(channel)) SetPatient(channel, 0, {});
  const std::shared_ptr<Entry> entry = Find(channel);
  if (entry == nullptr) return;  // removed, and forgotten since
  {
    const std::lock_guard<std::mutex> lock(entry->running);
    entry->service = nullptr;
  }
  if (channel >= kQuickChannels) NoteTakenAway(*entry);
}

void ServiceTable::NoteTakenAway(Entry& entry) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (std::exchange(entry.taken_away, true)) return;
  if (++taken_away_ > kTakenAwayMax) ForgetLowest();
}

// Forgets the lowest removed channel. The search is short: below it are only the few channels that
// have a service.
void ServiceTable::ForgetLowest() {
  const auto lowest = std::find_if(entries_.lower_bound(kQuickChannels), entries_.end(),
                                   [](const auto& one) { return one.second->taken_away; });
  taken_below_ = std::max(taken_below_, lowest->first + 1);
  entries_.erase(lowest);
  --taken_away_;
}

bool ServiceTable::Has(uint32_t channel) {
  if (channel < kQuickChannels) return Find(channel) != nullptr;
  const std::lock_guard<std::mutex> lock(mutex_);
  return channel < taken_below_ || entries_.contains(channel);
}

size_t ServiceTable::size() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return entries_.size();
}

// Some services run a function of the program. An exception that it throws ends only the request.
Status ServiceTable::Refused(int source, uint32_t channel, const char* thrown,
                             std::string* answer) {
  answer->clear();
  return base::OrOutOfMemory([&] {
    return Status(Code::kInvalidArgument, "the service of channel " + std::to_string(channel) +
                                              ", asked by rank " + std::to_string(source) +
                                              ", threw an exception: " + thrown);
  });
}

template <typename Body>
Status ServiceTable::Guarded(uint32_t channel, int source, std::string* answer,
                             const Body& body) {
  const ServiceScope scope;
  try {
    return body();
  } catch (const std::bad_alloc&) {
    answer->clear();
    return base::OutOfMemory();
  } catch (const std::exception& error) {
    return Refused(source, channel, error.what(), answer);
  } catch (...) {
    return Refused(source, channel, "something that is no std::exception", answer);
  }
}

uint32_t ServiceTable::OrderOf(uint32_t channel) {
  const std::shared_ptr<const Entry> entry = Find(channel);
  return entry == nullptr ? 0 : entry->order;
}

Status ServiceTable::Run(uint32_t channel, int source, Slice request, std::string* answer,
                         std::unique_ptr<UnfinishedRequest>* rest) {
  const std::shared_ptr<Entry> entry = Find(channel);
  if (entry == nullptr) return Status(Code::kNotFound);
  const std::lock_guard<std::mutex> lock(entry->running);
  if (entry->service == nullptr) return Status(Code::kNotFound);
  return Guarded(channel, source, answer, [&] {
    Status status;
    *rest = entry->service(source, request, &status, answer);
    return status;
  });
}

Status ServiceTable::GoOn(uint32_t channel, int source, std::string* answer,
                          std::unique_ptr<UnfinishedRequest>* rest) {
  std::unique_ptr<UnfinishedRequest> request = std::move(*rest);
  const std::shared_ptr<Entry> entry = Find(channel);
  if (entry == nullptr) return Status(Code::kNotFound);
  const std::lock_guard<std::mutex> lock(entry->running);
  if (entry->service == nullptr) return Status(Code::kNotFound);
  return Guarded(channel, source, answer, [&] {
    Status status;
    if (!request->GoOn(&status, answer)) *rest = std::move(request);
    return status;
  });
}

}  // namespace quire::comm
