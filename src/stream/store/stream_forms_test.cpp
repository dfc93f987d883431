// The forms in which versions are stored: whole or as deltas, packed or not, of objects of any
// size. Each version is read back, also after the log was opened again.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "base/core/random.h"
#include "stream/store/stream_testing.h"
#include "tests/support/status_asserts.h"

namespace quire::stream::stream_forms_test {
namespace {

using Form = std::tuple<StreamDeltas, Compression, uint64_t>;

class StreamForms : public ::testing::TestWithParam<Form> {
 protected:
  static constexpr uint64_t kSteps = 9;

  // Changes an object from one version to the next: nothing, a little, or everything.
  static void Change(uint64_t step, std::string* bytes, base::Random* random) {
    const uint64_t size = bytes->size();
    switch (step % 5) {
      case 0:
        break;
      case 1:
        (*bytes)[random->Below(size)] ^= 1;
        break;
      case 2:
        bytes->back() ^= 2;
        break;
      case 3:
        for (uint64_t at = 0; at < size; at += 3000) (*bytes)[at] ^= 4;
        break;
      default:
        for (char& byte : *bytes) byte = static_cast<char>(random->Next());
    }
  }

  // Puts some more versions that follow the last of `versions`, and checks each.
  void PutMore(const StreamOptions& options, uint64_t size, std::vector<std::string>* versions) {
    const Result<std::unique_ptr<StreamWriter>> writer = machine_.Write(options);
    ASSERT_OK(writer.status());
    const Result<char*> memory = (*writer)->Create("key", size);
    ASSERT_OK(memory.status());
    base::Random random(size);
    std::string bytes = versions->empty() ? std::string(size, '\0') : versions->back();
    for (uint64_t step = 0; step < kSteps; ++step) {
      Change(step, &bytes, &random);
      bytes.copy(*memory, size);
      ASSERT_OK((*writer)->Put("key").status());
      versions->push_back(bytes);
      ReadsBack(*versions, versions->size());
    }
    ASSERT_OK((*writer)->Sync());
  }

  // Reads all versions from `first` on.
  void ReadsBack(const std::vector<std::string>& versions, uint64_t first) {
    const Result<std::unique_ptr<StreamReader>> reader = machine_.Read();
    ASSERT_OK(reader.status());
    for (uint64_t version = first; version <= versions.size(); ++version) {
      std::string got;
      ASSERT_OK((*reader)->Get("key", version, &got));
      ASSERT_EQ(got == versions[version - 1], true) << "version " << version;
      const auto view = (*reader)->View("key", version);
      ASSERT_OK(view.status());
      ASSERT_EQ((*view)->bytes() == versions[version - 1], true) << "version " << version;
      ASSERT_OK((*view)->Verify());
    }
  }

  StreamMachine machine_;
};

TEST_P(StreamForms, EachVersionIsReadBackAlsoAfterReopening) {
  const auto [deltas, compression, size] = GetParam();
  StreamOptions options = SmallLog((2 * kSteps + 3) * (size + 4096) + (1 << 20));
  options.deltas = deltas;
  options.compression = compression;
  options.keep_versions = 2 * kSteps;
  options.full_every = 7;
  options.audit_every = 4;
  std::vector<std::string> versions;
  for (const io::CrashKind end : {io::CrashKind::kProcess, io::CrashKind::kPower}) {
    ASSERT_NO_FATAL_FAILURE(PutMore(options, size, &versions));
    machine_.fs().Restart(end, 1);
    ReadsBack(versions, 1);
  }
  ASSERT_OK(machine_.Write(options).status());
  ReadsBack(versions, 1);
}

INSTANTIATE_TEST_SUITE_P(
    Of, StreamForms,
    ::testing::Combine(::testing::Values(StreamDeltas::kOff, StreamDeltas::kAuto,
                                         StreamDeltas::kHash, StreamDeltas::kProtect,
                                         StreamDeltas::kWatch),
                       ::testing::Values(Compression::kNone, Compression::kLz4),
                       ::testing::Values(1, 255, 256, 257, 4096, 100'001, (1 << 20) + 300)));

}  // namespace
}  // namespace quire::stream::stream_forms_test
