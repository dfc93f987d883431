/// What the tests of every public call share: rows of calls, the text of a header that the rows are
/// compared with, and a forked child.
///
/// Layer      tests
/// Threads    one
#ifndef QUIRE_TESTS_API_EVERY_CALL_H_
#define QUIRE_TESTS_API_EVERY_CALL_H_

#include <functional>
#include <string>
#include <utility>

#include "quire/status.h"

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

/// Returns the text of include/quire/`name`.
std::string HeaderText(const std::string& name);

/// Runs `body` in a forked child, which may take 20 seconds. Returns what `body` returned.
int InChild(const std::function<int()>& body);

}  // namespace quire::test

#endif  // QUIRE_TESTS_API_EVERY_CALL_H_
