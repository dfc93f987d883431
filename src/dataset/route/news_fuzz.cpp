// Arbitrary bytes as rank 0's description of a dataset that all ranks open for writing: an error,
// or an open dataset that is as described.
//
// Input: one byte of choices, then the bytes. Bit 0: the checksum of the epochs is made right
// first.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/core/check.h"
#include "base/hash/hash.h"
#include "base/text/coding.h"
#include "dataset/calls/dataset_writer.h"
#include "dataset/route/mute_exchange_testing.h"
#include "io/sim/sim_file_system.h"
#include "runtime/agreement.h"

namespace quire::dataset {
namespace {

constexpr int kRank = 1;
constexpr int kSize = 2;
constexpr size_t kHeadBytes = 25;  // u64 id, u64 session, u8 whether there are epochs, u64 the last

// Rank 0 agrees with the options of this rank, and then sends `news`.
class ToldExchange final : public MuteExchange {
 public:
  explicit ToldExchange(Slice news) : MuteExchange(kRank, kSize), news_(news) {}
  Result<std::vector<std::string>> AllGather(Slice mine) override {
    const bool asked = calls_++ == 0;
    return std::vector{asked ? std::string(mine) : runtime::EncodeOutcome(Status(), news_),
                       std::string(mine)};
  }
  Status Agree(const Status& mine) override { return mine; }

 private:
  const Slice news_;
  int calls_ = 0;
};

void Run(Slice news) {
  const std::unique_ptr<io::SimFileSystem> fs = io::NewSimFileSystem();
  QUIRE_CHECK(fs->MakeDirectory("/repository").ok());
  const auto context = std::make_shared<runtime::ContextState>();
  context->fs = fs.get();
  context->repository = "/repository";
  context->budget = std::make_unique<runtime::MemoryBudget>(4ull << 30);
  context->exchange = std::make_unique<ToldExchange>(news);
  const auto dataset = OpenForWriting(context, "steps", {});
  if (!dataset.ok()) {
    QUIRE_CHECK(dataset.status().code() == Code::kCorruption);
    return;
  }
  base::ByteReader reader(news);
  uint64_t id = 0;
  uint64_t session = 0;
  uint8_t has_epochs = 0;
  uint64_t last = 0;
  QUIRE_CHECK(reader.Fixed(&id) && reader.Fixed(&session) && reader.Fixed(&has_epochs) &&
              reader.Fixed(&last));
  QUIRE_CHECK(dataset->descriptor.id == id && dataset->session == session);
  QUIRE_CHECK(dataset->last_epoch.has_value() == (has_epochs != 0));
  QUIRE_CHECK(dataset->last_epoch.value_or(last) == last);
  // This rank has a part of none: that is damage, and not an empty part.
  const auto epochs = DecodeEpochs(reader.rest(), id, "news");
  QUIRE_CHECK(epochs.ok());
  for (const EpochRecord& epoch : *epochs) QUIRE_CHECK(epoch.rank_count <= kRank);
}

}  // namespace
}  // namespace quire::dataset

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using quire::dataset::kHeadBytes;
  if (size == 0) return 0;
  std::string news(reinterpret_cast<const char*>(data) + 1, size - 1);
  if ((data[0] & 1) != 0 && news.size() >= kHeadBytes) {
    namespace base = quire::base;
    const auto id = base::LoadLe<uint64_t>(news.data());
    const quire::Slice epochs = quire::Slice(news).substr(kHeadBytes);
    const uint64_t seed = base::ChecksumSeed(base::ChecksumKind::kDataset, id, 0);
    base::PutFixed(&news, base::Checksum(epochs, seed));
  }
  quire::dataset::Run(news);
  return 0;
}
