#include "stream/log/shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <string>

#include "stream/log/log_format.h"
#include "tests/support/status_asserts.h"

namespace quire::stream::shape_test {
namespace {

using testing::HasSubstr;

TEST(Shape, EveryElementHasItsSizeAndItsName) {
  std::set<std::string> names;
  for (size_t i = 0; i < kElementTypes; ++i) {
    names.insert(ElementName(static_cast<ElementType>(i)));
  }
  EXPECT_EQ(names.size(), kElementTypes);
  EXPECT_EQ(ElementBytes(ElementType::kBytes), 1u);
  EXPECT_EQ(ElementBytes(ElementType::kUInt16), sizeof(uint16_t));
  EXPECT_EQ(ElementBytes(ElementType::kFloat32), sizeof(float));
  EXPECT_EQ(ElementBytes(ElementType::kFloat64), sizeof(double));
  EXPECT_EQ(ElementBytes(ElementType::kComplex64), 2 * sizeof(float));
  EXPECT_EQ(ElementBytes(ElementType::kComplex128), 2 * sizeof(double));
  EXPECT_STREQ(ElementName(ElementType::kFloat64), "float64");
  EXPECT_STREQ(ElementName(ElementType::kComplex128), "complex128");
  EXPECT_STREQ(ElementName(ElementType::kUInt8), "uint8");
}

TEST(Shape, AnUnknownElementHasANameAndASize) {
  const auto unknown = static_cast<ElementType>(200);
  EXPECT_STREQ(ElementName(unknown), "unknown");
  EXPECT_EQ(ElementBytes(unknown), 1u);
  EXPECT_EQ(CheckShape(8, {unknown, {8}}).code(), Code::kInvalidArgument);
  EXPECT_EQ(CheckShape(8, {static_cast<ElementType>(kElementTypes), {}}).code(),
            Code::kInvalidArgument);
}

TEST(Shape, TheProductOfAShapeIsTheObject) {
  EXPECT_OK(CheckShape(17, {}));
  EXPECT_OK(CheckShape(48, {ElementType::kFloat64, {2, 3}}));
  EXPECT_OK(CheckShape(256, {ElementType::kUInt8, {2, 2, 2, 2, 2, 2, 2, 2}}));
  EXPECT_OK(CheckShape(48, {ElementType::kComplex128, {}}));
  const Status status = CheckShape(40, {ElementType::kFloat64, {2, 3}});
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("40 bytes is not 2 x 3 of float64 (8 bytes each)"));
}

TEST(Shape, AShapeThatFitsNoObjectIsRefused) {
  EXPECT_FALSE(CheckShape(0, {}).ok());
  EXPECT_FALSE(CheckShape(47, {ElementType::kFloat64, {}}).ok());
  EXPECT_FALSE(CheckShape(48, {ElementType::kFloat64, {2, 3, 0}}).ok());
  EXPECT_FALSE(CheckShape(1, {ElementType::kUInt8, {1, 1, 1, 1, 1, 1, 1, 1, 1}}).ok());
}

TEST(Shape, AProductThatOverflowsIsRefused) {
  constexpr uint64_t kHuge = uint64_t{1} << 32;
  // The low 64 bits of both are the object's size.
  EXPECT_FALSE(CheckShape(0, {ElementType::kUInt8, {kHuge, kHuge}}).ok());
  EXPECT_FALSE(CheckShape(8, {ElementType::kFloat64, {(uint64_t{1} << 61) + 1}}).ok());
  EXPECT_FALSE(CheckShape(0, {ElementType::kUInt8, {kHuge, kHuge, 0}}).ok());
  EXPECT_FALSE(CheckShape(8, {ElementType::kFloat64, {std::numeric_limits<uint64_t>::max()}}).ok());
}

// A log with valid checksums may contain any shape, and a program that prints rows divides by
// extents.
TEST(Shape, AnEntryWhoseShapeIsNotItsBytesIsNone) {
  const auto decode = [](const StreamShape& shape) {
    VersionEntry entry;
    entry.key = "key";
    entry.bytes = entry.stored = 32;
    entry.shape = shape;
    char bytes[kEntryBytesMax];
    const uint64_t size = EncodeEntry(entry, 7, 64, bytes);
    return DecodeEntry(Slice(bytes, size), 7, 64).status();
  };
  EXPECT_OK(decode({ElementType::kFloat64, {4, 1}}));
  EXPECT_OK(decode({ElementType::kFloat64, {}}));
  EXPECT_CODE(decode({ElementType::kFloat64, {4, 0}}), Code::kCorruption);
  EXPECT_CODE(decode({ElementType::kFloat64, {5}}), Code::kCorruption);
  EXPECT_CODE(decode({ElementType::kFloat64, {1ull << 62, 4}}), Code::kCorruption);
}

}  // namespace
}  // namespace quire::stream::shape_test
