// Versions that are copied out of a mirror while they arrive, after right and wrong messages about
// them.
#include "stream/remote/arriving_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "stream/log/delta.h"
#include "stream/store/local_reader.h"
#include "stream/store/mirror.h"
#include "stream/store/stream_testing.h"
#include "tests/support/status_asserts.h"

namespace quire::stream::arriving_copy_test {
namespace {

constexpr uint64_t kLogBytes = 1 << 20;
constexpr uint64_t kSize = 200'000;
constexpr uint64_t kPiece = 30 << 10;

class ArrivingCopyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto mirror = Mirror::Open(machine_.fs(), "/place", "store", 0, SmallLog(kLogBytes));
    ASSERT_OK(mirror.status());
    mirror_ = std::move(*mirror);
    auto reader = OpenLocalReader(machine_.fs(), "/place", "store", 0);
    ASSERT_OK(reader.status());
    reader_ = std::move(*reader);
  }

  static StreamVersion Told(uint64_t version) {
    StreamVersion told;
    told.version = told.snapshot = version;
    told.bytes = kSize;
    told.unix_time_ns = version;
    return told;
  }
  static std::string Bytes(uint64_t version) { return BytesOf("T", version, kSize); }
  static FetchBody Answer(uint64_t version) { return {Told(version), DataHash(Bytes(version))}; }

  // Reserves the room in which the daemon stores a version.
  Reservation Begin(uint64_t version) {
    const Result<Reservation> room = mirror_->Reserve("T", Told(version));
    EXPECT_OK(room.status());
    return room.ok() ? *room : Reservation{nullptr, 0};
  }
  static Arrival Come(const Reservation& room, uint64_t version, uint64_t from, uint64_t to) {
    const std::string bytes = Bytes(version);
    std::copy(bytes.begin() + static_cast<ptrdiff_t>(from),
              bytes.begin() + static_cast<ptrdiff_t>(to), room.bytes + from);
    return {room.at, kSize, to};
  }
  Status Commit(uint64_t version) { return mirror_->Commit(DataHash(Bytes(version))); }
  Status Fetch(uint64_t version) {
    const Reservation room = Begin(version);
    (void)Come(room, version, 0, kSize);
    return Commit(version);
  }

  BufferAllocator Memory() {
    return [this](size_t size) {
      ++places_;
      got_.assign(size, '-');
      return got_.data();
    };
  }
  ArrivingCopy::OpenMirror TheMirror() {
    return [this] { return Result<std::shared_ptr<StreamReader>>(reader_); };
  }

  StreamMachine machine_;
  std::unique_ptr<Mirror> mirror_;
  std::shared_ptr<StreamReader> reader_;
  std::string got_;
  int places_ = 0;
  const BufferAllocator allocate_ = Memory();
  ArrivingCopy copy_{TheMirror(), allocate_};
};

TEST_F(ArrivingCopyTest, HasTheBytesWhenTheAnswerComes) {
  const Reservation room = Begin(1);
  copy_.Arrive({room.at, kSize, 0});
  for (uint64_t at = 0; at + kPiece < kSize; at += kPiece) {
    copy_.Arrive(Come(room, 1, at, at + kPiece));
    EXPECT_EQ(got_.substr(0, at + kPiece), Bytes(1).substr(0, at + kPiece)) << "it waits";
  }
  (void)Come(room, 1, 0, kSize);  // the answer reports the last piece
  ASSERT_OK(Commit(1));
  EXPECT_TRUE(copy_.Finish(Answer(1)));
  EXPECT_TRUE(got_ == Bytes(1));
  EXPECT_EQ(places_, 1);
}

TEST_F(ArrivingCopyTest, IsNoneWhereNothingCame) {
  ASSERT_OK(Fetch(1));
  EXPECT_FALSE(copy_.Finish(Answer(1)));
  EXPECT_EQ(places_, 0);
}

TEST_F(ArrivingCopyTest, IsNoneOfOtherBytesThanTheAnswers) {
  const Reservation room = Begin(1);
  copy_.Arrive(Come(room, 1, 0, kPiece));
  room.bytes[kPiece - 1] ^= 1;  // after it was copied: the copy is unchanged
  (void)Come(room, 1, kPiece, kSize);
  EXPECT_TRUE(copy_.Finish(Answer(1)));
  ArrivingCopy other(TheMirror(), allocate_);
  other.Arrive({room.at, kSize, kSize});
  EXPECT_FALSE(other.Finish(Answer(1)));
  ArrivingCopy of_another_version(TheMirror(), allocate_);
  of_another_version.Arrive(Come(room, 1, 0, kSize));
  EXPECT_FALSE(of_another_version.Finish(Answer(2)));
  ArrivingCopy without_hash(TheMirror(), allocate_);
  without_hash.Arrive(Come(room, 1, 0, kSize));
  EXPECT_FALSE(without_hash.Finish({Told(1), std::nullopt}));
  ArrivingCopy of_another_size(TheMirror(), allocate_);
  of_another_size.Arrive(Come(room, 1, 0, kSize));
  FetchBody longer = Answer(1);
  longer.version.bytes = kSize + 1;
  EXPECT_FALSE(of_another_size.Finish(longer));
}

