// The daemon's access to the streams of a place.
#include <memory>
#include <string>

#include "base/core/log_sink.h"
#include "stream/store/local_reader.h"
#include "stream/store/mirror.h"
#include "stream/store/part.h"
#include "stream/store/tending.h"
#include "tools/quire-streamd/daemon.h"
#include "tools/quire-streamd/part_timestamps.h"

namespace quire::streamd {

using stream::StorePart;

Streams StreamsOf(io::FileSystem& fs, const std::string& place, uint64_t mirror_bytes) {
  const std::string mirror_place = stream::MirrorPlace(place);
  Streams streams;
  streams.open_part = [&fs, place](const StorePart& part) {
    return stream::OpenLocalReader(fs, place, part.store, part.rank);
  };
  streams.parts = [&fs, place] { return PartsAt(fs, place); };
  const auto timestamps = std::make_shared<PartTimestamps>(fs, place);
  streams.registrations = [timestamps](const std::vector<StorePart>& parts) {
    return timestamps->Of(parts);
  };
  streams.remote.open_mirror = [&fs, mirror_place, mirror_bytes](const StorePart& part) {
    StreamOptions options;
    options.log_bytes = mirror_bytes;
    return stream::Mirror::Open(fs, mirror_place, part.store, part.rank, options);
  };
  streams.remote.open_mirrored = [&fs, mirror_place](const StorePart& part) {
    return stream::OpenLocalReader(fs, mirror_place, part.store, part.rank);
  };
  streams.written = [&fs, place](const StorePart& part) {
    const stream::PartName name{place, part.store, part.rank};
    const auto holder = fs.LockHolder(name.path("log") + ".lock");
    return !holder.ok() || !holder->empty();
  };
  streams.tend = [&fs, place](const StorePart& part) {
    // Also makes the index if the writer died without one.
    const Status status = stream::CollectEnded(fs, place, part.store, part.rank);
    if (status.ok() || status.code() == Code::kBusy || status.code() == Code::kNotFound) return;
    base::Log(LogLevel::kWarning, part.store + "/" + std::to_string(part.rank) +
                                      " could not be tended: " + status.ToString());
  };
  return streams;
}

}  // namespace quire::streamd
