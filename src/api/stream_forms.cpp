#include "api/stream_forms.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "api/handles.h"
#include "base/core/out_of_memory.h"

namespace quire::api {

Result<StreamShape> ShapeOf(const quire_stream_shape* shape) {
  StreamShape wanted;
  if (shape == nullptr) return wanted;
  if (quire_element_size(shape->element) == 0) {
    return Status(Code::kInvalidArgument,
                  "there is no type of elements with the number " + std::to_string(shape->element));
  }
  if (shape->extent_count > std::size(shape->extents)) {
    return Status(Code::kInvalidArgument, "a shape has at most 8 extents, and this one " +
                                              std::to_string(shape->extent_count));
  }
  wanted.element = static_cast<ElementType>(shape->element);
  wanted.extents.assign(shape->extents, shape->extents + shape->extent_count);
  return wanted;
}

quire_stream_version VersionOf(const StreamVersion& version) {
  quire_stream_version given = {};
  given.version = version.version;
  given.snapshot = version.snapshot;
  given.bytes = version.bytes;
  given.stored_bytes = version.stored_bytes;
  given.unix_time_ns = version.unix_time_ns;
  given.whole = version.whole ? 1 : 0;
  given.shape.element = static_cast<int>(version.shape.element);
  const size_t count = std::min(version.shape.extents.size(), std::size(given.shape.extents));
  given.shape.extent_count = static_cast<uint32_t>(count);
  std::copy_n(version.shape.extents.begin(), count, given.shape.extents);
  return given;
}

Status GiveTexts(const std::vector<std::string>& texts, quire_bytes** given, size_t* count) {
  if (given == nullptr || count == nullptr) return NullArgument("what is asked for, or count");
  const size_t table_size = texts.size() * sizeof(quire_bytes);
  size_t size = table_size + 1;
  for (const std::string& text : texts) size += text.size() + 1;
  char* const memory = static_cast<char*>(std::malloc(size));
  if (memory == nullptr) return base::OutOfMemory();
  auto* const table = reinterpret_cast<quire_bytes*>(memory);
  char* at = memory + table_size;
  for (size_t i = 0; i < texts.size(); ++i) {
    std::memcpy(at, texts[i].c_str(), texts[i].size() + 1);
    table[i] = {at, texts[i].size()};
    at += texts[i].size() + 1;
  }
  *given = table;
  *count = texts.size();
  return Status();
}

}  // namespace quire::api

extern "C" {

size_t quire_element_size(int element) {
  if (element < QUIRE_ELEMENT_BYTES || element > QUIRE_ELEMENT_COMPLEX128) return 0;
  return quire::ElementBytes(static_cast<quire::ElementType>(element));
}

const char* quire_element_name(int element) {
  if (quire_element_size(element) == 0) return "unknown";
  return quire::ElementName(static_cast<quire::ElementType>(element));
}

}  // extern "C"
