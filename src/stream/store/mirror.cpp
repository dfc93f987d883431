#include "stream/store/mirror.h"

#include <algorithm>
#include <utility>

#include "base/core/log_sink.h"

namespace quire::stream {
namespace {

// An analysis may request any objects, and the requested objects stay in the index.
constexpr uint32_t kObjectsMin = 1 << 16;

class LogMirror final : public Mirror {
 public:
  LogMirror(io::FileSystem& fs, std::unique_ptr<Part> part) : fs_(fs), part_(std::move(part)) {}

  Result<Reservation> Reserve(Slice key, const StreamVersion& version) override {
    QUIRE_RETURN_IF_ERROR(CheckShape(version.bytes, version.shape));
    if (key.empty() || key.size() > kKeyBytesMax || version.version == 0) {
      return Status(Code::kInvalidArgument, "there can be no such version");
    }
    VersionEntry entry;
    entry.key = std::string(key);
    entry.shape = version.shape;
    entry.version = version.version;
    entry.snapshot = version.snapshot;
    entry.unix_time_ns = version.unix_time_ns;
    entry.bytes = version.bytes;
    return part_->Reserve(entry);
  }

  Status Commit(uint64_t hash) override { return part_->CommitReserved(hash); }

  // No other program makes a mirror here. This opens no file, because each fetch calls it, even if
  // the program has no descriptor left.
  Result<bool> Removed() const override {
    QUIRE_ASSIGN_OR_RETURN(const bool there, fs_.Exists(part_->name().path("log")));
    return !there;
  }

 private:
  io::FileSystem& fs_;
  std::unique_ptr<Part> part_;
};

// Removes the gate last, so that readers that look for the log meanwhile do not find it. Views of
// it stay valid.
Status RemoveFiles(io::FileSystem& fs, const PartName& name) {
  for (const char* const file : {"log", "index", "gate"}) {
    const Status removed = fs.Unlink(name.path(file));
    if (!removed.ok() && removed.code() != Code::kNotFound) return removed;
  }
  return Status();
}

}  // namespace

std::string MirrorPlace(const std::string& place) {
  return place + "/.mirror";
}

Result<std::unique_ptr<Mirror>> Mirror::Open(io::FileSystem& fs, const std::string& place,
                                             const std::string& name, uint32_t rank,
                                             const StreamOptions& options) {
  // A mirror keeps no version for its own sake: fetched versions stay as long as there is room.
  StreamOptions cache = options;
  cache.keep_versions = 0;
  cache.keep_ms = 0;
  cache.objects_max = std::max(options.objects_max, kObjectsMin);
  const PartName part_name{place, name, rank};
  auto part = Part::Open(fs, part_name, cache, true);
  if (part.status().code() == Code::kCorruption) {
    base::Log(LogLevel::kWarning,
              "a mirror is damaged, and a new one takes its place: " + part.status().ToString());
    QUIRE_RETURN_IF_ERROR(RemoveFiles(fs, part_name));
    part = Part::Open(fs, part_name, cache, true);
  }
  QUIRE_RETURN_IF_ERROR(part.status());
  return std::unique_ptr<Mirror>(std::make_unique<LogMirror>(fs, std::move(*part)));
}

}  // namespace quire::stream
