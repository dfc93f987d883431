// heat_watch: reads the snapshots that heat stores, while it runs or later, from any node; prints
// how warm the plate is at each one, and paints it.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "picture.h"
#include "report.h"
#include "watcher.h"

namespace quire::heat {
namespace {

struct Settings {
  std::string place = "heat.quire";
  std::string pictures;
  uint64_t patience_s = 30;
};

Status Tell(const Settings& settings, uint64_t number, const Assembled& snapshot) {
  const State& state = snapshot.state;
  nlohmann::ordered_json line = {{"snapshot", number},
                                 {"step", state.step},
                                 {"seconds", state.seconds},
                                 {"source", {state.source.row, state.source.column}}};
  line.update(ToJson(state.plate, state.summary));
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);  // readers of the output want it at once
  if (settings.pictures.empty()) return Status();
  char name[32];
  std::snprintf(name, sizeof name, "/heat-%08llu.ppm", static_cast<unsigned long long>(state.step));
  return WritePicture(settings.pictures + name, state.plate, snapshot.field, state.summary.maximum);
}

int Run(const Settings& settings) {
  Watcher watcher(settings.place, std::chrono::seconds(settings.patience_s));
  const Result<Watched> watched = watcher.Run(
      [&](uint64_t number, const Assembled& snapshot) { return Tell(settings, number, snapshot); });
  if (!watched.ok()) {
    std::fprintf(stderr, "heat_watch: %s\n", watched.status().ToString().c_str());
    return 1;
  }
  const nlohmann::ordered_json result = {{"ranks", watched->ranks},
                                         {"versions", watched->versions},
                                         {"skipped", watched->skipped},
                                         {"last_step", watched->last_step}};
  std::printf("%s\n", result.dump().c_str());
  return 0;
}

}  // namespace
}  // namespace quire::heat

int main(int argc, char** argv) {
  CLI::App app(
      "Reads the snapshots of heat as they come, and ends when heat has: a line of JSON for each,\n"
      "and one at the end.");
  quire::heat::Settings settings;
  app.add_option("--place", settings.place, "folder of the streams, as heat has it on this node")
      ->capture_default_str();
  app.add_option("--pictures", settings.pictures, "a folder that is there: heat-<step>.ppm of each")
      ->check(CLI::ExistingDirectory);
  app.add_option("--patience", settings.patience_s,
                 "[s] to wait for heat to begin, to go on, or to be started again")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return quire::heat::Run(settings);
}
