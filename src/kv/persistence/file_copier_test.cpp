// A transfer copies every byte, whatever the size; the copy is checksummed on the way and durable
// at its end.
#include "kv/persistence/file_copier.h"

#include <gtest/gtest.h>

#include <map>

#include "base/core/random.h"
#include "io/sim/sim_file_system.h"

namespace quire::kv::file_copier_test {
namespace {

constexpr uint64_t kMiB = 1 << 20;

// Around the pieces that are read, written, summed and handed to the device.
const std::map<std::string, uint64_t> kSizes = {
    {"empty", 0},          {"byte", 1},
    {"piece", kMiB},       {"write", 256 << 10},
    {"writes", 300 << 10}, {"pieces", 2 * kMiB + 700'001},
    {"device", 8 * kMiB},  {"devices", 17 * kMiB + 3}};

class Transfers : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const std::string directory : {"/from", "/to"}) {
      ASSERT_TRUE(fs_->MakeDirectory(directory).ok());
    }
    ASSERT_TRUE(fs_->SyncDirectory("/").ok());
    base::Random random(1);
    for (const auto& [name, size] : kSizes) {
      std::string& bytes = contents_[name];
      while (bytes.size() < size) bytes.push_back(static_cast<char>(random.Next()));
      auto file = fs_->Open("/from/" + name, io::FileOpenMode::kCreate);
      ASSERT_TRUE(file.ok() && (*file)->WriteAt(0, bytes).ok());
      FileCopier::Item item;
      item.name = name;
      item.file.bytes = size;
      items_.push_back(item);
    }
  }

  Status Run(FileCopier* transfer) {
    for (;;) {
      QUIRE_ASSIGN_OR_RETURN(const bool done, transfer->Advance());
      if (done) return fs_->SyncDirectory("/to");
    }
  }

  static uint64_t SumOf(const std::string& bytes) {
    uint64_t sum = 0;
    for (uint64_t at = 0; at < bytes.size(); at += kSumPieceBytes) {
      sum = AddToSum(sum, at, Slice(bytes).substr(at, kSumPieceBytes));
    }
    return sum;
  }

  const std::unique_ptr<io::SimFileSystem> fs_ = io::NewSimFileSystem();
  std::map<std::string, std::string> contents_;
  std::vector<FileCopier::Item> items_;
  std::atomic<uint64_t> bytes_done_{0};
};

TEST_F(Transfers, AFinishedFileIsWholeSummedAndSurvivesAPowerLoss) {
  FileCopier transfer(*fs_, "/from", "/to", items_, &bytes_done_);
  ASSERT_TRUE(Run(&transfer).ok());
  fs_->Restart(io::CrashKind::kPower, 1);
  uint64_t total = 0;
  for (const FileCopier::Item& item : transfer.items()) {
    const std::string& expected = contents_[item.name];
    const auto copied = io::ReadFile(*fs_, "/to/" + item.name, 100 * kMiB);
    ASSERT_TRUE(copied.ok()) << copied.status().ToString();
    EXPECT_TRUE(*copied == expected) << item.name;
    EXPECT_EQ(item.file.sum, SumOf(expected)) << item.name;
    total += expected.size();
  }
  EXPECT_EQ(bytes_done_, total);
}

TEST_F(Transfers, OneBitInAnyPieceIsFoundAndNamed) {
  for (FileCopier::Item& item : items_) {
    item.file.sum = SumOf(contents_[item.name]);
    item.sum_known = true;
  }
  const auto flip = [](std::string* bytes) { (*bytes)[2 * kMiB + 700'000] ^= 1; };
  ASSERT_TRUE(fs_->Damage("/from/pieces", flip).ok());
  FileCopier transfer(*fs_, "/from", "/to", items_, &bytes_done_);
  const Status status = Run(&transfer);
  EXPECT_EQ(status.code(), Code::kCorruption);
  EXPECT_NE(status.ToString().find("/from/pieces"), std::string::npos) << status.ToString();
}

// Also those of which it was known what they are.
TEST_F(Transfers, EveryCopyIsCheckedAndNoLink) {
  for (FileCopier::Item& item : items_) {
    item.file.sum = SumOf(contents_[item.name]);
    item.sum_known = item.name != "device";
    if (item.name == "byte") item.link_from = "/from/byte";
    if (item.name == "piece") item.link_from = "/nowhere";
  }
  std::map<std::string, uint64_t> checked;
  FileCopier transfer(*fs_, "/from", "/to", items_, &bytes_done_,
                      [&](const FileCopier::Item& item) {
                        checked[item.name] = item.file.sum;
                        return Status();
                      });
  ASSERT_TRUE(Run(&transfer).ok());
  std::map<std::string, uint64_t> expected;
  for (const auto& [name, bytes] : contents_) {
    if (name != "byte") expected[name] = SumOf(bytes);
  }
  EXPECT_EQ(checked, expected);
}

}  // namespace
}  // namespace quire::kv::file_copier_test
