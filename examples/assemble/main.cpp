// assemble: builds the contigs of a genome from its reads, on all ranks. K-mers are counted by
// updates in one distributed database. Frequent k-mers become the graph in a second database; two
// more contain its walked segments and the contigs.
#include <mpi.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "../parallel_main.h"
#include "contigs.h"
#include "counting.h"
#include "graph.h"
#include "quire/mpi.h"
#include "reads.h"
#include "reference.h"
#include "walk.h"

namespace quire::assemble {
namespace {

struct Settings {
  std::vector<std::string> reads;
  int k = 21;
  unsigned count_min = 5;
  unsigned combine_bits = 20;
  std::string output = "contigs.fa";
  std::string reference;
  std::string repository = "assemble.quire";
  std::string transport = "auto";
  bool quiet = false;
};

// The results of all ranks together.
struct Totals {
  uint64_t reads = 0;
  uint64_t kmers = 0;
  uint64_t distinct_kmers = 0;
  uint64_t solid_kmers = 0;
};

class Assembler {
 public:
  Assembler(Context& context, const Settings& settings)
      : context_(context), settings_(settings), shape_(settings.k) {}

  Status Run() {
    QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<Database> counts,
                           OpenNew("counts", Protection::kUpdateOnly));
    QUIRE_RETURN_IF_ERROR(Count(*counts));
    QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<Database> nodes,
                           OpenNew("graph", Protection::kWriteOnly));
    Graph graph(*nodes, shape_);
    QUIRE_RETURN_IF_ERROR(Filter(*counts, graph));
    QUIRE_RETURN_IF_ERROR(CloseAndDestroy(std::move(counts)));
    QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<Database> contigs,
                           OpenNew("contigs", Protection::kReadWrite));
    QUIRE_RETURN_IF_ERROR(Walk(graph, *contigs));
    QUIRE_RETURN_IF_ERROR(Verify(graph));
    QUIRE_RETURN_IF_ERROR(Write(*contigs));
    QUIRE_RETURN_IF_ERROR(CloseAndDestroy(std::move(nodes)));
    return CloseAndDestroy(std::move(contigs));
  }

  /// The result line, on rank 0.
  nlohmann::ordered_json ResultLine() const {
    const auto or_null = [](const std::optional<Comparison>& compared, double Comparison::*field) {
      return compared ? nlohmann::ordered_json(*compared.*field) : nlohmann::ordered_json(nullptr);
    };
    return {{"ranks", context_.size()},
            {"reads", totals_.reads},
            {"distinct_kmers", totals_.distinct_kmers},
            {"solid_kmers", totals_.solid_kmers},
            {"contigs", assembly_.contig_count},
            {"n50", assembly_.n50},
            {"reference_covered", or_null(comparison_, &Comparison::covered)},
            {"identity", or_null(comparison_, &Comparison::identity)},
            {"seconds", Seconds()}};
  }

 private:
  double Seconds() const {
    const auto time = std::chrono::steady_clock::now() - begin_;
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
    return static_cast<double>(ms) * 1e-3;
  }

  void Say(const std::string& text) const {
    if (context_.rank() == 0 && !settings_.quiet) {
      std::fprintf(stderr, "[%7.3f s] %s\n", Seconds(), text.c_str());
    }
  }

  // Opens an empty database; removes what an earlier run left.
  Result<std::unique_ptr<Database>> OpenNew(const std::string& name, Protection protection) {
    const Status removed = context_.Destroy(name);
    if (!removed.ok() && removed.code() != Code::kNotFound) return removed;
    DatabaseOptions options;
    options.mode = OpenMode::kMustNotExist;
    options.protection = protection;
    // Rank 0 writes the file, in the order of the keys.
    if (name == "contigs") {
      options.partitioner = [](Slice, int) { return 0; };
      options.partitioner_name = "rank 0";
    }
    return context_.Open(name, options);
  }

  Status CloseAndDestroy(std::unique_ptr<Database> database) {
    const std::string name = database->name();
    QUIRE_RETURN_IF_ERROR(database->Close());
    database.reset();
    return context_.Destroy(name);
  }

  // Calls Context::Barrier first: a rank that waits in MPI itself might not answer other ranks.
  Result<uint64_t> Sum(uint64_t value) {
    QUIRE_RETURN_IF_ERROR(context_.Barrier());
    uint64_t sum = 0;
    MPI_Allreduce(&value, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    return sum;
  }

  Status Count(Database& counts) {
    QUIRE_RETURN_IF_ERROR(counts.RegisterUpdate(kAddCounts, AddCounts));
    QUIRE_RETURN_IF_ERROR(counts.Barrier(Level::kMemTable));
    KmerCounter counter(counts, shape_, settings_.combine_bits);
    uint64_t read_count = 0;
    for (const std::string& path : settings_.reads) {
      Say("counting k-mers of " + path);
      QUIRE_RETURN_IF_ERROR(CountFile(path, &counter, &read_count));
    }
    QUIRE_RETURN_IF_ERROR(counter.Flush());
    QUIRE_RETURN_IF_ERROR(counts.Barrier(Level::kMemTable));
    QUIRE_ASSIGN_OR_RETURN(totals_.reads, Sum(read_count));
    QUIRE_ASSIGN_OR_RETURN(totals_.kmers, Sum(counter.occurrence_count()));
    Say(std::to_string(totals_.reads) + " reads, " + std::to_string(totals_.kmers) +
        " k-mers counted");
    return Status();
  }

  // Every rank reads the file and takes its share of the sequences, in turns.
  Status CountFile(const std::string& path, KmerCounter* counter, uint64_t* read_count) {
    QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<SequenceReader> reader,
                           SequenceReader::Open(path));
    const auto ranks = static_cast<uint64_t>(context_.size());
    Slice sequence;
    for (uint64_t index = 0;; ++index) {
      const Status status = reader->Next(&sequence);
      if (status.code() == Code::kNotFound) return Status();
      QUIRE_RETURN_IF_ERROR(status);
      if (index % ranks != static_cast<uint64_t>(context_.rank())) continue;
      ++*read_count;
      QUIRE_RETURN_IF_ERROR(counter->Add(sequence));
      context_.Progress();
    }
  }

  // Makes frequent k-mers nodes, each at the rank that counted it.
  Status Filter(Database& counts, Graph& graph) {
    QUIRE_RETURN_IF_ERROR(graph.RegisterUpdates());
    uint64_t distinct = 0;
    uint64_t solid = 0;
    const std::unique_ptr<LocalIterator> iterator = counts.NewLocalIterator();
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
      QUIRE_ASSIGN_OR_RETURN(const KmerCounts kmer, KmerCounts::Decode(iterator->value()));
      ++distinct;
      if (kmer.count < settings_.count_min) continue;
      ++solid;
      QUIRE_RETURN_IF_ERROR(
          graph.Put(KmerShape::FromKey(iterator->key()), kmer, settings_.count_min));
    }
    QUIRE_RETURN_IF_ERROR(iterator->status());
    QUIRE_RETURN_IF_ERROR(graph.database().Barrier(Level::kMemTable));
    QUIRE_ASSIGN_OR_RETURN(totals_.distinct_kmers, Sum(distinct));
    QUIRE_ASSIGN_OR_RETURN(totals_.solid_kmers, Sum(solid));
    Say(std::to_string(totals_.distinct_kmers) + " distinct k-mers, " +
        std::to_string(totals_.solid_kmers) + " seen at least " +
        std::to_string(settings_.count_min) + " times");
    return Status();
  }

  Status Walk(Graph& graph, Database& contigs) {
    QUIRE_RETURN_IF_ERROR(graph.database().Protect(Protection::kReadOnly));
    QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<Database> segments,
                           OpenNew("segments", Protection::kReadWrite));
    QUIRE_RETURN_IF_ERROR(WalkSegments(graph, *segments));
    QUIRE_RETURN_IF_ERROR(segments->Barrier(Level::kMemTable));
    Say("graph walked");
    QUIRE_RETURN_IF_ERROR(graph.database().Protect(Protection::kUpdateOnly));
    QUIRE_RETURN_IF_ERROR(segments->Protect(Protection::kReadOnly));
    ContigStore store(contigs, graph);
    QUIRE_RETURN_IF_ERROR(JoinSegments(*segments, shape_, &store));
    QUIRE_RETURN_IF_ERROR(graph.database().Barrier(Level::kMemTable));
    QUIRE_RETURN_IF_ERROR(CloseAndDestroy(std::move(segments)));
    // K-mers that no path reached are on rings.
    std::vector<std::string> rings;
    QUIRE_RETURN_IF_ERROR(WalkRings(graph, &rings));
    for (const std::string& ring : rings) QUIRE_RETURN_IF_ERROR(store.Add(ring));
    QUIRE_RETURN_IF_ERROR(graph.database().Barrier(Level::kMemTable));
    return contigs.Barrier(Level::kMemTable);
  }

  // Checks that every k-mer kept is in exactly one contig, and that every k-mer of a contig was
  // kept.
  Status Verify(Graph& graph) {
    QUIRE_ASSIGN_OR_RETURN(const Check check, CheckMarks(graph));
    QUIRE_ASSIGN_OR_RETURN(const uint64_t kmers, Sum(check.kmer_count));
    QUIRE_ASSIGN_OR_RETURN(const uint64_t unmarked, Sum(check.unmarked_count));
    QUIRE_ASSIGN_OR_RETURN(const uint64_t repeated, Sum(check.repeated_count));
    if (kmers != totals_.solid_kmers || unmarked != 0 || repeated != 0) {
      return Status(Code::kCorruption,
                    "the contigs do not hold each kept k-mer exactly once: kept " +
                        std::to_string(totals_.solid_kmers) + ", in graph and contigs " +
                        std::to_string(kmers) + ", in none " + std::to_string(unmarked) +
                        ", in several " + std::to_string(repeated));
    }
    Say("checked: each of " + std::to_string(kmers) + " k-mers stands in exactly one contig");
    return Status();
  }

  Status Write(Database& contigs) {
    Status status;
    if (context_.rank() == 0) status = WriteOnRank0(contigs);
    return context_.Agree(status);
  }

  Status WriteOnRank0(Database& contigs) {
    QUIRE_ASSIGN_OR_RETURN(assembly_, WriteFasta(contigs, settings_.output));
    Say(std::to_string(assembly_.contig_count) +
        (assembly_.contig_count == 1 ? " contig" : " contigs") + ", the longest of " +
        std::to_string(assembly_.longest) + " bases, in " + settings_.output);
    if (settings_.reference.empty()) return Status();
    const Result<Comparison> compared = CompareWithReference(settings_.output, settings_.reference);
    if (compared.status().code() == Code::kUnsupported) {
      Say("not compared with the reference: " + compared.status().message());
      return Status();
    }
    QUIRE_RETURN_IF_ERROR(compared.status());
    comparison_ = *compared;
    Say("compared with " + settings_.reference + ": " + std::to_string(comparison_->block_count) +
        " aligned blocks");
    return Status();
  }

  Context& context_;
  const Settings& settings_;
  KmerShape shape_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  Totals totals_;
  Assembly assembly_;
  std::optional<Comparison> comparison_;
};

