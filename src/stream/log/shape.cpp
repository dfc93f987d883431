#include "stream/log/shape.h"

#include <array>
#include <string>

namespace quire {
namespace {

struct Element {
  uint64_t bytes;
  const char* name;
};

// In order of ElementType.
constexpr std::array<Element, stream::kElementTypes> kElements = {{{1, "bytes"},
                                                                   {1, "int8"},
                                                                   {2, "int16"},
                                                                   {4, "int32"},
                                                                   {8, "int64"},
                                                                   {1, "uint8"},
                                                                   {2, "uint16"},
                                                                   {4, "uint32"},
                                                                   {8, "uint64"},
                                                                   {4, "float32"},
                                                                   {8, "float64"},
                                                                   {8, "complex64"},
                                                                   {16, "complex128"}}};

}  // namespace

uint64_t ElementBytes(ElementType element) {
  const auto number = static_cast<size_t>(element);
  return number < kElements.size() ? kElements[number].bytes : 1;
}

const char* ElementName(ElementType element) {
  const auto number = static_cast<size_t>(element);
  return number < kElements.size() ? kElements[number].name : "unknown";
}

Status StreamReader::Get(Slice key, uint64_t version, std::string* bytes) {
  return Get(key, version, Into(bytes));
}

Status StreamReader::GetAt(Slice key, uint64_t snapshot, std::string* bytes) {
  return GetAt(key, snapshot, Into(bytes));
}

namespace stream {

bool ShapeFits(uint64_t bytes, const StreamShape& shape) {
  const bool possible = static_cast<size_t>(shape.element) < kElementTypes && bytes != 0 &&
                        shape.extents.size() <= kExtentsMax;
  if (!possible) return false;
  uint64_t product = ElementBytes(shape.element);
  if (shape.extents.empty()) return bytes % product == 0;
  for (const uint64_t extent : shape.extents) {
    if (__builtin_mul_overflow(product, extent, &product)) return false;
  }
  return product == bytes;
}

Status CheckShape(uint64_t bytes, const StreamShape& shape) {
  if (ShapeFits(bytes, shape)) return Status();
  if (static_cast<size_t>(shape.element) >= kElementTypes) {
    return Status(Code::kInvalidArgument, "there is no type of elements with the number " +
                                              std::to_string(static_cast<int>(shape.element)));
  }
  if (bytes == 0) return Status(Code::kInvalidArgument, "an object has at least one byte");
  if (shape.extents.size() > kExtentsMax) {
    return Status(Code::kInvalidArgument, "a shape has at most " + std::to_string(kExtentsMax) +
                                              " extents, and this one " +
                                              std::to_string(shape.extents.size()));
  }
  const uint64_t element = ElementBytes(shape.element);
  const std::string object = "an object of " + std::to_string(bytes) + " bytes";
  const std::string elements =
      std::string(ElementName(shape.element)) + " (" + std::to_string(element) + " bytes each)";
  if (shape.extents.empty()) {
    return Status(Code::kInvalidArgument, object + " is no whole number of " + elements);
  }
  std::string extents;
  for (const uint64_t extent : shape.extents) {
    extents += (extents.empty() ? "" : " x ") + std::to_string(extent);
  }
  return Status(Code::kInvalidArgument, object + " is not " + extents + " of " + elements);
}

}  // namespace stream
}  // namespace quire
