// Readers of streams, of the C interface.
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/handles.h"
#include "api/malloc_place.h"
#include "api/stream_forms.h"
#include "base/core/out_of_memory.h"
#include "quire/quire_stream.h"

using quire::Slice;
using quire::Status;
using quire::StreamReader;
using quire::StreamView;
using quire::api::Bytes;
using quire::api::Guarded;
using quire::api::NullArgument;
using quire::api::With;

struct quire_stream_reader {
  static constexpr const char* kName = "reader";
  std::unique_ptr<StreamReader> object;
  quire::base::OwnProcess process = {};
};

// A view. Its bytes are valid in a forked child, too.
struct quire_stream_view {
  static constexpr const char* kName = "view";
  std::unique_ptr<StreamView> object;
};

namespace quire::api {
namespace {

// Gives the object that `get` writes, in memory that the program frees.
template <typename Get>
Status GiveObject(void** bytes, size_t* size, const Get& get) {
  if (bytes == nullptr || size == nullptr) return NullArgument("bytes or size");
  MallocPlace place;
  QUIRE_RETURN_IF_ERROR(get(std::ref(place)));
  *size = place.size();
  *bytes = place.Release();
  return Status();
}

// Writes the object into memory of the program, which has `*size` bytes.
template <typename Get>
Status FillObject(void* buffer, size_t* size, const Get& get) {
  if (size == nullptr || (buffer == nullptr && *size > 0)) return NullArgument("buffer or size");
  const size_t capacity = *size;
  size_t wanted = 0;
  const Status status = get([&](size_t bytes) {
    wanted = bytes;
    return bytes <= capacity ? static_cast<char*>(buffer) : nullptr;
  });
  if (wanted > capacity) {
    *size = wanted;
    return Status(Code::kInvalidArgument, "the object has " + std::to_string(wanted) +
                                              " bytes, the buffer " + std::to_string(capacity));
  }
  if (status.ok()) *size = wanted;
  return status;
}

template <typename See>
Status GiveView(quire_stream_view** view, const See& see) {
  if (view == nullptr) return NullArgument("view");
  QUIRE_ASSIGN_OR_RETURN(auto seen, see());
  *view = new quire_stream_view{std::move(seen)};
  return Status();
}

// Gives `values` as an array that the program frees. It has one element more, so that it is never
// null.
template <typename Given, typename Value, typename Convert>
Status GiveArray(const std::vector<Value>& values, Given** given, size_t* count,
                 const Convert& convert) {
  auto* const copies = static_cast<Given*>(std::malloc((values.size() + 1) * sizeof(Given)));
  if (copies == nullptr) return base::OutOfMemory();
  for (size_t i = 0; i < values.size(); ++i) copies[i] = convert(values[i]);
  *given = copies;
  *count = values.size();
  return Status();
}

Status OpenReader(const char* place, const char* name, uint32_t rank,
                  const StreamReaderOptions& options, quire_stream_reader** reader) {
  if (place == nullptr || name == nullptr || reader == nullptr) {
    return NullArgument("place, name or reader");
  }
  QUIRE_RETURN_IF_ERROR(CheckRank(rank));
  QUIRE_ASSIGN_OR_RETURN(auto opened, StreamReader::Open(place, name, rank, options));
  *reader = new quire_stream_reader{std::move(opened)};
  return Status();
}

}  // namespace
}  // namespace quire::api

using quire::api::FillObject;
using quire::api::GiveArray;
using quire::api::GiveObject;
using quire::api::GiveView;

extern "C" {

int quire_stream_reader_open(const char* place, const char* name, uint32_t rank,
                             const quire_options* options, quire_stream_reader** reader) {
  return Guarded([&] {
    quire::StreamReaderOptions chosen;
    if (options != nullptr) chosen.timeout_ms = options->context.timeout_ms;
    return quire::api::OpenReader(place, name, rank, chosen, reader);
  });
}

int quire_stream_reader_open_local(const char* place, const char* name, uint32_t rank,
                                   quire_stream_reader** reader) {
  return Guarded([&] {
    quire::StreamReaderOptions chosen;
    chosen.remote = false;
    return quire::api::OpenReader(place, name, rank, chosen, reader);
  });
}

void quire_stream_reader_destroy(quire_stream_reader* reader) {
  delete reader;
}

int quire_stream_reader_objects(quire_stream_reader* reader, quire_bytes** keys, size_t* count) {
  return With(reader, [&](StreamReader& stream) -> Status {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<std::string> objects, stream.Objects());
    return quire::api::GiveTexts(objects, keys, count);
  });
}

int quire_stream_reader_versions(quire_stream_reader* reader, const void* key, size_t key_size,
                                 quire_stream_version** versions, size_t* count) {
  return With(reader, [&](StreamReader& stream) -> Status {
    if (versions == nullptr || count == nullptr) return NullArgument("versions or count");
    QUIRE_ASSIGN_OR_RETURN(const std::vector<quire::StreamVersion> found,
                           stream.Versions(Bytes(key, key_size)));
    return GiveArray(found, versions, count, quire::api::VersionOf);
  });
}

