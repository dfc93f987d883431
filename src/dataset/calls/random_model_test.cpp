// Random jobs against a model: all options of a dataset and of its context, drawn from the option
// table, and all of its operations, on one to five ranks, by turns and on threads of their own,
// opened again by other numbers of ranks, after crashes, too; read beside the writer and
// afterwards, with all options of a reader.
//
// Every rank draws the same plan from the seed, and so knows the model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/core/random.h"
#include "base/hash/hash.h"
#include "dataset/calls/dataset_reader.h"
#include "dataset/calls/dataset_testing.h"
#include "dataset/route/shuffle_entry.h"
#include "io/sim/sim_file_system.h"
#include "quire/dataset.h"
#include "quire/option_table.h"
#include "tests/support/model_seeds.h"
#include "tests/support/status_asserts.h"

namespace quire::dataset::random_model_test {
namespace {

using testing::HasSubstr;

constexpr char kByRange[] = "by range";
constexpr uint64_t kKeys = 60;
constexpr int kRanksMax = 5;

// The values from which each option is drawn. A row of the option table that is missing here fails
// a test.
const std::map<std::string, std::vector<std::string>>& Choices() {
  static const std::map<std::string, std::vector<std::string>> choices = {
      {"transport", {"auto", "mpi"}},  // the simulated network's datasets exchange messages only
      {"timeout_ms", {"60000", "3600000"}},
      {"memory_bytes", {"67108864", "4294967296"}},
      {"background_threads", {"1", "2", "4"}},
      {"dataset_format", {"base", "pointer", "bloom", "cuckoo", "ribbon"}},
      {"dataset_bloom_ranks", {"0", "2", "5"}},
      {"dataset_batch_bytes", {"1024", "16384", "131072"}},
      {"dataset_table_bytes", {"65536", "262144"}},
      {"dataset_partition_bytes", {"65536", "262144"}},
      {"dataset_in_flight_bytes", {"65536", "1048576"}},
      {"dataset_grid_ranks_min", {"2", "3", "1024"}},
      {"dataset_block_bytes", {"512", "16384"}},
      {"dataset_compression", {"none", "lz4", "zstd"}},
      {"dataset_partitioner_name", {"", kByRange}},
  };
  return choices;
}

bool IsDrawn(const OptionRow& row) {
  return row.group == OptionGroup::kDataset || row.group == OptionGroup::kContext;
}

template <typename Options>
void DrawRow(const OptionRow& row, base::Random& random, Options* options) {
  const std::vector<std::string>& choices = Choices().at(row.name);
  EXPECT_OK(OptionTable::Set(row.name, choices[random.Below(choices.size())], options));
}

// Ranges of keys by their second byte; a key of one byte is in the first.
int ByRange(Slice key, int rank_count) {
  if (key == "throws") throw 1;
  return key.size() < 2 ? 0 : static_cast<unsigned char>(key[1]) * rank_count / 256;
}

// The properties that a dataset keeps for all its life.
struct Kind {
  DatasetFormat format = DatasetFormat::kRibbon;
  bool by_range = false;