Status Assemble(const Settings& settings) {
  ContextOptions options;
  options.transport = settings.transport == "mpi" ? TransportChoice::kMpi : TransportChoice::kAuto;
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Context> context,
                         OpenContext(MPI_COMM_WORLD, settings.repository, options));
  if (context->rank() == 0 && !settings.quiet) {
    std::fprintf(stderr, "assemble: %d ranks, %s\n", context->size(),
                 context->Description().c_str());
  }
  Assembler assembler(*context, settings);
  QUIRE_RETURN_IF_ERROR(assembler.Run());
  if (context->rank() == 0) std::printf("%s\n", assembler.ResultLine().dump().c_str());
  return Status();
}

void AddOptions(CLI::App& app, Settings* settings) {
  app.add_option("reads", settings->reads, "FASTA or FASTQ files, plain or gzip")->required();
  app.add_option("-k", settings->k, "bases of a k-mer")
      ->check(CLI::Range(1, kKmerBasesMax))
      ->capture_default_str();
  app.add_option("--min-count", settings->count_min, "rarer k-mers are taken for errors")
      ->check(CLI::Range(1, 255))
      ->capture_default_str();
  app.add_option("--output", settings->output, "the contigs, FASTA")->capture_default_str();
  app.add_option("--reference", settings->reference, "a known genome to compare with, FASTA");
  app.add_option("--repository", settings->repository, "folder for the databases")
      ->capture_default_str();
  app.add_option("--transport", settings->transport,
                 "auto: shared memory within a node; mpi: MPI everywhere")
      ->check(CLI::IsMember({"auto", "mpi"}))
      ->envname("QUIRE_TRANSPORT")
      ->capture_default_str();
  app.add_option("--combine-bits", settings->combine_bits,
                 "counts are added up in 2^n slots per rank before they are sent; 0: none")
      ->check(CLI::Range(0, 30))
      ->capture_default_str();
  app.add_flag("--quiet", settings->quiet, "no progress on standard error");
}

int Main(int argc, char** argv) {
  CLI::App app(
      "De novo assembly: the contigs are the paths without branches in the de Bruijn graph of "
      "those k-mers that\n"
      "occur often enough. Progress goes to standard error, the last line of standard output is "
      "JSON.");
  Settings settings;
  AddOptions(app, &settings);
  CLI11_PARSE(app, argc, argv);
  return examples::ParallelMain("assemble", [&settings] { return Assemble(settings); });
}

}  // namespace
}  // namespace quire::assemble

int main(int argc, char** argv) {
  return quire::assemble::Main(argc, argv);
}
