// The parallel database: put, barrier, get, by all ranks (SC17, figures 6 and 7).
#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "commands.h"
#include "memory_watch.h"
#include "pairs.h"
#include "ranks.h"
#include "samples.h"

namespace quire::bench {
namespace {

struct Settings {
  ParallelSettings parallel;
  size_t key_bytes = 16;
  std::vector<size_t> value_bytes = {8, 1024, 128 * 1024};
  uint64_t count = 10'000;
  int threads = 1;
  std::string level = "sstable";
  std::string consistency = "relaxed";
  std::string log = "on";
  std::string search = "tagged";
  bool direct_reads = true;
};

// Rates over all ranks, one entry per repetition.
using Rates = std::map<std::string, std::vector<double>>;

DatabaseOptions OptionsFor(const Settings& settings) {
  DatabaseOptions options;
  options.mode = OpenMode::kMustNotExist;
  options.consistency =
      settings.consistency == "sequential" ? Consistency::kSequential : Consistency::kRelaxed;
  options.storage.wal = settings.log == "off" ? WalMode::kOff : WalMode::kOn;
  options.group_size = settings.direct_reads ? 0 : 1;
  options.storage.search = SearchOf(settings.search);
  return options;
}

class Pass {
 public:
  Pass(Ranks& ranks, const Settings& settings, size_t value_bytes)
      : ranks_(ranks),
        settings_(settings),
        first_key_(static_cast<uint64_t>(ranks.rank()) * settings.count),
        value_bytes_(value_bytes) {}

  Status Run(Rates* rates) {
    QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<Database> database,
                           ranks_.context().Open("basic", OptionsFor(settings_)));
    QUIRE_RETURN_IF_ERROR(ranks_.context().Barrier());
    const MemoryWatch memory;
    Stopwatch watch;
    QUIRE_RETURN_IF_ERROR(PutAll(*database));
    const double put_seconds = watch.Seconds();
    QUIRE_RETURN_IF_ERROR(
        database->Barrier(settings_.level == "memtable" ? Level::kMemTable : Level::kSsTable));
    const double barrier_seconds = watch.Seconds();
    watch.Restart();
    QUIRE_RETURN_IF_ERROR(GetAll(*database));
    const double get_seconds = watch.Seconds();
    QUIRE_RETURN_IF_ERROR(Note("put", put_seconds, rates));
    QUIRE_RETURN_IF_ERROR(Note("put_barrier", barrier_seconds, rates));
    QUIRE_RETURN_IF_ERROR(Note("get", get_seconds, rates));
    QUIRE_RETURN_IF_ERROR(NoteMemory(memory.Peak(), database->GetStatistics(), rates));
    QUIRE_RETURN_IF_ERROR(database->Close());
    database.reset();
    return ranks_.context().Destroy("basic");
  }

 private:
  // Runs `work` on --threads threads, each with a part of this rank's keys.
  Status OnThreads(const std::function<Status(uint64_t begin, uint64_t end)>& work) {
    const auto count = static_cast<uint64_t>(settings_.threads);
    std::vector<Status> done(count);
    std::vector<std::thread> threads;
    for (uint64_t t = 0; t < count; ++t) {
      const uint64_t begin = first_key_ + settings_.count * t / count;
      const uint64_t end = first_key_ + settings_.count * (t + 1) / count;
      if (t + 1 == count) {
        done[t] = work(begin, end);
      } else {
        threads.emplace_back([&work, &done, begin, end, t] { done[t] = work(begin, end); });
      }
    }
    for (std::thread& thread : threads) thread.join();
    for (const Status& status : done) QUIRE_RETURN_IF_ERROR(status);
    return Status();
  }

  Status PutAll(Database& database) {
    return OnThreads([&](uint64_t begin, uint64_t end) -> Status {
      return Pairs(settings_.key_bytes, value_bytes_).PutAll(database, begin, end - begin);
    });
  }

