// Writers of streams, of the C interface.
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "api/handles.h"
#include "api/key_arrays.h"
#include "api/stream_forms.h"
#include "quire/quire_stream.h"

using quire::Code;
using quire::Result;
using quire::Status;
using quire::StreamStatistics;
using quire::StreamWriter;
using quire::api::Bytes;
using quire::api::Guarded;
using quire::api::NullArgument;

struct quire_stream_writer {
  std::unique_ptr<StreamWriter> object;
  bool finished = false;
  quire::base::OwnProcess process = {};
};

namespace quire::api {
namespace {

struct StreamCount {
  const char* name;
  uint64_t StreamStatistics::*field;
};

constexpr StreamCount kCounts[] = {
    {"commits", &StreamStatistics::commits},
    {"versions", &StreamStatistics::versions},
    {"deltas", &StreamStatistics::deltas},
    {"object_bytes", &StreamStatistics::object_bytes},
    {"stored_bytes", &StreamStatistics::stored_bytes},
    {"relocated_bytes", &StreamStatistics::relocated_bytes},
    {"collected", &StreamStatistics::collected},
    {"pinned_waits", &StreamStatistics::pinned_waits},
    {"log_bytes", &StreamStatistics::log_bytes},
    {"live_bytes", &StreamStatistics::live_bytes},
    {"audits", &StreamStatistics::audits},
};
// One name for each field.
static_assert(sizeof(StreamStatistics) == std::size(kCounts) * sizeof(uint64_t));

// Runs `body` with a writer's stream, guarded; kInvalidArgument if the writer is null or has
// finished.
template <typename Handle, typename Body>
int WithStream(Handle* writer, const Body& body) {
  return Guarded([&]() -> Status {
    if (writer == nullptr) return NullArgument("writer");
    QUIRE_RETURN_IF_ERROR(writer->process.Check("writer"));
    if (writer->finished) return Status(Code::kInvalidArgument, "the stream has finished");
    return body(*writer->object);
  });
}

// Gives the number of a commit to a program that may not want it.
Status GiveNumber(Result<uint64_t> made, uint64_t* number) {
  QUIRE_RETURN_IF_ERROR(made.status());
  if (number != nullptr) *number = *made;
  return Status();
}

}  // namespace
}  // namespace quire::api

using quire::api::GiveNumber;
using quire::api::kCounts;
using quire::api::WithStream;

