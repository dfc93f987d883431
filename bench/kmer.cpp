// Counting k-mers: through updates of a Quire database, and by a hand-written MPI program, in
// turns.
#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <vector>

#include "commands.h"
#include "counting.h"
#include "keys.h"
#include "kmer_exchange.h"
#include "ranks.h"
#include "reads.h"
#include "samples.h"

namespace quire::bench {
namespace {

using assemble::Kmer;
using assemble::KmerCounts;
using assemble::KmerShape;
using Reads = std::vector<std::string>;

struct Settings {
  ParallelSettings parallel;
  int k = 21;
  std::vector<std::string> files;
  int copies = 1;
  uint64_t genome_bases = 200'000;
  double coverage = 40;
  size_t read_bases = 150;
  double error_rate = 0.01;
  std::vector<unsigned> combine_bits = {20, 0};
  std::string log = "on";
};

// This rank's share of reads drawn from a random genome, with errors.
Reads SimulateReads(const Settings& settings, const Ranks& ranks) {
  KeyRandom genome_random(1);
  std::string genome(settings.genome_bases, 'A');
  for (char& base : genome) base = assemble::BaseLetter(genome_random.Below(4) & 3u);
  KeyRandom random(static_cast<uint64_t>(ranks.rank()) + 2);
  const double bases = static_cast<double>(settings.genome_bases) * settings.coverage;
  const auto count =
      static_cast<uint64_t>(bases / static_cast<double>(settings.read_bases) / ranks.size());
  const auto error_bound = static_cast<uint64_t>(settings.error_rate * 1e6);
  Reads reads;
  for (uint64_t n = 0; n < count; ++n) {
    const uint64_t begin = random.Below(settings.genome_bases - settings.read_bases + 1);
    std::string read = genome.substr(begin, settings.read_bases);
    for (char& base : read) {
      if (random.Below(1'000'000) < error_bound) base = assemble::BaseLetter(random.Below(4) & 3u);
    }
    reads.push_back(std::move(read));
  }
  return reads;
}

// This rank's share of the files' reads, `copies` times.
Result<Reads> LoadReads(const Settings& settings, const Ranks& ranks) {
  Reads reads;
  for (const std::string& path : settings.files) {
    QUIRE_ASSIGN_OR_RETURN(const auto reader, assemble::SequenceReader::Open(path));
    Slice sequence;
    for (int index = 0;; ++index) {
      const Status status = reader->Next(&sequence);
      if (status.code() == Code::kNotFound) break;
      QUIRE_RETURN_IF_ERROR(status);
      if (index % ranks.size() != ranks.rank()) continue;
      for (int copy = 0; copy < settings.copies; ++copy) reads.emplace_back(sequence);
    }
  }
  return reads;
}

// The counts as one number: the same for every method, and for every distribution over ranks.
class Digest {
 public:
  void Add(Kmer kmer, const KmerCounts& counts) {
    char bytes[KmerCounts::kBytes];
    counts.Encode(bytes);
    uint64_t hash = assemble::MixKmer(kmer);
    for (const char byte : bytes) hash = Mix64(hash ^ static_cast<unsigned char>(byte));
    sum_ += hash >> 48;  // small enough for sums of doubles to be exact
    ++count_;
  }
  Status Over(Ranks& ranks) {
    QUIRE_ASSIGN_OR_RETURN(all_sum_, ranks.Sum(static_cast<double>(sum_)));
    QUIRE_ASSIGN_OR_RETURN(all_count_, ranks.Sum(static_cast<double>(count_)));
    return Status();
  }
  double all_count() const { return all_count_; }
  bool operator==(const Digest& other) const {
    return all_sum_ == other.all_sum_ && all_count_ == other.all_count_;
  }

 private:
  uint64_t sum_ = 0;
  uint64_t count_ = 0;
  double all_sum_ = 0;
  double all_count_ = 0;
};

struct Turn {
  double seconds = 0;  // of the slowest rank
  Digest digest;
};

Result<Turn> ByExchange(Ranks& ranks, const KmerShape& shape, const Reads& reads) {
  QUIRE_RETURN_IF_ERROR(ranks.context().Barrier());
  KmerTable table;
  const Stopwatch watch;
  CountByExchange(reads, shape, MPI_COMM_WORLD, &table);
  Turn turn;
  QUIRE_ASSIGN_OR_RETURN(turn.seconds, ranks.Max(watch.Seconds()));
  table.ForEach([&](Kmer kmer, const KmerCounts& counts) { turn.digest.Add(kmer, counts); });
  QUIRE_RETURN_IF_ERROR(turn.digest.Over(ranks));
  return turn;
}

Result<Turn> ByUpdates(Ranks& ranks, const Settings& settings, const Reads& reads,
                       unsigned combine_bits) {
  DatabaseOptions options;
  options.mode = OpenMode::kMustNotExist;
  options.protection = Protection::kUpdateOnly;
  options.storage.wal = settings.log == "off" ? WalMode::kOff : WalMode::kOn;
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<Database> database, ranks.context().Open("kmer", options));
  QUIRE_RETURN_IF_ERROR(database->RegisterUpdate(assemble::kAddCounts, assemble::AddCounts));
  QUIRE_RETURN_IF_ERROR(database->Barrier(Level::kMemTable));
  const Stopwatch watch;
  assemble::KmerCounter counter(*database, KmerShape(settings.k), combine_bits);
  for (const std::string& read : reads) QUIRE_RETURN_IF_ERROR(counter.Add(read));
  QUIRE_RETURN_IF_ERROR(counter.Flush());
  QUIRE_RETURN_IF_ERROR(database->Barrier(Level::kMemTable));
  Turn turn;
  QUIRE_ASSIGN_OR_RETURN(turn.seconds, ranks.Max(watch.Seconds()));
  {
    const std::unique_ptr<LocalIterator> iterator = database->NewLocalIterator();
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
      QUIRE_ASSIGN_OR_RETURN(const KmerCounts counts, KmerCounts::Decode(iterator->value()));
      turn.digest.Add(KmerShape::FromKey(iterator->key()), counts);
    }
    QUIRE_RETURN_IF_ERROR(iterator->status());
  }
  QUIRE_RETURN_IF_ERROR(turn.digest.Over(ranks));
  QUIRE_RETURN_IF_ERROR(database->Close());
  database.reset();
  QUIRE_RETURN_IF_ERROR(ranks.context().Destroy("kmer"));
  return turn;
}

