// Datasets whose files are damaged, cut off, swapped or missing: what is read is right, or the
// damage is named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dataset/calls/dataset_jobs_testing.h"
#include "dataset/calls/dataset_reader.h"
#include "dataset/part/files.h"
#include "io/sim/sim_file_system.h"
#include "runtime/repository.h"
#include "tests/support/status_asserts.h"

namespace quire::dataset::dataset_damage_test {
namespace {

using runtime::RunSimRanks;
using testing::HasSubstr;

class DatasetDamage : public DatasetJobs {
 protected:
  static void ExpectNamed(const Status& status, const std::string& path) {
    EXPECT_CODE(status, Code::kCorruption);
    EXPECT_THAT(status.ToString(), HasSubstr(path));
  }
  // Expects that both ranks of a job report what is wrong with `path`.
  void ExpectNoWriter(const std::string& path) {
    RunSimRanks(Ranks(2), [&](const std::shared_ptr<runtime::ContextState>& context) {
      ExpectNamed(OpenWriter(context, SmallDataset(format())).status(), path);
    });
  }
  // Those that hold what was written, not locks.
  std::vector<io::FileInfo> Files() {
    auto files = disk_->List(kDatasetDirectory);
    EXPECT_OK(files.status());
    std::erase_if(*files, [](const io::FileInfo& file) {
      return file.name.rfind("part-", 0) != 0 || file.name.ends_with(".lock");
    });
    return *files;
  }
  static std::string PathOf(const io::FileInfo& file) {
    return std::string(kDatasetDirectory) + "/" + file.name;
  }

  // All pairs of an epoch by every way there is; the first failure. What is read must be `truth`.
  Status ReadAll(uint64_t epoch, const Truth& truth) {
    QUIRE_ASSIGN_OR_RETURN(const auto reader, OpenReader(*disk_, kDatasetDirectory, {}));
    Status status;
    for (auto key = truth.begin(); status.ok() && key != truth.end(); ++key) {
      std::vector<DatasetValue> values;
      status = reader->Get(epoch, key->first, &values);
      if (!status.ok()) break;
      EXPECT_EQ(values.size(), key->second.size());
      for (const DatasetValue& value : values) EXPECT_EQ(value.value, key->second.at(value.rank));
    }
    const auto scan = reader->Scan(epoch);
    for (; scan->Valid(); scan->Next()) {
      EXPECT_EQ(scan->value(), Slice(truth.at(std::string(scan->key())).at(scan->rank())));
    }
    if (status.ok()) status = scan->status();
    return status.ok() ? reader->Verify(epoch) : status;
  }