  Partitioner partitioner() const { return by_range ? Partitioner(ByRange) : Partitioner(); }
  uint32_t PartitionOf(Slice key, uint32_t rank_count) const {
    const auto count = static_cast<int>(rank_count);
    return static_cast<uint32_t>(by_range ? ByRange(key, count)
                                          : base::OwnerOf(base::HashKey(key), count));
  }
};

DatasetOptions DrawOptions(base::Random& random) {
  DatasetOptions options;
  for (const OptionRow& row : OptionTable::Rows()) {
    if (row.group == OptionGroup::kDataset) DrawRow(row, random, &options);
  }
  if (!options.partitioner_name.empty()) options.partitioner = ByRange;
  return options;
}

ContextOptions DrawContext(base::Random& random) {
  ContextOptions options;
  for (const OptionRow& row : OptionTable::Rows()) {
    if (row.group == OptionGroup::kContext && IsDrawn(row)) DrawRow(row, random, &options);
  }
  return options;
}

DatasetReaderOptions DrawReaderOptions(base::Random& random, const Kind& kind) {
  DatasetReaderOptions options;
  // A field that is added is to be drawn, too: this does not compile then.
  auto& [cache_bytes, open_parts_max, partitioner, partitioner_name, first_match] = options;
  static constexpr uint64_t kCaches[] = {0, 4096, 64 << 20};
  static constexpr uint32_t kParts[] = {0, 1, 3, 512};
  cache_bytes = kCaches[random.Below(std::size(kCaches))];
  open_parts_max = kParts[random.Below(std::size(kParts))];
  first_match = random.OneIn(2);
  if (kind.by_range && random.OneIn(2)) {
    partitioner = ByRange;
    partitioner_name = kByRange;
  }
  return options;
}

// ---- The model ----

struct Epoch {
  uint64_t number = 0;
  uint32_t rank_count = 0;
  uint64_t put_count = 0;
  Truth truth;
};
using Model = std::vector<Epoch>;

// How the ranks end an epoch.
enum class End { kComplete, kAbandoned, kDiffers };

struct EpochPlan {
  uint64_t number = 0;
  End end = End::kComplete;
  std::vector<Pairs> puts;  // by rank
};

std::string KeyOf(uint64_t i) {
  std::string key = std::to_string(i);
  if (i % 7 == 0) key.insert(0, 1, '\0');
  if (i % 5 == 0) key[key.size() - 1] = static_cast<char>(255 - i);
  if (i % 23 == 0) key += std::string(3000, 'l');
  if (i % 3 == 0) key.insert(1, 1, static_cast<char>(i * 37));
  return key;
}

class Planner {
 public:
  Planner(base::Random* random, uint64_t last, uint32_t rank_count)
      : random_(*random), last_(last), rank_count_(rank_count) {}

  EpochPlan Draw() {
    EpochPlan plan;
    plan.number = last_ + 1 + random_.Below(3);
    const uint64_t end = random_.Below(8);
    if (end == 6) plan.end = End::kDiffers;
    if (end == 7) plan.end = End::kAbandoned;
    // So many that a partition has several maps; which takes too long on more ranks.
    const bool several = rank_count_ <= 2 && plan.end != End::kAbandoned && random_.OneIn(8);
    const uint64_t many = several ? 4500 : 0;
    for (uint32_t rank = 0; rank < rank_count_; ++rank) {
      plan.puts.push_back(Puts(rank, plan.end == End::kAbandoned ? 5 : UINT64_MAX, many));
    }
    return plan;
  }

 private:
  // Ranks that go elsewhere, by turns, do nothing for one that waits in Put: no more than fits into
  // batches is put where the epoch is abandoned.
  Pairs Puts(uint32_t rank, uint64_t count_max, uint64_t many) {
    static constexpr uint64_t kCounts[] = {0, 1, 10, 40, 150};
    static constexpr size_t kSizes[] = {0, 1, 12, 60, 500, 5000};
    Pairs pairs;
    const uint64_t count = std::min(kCounts[random_.Below(std::size(kCounts))], count_max);
    for (uint64_t left = count; left > 0; --left) {
      const bool large = count_max == UINT64_MAX && random_.OneIn(60);
      const size_t size = large ? 150'000 : kSizes[random_.Below(std::size(kSizes))];
      std::string value(size, static_cast<char>('a' + random_.Below(26)));
      if (size > 0) value += std::to_string(random_.Below(1000));
      pairs.emplace_back(KeyOf(random_.Below(kKeys)), std::move(value));
    }
    for (uint64_t left = many; left > 0; --left) {
      pairs.emplace_back(std::to_string(rank) + "many" + std::to_string(left), "");
    }
    return pairs;
  }

