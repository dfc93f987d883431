// Measures maps from keys to ranks: bits per key, time to build, and ranks to be asked per question
// (FilterKV, figure 7).
#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "filter/rank_map/rank_map_testing.h"
#include "filter/rank_map/spread.h"
#include "keys.h"
#include "partition.h"
#include "report.h"
#include "samples.h"
#include "table/compression.h"

namespace quire::bench {
namespace {

using filter::KeyRank;
using filter::RankMapKind;
using filter::WholeRankMap;

// The most tests in a turn: a question to a Bloom filter tests every rank.
constexpr uint64_t kTestsMax = uint64_t{1} << 27;
constexpr uint64_t kPieceBytes = 1 << 20;  // compressed at a time
constexpr size_t kPointerBytes = 12;       // section 3.2: u64 offset, u32 rank

struct Measured {
  double bits = 0;
  double compressed_bits = 0;
  double ranks_per_question = 0;
  std::vector<double> build_ns;
  std::vector<double> question_ns;
  std::vector<double> ordered_question_ns;  // empty: not measured in this way
};

double BitsPer(uint64_t bytes, uint64_t count) {
  return static_cast<double>(bytes) * 8 / static_cast<double>(count);
}

uint64_t CompressedBytes(Slice bytes) {
  table::Compressor compressor(Compression::kLz4);
  uint64_t sum = 0;
  while (!bytes.empty()) {
    const Slice piece = bytes.substr(0, kPieceBytes);
    const table::Buffer* compressed = compressor.Compress(piece);
    sum += compressed == nullptr ? piece.size() : compressed->size();
    bytes.remove_prefix(piece.size());
  }
  return sum;
}

// Returns the i-th key of the partition, and the rank that wrote it.
KeyRank PairOf(uint64_t i, uint32_t partitions) {
  const uint64_t hash = Mix64(i);
  return {hash, static_cast<uint32_t>((Mix64(~hash) >> 32) * partitions >> 32)};
}

std::vector<KeyRank> Pairs(uint64_t count, uint32_t partitions) {
  std::vector<KeyRank> pairs(count);
  for (uint64_t i = 0; i < count; ++i) pairs[i] = PairOf(i, partitions);
  return pairs;
}

RankMapKind KindOf(const std::string& format) {
  return format == "bloom"    ? RankMapKind::kBloom
         : format == "cuckoo" ? RankMapKind::kCuckoo
                              : RankMapKind::kRibbon;
}

// Returns questions in random order; fewer for a Bloom filter, because each tests every rank.
std::vector<KeyRank> Questions(const PartitionSettings& settings, const std::string& format,
                               uint32_t partitions) {
  uint64_t count = std::min(settings.questions, settings.keys);
  if (format == "bloom") count = std::clamp<uint64_t>(kTestsMax / partitions, 1, count);
  std::vector<KeyRank> questions(count);
  KeyRandom random(1);
  for (KeyRank& question : questions) {
    question = PairOf(random.Below(settings.keys), partitions);
  }
  return questions;
}

// Returns the time per question; `*answered` is the number of ranks in all answers.
Result<double> AskAll(const WholeRankMap& map, const std::vector<KeyRank>& questions,
                      uint64_t* answered) {
  std::vector<uint32_t> ranks;
  *answered = 0;
  const Stopwatch asking;
  for (const KeyRank& question : questions) {
    ranks.clear();
    map.Find(question.hash, &ranks);
    *answered += ranks.size();
    if (!std::binary_search(ranks.begin(), ranks.end(), question.rank)) {
      return Status(Code::kCorruption, "a key's rank is not among the answers");
    }
  }
  return asking.Seconds() * 1e9 / static_cast<double>(questions.size());
}

// Asks at random, and in the order in which a reader asks for many keys.
Status MeasureQuestions(const WholeRankMap& map, std::vector<KeyRank> questions,
                        Measured* measured) {
  uint64_t answered = 0;
  QUIRE_ASSIGN_OR_RETURN(const double random_ns, AskAll(map, questions, &answered));
  std::sort(questions.begin(), questions.end(), [](const KeyRank& a, const KeyRank& b) {
    return filter::Spread(a.hash) < filter::Spread(b.hash);
  });
  QUIRE_ASSIGN_OR_RETURN(const double ordered_ns, AskAll(map, questions, &answered));
  measured->question_ns.push_back(random_ns);
  measured->ordered_question_ns.push_back(ordered_ns);
  measured->ranks_per_question =
      static_cast<double>(answered) / static_cast<double>(questions.size());
  return Status();
}

Status MeasureMap(const PartitionSettings& settings, const std::string& format, uint32_t partitions,
                  Measured* measured) {
  std::vector<KeyRank> pairs = Pairs(settings.keys, partitions);
  const Stopwatch building;
  std::string bytes = filter::BuildRankMap({KindOf(format), partitions}, &pairs);
  const auto count = static_cast<double>(settings.keys);
  measured->build_ns.push_back(building.Seconds() * 1e9 / count);
  std::vector<KeyRank>().swap(pairs);
  measured->bits = BitsPer(bytes.size(), settings.keys);
  measured->compressed_bits = BitsPer(CompressedBytes(bytes), settings.keys);
  QUIRE_ASSIGN_OR_RETURN(const WholeRankMap map, WholeRankMap::Open(std::move(bytes)));
  return MeasureQuestions(map, Questions(settings, format, partitions), measured)
      .WithContext(format);
}

// Measures sorted keys with pointers. The bits of the keys are not counted, because the paper's
// figure omits them.
Status MeasurePointers(const PartitionSettings& settings, uint32_t partitions, Measured* measured) {
  struct Pointer {
    uint64_t hash;
    uint64_t offset;
    uint32_t rank;
  };
  std::vector<Pointer> pointers(settings.keys);
  for (uint64_t i = 0; i < settings.keys; ++i) {
    const KeyRank pair = PairOf(i, partitions);
    pointers[i] = {pair.hash, i / partitions * 64, pair.rank};
  }
  const auto before = [](const Pointer& a, const Pointer& b) { return a.hash < b.hash; };
  const Stopwatch building;
  std::sort(pointers.begin(), pointers.end(), before);
  const auto count = static_cast<double>(settings.keys);
  measured->build_ns.push_back(building.Seconds() * 1e9 / count);
  std::string bytes;
  bytes.reserve(settings.keys * kPointerBytes);
  for (const Pointer& pointer : pointers) {
    bytes.append(reinterpret_cast<const char*>(&pointer.offset), sizeof pointer.offset);
    bytes.append(reinterpret_cast<const char*>(&pointer.rank), sizeof pointer.rank);
  }
  measured->bits = BitsPer(bytes.size(), settings.keys);
  measured->compressed_bits = BitsPer(CompressedBytes(bytes), settings.keys);
  const uint64_t questions = std::min(settings.questions, settings.keys);
  KeyRandom random(1);
  const Stopwatch asking;
  for (uint64_t i = 0; i < questions; ++i) {
    const KeyRank pair = PairOf(random.Below(settings.keys), partitions);
    const auto found =
        std::lower_bound(pointers.begin(), pointers.end(), Pointer{pair.hash, 0, 0}, before);
    if (found == pointers.end() || found->rank != pair.rank) {
      return Status(Code::kCorruption, "pointer: a key's rank is not the answer");
    }
  }
  measured->question_ns.push_back(asking.Seconds() * 1e9 / static_cast<double>(questions));
  measured->ranks_per_question = 1;
  return Status();
}

// Adds the bits in theory; for a cuckoo table, also at the point at which its size doubles.
void AddTheory(const std::string& format, uint32_t partitions, uint64_t keys, Json* results) {
  const double rank_bits = std::log2(partitions);
  if (format == "bloom") (*results)["theory_bits_per_key"] = Rounded(4 + rank_bits);
  if (format == "ribbon") (*results)["theory_bits_per_key"] = Rounded(rank_bits);
  if (format != "cuckoo") return;
  (*results)["theory_bits_per_key"] = Rounded((4 + rank_bits) / 0.95);
  const auto slots = std::bit_ceil(static_cast<uint64_t>(static_cast<double>(keys) / 0.95));
  (*results)["doubling_bits_per_key"] =
      Rounded((4 + rank_bits) * static_cast<double>(slots) / static_cast<double>(keys));
}

}  // namespace

Status RunMaps(const PartitionSettings& settings) {
  for (const uint32_t partitions : settings.partitions) {
    for (const std::string& format : settings.FormatsOf({"pointer", "bloom", "cuckoo", "ribbon"})) {
      Measured measured;
      for (int i = 0; i < settings.parallel.repetitions; ++i) {
        QUIRE_RETURN_IF_ERROR(format == "pointer"
                                  ? MeasurePointers(settings, partitions, &measured)
                                  : MeasureMap(settings, format, partitions, &measured));
      }
      Json results = {{"bits_per_key", Rounded(measured.bits)},
                      {"compressed_bits_per_key", Rounded(measured.compressed_bits)},
                      {"partitions_per_query", Rounded(measured.ranks_per_question)},
                      {"build_ns", Rounded(Median(measured.build_ns))},
                      {"query_ns", Rounded(Median(measured.question_ns))}};
      if (!measured.ordered_question_ns.empty()) {
        results["ordered_query_ns"] = Rounded(Median(measured.ordered_question_ns));
      }
      AddTheory(format, partitions, settings.keys, &results);
      PrintCase("partition",
                {{"figure", 7},
                 {"format", format},
                 {"partitions", partitions},
                 {"keys", settings.keys},
                 {"repetitions", settings.parallel.repetitions}},
                results);
    }
  }
  return Status();
}

}  // namespace quire::bench