int quire_stream_reader_last_snapshot(quire_stream_reader* reader, uint64_t* snapshot) {
  return With(reader, [&](StreamReader& stream) -> Status {
    if (snapshot == nullptr) return NullArgument("snapshot");
    QUIRE_ASSIGN_OR_RETURN(*snapshot, stream.LastSnapshot());
    return Status();
  });
}

int quire_stream_reader_get(quire_stream_reader* reader, const void* key, size_t key_size,
                            uint64_t version, void** bytes, size_t* size) {
  return With(reader, [&](StreamReader& stream) {
    return GiveObject(bytes, size, [&](const quire::BufferAllocator& allocate) {
      return stream.Get(Bytes(key, key_size), version, allocate);
    });
  });
}

int quire_stream_reader_get_at(quire_stream_reader* reader, const void* key, size_t key_size,
                               uint64_t snapshot, void** bytes, size_t* size) {
  return With(reader, [&](StreamReader& stream) {
    return GiveObject(bytes, size, [&](const quire::BufferAllocator& allocate) {
      return stream.GetAt(Bytes(key, key_size), snapshot, allocate);
    });
  });
}

int quire_stream_reader_get_into(quire_stream_reader* reader, const void* key, size_t key_size,
                                 uint64_t version, void* buffer, size_t* size) {
  return With(reader, [&](StreamReader& stream) {
    return FillObject(buffer, size, [&](const quire::BufferAllocator& allocate) {
      return stream.Get(Bytes(key, key_size), version, allocate);
    });
  });
}

int quire_stream_reader_get_at_into(quire_stream_reader* reader, const void* key, size_t key_size,
                                    uint64_t snapshot, void* buffer, size_t* size) {
  return With(reader, [&](StreamReader& stream) {
    return FillObject(buffer, size, [&](const quire::BufferAllocator& allocate) {
      return stream.GetAt(Bytes(key, key_size), snapshot, allocate);
    });
  });
}

int quire_stream_reader_view(quire_stream_reader* reader, const void* key, size_t key_size,
                             uint64_t version, quire_stream_view** view) {
  return With(reader, [&](StreamReader& stream) {
    return GiveView(view, [&] { return stream.View(Bytes(key, key_size), version); });
  });
}

int quire_stream_reader_view_at(quire_stream_reader* reader, const void* key, size_t key_size,
                                uint64_t snapshot, quire_stream_view** view) {
  return With(reader, [&](StreamReader& stream) {
    return GiveView(view, [&] { return stream.ViewAt(Bytes(key, key_size), snapshot); });
  });
}

int quire_stream_reader_wait(quire_stream_reader* reader, uint64_t after, uint64_t timeout_ms,
                             uint64_t* newest) {
  return With(reader, [&](StreamReader& stream) -> Status {
    if (newest == nullptr) return NullArgument("newest");
    QUIRE_ASSIGN_OR_RETURN(*newest, stream.Wait(after, timeout_ms));
    return Status();
  });
}

int quire_stream_reader_finished(quire_stream_reader* reader, int* finished) {
  return With(reader, [&](StreamReader& stream) -> Status {
    if (finished == nullptr) return NullArgument("finished");
    QUIRE_ASSIGN_OR_RETURN(const bool ended, stream.Finished());
    *finished = ended ? 1 : 0;
    return Status();
  });
}

int quire_stream_view_bytes(const quire_stream_view* view, quire_bytes* bytes) {
  return With(view, [&](const StreamView& seen) -> Status {
    if (bytes == nullptr) return NullArgument("bytes");
    *bytes = {seen.bytes().data(), seen.bytes().size()};
    return Status();
  });
}

int quire_stream_view_version(const quire_stream_view* view, quire_stream_version* version) {
  return With(view, [&](const StreamView& seen) -> Status {
    if (version == nullptr) return NullArgument("version");
    *version = quire::api::VersionOf(seen.version());
    return Status();
  });
}

int quire_stream_view_in_place(const quire_stream_view* view) {
  return view != nullptr && view->object->in_place() ? 1 : 0;
}

int quire_stream_view_verify(const quire_stream_view* view) {
  return With(view, [](const StreamView& seen) { return seen.Verify(); });
}

void quire_stream_view_release(quire_stream_view* view) {
  delete view;
}

int quire_stream_ranks(const char* place, const char* name, uint32_t** ranks, size_t* count) {
  return Guarded([&]() -> Status {
    if (place == nullptr || name == nullptr || ranks == nullptr || count == nullptr) {
      return NullArgument("place, name, ranks or count");
    }
    QUIRE_ASSIGN_OR_RETURN(const std::vector<uint32_t> found, quire::StreamRanks(place, name));
    return GiveArray(found, ranks, count, [](uint32_t rank) { return rank; });
  });
}

int quire_stream_stores(const char* place, quire_bytes** names, size_t* count) {
  return Guarded([&]() -> Status {
    if (place == nullptr) return NullArgument("place");
    QUIRE_ASSIGN_OR_RETURN(const std::vector<std::string> stores, quire::StreamStores(place));
    return quire::api::GiveTexts(stores, names, count);
  });
}

}  // extern "C"