constexpr int kByExchange = -1;  // else the bits of the table in which counts are added up first

Json Params(const Settings& settings, int way) {
  Json params = {{"way", way == kByExchange ? "alltoallv" : "quire"}};
  if (way != kByExchange) params["combine_bits"] = way;
  params.update(
      {{"k", settings.k},
       {"reads", settings.files.empty() ? "simulated" : "files"},
       {"genome_bases", settings.files.empty() ? Json(settings.genome_bases) : Json(nullptr)},
       {"coverage", settings.files.empty() ? Json(settings.coverage) : Json(nullptr)},
       {"copies", settings.copies},
       {"log", settings.log}});
  return params;
}

Status RunKmer(const Settings& settings) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Ranks> ranks, Ranks::Open(settings.parallel));
  Reads reads;
  if (settings.files.empty()) {
    reads = SimulateReads(settings, *ranks);
  } else {
    QUIRE_ASSIGN_OR_RETURN(reads, LoadReads(settings, *ranks));
  }
  const KmerShape shape(settings.k);
  uint64_t own_count = 0;
  for (const std::string& read : reads) {
    assemble::ForEachKmer(shape, read, [&](const assemble::KmerInRead&) { ++own_count; });
  }
  QUIRE_ASSIGN_OR_RETURN(const double kmer_count, ranks->Sum(static_cast<double>(own_count)));
  std::map<int, std::vector<double>> rates;
  double distinct = 0;
  for (int repetition = 0; repetition < settings.parallel.repetitions; ++repetition) {
    QUIRE_ASSIGN_OR_RETURN(const Turn by_hand, ByExchange(*ranks, shape, reads));
    rates[kByExchange].push_back(kmer_count / by_hand.seconds);
    distinct = by_hand.digest.all_count();
    for (const unsigned bits : settings.combine_bits) {
      QUIRE_ASSIGN_OR_RETURN(const Turn by_quire, ByUpdates(*ranks, settings, reads, bits));
      rates[static_cast<int>(bits)].push_back(kmer_count / by_quire.seconds);
      if (!(by_quire.digest == by_hand.digest)) {
        return Status(Code::kCorruption, "the two ways counted differently");
      }
    }
  }
  const double by_hand = Median(rates[kByExchange]);
  for (const auto& [way, measured] : rates) {
    const double rate = Median(measured);
    PrintCase(*ranks, "kmer", Params(settings, way),
              {{"kmers_per_s", Rounded(rate)},
               {"ratio_to_alltoallv", Rounded(rate / by_hand, 3)},
               {"kmers", kmer_count},
               {"distinct_kmers", distinct}});
  }
  return Status();
}

}  // namespace

Command AddKmer(CLI::App& app) {
  auto settings = std::make_shared<Settings>();
  CLI::App* sub = app.add_subcommand(
      "kmer",
      "Counting the k-mers of reads that are in memory, and the bases beside them, in two ways "
      "that\n"
      "take turns: by a hand-written program that exchanges them in rounds of MPI_Alltoallv and "
      "counts\n"
      "in a local hash table; by updates of a Quire database, with --combine-bits 0 one update "
      "per\n"
      "k-mer, else counts are added up in 2^n slots per rank first, as the example assemble does.\n"
      "Both must count the same. Told: k-mers per second over all ranks, and the ratio.");
  sub->add_option("--k", settings->k, "bases of a k-mer")
      ->check(CLI::Range(1, 29))
      ->capture_default_str();
  sub->add_option("--reads", settings->files, "FASTA or FASTQ files instead of simulated reads");
  sub->add_option("--copies", settings->copies, "each read of the files so many times")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  sub->add_option("--genome-bases", settings->genome_bases, "of the random genome")
      ->check(CLI::Range(1000, 2'000'000'000))
      ->capture_default_str();
  sub->add_option("--coverage", settings->coverage, "bases of reads per base of the genome")
      ->capture_default_str();
  sub->add_option("--read-bases", settings->read_bases, "length of a read")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  sub->add_option("--error-rate", settings->error_rate, "per base")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  sub->add_option("--combine-bits", settings->combine_bits, "see above")
      ->delimiter(',')
      ->check(CLI::Range(0, 30))
      ->capture_default_str();
  sub->add_option("--log", settings->log, "write-ahead log")
      ->check(CLI::IsMember({"on", "off"}))
      ->capture_default_str();
  AddParallelOptions(*sub, &settings->parallel);
  return {sub, [settings] { return RunKmer(*settings); }, true};
}

}  // namespace quire::bench