  base::Random& random_;
  const uint64_t last_;
  const uint32_t rank_count_;
};

Epoch EpochOf(const EpochPlan& plan) {
  Epoch epoch;
  epoch.number = plan.number;
  epoch.rank_count = static_cast<uint32_t>(plan.puts.size());
  for (uint32_t rank = 0; rank < epoch.rank_count; ++rank) {
    epoch.put_count += plan.puts[rank].size();
    for (const auto& [key, value] : plan.puts[rank]) epoch.truth[key][rank] = value;
  }
  return epoch;
}

// ---- Reading ----

// What is found of a key, by epoch and rank.
using Found = std::vector<std::tuple<uint64_t, uint32_t, std::string>>;

Found FoundOf(const std::vector<DatasetValue>& values) {
  Found found;
  for (const DatasetValue& value : values) found.emplace_back(value.epoch, value.rank, value.value);
  return found;
}

// Asks a reader for all that there is to ask, by chance, and compares it with the model as the
// reader last saw it.
class Asker {
 public:
  Asker(io::FileSystem& fs, base::Random random, Kind kind, Model model)
      : random_(random),
        kind_(kind),
        options_(DrawReaderOptions(random_, kind)),
        model_(std::move(model)) {
    auto opened = OpenReader(fs, kDatasetDirectory, options_);
    EXPECT_OK(opened.status());
    if (opened.ok()) reader_ = std::move(*opened);
  }
  bool ok() const { return reader_ != nullptr; }

  void Refresh(const Model& model) {
    EXPECT_OK(reader_->Refresh());
    model_ = model;
  }

  void Ask(uint64_t count) {
    ASSERT_NO_FATAL_FAILURE(CheckEpochs());
    for (; count > 0; --count) {
      switch (random_.Below(7)) {
        case 0:
        case 1:
          ASSERT_NO_FATAL_FAILURE(AskForOne());
          break;
        case 2:
          ASSERT_NO_FATAL_FAILURE(AskForMany());
          break;
        case 3:
          ASSERT_NO_FATAL_FAILURE(AskForTrajectory());
          break;
        case 4:
          ASSERT_NO_FATAL_FAILURE(Scan());
          break;
        case 5:
          ASSERT_NO_FATAL_FAILURE(Verify());
          break;
        default:
          ASSERT_NO_FATAL_FAILURE(AskForWhatIsNot());
      }
    }
  }

  // Every key of every epoch.
  void AskForAll() {
    for (const Epoch& epoch : model_) {
      std::vector<std::string> keys;
      for (const auto& [key, values] : epoch.truth) keys.push_back(key);
      ASSERT_NO_FATAL_FAILURE(AskFor(epoch, keys));
      ASSERT_OK(reader_->Verify(epoch.number));
    }
  }

 private:
  const Epoch& AnEpoch() { return model_[random_.Below(model_.size())]; }
  std::string AKey(const Epoch& epoch) {
    if (epoch.truth.empty() || random_.OneIn(4)) return KeyOf(random_.Below(kKeys));
    auto at = epoch.truth.begin();
    std::advance(at, static_cast<ptrdiff_t>(random_.Below(std::min<uint64_t>(
                         epoch.truth.size(), 100))));
    return at->first;
  }

  // All values, or, of a reader that stops at the first, one of them.
  void Expect(const std::string& key, const Epoch& epoch, const Found& found) {
    const auto truth = epoch.truth.find(key);
    Found expected;
    if (truth != epoch.truth.end()) {
      for (const auto& [rank, value] : truth->second) {
        expected.emplace_back(epoch.number, rank, value);
      }
    }
    if (!options_.first_match || expected.empty()) {
      ASSERT_EQ(found, expected) << testing::PrintToString(key) << " in " << epoch.number;
      return;
    }
    ASSERT_EQ(found.size(), 1u) << testing::PrintToString(key) << " in " << epoch.number;
    ASSERT_THAT(expected, testing::Contains(found[0])) << testing::PrintToString(key);
  }

  void CheckEpochs() {
    const std::vector<DatasetEpoch> epochs = reader_->Epochs();
    ASSERT_EQ(epochs.size(), model_.size());
    for (size_t i = 0; i < epochs.size(); ++i) {
      ASSERT_EQ(epochs[i].number, model_[i].number);
      ASSERT_EQ(epochs[i].rank_count, model_[i].rank_count);
      ASSERT_LE(epochs[i].pair_count, model_[i].put_count);
    }
    EXPECT_EQ(reader_->format(), kind_.format);
    EXPECT_EQ(reader_->partitioner_name(), kind_.by_range ? kByRange : "hash");
  }

