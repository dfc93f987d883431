#include "tools/quire-streamd/place_files.h"

#include "base/text/units.h"
#include "io/files/machine.h"
#include "io/ipc/socket.h"
#include "stream/remote/daemon_client.h"

namespace quire::streamd {
namespace {

constexpr uint64_t kLookNs = 10 * base::kNsPerMs;
constexpr uint64_t kFileBytesMax = 4096;
constexpr char kDaemonFile[] = "/.daemon";
constexpr char kPid[] = " pid ";

// Returns the value of the line "name value"; empty if there is none.
std::string Field(const std::string& text, const std::string& name) {
  size_t from = text.starts_with(name + " ") ? 0 : text.find("\n" + name + " ");
  if (from == std::string::npos) return "";
  from = text.find(' ', from) + 1;
  return text.substr(from, text.find('\n', from) - from);
}

// Returns whether the text of a lock's holder, "host pid 12 ...", names another host. Use it only
// to refuse something: any user may write such a text.
bool SaysElsewhere(const std::string& holder) {
  const std::string self = io::ProcessDescription();
  const std::string here = self.substr(0, self.find(kPid) + sizeof kPid - 1);
  return !holder.starts_with(here);
}

// Returns kNotFound if no daemon listens at this moment.
Status AskListenerToEnd(const std::string& place) {
  QUIRE_ASSIGN_OR_RETURN(const io::Socket socket,
                         io::Socket::ConnectLocal(place, stream::kDaemonSocket));
  return socket.AskPeerToEnd();
}

}  // namespace

Result<std::unique_ptr<io::FileLock>> LockPlace(io::FileSystem& fs, const std::string& place,
                                                io::MadePaths* made) {
  return made->Lock(fs, place + "/" + stream::kDaemonLock, io::ProcessDescription());
}

Status WriteDaemonFile(io::FileSystem& fs, const std::string& place, const DaemonFile& file) {
  std::string text = "address " + file.address + "\n";
  if (!file.metadata.empty()) text += "metadata " + file.metadata + "\n";
  return io::ReplaceFile(fs, place + kDaemonFile, text);
}

Result<DaemonFile> ReadDaemonFile(io::FileSystem& fs, const std::string& place) {
  QUIRE_ASSIGN_OR_RETURN(const std::string text,
                         io::ReadFile(fs, place + kDaemonFile, kFileBytesMax));
  return DaemonFile{Field(text, "address"), Field(text, "metadata")};
}

void RemoveDaemonFiles(io::FileSystem& fs, const std::string& place) {
  // A file that stays is harmless: only the lock shows whether a daemon runs.
  (void)fs.Unlink(place + kDaemonFile).ok();
  (void)fs.Unlink(place + "/" + stream::kDaemonSocket).ok();
}

Result<std::string> RunningDaemon(io::FileSystem& fs, const std::string& place) {
  const Status own = fs.CheckDirectory(place);
  if (own.code() == Code::kNotFound) return std::string();
  QUIRE_RETURN_IF_ERROR(own);
  return fs.LockHolder(place + "/" + stream::kDaemonLock);
}

Status StopDaemon(io::FileSystem& fs, const std::string& place, uint64_t timeout_ms) {
  QUIRE_ASSIGN_OR_RETURN(const std::string holder, RunningDaemon(fs, place));
  if (holder.empty()) return Status(Code::kNotFound);
  if (SaysElsewhere(holder)) {
    return Status(Code::kInvalidArgument,
                  "the daemon runs elsewhere (" + holder + "): stop it there");
  }
  const uint64_t deadline = io::RealClock().NowNs() + timeout_ms * base::kNsPerMs;
  for (bool asked = false;;) {
    // A daemon that has locked the place and does not listen yet will listen, or ends at this
    // moment.
    const Status status = asked ? Status() : AskListenerToEnd(place);
    const bool comes = status.code() == Code::kNotFound || status.code() == Code::kBusy;
    if (!status.ok() && !comes) return status.WithContext("the daemon of " + place);
    asked = status.ok();
    QUIRE_ASSIGN_OR_RETURN(const std::string now, RunningDaemon(fs, place));
    if (now != holder) return Status();
    if (io::RealClock().NowNs() >= deadline) {
      return Status(Code::kTimedOut, "the daemon (" + holder + ") does not " +
                                         (asked ? "end" : "listen; end that process by hand"));
    }
    io::RealClock().SleepNs(kLookNs);
  }
}

}  // namespace quire::streamd
