/// What the tests of every public call share: rows of calls, the text of a header that the rows are
/// compared with, and a forked child.
///
/// Layer      tests
/// Threads    one
#ifndef QUIRE_TESTS_API_EVERY_CALL_H_
#define QUIRE_TESTS_API_EVERY_CALL_H_

#include <gtest/gtest.h>
#include <signal.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "quire/quire.h"
#include "quire/status.h"
#include "tests/support/temp_directory.h"
#include "tests/support/test_scale.h"

namespace quire::test {

/// One call of a table. `Answer` is a Status, or a code of the C interface.
template <typename Objects, typename Answer>
struct CallRow {
  using Run = std::function<Answer(Objects&)>;
  using Preparation = std::function<void(Objects&)>;
  CallRow(std::string call_name, Run run_call, Preparation preparation = nullptr)
      : call(std::move(call_name)), run(std::move(run_call)), prepare(std::move(preparation)) {}

  std::string call;
  Run run;
  /// Brings the objects back to a state in which the call has work to do, so that it can be
  /// repeated. Empty: no call takes them out of it.
  Preparation prepare;
};

template <typename Objects, typename Answer>
void Prepare(const CallRow<Objects, Answer>& row, Objects& objects) {
  if (row.prepare) row.prepare(objects);
}

inline Code CodeOf(const Status& status) {
  return status.code();
}
inline Code CodeOf(int code) {
  return static_cast<Code>(code);
}
inline std::string TextOf(const Status& status) {
  return status.ToString();
}
inline std::string TextOf(int code) {
  return std::string(quire_code_name(code)) + ": " + quire_error_message();
}

/// Runs `body` in a forked child, which may take 20 seconds. Returns what `body` returned.
int InChild(const std::function<int()>& body);

/// While one exists, a signal comes every millisecond. It interrupts the system calls of the main
/// thread (the handler is installed without SA_RESTART).
class Interruptions {
 public:
  Interruptions();
  ~Interruptions();
  Interruptions(const Interruptions&) = delete;
  Interruptions& operator=(const Interruptions&) = delete;
  /// Returns how many came.
  static uint64_t count();

 private:
  struct sigaction before_ = {};
};

/// The objects of a table in a directory of their own.
template <typename Objects>
struct PlacedObjects {
  const TempDirectory directory;
  Objects objects{directory.path()};
};

/// Expects that each call answers under such signals as it does without.
template <typename Objects, typename Answer>
void ExpectTheSameWhileInterrupted(const std::vector<CallRow<Objects, Answer>>& rows) {
  constexpr uint64_t kSignals = 5;  // during each row
  constexpr int kCallsMax = 1000;   // of the same objects: a view holds the log, which fills
  for (const CallRow<Objects, Answer>& row : rows) {
    SCOPED_TRACE(row.call);
    auto placed = std::make_unique<PlacedObjects<Objects>>();
    Prepare(row, placed->objects);
    const Code expected = CodeOf(row.run(placed->objects));
    const Interruptions interruptions;
    for (int calls = 1; interruptions.count() < kSignals; ++calls) {
      if (calls % kCallsMax == 0) placed = std::make_unique<PlacedObjects<Objects>>();
      Prepare(row, placed->objects);
      const Answer answer = row.run(placed->objects);
      ASSERT_EQ(CodeOf(answer), expected) << TextOf(answer);
    }
  }
}

/// The rows; a quarter of them if tests are scaled down.
template <typename Row>
std::vector<Row> ScaledRows(const std::vector<Row>& rows) {
  const size_t stride = 4 / ScaledLeast(4);
  std::vector<Row> chosen;
  for (size_t i = FirstSeed() % stride; i < rows.size(); i += stride) chosen.push_back(rows[i]);
  return chosen;
}

/// Expects that each call answers in a thread that blocks all signals, as one that handles them
/// does, as it does elsewhere.
template <typename Objects, typename Answer>
void ExpectTheSameWithSignalsBlocked(const std::vector<CallRow<Objects, Answer>>& rows) {
  for (const CallRow<Objects, Answer>& row : ScaledRows(rows)) {
    SCOPED_TRACE(row.call);
    auto placed = std::make_unique<PlacedObjects<Objects>>();
    Prepare(row, placed->objects);
    const Code expected = CodeOf(row.run(placed->objects));
    if (row.prepare == nullptr) placed = std::make_unique<PlacedObjects<Objects>>();
    Prepare(row, placed->objects);
    std::jthread([&] {
      sigset_t all;
      sigfillset(&all);
      ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &all, nullptr), 0);
      const Answer answer = row.run(placed->objects);
      EXPECT_EQ(CodeOf(answer), expected) << TextOf(answer);
    });
  }
}

}  // namespace quire::test

#endif  // QUIRE_TESTS_API_EVERY_CALL_H_