  void AskForOne() {
    if (model_.empty()) return;
    const Epoch& epoch = AnEpoch();
    const std::string key = AKey(epoch);
    const uint64_t before = reader_->Statistics().queries;
    std::vector<DatasetValue> values = {{1, 2, "of an earlier call"}};
    const Status status = reader_->Get(epoch.number, key, &values);
    const bool there = epoch.truth.contains(key);
    ASSERT_EQ(status.code(), there ? Code::kOk : Code::kNotFound) << status.ToString();
    ASSERT_NO_FATAL_FAILURE(Expect(key, epoch, FoundOf(values)));
    EXPECT_EQ(reader_->Statistics().queries, before + 1);
  }

  void AskForMany() {
    if (model_.empty()) return;
    const Epoch& epoch = AnEpoch();
    std::vector<std::string> keys;
    for (uint64_t left = random_.Below(20); left > 0; --left) keys.push_back(AKey(epoch));
    AskFor(epoch, keys);
  }

  void AskFor(const Epoch& epoch, const std::vector<std::string>& keys) {
    std::vector<std::vector<DatasetValue>> values(3);
    ASSERT_OK(reader_->GetMany(epoch.number, {keys.begin(), keys.end()}, &values));
    ASSERT_EQ(values.size(), keys.size());
    for (size_t i = 0; i < keys.size(); ++i) {
      ASSERT_NO_FATAL_FAILURE(Expect(keys[i], epoch, FoundOf(values[i])));
    }
  }

  void AskForTrajectory() {
    const std::string key = model_.empty() ? KeyOf(0) : AKey(AnEpoch());
    std::vector<DatasetValue> values;
    const Status status = reader_->GetTrajectory(key, &values);
    ASSERT_EQ(status.code(), values.empty() ? Code::kNotFound : Code::kOk) << status.ToString();
    const Found found = FoundOf(values);
    size_t at = 0;
    for (const Epoch& epoch : model_) {
      Found here;
      for (; at < found.size() && std::get<0>(found[at]) == epoch.number; ++at) {
        here.push_back(found[at]);
      }
      ASSERT_NO_FATAL_FAILURE(Expect(key, epoch, here));
    }
    ASSERT_EQ(at, found.size());
  }

  // Pairs lie with the rank that put them, or, where their keys travel, at their partition.
  bool Lies(const Epoch& epoch, Slice key, uint32_t source, uint32_t begin, uint32_t end) const {
    const uint32_t part = HasKeys(kind_.format) ? kind_.PartitionOf(key, epoch.rank_count) : source;
    return begin <= part && part < end;
  }

  void Scan() {
    if (model_.empty()) return;
    const Epoch& epoch = AnEpoch();
    const auto begin = static_cast<uint32_t>(random_.Below(epoch.rank_count + 1));
    const uint32_t end = random_.OneIn(2)
                             ? UINT32_MAX
                             : begin + static_cast<uint32_t>(random_.Below(kRanksMax));
    Truth expected;
    for (const auto& [key, values] : epoch.truth) {
      for (const auto& [rank, value] : values) {
        if (Lies(epoch, key, rank, begin, end)) expected[key][rank] = value;
      }
    }
    Truth scanned;
    const auto scan = reader_->Scan(epoch.number, begin, end);
    for (; scan->Valid(); scan->Next()) {
      ASSERT_TRUE(scanned[std::string(scan->key())].emplace(scan->rank(), scan->value()).second);
    }
    ASSERT_OK(scan->status());
    ASSERT_EQ(scanned, expected) << "[" << begin << ", " << end << ") of " << epoch.number;
  }

  void Verify() {
    if (model_.empty()) return;
    ASSERT_OK(reader_->Verify(AnEpoch().number));
  }