extern "C" {

int quire_stream_writer_open(const char* place, const char* name, uint32_t rank,
                             const quire_options* options, quire_stream_writer** writer) {
  return Guarded([&]() -> Status {
    if (place == nullptr || name == nullptr || writer == nullptr) {
      return NullArgument("place, name or writer");
    }
    const quire::StreamOptions chosen =
        options == nullptr ? quire::StreamOptions() : options->stream;
    QUIRE_RETURN_IF_ERROR(quire::api::CheckRank(rank));
    QUIRE_ASSIGN_OR_RETURN(auto opened, StreamWriter::Open(place, name, rank, chosen));
    *writer = new quire_stream_writer{std::move(opened)};
    return Status();
  });
}

void quire_stream_writer_destroy(quire_stream_writer* writer) {
  delete writer;
}

int quire_stream_writer_create(quire_stream_writer* writer, const void* key, size_t key_size,
                               uint64_t bytes, const quire_stream_shape* shape, void** memory) {
  return WithStream(writer, [&](StreamWriter& stream) -> Status {
    if (memory == nullptr) return NullArgument("memory");
    QUIRE_ASSIGN_OR_RETURN(const quire::StreamShape wanted, quire::api::ShapeOf(shape));
    QUIRE_ASSIGN_OR_RETURN(*memory, stream.Create(Bytes(key, key_size), bytes, wanted));
    return Status();
  });
}

int quire_stream_writer_attach(quire_stream_writer* writer, const void* key, size_t key_size,
                               void* memory, uint64_t bytes, const quire_stream_shape* shape) {
  return WithStream(writer, [&](StreamWriter& stream) -> Status {
    if (memory == nullptr) return NullArgument("memory");
    QUIRE_ASSIGN_OR_RETURN(const quire::StreamShape wanted, quire::api::ShapeOf(shape));
    return stream.Attach(Bytes(key, key_size), static_cast<char*>(memory), bytes, wanted);
  });
}

int quire_stream_writer_free(quire_stream_writer* writer, const void* key, size_t key_size) {
  return WithStream(writer,
                    [&](StreamWriter& stream) { return stream.Free(Bytes(key, key_size)); });
}

int quire_stream_writer_put(quire_stream_writer* writer, const void* key, size_t key_size,
                            uint64_t* version) {
  return WithStream(writer, [&](StreamWriter& stream) {
    return GiveNumber(stream.Put(Bytes(key, key_size)), version);
  });
}

int quire_stream_writer_snapshot(quire_stream_writer* writer, uint64_t* snapshot) {
  return WithStream(writer,
                    [&](StreamWriter& stream) { return GiveNumber(stream.Snapshot(), snapshot); });
}

int quire_stream_writer_snapshot_some(quire_stream_writer* writer, size_t count,
                                      const void* const* keys, const size_t* key_sizes,
                                      uint64_t* snapshot) {
  return WithStream(writer, [&](StreamWriter& stream) -> Status {
    QUIRE_RETURN_IF_ERROR(quire::api::CheckArrays(count, keys, key_sizes));
    return GiveNumber(stream.Snapshot(quire::api::SlicesOf(count, keys, key_sizes)), snapshot);
  });
}

int quire_stream_writer_mark_dirty(quire_stream_writer* writer, const void* key, size_t key_size,
                                   uint64_t offset, uint64_t bytes) {
  return WithStream(writer, [&](StreamWriter& stream) {
    return stream.MarkDirty(Bytes(key, key_size), offset, bytes);
  });
}

int quire_stream_writer_restore(quire_stream_writer* writer, uint64_t snapshot, const void* key,
                                size_t key_size) {
  return WithStream(writer, [&](StreamWriter& stream) -> Status {
    // For the stream an empty key means all objects, and no object has an empty key.
    if ((key == nullptr) != (key_size == 0)) {
      return Status(Code::kInvalidArgument,
                    key == nullptr ? "the key is null, and has a size" : "the key is empty");
    }
    return stream.Restore(snapshot, Bytes(key, key_size));
  });
}

int quire_stream_writer_last_snapshot(const quire_stream_writer* writer, uint64_t* snapshot) {
  return WithStream(writer, [&](const StreamWriter& stream) -> Status {
    if (snapshot == nullptr) return NullArgument("snapshot");
    *snapshot = stream.LastSnapshot();
    return Status();
  });
}

int quire_stream_writer_sync(quire_stream_writer* writer) {
  return WithStream(writer, [](StreamWriter& stream) { return stream.Sync(); });
}

int quire_stream_writer_durability(const quire_stream_writer* writer, int* durability) {
  return WithStream(writer, [&](const StreamWriter& stream) -> Status {
    if (durability == nullptr) return NullArgument("durability");
    *durability = static_cast<int>(stream.durability());
    return Status();
  });
}

int quire_stream_writer_keep(quire_stream_writer* writer, uint64_t snapshot) {
  return WithStream(writer, [&](StreamWriter& stream) { return stream.Keep(snapshot); });
}

int quire_stream_writer_release(quire_stream_writer* writer, uint64_t snapshot) {
  return WithStream(writer, [&](StreamWriter& stream) { return stream.Release(snapshot); });
}

int quire_stream_writer_collect(quire_stream_writer* writer) {
  return WithStream(writer, [](StreamWriter& stream) { return stream.Collect(); });
}

int quire_stream_writer_tracking(const quire_stream_writer* writer, const void* key,
                                 size_t key_size, char** text) {
  return WithStream(writer, [&](const StreamWriter& stream) -> Status {
    if (text == nullptr) return NullArgument("text");
    QUIRE_ASSIGN_OR_RETURN(const std::string tracking, stream.Tracking(Bytes(key, key_size)));
    return quire::api::GiveText(tracking, text);
  });
}

int quire_stream_writer_statistic(const quire_stream_writer* writer, const char* name,
                                  uint64_t* value) {
  return WithStream(writer, [&](const StreamWriter& stream) -> Status {
    if (name == nullptr || value == nullptr) return NullArgument("name or value");
    for (const auto& count : kCounts) {
      if (quire::Slice(name) != count.name) continue;
      *value = stream.Statistics().*count.field;
      return Status();
    }
    return Status(Code::kNotFound);
  });
}

int quire_stream_writer_statistics(const quire_stream_writer* writer, char** text) {
  return WithStream(writer, [&](const StreamWriter& stream) -> Status {
    if (text == nullptr) return NullArgument("text");
    const StreamStatistics statistics = stream.Statistics();
    std::string lines;
    for (const auto& count : kCounts) {
      lines += std::string(count.name) + " " + std::to_string(statistics.*count.field) + "\n";
    }
    return quire::api::GiveText(lines, text);
  });
}

int quire_stream_writer_finish(quire_stream_writer* writer) {
  return WithStream(writer, [&](StreamWriter& stream) {
    writer->finished = true;
    return stream.Finish();
  });
}

}  // extern "C"