TEST_F(ArrivingCopyTest, EndsIfAReportedArrivalDoesNotFit) {
  const Reservation room = Begin(1);
  const Arrival whole = Come(room, 1, 0, kSize);
  const auto ends = [&](const std::vector<Arrival>& told) {
    ArrivingCopy copy(TheMirror(), allocate_);
    for (const Arrival& arrival : told) copy.Arrive(arrival);
    return !copy.Finish(Answer(1));
  };
  EXPECT_FALSE(ends({whole}));
  EXPECT_FALSE(ends({{room.at, kSize, kPiece}, whole}));
  EXPECT_TRUE(ends({{room.at, kSize, kSize + 1}}));
  EXPECT_TRUE(ends({{room.at, kSize, UINT64_MAX}}));
  EXPECT_TRUE(ends({{room.at, kSize, kPiece}, {room.at, kSize, kPiece - 1}})) << "less than before";
  EXPECT_TRUE(ends({{room.at, kSize, kPiece}, {room.at + 64, kSize, kPiece}}));
  EXPECT_TRUE(ends({{room.at, kSize, kPiece}, {room.at, kSize - 1, kPiece}}));
}

TEST_F(ArrivingCopyTest, EndsWhereTheLogHasNoSuchRoom) {
  const uint64_t at = Begin(1).at;
  const uint64_t rest = kLogBytes - at % kLogBytes;
  const auto places = [&](const Arrival& arrival) {
    ArrivingCopy copy(TheMirror(), allocate_);
    copy.Arrive(arrival);
    return std::exchange(places_, 0);
  };
  EXPECT_EQ(places({at, rest, 0}), 1);
  EXPECT_EQ(places({at, rest + 1, 0}), 0) << "it does not lie in one piece";
  EXPECT_EQ(places({at, kLogBytes + 1, 0}), 0);
  EXPECT_EQ(places({at, UINT64_MAX, 0}), 0);
  EXPECT_EQ(places({UINT64_MAX, 2, 0}), 0);
}

TEST_F(ArrivingCopyTest, IsNoneWhereTheProgramGivesNoPlace) {
  const BufferAllocator none = [](size_t) { return nullptr; };
  ArrivingCopy copy(TheMirror(), none);
  copy.Arrive(Come(Begin(1), 1, 0, kSize));
  EXPECT_FALSE(copy.Finish(Answer(1)));
  for (const bool memory : {true, false}) {
    const BufferAllocator throws = [memory](size_t) -> char* {
      if (memory) throw std::bad_alloc();
      throw std::runtime_error("not so many");
    };
    ArrivingCopy thrown(TheMirror(), throws);
    thrown.Arrive(Come(Begin(1), 1, 0, kSize));
    EXPECT_FALSE(thrown.Finish(Answer(1)));
  }
}

TEST_F(ArrivingCopyTest, HoldsTheRoomUntilItEnds) {
  copy_.Arrive(Come(Begin(1), 1, 0, kPiece));
  const Reservation room = Begin(1);  // the same room again, because nothing was committed
  (void)Come(room, 1, 0, kSize);
  ASSERT_OK(Commit(1));
  // The log has room for five versions, and none of them overwrites the one that is copied.
  Status status;
  for (uint64_t version = 2; status.ok() && version < 20; ++version) {
    const Result<Reservation> next = mirror_->Reserve("T", Told(version));
    status = next.status();
    if (!status.ok()) break;
    (void)Come(*next, version, 0, kSize);
    ASSERT_OK(Commit(version));
  }
  EXPECT_EQ(status.code(), Code::kNoSpace);
  EXPECT_TRUE(copy_.Finish(Answer(1)));
  EXPECT_TRUE(got_ == Bytes(1));
  for (uint64_t version = 20; version < 30; ++version) ASSERT_OK(Fetch(version));
}

TEST_F(ArrivingCopyTest, EndsWhereItComesTooLate) {
  const Reservation room = Begin(1);
  const Arrival whole = Come(room, 1, 0, kSize);
  ASSERT_OK(Commit(1));
  for (uint64_t version = 2; version < 20; ++version) ASSERT_OK(Fetch(version));
  copy_.Arrive(whole);
  EXPECT_FALSE(copy_.Finish(Answer(1)));
  EXPECT_EQ(places_, 0);
}

}  // namespace
}  // namespace quire::stream::arriving_copy_test