  void AskForWhatIsNot() {
    uint64_t number = model_.empty() ? 1 : model_.back().number + 1 + random_.Below(3);
    std::vector<DatasetValue> values;
    std::vector<std::vector<DatasetValue>> many;
    for (const Status& status :
         {reader_->Get(number, "k", &values), reader_->GetMany(number, {"k"}, &many),
          reader_->Scan(number)->status(), reader_->Verify(number)}) {
      ASSERT_EQ(status.code(), Code::kNotFound);
      ASSERT_THAT(status.message(), HasSubstr("no complete epoch"));
    }
    if (model_.empty()) return;
    number = AnEpoch().number;
    ASSERT_EQ(reader_->Get(number, "nobody's", &values).code(), Code::kNotFound);
    if (options_.partitioner) {
      ASSERT_EQ(reader_->Get(number, "throws", &values).code(), Code::kInvalidArgument);
    }
  }

  base::Random random_;
  const Kind kind_;
  const DatasetReaderOptions options_;
  Model model_;
  std::unique_ptr<DatasetReader> reader_;
};

// ---- Writing ----

// One rank's part of a job. All ranks draw the same.
class Player {
 public:
  Player(const std::shared_ptr<runtime::ContextState>& state, base::Random random, Kind kind,
         Model model, const DatasetOptions& options)
      : state_(state), random_(random), kind_(kind), model_(std::move(model)), options_(options) {}

  void Play() {
    for (uint64_t left = 1 + random_.Below(3); left > 0; --left) {
      const auto writer = OpenWriter(state_, options_);
      ASSERT_OK(writer.status());
      ASSERT_NO_FATAL_FAILURE(PlayWriter(**writer));
      if (abandoned_) return;
      if (random_.OneIn(2)) {
        ASSERT_OK((*writer)->Finish());
        ASSERT_EQ((*writer)->BeginEpoch(UINT64_MAX).code(), Code::kInvalidArgument);
      }
      ASSERT_OK(state_->exchange->Barrier());
    }
  }
  const Model& model() const { return model_; }

 private:
  uint64_t last() const { return model_.empty() ? 0 : model_.back().number; }
  uint32_t rank() const { return static_cast<uint32_t>(state_->rank()); }

  void PlayWriter(DatasetWriter& writer) {
    Asker beside(*state_->fs, base::Random(random_.Next() + rank()), kind_, model_);
    ASSERT_TRUE(beside.ok());
    for (uint64_t left = random_.Below(4); left > 0 && !abandoned_; --left) {
      const EpochPlan plan =
          Planner(&random_, last(), static_cast<uint32_t>(state_->size())).Draw();
      ASSERT_NO_FATAL_FAILURE(Write(writer, plan));
      const bool refreshes = random_.OneIn(2);
      if (refreshes) beside.Refresh(model_);
      ASSERT_NO_FATAL_FAILURE(beside.Ask(3));
      ASSERT_OK(state_->exchange->Barrier());
    }
  }

  void Write(DatasetWriter& writer, const EpochPlan& plan) {
    if (model_.empty()) {
      ASSERT_FALSE(writer.LastEpoch().has_value());
    } else {
      ASSERT_EQ(writer.LastEpoch(), last());
      ASSERT_EQ(writer.BeginEpoch(last()).code(), Code::kInvalidArgument);
    }
    ASSERT_EQ(writer.Put("early", "v").code(), Code::kInvalidArgument);
    const bool differs = plan.end == End::kDiffers && state_->size() > 1;
    ASSERT_OK(writer.BeginEpoch(plan.number + (differs && rank() == 0 ? 1 : 0)));
    ASSERT_NO_FATAL_FAILURE(Put(writer, plan.puts[rank()]));
    abandoned_ = plan.end == End::kAbandoned;
    if (abandoned_) {
      ASSERT_EQ(writer.Finish().code(), Code::kInvalidArgument);
    } else if (differs) {
      ASSERT_EQ(writer.EndEpoch().code(), Code::kInvalidArgument);
    } else {
      ASSERT_OK(writer.EndEpoch());
      model_.push_back(EpochOf(plan));
      ASSERT_EQ(writer.LastEpoch(), plan.number);
    }
  }

