/// The findings of quire doctor: one check after another.
///
/// Layer      tools
/// Threads    one
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace quire::tool {

/// The result of a check. Notes and good results do not change the exit code.
struct Check {
  std::string name;
  enum class Level { kFine, kNote, kWrong } level = Level::kFine;
  std::string what;
  std::string todo;
};
constexpr const char* kLevelNames[] = {"ok", "note", "wrong"};

/// All checks, in their order.
class Findings {
 public:
  void Fine(std::string name, std::string what) {
    all_.push_back({std::move(name), Check::Level::kFine, std::move(what), ""});
  }
  void Note(std::string name, std::string what, std::string todo) {
    all_.push_back({std::move(name), Check::Level::kNote, std::move(what), std::move(todo)});
  }
  void Wrong(std::string name, std::string what, std::string todo) {
    all_.push_back({std::move(name), Check::Level::kWrong, std::move(what), std::move(todo)});
  }
  void Judge(bool fine, std::string name, std::string what, std::string todo) {
    fine ? Fine(std::move(name), std::move(what))
         : Wrong(std::move(name), std::move(what), std::move(todo));
  }
  const std::vector<Check>& all() const { return all_; }

 private:
  std::vector<Check> all_;
};

/// Checks MPI: its launcher, whether two ranks start and find each other, and their thread level.
void CheckMpi(Findings* findings);

}  // namespace quire::tool
