// The findings of quire doctor about MPI. It looks for MPI as a user would start it.
#include <optional>
#include <string>

#include "tools/quire/findings.h"
#include "tools/quire/host_info.h"

namespace quire::tool {
namespace {

constexpr char kProbeName[] = "quire-mpi-probe";
constexpr char kSays[] = "quire-mpi-probe: ranks ";

std::string FirstLine(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

// An installed probe is apart from the programs for users; in a build directory it is beside this
// one.
std::string FindProbe() {
  const std::string here = OwnDirectory();
  for (const std::string& path : {here + "/" + kProbeName, here + "/" QUIRE_PROBE_FROM_BIN}) {
    if (IsProgram(path)) return path;
  }
  return "";
}

// Returns the text between `begin` and `end` in `text`; empty if they do not occur.
std::string Between(const std::string& text, const std::string& begin, const std::string& end) {
  const size_t from = text.find(begin);
  if (from == std::string::npos) return "";
  const size_t to = text.find(end, from + begin.size());
  if (to == std::string::npos) return "";
  return text.substr(from + begin.size(), to - from - begin.size());
}

void JudgeRanks(const std::string& launcher, const std::string& said, Findings* findings) {
  const std::string ranks = Between(said, kSays, ",");
  const std::string level = Between(said, "level ", ", ");
  const std::string library = Between(said, level + ", ", "\n");
  if (ranks != "2") {
    return findings->Wrong("mpi ranks",
                           "two ranks that " + launcher + " starts do not find each other",
                           "put the launcher of the MPI that Quire was built with first in PATH (" +
                               library + "), or build Quire with the launcher's");
  }
  findings->Fine("mpi ranks", "two start and find each other: " + library);
  if (level == "MPI_THREAD_MULTIPLE") return findings->Fine("mpi threads", level);
  findings->Note("mpi threads", level,
                 "with less than MPI_THREAD_MULTIPLE Quire makes progress only inside its "
                 "calls: use an MPI that is built with it");
}

void CheckRanks(const std::string& launcher, Findings* findings) {
  const std::string probe = FindProbe();
  if (probe.empty()) {
    return findings->Note("mpi ranks", std::string("not tried: ") + kProbeName + " is missing",
                          "install Quire with MPI");
  }
  const Ended ended = RunProgram({launcher, "-n", "2", probe});
  if (ended.fine && ended.output.find(kSays) != std::string::npos)
    return JudgeRanks(launcher, ended.output, findings);
  findings->Wrong("mpi ranks",
                  launcher + " -n 2 fails, or does not end: " + FirstLine(ended.output),
                  "try it by hand: " + launcher + " -n 2 " + probe +
                      "; on a login node, run quire doctor inside a job instead");
}

}  // namespace

void CheckMpi(Findings* findings) {
  std::string launcher = FindProgram("mpiexec");
  if (launcher.empty()) launcher = FindProgram("mpirun");
  if (launcher.empty()) {
    return findings->Wrong("mpi", "neither mpiexec nor mpirun is in PATH",
                           "install an MPI or load its module; programs on one rank do without");
  }
  const Ended version = RunProgram({launcher, "--version"});
  if (!version.fine) {
    return findings->Wrong("mpi", launcher + " --version fails or does not end",
                           "check the installation or the module of MPI");
  }
  findings->Fine("mpi", launcher + ": " + FirstLine(version.output));
  CheckRanks(launcher, findings);
}

}  // namespace quire::tool
