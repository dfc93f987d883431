#include "comm/transport/in_service.h"

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

}  // namespace quire::comm