  // With calls between that are refused, and change nothing.
  void Put(DatasetWriter& writer, const Pairs& pairs) {
    const uint64_t before = writer.Statistics().pairs;
    for (const auto& [key, value] : pairs) {
      if (key.size() % 11 == 3) {
        ASSERT_EQ(writer.Put("", value).code(), Code::kInvalidArgument);
        ASSERT_EQ(writer.Put(std::string(65'537, 'k'), value).code(), Code::kInvalidArgument);
        if (kind_.by_range) {
          ASSERT_EQ(writer.Put("throws", value).code(), Code::kInvalidArgument);
        }
      }
      ASSERT_OK(writer.Put(key, value));
    }
    ASSERT_EQ(writer.Statistics().pairs, before + pairs.size());
  }

  const std::shared_ptr<runtime::ContextState> state_;
  base::Random random_;
  const Kind kind_;
  Model model_;
  const DatasetOptions options_;
  bool abandoned_ = false;
};

// Several jobs on one disk, one after another.
class Jobs {
 public:
  explicit Jobs(uint64_t seed) : seed_(seed), random_(seed) {
    const DatasetOptions first = DrawOptions(random_);
    kind_ = {first.format, first.partitioner != nullptr};
  }

  void Run() {
    for (uint64_t left = 2 + random_.Below(3); left > 0 && !testing::Test::HasFailure(); --left) {
      RunOne();
      if (!testing::Test::HasFailure()) MaybeCrash();
      if (!testing::Test::HasFailure()) ReadAfterwards();
    }
  }

 private:
  void RunOne() {
    runtime::SimRanksOptions ranks;
    ranks.rank_count = static_cast<int>(1 + random_.Below(kRanksMax));
    ranks.seed = seed_ + 1;
    ranks.by_turns = !random_.OneIn(4);
    const ContextOptions context = DrawContext(random_);
    ranks.timeout_ms = context.timeout_ms;
    ranks.memory_bytes = context.memory_bytes;
    ranks.background_threads = context.background_threads;
    ranks.file_system = [this](int) { return disk_.get(); };
    DatasetOptions options = DrawOptions(random_);
    options.format = kind_.format;
    options.partitioner = kind_.partitioner();
    options.partitioner_name = kind_.by_range ? kByRange : "";
    const base::Random play(random_.Next());
    const Model before = model_;
    RunSimRanks(ranks, [&](const std::shared_ptr<runtime::ContextState>& state) {
      Player player(state, play, kind_, before, options);
      player.Play();
      if (state->rank() == 0) model_ = player.model();
    });
  }

  // Complete epochs outlive a loss of power.
  void MaybeCrash() {
    if (random_.OneIn(2)) return;
    static constexpr io::CrashKind kKinds[] = {io::CrashKind::kProcess, io::CrashKind::kMoved,
                                               io::CrashKind::kPower};
    disk_->Restart(kKinds[random_.Below(std::size(kKinds))], random_.Next());
  }

  void ReadAfterwards() {
    Asker asker(*disk_, base::Random(random_.Next()), kind_, model_);
    if (!asker.ok()) return;
    asker.Ask(10);
    if (!testing::Test::HasFatalFailure()) asker.AskForAll();
  }

  const uint64_t seed_;
  base::Random random_;
  Kind kind_;
  const std::unique_ptr<io::SimFileSystem> disk_ = io::NewSimFileSystem();
  Model model_;
};

TEST(DatasetModel, EveryOptionIsDrawn) {
  size_t drawn = 0;
  for (const OptionRow& row : OptionTable::Rows()) {
    if (!IsDrawn(row)) continue;
    ++drawn;
    ASSERT_TRUE(Choices().contains(row.name)) << row.name << ": say what it is drawn from";
    EXPECT_GE(Choices().at(row.name).size(), 2u) << row.name;
    for (const std::string& value : Choices().at(row.name)) {
      ContextOptions context;
      DatasetOptions dataset;
      EXPECT_OK(row.group == OptionGroup::kContext ? OptionTable::Set(row.name, value, &context)
                                                   : OptionTable::Set(row.name, value, &dataset));
    }
  }
  EXPECT_EQ(drawn, Choices().size());
}

TEST(DatasetModel, JobsGiveWhatTheModelHas) {
  test::ForEachModelSeed([](uint64_t seed) { Jobs(seed).Run(); });
}

}  // namespace
}  // namespace quire::dataset::random_model_test
