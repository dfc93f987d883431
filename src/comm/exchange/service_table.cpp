#include "comm/exchange/service_table.h"

#include <exception>
#include <memory>
#include <new>
#include <utility>

#include "base/out_of_memory.h"
#include "comm/transport/in_service.h"

namespace quire::comm {

ServiceTable::Entry* ServiceTable::Find(uint32_t channel) {
  if (channel < kQuickChannels) return quick_[channel].load(std::memory_order_acquire);
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(channel);
  return found == entries_.end() ? nullptr : found->second.get();
}

void ServiceTable::Set(uint32_t channel, Service service) {
  if (service == nullptr) return SetPatient(channel, 0, {});
  SetPatient(channel, 0,
             [run = std::move(service)](int source, Slice request, Status* status,
                                        std::string* answer) {
               *status = run(source, request, answer);
               return std::unique_ptr<UnfinishedRequest>();
             });
}

// An entry that can be found has its service: a request that came before waits for it, one that
// finds an entry without is told that it was taken away.
void ServiceTable::SetPatient(uint32_t channel, uint32_t order, PatientService service) {
  auto fresh = std::make_unique<Entry>(order);
  fresh->service = std::move(service);
  Entry* entry = nullptr;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    entry = entries_.try_emplace(channel, std::move(fresh)).first->second.get();
  }
  if (fresh != nullptr) {
    const std::lock_guard<std::mutex> lock(entry->running);
    entry->service = std::move(fresh->service);
  }
  if (channel < kQuickChannels) quick_[channel].store(entry, std::memory_order_release);
}

void ServiceTable::TakeAway(uint32_t channel) {
  Entry* const entry = Find(channel);
  if (entry == nullptr) return SetPatient(channel, 0, {});
  const std::lock_guard<std::mutex> lock(entry->running);
  entry->service = nullptr;
}

bool ServiceTable::Has(uint32_t channel) {
  return Find(channel) != nullptr;
}

// A function of the program runs in some services: what it throws ends the request alone.
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
  const Entry* const entry = Find(channel);
  return entry == nullptr ? 0 : entry->order;
}

Status ServiceTable::Run(uint32_t channel, int source, Slice request, std::string* answer,
                         std::unique_ptr<UnfinishedRequest>* rest) {
  Entry* const entry = Find(channel);
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
  Entry* const entry = Find(channel);
  const std::lock_guard<std::mutex> lock(entry->running);
  std::unique_ptr<UnfinishedRequest> request = std::move(*rest);
  if (entry->service == nullptr) return Status(Code::kNotFound);
  return Guarded(channel, source, answer, [&] {
    Status status;
    if (!request->GoOn(&status, answer)) *rest = std::move(request);
    return status;
  });
}

}  // namespace quire::comm
