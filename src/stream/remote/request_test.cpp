#include "stream/remote/request.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/status_asserts.h"

namespace quire::stream::request_test {
namespace {

Request Fetching() {
  Request request;
  request.operation = RequestOperation::kFetch;
  request.part = {"field.T", 7};
  request.key = std::string("key\0with zero", 13);
  request.number = 1ull << 40;
  request.at_snapshot = true;
  request.have = 3;
  request.have_time_ns = 99;
  return request;
}

StreamVersion Version(uint64_t number) {
  StreamVersion version;
  version.version = number;
  version.snapshot = 2 * number;
  version.bytes = 48;
  version.stored_bytes = 40;
  version.unix_time_ns = 1'700'000'000'000'000'000;
  version.whole = false;
  version.shape = {ElementType::kFloat64, {2, 3}};
  return version;
}

TEST(Request, IsDecodedAsItWasEncoded) {
  const Request request = Fetching();
  auto decoded = DecodeRequest(EncodeRequest(request));
  ASSERT_OK(decoded.status());
  EXPECT_EQ(decoded->operation, RequestOperation::kFetch);
  EXPECT_EQ(decoded->part, request.part);
  EXPECT_EQ(decoded->key, request.key);
  EXPECT_EQ(decoded->number, request.number);
  EXPECT_TRUE(decoded->at_snapshot);
  EXPECT_EQ(decoded->have, 3u);
  EXPECT_EQ(decoded->have_time_ns, 99u);
}

TEST(Request, RegistersAsManyPartsAsItNames) {
  Request request;
  request.operation = RequestOperation::kRegister;
  request.address = ":4711";
  for (uint32_t rank = 0; rank < 100; ++rank)
    request.parts.push_back({{"store", rank}, rank == 7 ? kWrittenNow : rank});
  auto decoded = DecodeRequest(EncodeRequest(request));
  ASSERT_OK(decoded.status());
  EXPECT_EQ(decoded->parts, request.parts);
  EXPECT_EQ(decoded->address, ":4711");
}

TEST(Request, IsRefusedWhereAnyByteIsMissingOrOneTooMany) {
  const std::string bytes = EncodeRequest(Fetching());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(DecodeRequest(bytes.substr(0, size)).status().code(), Code::kCorruption) << size;
  }
  EXPECT_EQ(DecodeRequest(bytes + "x").status().code(), Code::kCorruption);
}

TEST(Request, NamesNoStoreThatLeavesThePlace) {
  for (const char* name : {"", "..", "../other", "/etc", ".hidden", "-x", "a/b"}) {
    Request request = Fetching();
    request.part.store = name;
    EXPECT_EQ(DecodeRequest(EncodeRequest(request)).status().code(), Code::kCorruption) << name;
  }
  Request keyless = Fetching();
  keyless.key.clear();
  EXPECT_EQ(DecodeRequest(EncodeRequest(keyless)).status().code(), Code::kCorruption);
  Request long_key = Fetching();
  long_key.key.assign(kKeyBytesMax + 1, 'k');
  EXPECT_EQ(DecodeRequest(EncodeRequest(long_key)).status().code(), Code::kCorruption);
}

TEST(Request, TakesNoMemoryForPartsThatAreOnlyAnnounced) {
  Request request;
  request.operation = RequestOperation::kRegister;
  std::string bytes = EncodeRequest(request);
  bytes.back() = '\x7f';  // 127 parts are announced, and none follows
  EXPECT_EQ(DecodeRequest(bytes).status().code(), Code::kCorruption);
}

TEST(Answer, CarriesABodyOrWhatWentWrong) {
  const std::string good = EncodeAnswer(Status(), "body");
  auto body = DecodeAnswer(good);
  ASSERT_OK(body.status());
  EXPECT_EQ(*body, "body");
  const std::string bad = EncodeAnswer(Status(Code::kBusy, "later\n" + std::string(5000, 'x')), "");
  EXPECT_EQ(DecodeAnswer(bad).status().code(), Code::kBusy);
  EXPECT_TRUE(DecodeAnswer(bad).status().message().starts_with("later x"));
  EXPECT_EQ(DecodeAnswer(EncodeAnswer(Status(Code::kNotFound), "")).status().code(),
            Code::kNotFound);
  EXPECT_EQ(DecodeAnswer("\x63\x00").status().code(), Code::kCorruption);
  EXPECT_EQ(DecodeAnswer("").status().code(), Code::kCorruption);
}

TEST(Answer, ContainsVersionsWithTheirShapes) {
  auto fetch = DecodeFetch(EncodeFetch({Version(5), 77}));
  ASSERT_OK(fetch.status());
  EXPECT_EQ(fetch->hash, 77u);
  EXPECT_EQ(fetch->version.version, 5u);
  EXPECT_EQ(fetch->version.snapshot, 10u);
  EXPECT_EQ(fetch->version.stored_bytes, 40u);
  EXPECT_FALSE(fetch->version.whole);
  EXPECT_EQ(fetch->version.shape.element, ElementType::kFloat64);
  EXPECT_EQ(fetch->version.shape.extents, (std::vector<uint64_t>{2, 3}));
  StreamVersion wrong = Version(5);
  wrong.shape.extents = {2, 0};
  EXPECT_CODE(DecodeFetch(EncodeFetch({wrong, {}})).status(), Code::kCorruption);
  wrong.shape.extents.assign(9, 1);
  EXPECT_EQ(DecodeFetch(EncodeFetch({wrong, 77})).status().code(), Code::kCorruption);
}

TEST(Answer, SaysWhereItHasNoRoomForAll) {
  const std::vector<std::string> keys(100, std::string(1000, 'k'));
  const std::string body = EncodeObjects(keys);
  EXPECT_LE(EncodeAnswer(Status(), body).size(), kAnswerBytesMax);
  auto objects = DecodeObjects(body);
  ASSERT_OK(objects.status());
  EXPECT_TRUE(objects->more);
  EXPECT_GT(objects->keys.size(), 50u);
  EXPECT_LT(objects->keys.size(), keys.size());
  auto few = DecodeVersions(EncodeVersions(std::vector{Version(2), Version(1)}));
  ASSERT_OK(few.status());
  EXPECT_FALSE(few->more);
  EXPECT_EQ(few->versions.size(), 2u);
}

}  // namespace
}  // namespace quire::stream::request_test