  // Returns whether the damage is reported; then the text names what is damaged.
  bool IsTold(const Truth& truth) {
    const Status status = ReadAll(1, truth);
    if (status.ok()) return false;
    EXPECT_THAT(status.ToString(), HasSubstr(kDatasetDirectory));
    EXPECT_TRUE(status.code() == Code::kCorruption || status.code() == Code::kUnsupported)
        << status.ToString();
    return true;
  }
};
INSTANTIATE_TEST_SUITE_P(Formats, DatasetDamage, AllDatasetJobs(), NameOfJobs);

// Flips a byte at many places of every file: what is read is right, or a failure that names a file.
TEST_P(DatasetDamage, IsNamedAndNeverRead) {
  Write(2, {1, 2}, 120);
  const Truth truth = TruthOf(1, 2, 120);
  auto files = disk_->List(kDatasetDirectory);
  ASSERT_OK(files.status());
  int told = 0;
  for (const io::FileInfo& file : *files) {
    const uint64_t step = std::max<uint64_t>(1, file.size / 40);
    for (uint64_t at = 0; at < file.size; at += step) {
      SCOPED_TRACE(file.name + " at " + std::to_string(at));
      const auto flip = [&](std::string* bytes) { (*bytes)[at] ^= 0x40; };
      ASSERT_OK(disk_->Damage(PathOf(file), flip));
      if (IsTold(truth)) ++told;
      ASSERT_OK(disk_->Damage(PathOf(file), flip));
      ASSERT_FALSE(HasFailure());
    }
  }
  EXPECT_GT(told, 60);
}

// Cut off anywhere, or with the bytes of another rank's file.
TEST_P(DatasetDamage, ADamagedFileIsNamedAndNeverRead) {
  Write(2, {1}, 120);
  const Truth truth = TruthOf(1, 2, 120);
  for (const io::FileInfo& file : Files()) {
    SCOPED_TRACE(file.name);
    std::string whole;
    ASSERT_OK(disk_->Damage(PathOf(file), [&whole](std::string* bytes) { whole = *bytes; }));
    for (uint64_t size = 0; size < whole.size(); size += 1 + whole.size() / 20) {
      ASSERT_OK(
          disk_->Damage(PathOf(file), [&](std::string* bytes) { *bytes = whole.substr(0, size); }));
      EXPECT_TRUE(IsTold(truth)) << "cut off at " << size;
    }
    std::string others = file.name;
    others[5] = others[5] == '0' ? '1' : '0';
    std::string stranger;
    ASSERT_OK(disk_->Damage(std::string(kDatasetDirectory) + "/" + others,
                            [&stranger](std::string* bytes) { stranger = *bytes; }));
    ASSERT_OK(disk_->Damage(PathOf(file), [&](std::string* bytes) { *bytes = stranger; }));
    EXPECT_TRUE(IsTold(truth)) << "swapped";
    ASSERT_OK(disk_->Damage(PathOf(file), [&](std::string* bytes) { *bytes = whole; }));
    ASSERT_OK(ReadAll(1, truth));
  }
}

// One of several tables of a part is damaged: a scan shows the pairs before the damage, and not one
// more.
TEST_P(DatasetDamage, EndsAScan) {
  constexpr int kCount = 2000;
  Write(1, {1}, kCount);
  const Truth truth = TruthOf(1, 1, kCount);
  const std::string path = PartPath(kDatasetDirectory, 0);
  const auto info = disk_->Open(path, io::FileOpenMode::kRead);
  ASSERT_OK(info.status());
  const Result<uint64_t> size = (*info)->Size();
  ASSERT_OK(size.status());
  int ended = 0;
  for (uint64_t at = 0; at < *size; at += *size / 60) {
    const auto flip = [at](std::string* bytes) { (*bytes)[at] ^= 0x40; };
    ASSERT_OK(disk_->Damage(path, flip));
    const auto reader = Reader();
    ASSERT_NE(reader, nullptr);
    const auto scan = reader->Scan(1);
    for (; scan->Valid(); scan->Next()) {
      ASSERT_OK(scan->status());
      ASSERT_EQ(scan->value(), Slice(truth.at(std::string(scan->key())).at(scan->rank())));
    }
    if (!scan->status().ok()) ++ended;
    ASSERT_OK(disk_->Damage(path, flip));
  }
  EXPECT_GT(ended, 20);
}

TEST_P(DatasetDamage, AMissingFileIsNamed) {
  Write(2, {1}, 50);
  for (const io::FileInfo& file : Files()) {
    const std::string path = PathOf(file);
    ASSERT_OK(disk_->Rename(path, path + ".away"));
    const auto reader = Reader();
    ASSERT_NE(reader, nullptr);
    ExpectNamed(reader->Verify(1), path);
    ExpectNoWriter(path);  // and nothing stands in its place
    ASSERT_OK(disk_->Rename(path + ".away", path));
    ASSERT_OK(Reader()->Verify(1));
  }
}

// A writer that took the dataset for a new one would cut off all that the parts have.
TEST_P(DatasetDamage, AWriterFailsIfTheDescriptorOrTheEpochListIsMissing) {
  Write(2, {1}, 50);
  for (const char* name : {kEpochsName, runtime::kDatasetFile}) {
    const std::string path = std::string(kDatasetDirectory) + "/" + name;
    ASSERT_OK(disk_->Rename(path, path + ".away"));
    ExpectNoWriter(path);
    const Status read = OpenReader(*disk_, kDatasetDirectory, {}).status();
    EXPECT_FALSE(read.ok()) << path;
    EXPECT_THAT(read.ToString(), HasSubstr(path));
    ASSERT_OK(disk_->Rename(path + ".away", path));
    ASSERT_OK(Reader()->Verify(1));
  }
}

TEST_P(DatasetDamage, AMissingDatasetIsReportedAsAbsent) {
  Write(2, {1}, 50);
  for (const std::string directory : {"/repository", "/repository/nowhere"}) {
    EXPECT_EQ(OpenReader(*disk_, directory, {}).status().ToString(),
              "not found: there is no dataset at " + directory + ": " + directory +
                  "/DATASET is absent; name a dataset's directory, <repository>/<name>");
  }
}

// The pairs that a writer appends to a file that lacks its end would make the file look whole.
TEST_P(DatasetDamage, AFileThatWasCutOffTakesNoMoreEpochs) {
  Write(2, {1}, 50);
  for (const io::FileInfo& file : Files()) {
    const std::string path = PathOf(file);
    char last = 0;
    ASSERT_OK(disk_->Damage(path, [&last](std::string* bytes) {
      last = bytes->back();
      bytes->pop_back();
    }));
    ExpectNoWriter(path);
    ASSERT_OK(disk_->Damage(path, [last](std::string* bytes) { bytes->push_back(last); }));
    ASSERT_OK(Reader()->Verify(1));
  }
}

}  // namespace
}  // namespace quire::dataset::dataset_damage_test
