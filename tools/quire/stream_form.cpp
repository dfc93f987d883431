#include "tools/quire/stream_form.h"

#include <charconv>
#include <cstdint>
#include <cstring>
#include <iterator>

namespace quire::tool {
namespace {

constexpr char kNpyMagic[] = "\x93NUMPY\x01";
constexpr size_t kNpyMagicBytes = 8;  // with the NUL, which is the minor version
constexpr size_t kNpyAlignment = 64;

// Returns NumPy's name of an element in little-endian order.
const char* NpyName(ElementType element) {
  constexpr const char* kNames[] = {"|u1", "|i1", "<i2", "<i4", "<i8", "|u1",  "<u2",
                                    "<u4", "<u8", "<f4", "<f8", "<c8", "<c16"};
  const auto number = static_cast<size_t>(element);
  return kNames[number < std::size(kNames) ? number : 0];
}

// Appends the shortest digits that read back as the number.
template <typename Number>
void Append(const char* at, std::string* to) {
  Number number;
  std::memcpy(&number, at, sizeof number);
  char digits[40];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, number);
  if (error == std::errc()) to->append(digits, end);
}

template <typename Number>
void AppendComplex(const char* at, std::string* to) {
  *to += '(';
  Append<Number>(at, to);
  *to += ',';
  Append<Number>(at + sizeof(Number), to);
  *to += ')';
}

void AppendElement(ElementType element, const char* at, std::string* to) {
  switch (element) {
    case ElementType::kInt8:
      return Append<int8_t>(at, to);
    case ElementType::kInt16:
      return Append<int16_t>(at, to);
    case ElementType::kInt32:
      return Append<int32_t>(at, to);
    case ElementType::kInt64:
      return Append<int64_t>(at, to);
    case ElementType::kBytes:
    case ElementType::kUInt8:
      return Append<uint8_t>(at, to);
    case ElementType::kUInt16:
      return Append<uint16_t>(at, to);
    case ElementType::kUInt32:
      return Append<uint32_t>(at, to);
    case ElementType::kUInt64:
      return Append<uint64_t>(at, to);
    case ElementType::kFloat32:
      return Append<float>(at, to);
    case ElementType::kFloat64:
      return Append<double>(at, to);
    case ElementType::kComplex64:
      return AppendComplex<float>(at, to);
    case ElementType::kComplex128:
      return AppendComplex<double>(at, to);
  }
}

}  // namespace

std::string NpyHeader(const StreamShape& shape, uint64_t bytes) {
  std::string extents;
  for (const uint64_t extent : shape.extents) extents += std::to_string(extent) + ", ";
  if (extents.empty()) extents = std::to_string(bytes / ElementBytes(shape.element)) + ", ";
  std::string header = std::string("{'descr': '") + NpyName(shape.element) +
                       "', 'fortran_order': False, 'shape': (" + extents + "), }";
  // A line's end is the last byte before the array, which begins at a multiple of 64.
  const size_t before = kNpyMagicBytes + sizeof(uint16_t);
  while ((before + header.size() + 1) % kNpyAlignment != 0) header += ' ';
  header += '\n';
  std::string text(kNpyMagic, kNpyMagicBytes);
  text += static_cast<char>(header.size() & 0xff);
  text += static_cast<char>(header.size() >> 8);
  return text + header;
}

void WriteNumbers(const StreamShape& shape, Slice bytes, std::ostream* out) {
  if (shape.element == ElementType::kBytes && shape.extents.empty()) {
    *out << ShowBytes(bytes, ByteFormat::kText) << "\n";
    return;
  }
  const uint64_t size = ElementBytes(shape.element);
  const uint64_t count = bytes.size() / size;
  const uint64_t row = shape.extents.empty() ? count : shape.extents.back();
  std::string line;
  for (uint64_t i = 0; i < count; ++i) {
    AppendElement(shape.element, bytes.data() + i * size, &line);
    if (i + 1 < count && (i + 1) % row != 0) {
      line += ' ';
      continue;
    }
    *out << line << "\n";
    line.clear();
  }
}

std::string ShowShape(const StreamShape& shape) {
  std::string text = ElementName(shape.element);
  for (size_t i = 0; i < shape.extents.size(); ++i) {
    text += (i == 0 ? " " : " x ") + std::to_string(shape.extents[i]);
  }
  return text;
}

void SetShape(Json* object, const StreamShape& shape) {
  (*object)["element"] = ElementName(shape.element);
  (*object)["extents"] = shape.extents;
}

}  // namespace quire::tool
