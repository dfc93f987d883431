// Place functions that throw or call Quire, of readers that pin, that only look, and of a mirror:
// each is an error of its own get, and nothing else suffers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "stream/log/delta.h"
#include "stream/store/mirror.h"
#include "stream/store/stream_testing.h"
#include "stream/store/streams.h"
#include "tests/support/status_asserts.h"

namespace quire::stream::place_functions_test {
namespace {

using testing::HasSubstr;

constexpr uint64_t kBytes = 9000;

class PlaceFunctions : public testing::Test {
 protected:
  void SetUp() override {
    auto writer = machine_.Write(SmallLog(1 << 20));
    ASSERT_OK(writer.status());
    writer_ = std::move(*writer);
    const auto memory = writer_->Create("key", kBytes);
    ASSERT_OK(memory.status());
    Compute(*memory, "key", 1, kBytes);
    ASSERT_OK(writer_->Put("key").status());
    Fetch();
    auto pins = OpenLocalReader(machine_.fs(), "/place", "store", 0);
    auto looks = OpenLocalReader(machine_.fs(), "/place", "store", 0, Access::kLook);
    auto of_mirror = OpenLocalReader(machine_.fs(), MirrorPlace("/place"), "store", 0);
    for (auto* reader : {&pins, &looks, &of_mirror}) {
      ASSERT_OK(reader->status());
      readers_.push_back(std::move(**reader));
    }
  }
  // What a daemon puts into the mirror.
  void Fetch() {
    auto mirror = Mirror::Open(machine_.fs(), MirrorPlace("/place"), "store", 0,
                               SmallLog(1 << 20));
    ASSERT_OK(mirror.status());
    StreamVersion version;
    version.version = version.snapshot = 1;
    version.bytes = kBytes;
    const std::string bytes = BytesOf("key", 1, kBytes);
    const Result<Room> room = (*mirror)->Reserve("key", version);
    ASSERT_OK(room.status());
    bytes.copy(room->bytes, bytes.size());
    ASSERT_OK((*mirror)->Commit(DataHash(bytes)));
    mirror_ = std::move(*mirror);
  }
  static std::vector<Status> GetsInto(StreamReader& reader, const PlaceFunction& place) {
    return {reader.Get("key", 0, place), reader.Get("key", 1, place),
            reader.GetAt("key", 1, place)};
  }

  StreamMachine machine_;
  std::unique_ptr<StreamWriter> writer_;
  std::unique_ptr<Mirror> mirror_;
  std::vector<std::unique_ptr<StreamReader>> readers_;
};

TEST_F(PlaceFunctions, WhatTheyThrowFailsThatGet) {
  for (const auto& reader : readers_) {
    for (const Status& status : GetsInto(
             *reader, [](size_t) -> char* { throw std::runtime_error("no room in the array"); })) {
      EXPECT_EQ(status.code(), Code::kInvalidArgument);
      EXPECT_THAT(status.message(), HasSubstr("the place function threw an exception: no room"));
    }
    for (const Status& status : GetsInto(*reader, [](size_t) -> char* { throw 7; })) {
      EXPECT_EQ(status.code(), Code::kInvalidArgument);
      EXPECT_THAT(status.message(), HasSubstr("the place function threw something"));
    }
    for (const Status& status :
         GetsInto(*reader, [](size_t) -> char* { throw std::bad_alloc(); })) {
      EXPECT_EQ(status.code(), Code::kOutOfMemory);
    }
    std::string bytes;
    EXPECT_OK(reader->Get("key", 0, &bytes));
    EXPECT_TRUE(bytes == BytesOf("key", 1, kBytes));
  }
}

// Calls of everything that can fail, each of which must be refused.
std::vector<Status> CallAll(StreamReader& reader, StreamWriter& writer) {
  std::string bytes;
  char byte = 0;
  return {reader.Get("key", 0, &bytes),
          reader.GetAt("key", 1, &bytes),
          reader.View("key", 0).status(),
          reader.ViewAt("key", 1).status(),
          reader.Objects().status(),
          reader.Versions("key").status(),
          reader.LastSnapshot().status(),
          reader.Finished().status(),
          reader.Wait(0, 0).status(),
          writer.Create("other", 8).status(),
          writer.Attach("other", &byte, 1),
          writer.Free("key"),
          writer.Put("key").status(),
          writer.Snapshot().status(),
          writer.Snapshot({"key"}).status(),
          writer.MarkDirty("key", 0, 1),
          writer.Restore(0),
          writer.Sync(),
          writer.Keep(1),
          writer.Release(1),
          writer.Collect(),
          writer.Tracking("key").status(),
          writer.Finish()};
}

void ExpectRefused(const std::vector<Status>& calls) {
  EXPECT_FALSE(calls.empty()) << "they were not made";
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(calls[i].code(), Code::kInvalidArgument) << "call " << i;
    EXPECT_THAT(calls[i].message(), HasSubstr("called inside a function")) << "call " << i;
  }
}

TEST_F(PlaceFunctions, CallsInsideThemAreRefused) {
  for (const auto& reader : readers_) {
    std::vector<Status> calls;
    std::string bytes;
    ASSERT_OK(reader->Get("key", 0, [&](size_t size) {
      calls = CallAll(*reader, *writer_);
      bytes.resize(size);
      return bytes.data();
    }));
    ExpectRefused(calls);
    EXPECT_TRUE(bytes == BytesOf("key", 1, kBytes));
  }
  EXPECT_EQ(writer_->LastSnapshot(), 1u);
  EXPECT_OK(writer_->Put("key").status());
}

}  // namespace
}  // namespace quire::stream::place_functions_test
