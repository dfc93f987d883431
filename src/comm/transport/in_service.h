/// Marks threads that are running a service or callback for a message, of the program or of the
/// library.
///
/// Layer      comm
/// Threads    each thread has a mark of its own
#pragma once

namespace quire::comm {

/// Returns whether this thread runs a service, or the callback of a call.
bool InService();

/// Makes InService() true on its thread while it exists.
class ServiceScope {
 public:
  ServiceScope();
  ~ServiceScope();
  ServiceScope(const ServiceScope&) = delete;
  ServiceScope& operator=(const ServiceScope&) = delete;

 private:
  const bool before_;
};

}  // namespace quire::comm
