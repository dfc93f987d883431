#include "comm/service_table.h"

#include <new>
#include <utility>

namespace quire::comm {
namespace {

thread_local bool in_service = false;

}  // namespace

bool InService() {
  return in_service;
}

ServiceScope::ServiceScope() : before_(std::exchange(in_service, true)) {}
ServiceScope::~ServiceScope() {
  in_service = before_;
}

std::shared_ptr<ServiceTable::Entry> ServiceTable::Find(uint32_t channel) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(channel);
  return found == entries_.end() ? nullptr : found->second;
}

void ServiceTable::Set(uint32_t channel, Service service) {
  std::shared_ptr<Entry> entry;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::shared_ptr<Entry>& place = entries_[channel];
    if (place == nullptr) place = std::make_shared<Entry>();
    entry = place;
  }
  const std::lock_guard<std::mutex> lock(entry->running);
  entry->service = std::move(service);
}

bool ServiceTable::Has(uint32_t channel) {
  return Find(channel) != nullptr;
}

Status ServiceTable::Run(uint32_t channel, int source, Slice request, std::string* answer) {
  const std::shared_ptr<Entry> entry = Find(channel);
  if (entry == nullptr) return Status(Code::kNotFound);
  const std::lock_guard<std::mutex> lock(entry->running);
  if (entry->service == nullptr) return Status(Code::kNotFound);
  const ServiceScope scope;
  try {
    return entry->service(source, request, answer);
  } catch (const std::bad_alloc&) {
    answer->clear();
    return Status(Code::kOutOfMemory, "no memory to handle a request from rank " +
                                          std::to_string(source) + " on channel " +
                                          std::to_string(channel));
  }
}

}  // namespace quire::comm
