#include "base/core/log_sink.h"

#include <pthread.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <new>

#include "base/core/program_call.h"
#include "base/text/printable.h"

namespace quire::base {
namespace {

struct Sink {
  std::mutex mutex;
  std::shared_ptr<const LogSink> current;
  std::atomic<bool> enabled{false};
};

Sink& TheSink() noexcept {  // takes no memory
  alignas(Sink) static char place[sizeof(Sink)];
  static Sink* const sink = [] {
    auto* const made = new (place) Sink;  // never destroyed: threads may log while the process ends
    // Holds the mutex during a fork, so that a forked child finds it free. Best effort.
    static_cast<void>(::pthread_atfork([] { TheSink().mutex.lock(); },
                                       [] { TheSink().mutex.unlock(); },
                                       [] { TheSink().mutex.unlock(); }));
    return made;
  }();
  return *sink;
}

}  // namespace

void Log(LogLevel level, const std::string& text) {
  Sink& sink = TheSink();
  std::shared_ptr<const LogSink> current;
  {
    const std::lock_guard<std::mutex> lock(sink.mutex);
    current = sink.current;
  }
  if (!current) return;
  const ProgramCall inside;
  try {
    (*current)(level, Legible(text));  // outside the mutex: sinks run side by side
  } catch (...) {
    // Nobody is left to be told.
  }
}

void Log(LogLevel level, const char* text) noexcept {
  if (!LogEnabled()) return;
  try {
    Log(level, std::string(text));
  } catch (...) {
    // The line is dropped.
  }
}

bool LogEnabled() { return TheSink().enabled.load(std::memory_order_acquire); }

}  // namespace quire::base

namespace quire {

void SetLogSink(LogSink new_sink) {
  base::Sink& sink = base::TheSink();
  auto next = new_sink ? std::make_shared<const LogSink>(std::move(new_sink)) : nullptr;
  const std::lock_guard<std::mutex> lock(sink.mutex);
  sink.current = std::move(next);
  sink.enabled.store(sink.current != nullptr, std::memory_order_release);
}

}  // namespace quire
