// quire-streamd: serves the streams of this node to other nodes, and their streams to readers here.
// docs/streamd.md describes it, and docs/security.md what it protects, and what not.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "base/core/log_sink.h"
#include "base/text/bytes_text.h"
#include "base/text/printable.h"
#include "base/text/units.h"
#include "io/files/descriptor.h"
#include "io/files/machine.h"
#include "io/paths/made_paths.h"
#include "io/paths/process.h"
#include "quire/version.h"
#include "runtime/nearest_name.h"
#include "stream/remote/daemon_client.h"
#include "tools/quire-streamd/daemon.h"
#include "tools/quire-streamd/detach.h"
#include "tools/quire-streamd/log_file.h"
#include "tools/quire-streamd/place_files.h"

namespace quire::streamd {
namespace {

constexpr int kDone = 0;
constexpr int kNotRunning = 1;
constexpr int kFailed = 3;
constexpr uint64_t kStopMs = 15'000;
constexpr uint64_t kGraceMs = 3000;
constexpr uint64_t kMirrorBytesMin = base::kMiB;
constexpr uint64_t kMirrorBytesMax = 16 * 1024 * base::kGiB;

struct Command {
  DaemonOptions daemon;
  std::string token;
  bool detach = false;
  bool stop = false;
  bool status = false;
};

int Fail(const Status& status) {
  std::cerr << "quire-streamd: " << status.ToString() << '\n';
  return kFailed;
}

Status LogToFile(io::FileSystem& fs, const std::string& place) {
  QUIRE_ASSIGN_OR_RETURN(std::shared_ptr<DaemonLog> log,
                         DaemonLog::Open(fs, place + "/" + kLogFile));
  SetLogSink([log](LogLevel level, const std::string& text) {
    if (level <= LogLevel::kInfo) log->Write(text);
  });
  return Status();
}

void LogToStandardError() {
  SetLogSink([](LogLevel level, const std::string& text) {
    if (level <= LogLevel::kInfo) std::fprintf(stderr, "quire-streamd: %s\n", text.c_str());
  });
}

// The place of a daemon that starts. If it fails to start, all that it made there is removed.
struct Claim {
  io::MadePaths made_place;
  std::unique_ptr<io::FileLock> lock;
  io::MadePaths made_files;  // under the lock
};

Status ClaimPlace(io::FileSystem& fs, const std::string& place, Claim* claim) {
  return io::AgainIfTakenBack([&]() -> Status {
    QUIRE_RETURN_IF_ERROR(claim->made_place.MakeDirectory(fs, place));
    QUIRE_ASSIGN_OR_RETURN(claim->lock, LockPlace(fs, place, &claim->made_files));
    return Status();
  });
}

Status Serve(io::FileSystem& fs, const Command& command) {
  const std::string& place = command.daemon.place;
  Background* background = nullptr;
  Result<Background> entered = Status(Code::kNotFound);
  if (command.detach) {
    entered = Background::Enter();
    QUIRE_RETURN_IF_ERROR(entered.status());
    background = &*entered;
  }
  Claim claim;
  QUIRE_RETURN_IF_ERROR(ClaimPlace(fs, place, &claim));
  QUIRE_ASSIGN_OR_RETURN(const io::FileDescriptor signals, io::StopSignals());
  io::RaiseFileLimit();
  const bool own_token = command.token.empty();
  const std::string token_file = place + "/" + kTokenFile;
  if (own_token) QUIRE_RETURN_IF_ERROR(claim.made_files.AddFileIfAbsent(fs, token_file));
  QUIRE_ASSIGN_OR_RETURN(
      const Token token,
      Token::Load(fs, own_token ? token_file : command.token, own_token));
  QUIRE_ASSIGN_OR_RETURN(
      const auto daemon,
      Daemon::Open(command.daemon, token, StreamsOf(fs, place, command.daemon.mirror_bytes)));
  const std::string metadata =
      command.daemon.metadata_here ? daemon->address() : command.daemon.metadata;
  const Status written = WriteDaemonFile(fs, place, {daemon->address(), metadata});
  if (!written.ok()) RemoveDaemonFiles(fs, place);
  QUIRE_RETURN_IF_ERROR(written);
  claim.made_place.Keep();
  claim.made_files.Keep();
  if (background != nullptr) {
    QUIRE_RETURN_IF_ERROR(LogToFile(fs, place));
    background->Ready();
  } else {
    LogToStandardError();
  }
  base::Log(LogLevel::kInfo, "listens at " + daemon->address());
  const Status ran = daemon->Run(&signals);
  const bool ended = daemon->Finish(kGraceMs);
  RemoveDaemonFiles(fs, place);
  // A request under way waits for a peer that does not answer. Ending the process loses nothing:
  // all that the daemon writes survives being killed.
  if (!ended) ::_exit(ran.ok() ? kDone : kFailed);
  return ran;
}

int ShowStatus(io::FileSystem& fs, const std::string& place) {
  const auto holder = RunningDaemon(fs, place);
  if (!holder.ok()) return Fail(holder.status());
  if (holder->empty()) {
    std::cout << "no daemon runs for " << base::Legible(place) << '\n';
    return kNotRunning;
  }
  const auto file = ReadDaemonFile(fs, place);
  std::cout << "running on " << base::Legible(*holder) << '\n';
  if (file.ok()) {
    std::cout << "address " << base::Legible(file->address) << '\n';
    if (!file->metadata.empty()) {
      std::cout << "metadata " << base::Legible(file->metadata) << '\n';
    }
  }
  return kDone;
}

int Stop(io::FileSystem& fs, const std::string& place) {
  const Status stopped = StopDaemon(fs, place, kStopMs);
  if (stopped.ok()) return kDone;
  if (stopped.code() != Code::kNotFound) return Fail(stopped);
  std::cout << "no daemon runs for " << base::Legible(place) << '\n';
  return kNotRunning;
}

void AddLimits(CLI::App& app, DaemonOptions* options) {
  const auto set_bytes = [options](const std::string& given) {
    const std::optional<uint64_t> bytes = base::ParseBytes(given);
    if (!bytes || *bytes < kMirrorBytesMin || *bytes > kMirrorBytesMax) {
      throw CLI::ValidationError("--mirror-bytes is \"" + given +
                                 "\"; it must be bytes in [1 MiB, 16 TiB]; its units are " +
                                 base::kByteUnits);
    }
    options->mirror_bytes = *bytes;
  };
  app.add_option_function<std::string>(
         "--mirror-bytes", set_bytes,
         "room for what is fetched, for each part that is read; 256MiB by default")
      ->type_name("BYTES");
  app.add_option("--tend-ms", options->tend_ms, "how often parts without writers are looked at")
      ->check(CLI::Range(1000, 86'400'000));
}

void AddOptions(CLI::App& app, Command* command) {
  DaemonOptions& options = command->daemon;
  app.add_option("--place", options.place, "the directory of this node's streams")->required();
  app.add_option("--listen", options.listen, "HOST:PORT for other daemons; port 0: any")
      ->capture_default_str();
  app.add_option("--advertise", options.advertise, "the host by which others reach this one");
  auto* const metadata =
      app.add_option("--metadata", options.metadata, "HOST:PORT of the metadata service")
          ->envname(stream::kMetadataVariable);
  app.add_flag("--metadata-here", options.metadata_here, "this daemon is the metadata service")
      ->excludes(metadata);
  app.add_option(
         "--token", command->token,
         "file with the secret of your daemons (0600, at least 32 bytes); default PLACE/.token, "
         "created if absent")
      ->envname(stream::kTokenVariable);
  AddLimits(app, &options);
  app.add_flag("--detach", command->detach, "returns once it listens, and goes on by itself");
  auto* const stop = app.add_flag("--stop", command->stop, "stops the daemon of the place");
  app.add_flag("--status", command->status, "prints whether a daemon runs, and its address")
      ->excludes(stop);
}

int Main(int argc, char** argv) {
  CLI::App app("Serves the streams of a place to other nodes, and theirs to readers here.");
  app.set_version_flag("--version", std::string("quire-streamd ") + Version());
  app.footer(
      "Exit codes: 0 done; 1 none runs (--stop, --status); 2 the command line is not understood;\n"
      "3 it could not be done.\n\nExamples:\n"
      "  quire-streamd --place /dev/shm/me --metadata-here --token ~/.streams --detach\n"
      "  quire-streamd --place /dev/shm/me --listen 0.0.0.0:0 --metadata node1:4711 \\\n"
      "                --token ~/.streams --detach\n"
      "  quire-streamd --place /dev/shm/me --stop");
  app.failure_message([](const CLI::App* /*app*/, const CLI::Error& error) {
    return "quire-streamd: " + base::Legible(error.what()) +
           "; quire-streamd --help says what can be given\n";
  });
  Command command;
  AddOptions(app, &command);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : 2;
  }
  // If the variable of the token is misspelt, the daemon would make a token of its own.
  const Status variables = runtime::CheckVariableNames();
  if (!variables.ok()) return Fail(variables);
  io::FileSystem& fs = io::PosixFileSystem();
  auto place = io::AbsolutePath(command.daemon.place);
  if (!place.ok()) return Fail(place.status());
  command.daemon.place = *place;
  if (!command.token.empty()) {
    auto token = io::AbsolutePath(command.token);
    if (!token.ok()) return Fail(token.status());
    command.token = *std::move(token);
  }
  if (command.stop) return Stop(fs, *place);
  if (command.status) return ShowStatus(fs, *place);
  const Status served = Serve(fs, command);
  return served.ok() ? kDone : Fail(served);
}

}  // namespace
}  // namespace quire::streamd

int main(int argc, char** argv) {
  quire::io::OpenStandardStreams();
  return quire::streamd::Main(argc, argv);
}
