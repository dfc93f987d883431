#include "tools/quire-streamd/log_file.h"

#include <utility>

#include "io/files/machine.h"

namespace quire::streamd {

Result<std::unique_ptr<DaemonLog>> DaemonLog::Open(io::FileSystem& fs, const std::string& path,
                                                   uint64_t bytes_max) {
  std::unique_ptr<DaemonLog> log(new DaemonLog(fs, path, bytes_max));
  QUIRE_RETURN_IF_ERROR(log->Begin());
  return log;
}

Status DaemonLog::Begin() {
  const Status moved = fs_.Rename(path_, path_ + ".old");
  if (!moved.ok() && moved.code() != Code::kNotFound) return moved;
  file_.reset();
  QUIRE_ASSIGN_OR_RETURN(file_, fs_.Open(path_, io::FileOpenMode::kCreate));
  size_ = 0;
  return Status();
}

void DaemonLog::Write(const std::string& text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::string line = std::to_string(io::UnixTime()) + " " + text + "\n";
  if (size_ != 0 && size_ + line.size() > bytes_max_ && !Begin().ok()) return;
  if (file_ && file_->WriteAt(size_, line).ok()) size_ += line.size();
}

}  // namespace quire::streamd