  // Gets the pairs that this rank has put, in another order.
  Status GetAll(Database& database) {
    return OnThreads([&](uint64_t begin, uint64_t end) -> Status {
      std::vector<uint64_t> order(end - begin);
      std::iota(order.begin(), order.end(), begin);
      KeyRandom random(begin + 1);
      for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.Below(i)]);
      Pairs pairs(settings_.key_bytes, value_bytes_);
      for (const uint64_t i : order) QUIRE_RETURN_IF_ERROR(pairs.Get(database, i));
      return Status();
    });
  }

  // Notes the time of the slowest rank.
  Status Note(const std::string& what, double seconds, Rates* rates) {
    QUIRE_ASSIGN_OR_RETURN(const double slowest, ranks_.Max(seconds));
    const double count = static_cast<double>(settings_.count) * ranks_.size();
    (*rates)[what].push_back(count / slowest);
    return Status();
  }

  Status NoteMemory(const ResidentBytes& peak, const Statistics& statistics, Rates* rates) {
    QUIRE_ASSIGN_OR_RETURN(const double held, ranks_.Max(static_cast<double>(peak.held)));
    QUIRE_ASSIGN_OR_RETURN(const double mapped, ranks_.Max(static_cast<double>(peak.mapped)));
    (*rates)["memory_held_peak_bytes"].push_back(held);
    (*rates)["memory_mapped_peak_bytes"].push_back(mapped);
    for (const std::string name : {"limit", "planned"}) {
      const auto found = statistics.find("memory." + name);
      const double bytes = found == statistics.end() ? 0 : static_cast<double>(found->second);
      (*rates)["memory_" + name + "_bytes"].push_back(bytes);
    }
    return Status();
  }

  Ranks& ranks_;
  const Settings& settings_;
  uint64_t first_key_;
  size_t value_bytes_;
};

Status RunBasic(const Settings& settings) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Ranks> ranks, Ranks::Open(settings.parallel));
  std::map<size_t, Rates> rates;
  for (int repetition = 0; repetition < settings.parallel.repetitions; ++repetition) {
    for (const size_t value_bytes : settings.value_bytes) {
      QUIRE_RETURN_IF_ERROR(Pass(*ranks, settings, value_bytes).Run(&rates[value_bytes]));
    }
  }
  for (auto& [value_bytes, measured] : rates) {
    Json results;
    const auto pair_bytes = static_cast<double>(settings.key_bytes + value_bytes);
    for (const std::string what : {"put", "put_barrier", "get"}) {
      const double rate = Median(measured[what]);
      results[what + "_ops_per_s"] = Rounded(rate);
      results[what + "_mb_per_s"] = Rounded(rate * pair_bytes / 1e6);
    }
    for (const auto& [name, numbers] : measured) {
      if (name.rfind("memory_", 0) == 0) results[name] = static_cast<uint64_t>(Median(numbers));
    }
    PrintCase(*ranks, "basic",
              {{"key_bytes", settings.key_bytes},
               {"value_bytes", value_bytes},
               {"count", settings.count},
               {"level", settings.level},
               {"consistency", settings.consistency},
               {"log", settings.log},
               {"search", settings.search},
               {"threads", settings.threads},
               {"direct_reads", settings.direct_reads}},
              results);
  }
  return Status();
}

}  // namespace

Command AddBasic(CLI::App& app) {
  auto settings = std::make_shared<Settings>();
  CLI::App* sub = app.add_subcommand("basic",
                                     "The parallel database, all ranks at once: each puts --count "
                                     "pairs with keys of its own, whose\n"
                                     "owners are all ranks; then a barrier to --level; then each "
                                     "gets what it has put, in another\n"
                                     "order, and compares. Told: operations and MB per second over "
                                     "all ranks, of the puts, of puts\n"
                                     "and barrier together, of the gets; the memory of the fullest "
                                     "rank. (SC17, figures 6 and 7.)");
  AddKeyBytes(*sub, &settings->key_bytes);
  sub->add_option("--value-bytes", settings->value_bytes, "sizes of values")
      ->delimiter(',')
      ->capture_default_str();
  sub->add_option("--count", settings->count, "pairs per rank")->capture_default_str();
  sub->add_option("--threads", settings->threads, "of each rank, which share its pairs")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  sub->add_option("--level", settings->level, "how far the barrier goes")
      ->check(CLI::IsMember({"memtable", "sstable"}))
      ->capture_default_str();
  sub->add_option("--consistency", settings->consistency, "of the puts")
      ->check(CLI::IsMember({"relaxed", "sequential"}))
      ->capture_default_str();
  sub->add_option("--log", settings->log, "write-ahead log")
      ->check(CLI::IsMember({"on", "off"}))
      ->capture_default_str();
  sub->add_option("--search", settings->search, "how tables are searched (SC17, figure 8)")
      ->check(CLI::IsMember(SearchNames()))
      ->capture_default_str();
  sub->add_option("--direct-reads", settings->direct_reads,
                  "gets read what ranks of the node own without a message (SC17, figure 8)")
      ->capture_default_str();
  AddParallelOptions(*sub, &settings->parallel);
  return {sub, [settings] { return RunBasic(*settings); }, true};
}

}  // namespace quire::bench
