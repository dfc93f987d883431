#include "stream.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <map>
#include <memory>

#include "commands.h"
#include "report.h"

namespace quire::bench {
namespace {

using Figure = std::function<Status(const StreamSettings&)>;

const std::map<std::string, Figure> kFigures = {
    {"5", RunStreamVolume}, {"6", RunStreamVolume},  {"small", RunStreamVolume},
    {"7", RunStreamSteps},  {"10", RunStreamSteps},  {"8", RunStreamReads},
    {"9", RunStreamDeltas}, {"wait", RunStreamWait}, {"remote", RunStreamRemote}};

std::vector<std::string> FigureNames() {
  std::vector<std::string> names;
  for (const auto& [name, figure] : kFigures) names.push_back(name);
  return names;
}

void AddVolumeOptions(CLI::App& app, StreamSettings* settings) {
  app.add_option("--total-mib", settings->total_mib,
                 "figures 5, 6: of each rank, put away in each iteration")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 20))
      ->capture_default_str();
  app.add_option("--variable-bytes", settings->variable_bytes,
                 "figures 5, 6, small; comma-separated; else as in the figure")
      ->delimiter(',')
      ->check(CLI::Range(uint64_t{64}, uint64_t{1} << 34));
  app.add_option("--variables", settings->variables, "small: how many there are")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 20))
      ->capture_default_str();
}

void AddStepOptions(CLI::App& app, StreamSettings* settings) {
  app.add_option("--blocks", settings->blocks, "figures 7, 10: of the mesh, of each rank")
      ->check(CLI::Range(2u, 1u << 20))
      ->capture_default_str();
  app.add_option("--edge", settings->edge, "figures 7, 10: cells (doubles) along a block's edge")
      ->check(CLI::Range(4u, 1024u))
      ->capture_default_str();
  app.add_option("--sweeps", settings->sweeps,
                 "figures 7, 10: of a stencil over a block that changes, in each step")
      ->check(CLI::Range(2u, 10'000u))
      ->capture_default_str();
  app.add_option("--steps", settings->steps, "figures 7, 10")
      ->check(CLI::Range(1u, 1u << 20))
      ->capture_default_str();
  app.add_option("--changed-percent", settings->changed_percent,
                 "figures 7, 10: of the blocks in each step; 9: of the object; comma-separated")
      ->delimiter(',')
      ->check(CLI::Range(0.0, 100.0));
}

void AddReadOptions(CLI::App& app, StreamSettings* settings) {
  app.add_option("--object-mib", settings->object_mib, "figure 9; a power of two")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 16))
      ->capture_default_str();
  app.add_option("--object-bytes", settings->object_bytes,
                 "figure 8, wait, remote; comma-separated; else as in the figure")
      ->delimiter(',')
      ->check(CLI::Range(uint64_t{64}, uint64_t{1} << 34));
  app.add_option("--count", settings->count, "wait: puts")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 32))
      ->capture_default_str();
  app.add_option("--daemon", settings->daemon,
                 "remote: the program quire-streamd; else the one beside this program's folder");
}

}  // namespace

void TellAim(const std::string& what, const std::string& relation, double aim, double reached) {
  if (reached == 0) return;
  const bool met = relation == ">=" ? reached >= aim : reached <= aim;
  const auto text = [](double x) { return Json(Rounded(x, 3)).dump(); };
  Say("aim: " + what + " " + relation + " " + text(aim) + ": " + text(reached) +
      (met ? ", met" : ", missed"));
}

Result<std::vector<std::string>> StreamSettings::MethodsOf(
    const std::vector<std::string>& all, const std::vector<std::string>& more) const {
  if (methods.empty()) return all;
  std::vector<std::string> known = all;
  known.insert(known.end(), more.begin(), more.end());
  std::string names;
  for (const std::string& name : known) names += (names.empty() ? "" : ", ") + name;
  for (const std::string& method : methods) {
    if (std::find(known.begin(), known.end(), method) != known.end()) continue;
    return Status(Code::kInvalidArgument, "--figure " + figure + " has no method " + method +
                                              " to choose, but " +
                                              (names.empty() ? "takes all of its own" : names));
  }
  return methods;
}

Command AddStream(CLI::App& app) {
  auto settings = std::make_shared<StreamSettings>();
  settings->parallel.repetitions = 5;
  CLI::App* sub = app.add_subcommand(
      "stream",
      "What a simulation pays for storing its arrays as versions that others read (NVStream).\n"
      "Figure 5, and 6 on many ranks: volume per second, by size of variables, of puts, of one "
      "snapshot of all, of memcpy\n(and with its lines written back) into memory as a log has it, "
      "and of files on tmpfs and in --directory.\n"
      "small: a snapshot of many small variables against one memcpy of them all.\n"
      "Figures 7 and 10: steps of a simulation most of whose blocks rest, not stored, stored "
      "whole, "
      "and as deltas.\n"
      "Figure 8: copies and views of an open stream, against memcpy and files. Figure 9: what "
      "deltas save by share changed.\n"
      "wait (two ranks): from a put to a process that sleeps until there is one. remote: gets of "
      "another node's versions\nby daemons, over loopback, against TCP alone.");
  sub->add_option("--figure", settings->figure, "of the paper, or small, wait, remote")
      ->check(CLI::IsMember(FigureNames()))
      ->capture_default_str();
  sub->add_option("--methods", settings->methods, "comma-separated; else all of the figure")
      ->delimiter(',')
      ->check(CLI::IsMember({"stream", "stream-snapshot", "memcpy", "memcpy-flush", "memcpy-whole",
                             "tmpfs", "file", "file-sync", "none", "full", "delta", "hash",
                             "protect", "watch"}));
  sub->add_option("--place", settings->place, "where streams lie, and what copies are made into")
      ->capture_default_str();
  AddVolumeOptions(*sub, settings.get());
  AddStepOptions(*sub, settings.get());
  AddReadOptions(*sub, settings.get());
  AddParallelOptions(*sub, &settings->parallel);
  return {sub, [settings] { return kFigures.at(settings->figure)(*settings); }, true};
}

}  // namespace quire::bench
