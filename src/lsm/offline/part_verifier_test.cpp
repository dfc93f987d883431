// Verifies a copy: the same damage is found as by a reader of everything.
#include <gtest/gtest.h>

#include "lsm/db/db_testing.h"
#include "lsm/offline/part_verifier.h"
#include "lsm/offline/reader.h"
#include "lsm/version/manifest.h"
#include "tests/support/status_asserts.h"

namespace quire::lsm::part_verifier_test {
namespace {

constexpr char kCopy[] = "/copy";

// A copy of a database with separated values, live and dead ones.
class PartVerifiers : public testing::Test {
 protected:
  PartVerifiers() : test_(SmallOptions()) {
    EXPECT_OK(test_.Open());
    for (int round = 0; round < 2; ++round) {
      for (int i = round; i < 60; i += round + 1) {
        const std::string value(i % 3 == 0 ? 700 : 20, static_cast<char>('a' + round));
        EXPECT_OK(test_->Put("key " + std::to_string(i), value + std::to_string(i)));
      }
    }
    EXPECT_OK(test_->Compact());
    capture_ = *test_->NewCapture();
    EXPECT_OK(fs().MakeDirectory(kCopy));
    for (const engine::Capture::File& file : capture_->files()) {
      EXPECT_OK(
          io::ReplaceFile(fs(), CopyOf(file), *io::ReadFile(fs(), "/db/" + file.name, 1 << 24)));
    }
    EXPECT_OK(
        io::ReplaceFile(fs(), std::string(kCopy) + "/" + ManifestName(), capture_->manifest()));
  }
  io::SimFileSystem& fs() { return test_.fs(); }
  static std::string CopyOf(const engine::Capture::File& file) {
    return std::string(kCopy) + "/" + file.name;
  }

  Status VerifyAll() {
    TablesVerifier verifier(fs(), kCopy);
    std::vector<std::string> names;
    for (const engine::Capture::File& file : capture_->files()) {
      QUIRE_RETURN_IF_ERROR(verifier.Check(file.name, file.identity));
      names.push_back(file.name);
    }
    while (true) {
      QUIRE_ASSIGN_OR_RETURN(const bool all, verifier.FinishSome(names));
      if (all) return Status();
    }
  }
  Status ReadAll() {
    const auto reader = Reader::Open(fs(), kCopy, {test_.options(), nullptr});
    return reader.ok() ? (*reader)->Verify({}) : reader.status();
  }

  TestDb test_;
  std::shared_ptr<const engine::Capture> capture_;
};

TEST_F(PartVerifiers, TakeWhatIsSound) {
  EXPECT_OK(VerifyAll());
}

TEST_F(PartVerifiers, FindTheDamageThatAReaderOfEverythingFinds) {
  int found[2] = {};
  int harmless = 0;
  for (const engine::Capture::File& file : capture_->files()) {
    const bool is_table = file.name[0] == 't';
    const std::string sound = *io::ReadFile(fs(), CopyOf(file), 1 << 24);
    for (size_t at = 0; at < sound.size(); at += is_table ? 13 : 97) {
      std::string damaged = sound;
      damaged[at] = static_cast<char>(damaged[at] ^ 16);
      ASSERT_OK(fs().Damage(CopyOf(file), [&](std::string* bytes) { *bytes = damaged; }));
      const Status verified = VerifyAll();
      ASSERT_EQ(verified.code(), ReadAll().code())
          << file.name << " at " << at << ": " << verified.ToString();
      if (verified.ok()) {
        ++harmless;
        continue;
      }
      ++found[is_table ? 0 : 1];
      ASSERT_NE(verified.message().find(CopyOf(file)), std::string::npos) << verified.ToString();
    }
    ASSERT_OK(fs().Damage(CopyOf(file), [&](std::string* bytes) { *bytes = sound; }));
  }
  EXPECT_GT(found[0], 100);
  EXPECT_GT(found[1], 50);
  EXPECT_GT(harmless, 20) << "dead values, and a header page that is mostly empty";
}

TEST_F(PartVerifiers, AcceptASegmentWithUnusedPlaces) {
  for (const engine::Capture::File& file : capture_->files()) {
    if (file.name[0] == 't') continue;
    ASSERT_OK(fs().Damage(CopyOf(file), [](std::string* bytes) { bytes->append(4096, '\0'); }));
  }
  EXPECT_OK(VerifyAll());
}

TEST_F(PartVerifiers, RefuseAnotherFile) {
  for (const engine::Capture::File& file : {capture_->files().front(), capture_->files().back()}) {
    const Status status = TablesVerifier(fs(), kCopy).Check(file.name, file.identity + 1);
    EXPECT_EQ(status.code(), Code::kCorruption) << file.name << ": " << status.ToString();
  }
  EXPECT_EQ(TablesVerifier(fs(), kCopy).Check("MANIFEST", 0).code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace quire::lsm::part_verifier_test
