#include "cr_pass.h"

#include "file_copy.h"
#include "pairs.h"
#include "quire/mpi.h"

namespace quire::bench {
namespace {

constexpr char kName[] = "cr";
constexpr double kQuietSecondsMax = 600;
constexpr uint64_t kGetCount = 100;

DatabaseOptions Existing(bool redistribute) {
  DatabaseOptions options;
  options.mode = OpenMode::kMustExist;
  options.redistribute = redistribute;
  return options;
}

Status WaitFor(Result<std::unique_ptr<Event>> event) {
  return event.ok() ? (*event)->Wait() : event.status();
}

// Creates a database of `count` pairs for each rank of the context, and closes it.
Status FillWith(Context& context, const CrSettings& settings, const std::string& name,
                uint64_t count) {
  DatabaseOptions options;
  options.mode = OpenMode::kMustNotExist;
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Database> database, context.Open(name, options));
  Pairs pairs(settings.key_bytes, settings.value_bytes);
  QUIRE_RETURN_IF_ERROR(
      pairs.PutAll(*database, count * static_cast<uint64_t>(context.rank()), count));
  return database->Close();
}

// Opens a Context of the first ranks; null on the other ranks.
Result<std::unique_ptr<Context>> OpenSmaller(Ranks& ranks, int count) {
  QUIRE_RETURN_IF_ERROR(ranks.context().Barrier());
  MPI_Comm part = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, ranks.rank() < count ? 0 : MPI_UNDEFINED, ranks.rank(), &part);
  if (part == MPI_COMM_NULL) return std::unique_ptr<Context>();
  Result<std::unique_ptr<Context>> context = OpenContext(part, ranks.context().repository());
  MPI_Comm_free(&part);
  return context;
}

class Pass {
 public:
  Pass(CrBench& bench, int repetition, CrSamples* samples)
      : bench_(bench),
        ranks_(bench.ranks()),
        settings_(bench.settings()),
        samples_(*samples),
        key_count_(settings_.count * static_cast<uint64_t>(ranks_.size())),
        pairs_(settings_.key_bytes, settings_.value_bytes, static_cast<uint64_t>(repetition) + 2),
        random_(static_cast<uint64_t>(repetition * ranks_.size() + ranks_.rank())) {}

  // Copies with cp are measured beside a checkpoint, of the files that it reads, and beside a
  // restart, of the files that that reads.
  Status Run(bool sync_first) {
    QUIRE_RETURN_IF_ERROR(bench_.Fill(kName, settings_.count));
    QUIRE_RETURN_IF_ERROR(OpenAll(false));
    QUIRE_RETURN_IF_ERROR(WaitUntilQuiet(kQuietSecondsMax));
    QUIRE_RETURN_IF_ERROR(Checkpoint("checkpoint"));
    QUIRE_RETURN_IF_ERROR(CopyBoth(bench_.DatabaseDirectory(kName) + "/gen-1", "", sync_first));
    QUIRE_RETURN_IF_ERROR(Change());
    QUIRE_RETURN_IF_ERROR(Checkpoint("checkpoint_changed"));
    QUIRE_RETURN_IF_ERROR(Remove());
    QUIRE_RETURN_IF_ERROR(Restart());
    QUIRE_RETURN_IF_ERROR(CopyBoth(CheckpointDirectory(1), "_checkpoint", sync_first));
    QUIRE_RETURN_IF_ERROR(Remove());
    QUIRE_RETURN_IF_ERROR(RestartRedistributed());
    QUIRE_RETURN_IF_ERROR(Remove());
    QUIRE_RETURN_IF_ERROR(OpenElastic("elastic_checkpoint"));
    if (settings_.elastic_ranks == ranks_.size()) return Status();
    QUIRE_RETURN_IF_ERROR(RestartUntimed());
    QUIRE_RETURN_IF_ERROR(OpenElastic("elastic_repository"));
    QUIRE_RETURN_IF_ERROR(FillBySome());
    return OpenByMore();
  }

 private:
  void Note(const std::string& what, const std::string& quantity, double value) {
    samples_[what][quantity].push_back(value);
  }
  std::string CheckpointDirectory(int number) const {
    return bench_.CheckpointPath() + "/" + kName + "/" + std::to_string(number);
  }
  std::string PartOf(const std::string& directory) const {
    return directory + "/rank-" + std::to_string(ranks_.rank());
  }

  Status OpenAll(bool redistribute) {
    QUIRE_ASSIGN_OR_RETURN(database_, ranks_.context().Open(kName, Existing(redistribute)));
    return Status();
  }

  Status Remove() {
    QUIRE_RETURN_IF_ERROR(database_->Close());
    database_.reset();
    return ranks_.context().Destroy(kName);
  }

  Status Checkpoint(const std::string& what) {
    QUIRE_RETURN_IF_ERROR(bench_.Settle(bench_.DatabaseDirectory(kName)));
    double returned = 0;
    const auto work = [&]() -> Status {
      const Stopwatch watch;
      QUIRE_ASSIGN_OR_RETURN(const auto event, database_->Checkpoint(bench_.CheckpointPath(), {}));
      returned = watch.Seconds();
      return event->Wait();
    };
    QUIRE_ASSIGN_OR_RETURN(const double seconds, ranks_.Time(work));
    QUIRE_ASSIGN_OR_RETURN(const double call_seconds, ranks_.Max(returned));
    ++checkpoint_;
    QUIRE_ASSIGN_OR_RETURN(const FileBytes part,
                           CountFileBytes(PartOf(CheckpointDirectory(checkpoint_))));
    QUIRE_ASSIGN_OR_RETURN(const double bytes, ranks_.Sum(static_cast<double>(part.all)));
    QUIRE_ASSIGN_OR_RETURN(const double copied, ranks_.Sum(static_cast<double>(part.single)));
    Note(what, "call_seconds", call_seconds);
    Note(what, "seconds", seconds);
    Note(what, "bytes", bytes);
    Note(what, "copied_bytes", copied);
    return Status();
  }

  Status CopyBoth(const std::string& directory, const std::string& of, bool sync_first) {
    QUIRE_RETURN_IF_ERROR(Copy(directory, (sync_first ? "cp_sync" : "cp") + of, sync_first));
    return Copy(directory, (sync_first ? "cp" : "cp_sync") + of, !sync_first);
  }

  // Each rank copies its part.
  Status Copy(const std::string& directory, const std::string& what, bool sync) {
    QUIRE_RETURN_IF_ERROR(bench_.Settle(directory));
    const std::string target = ranks_.folder() + "/copy-" + std::to_string(ranks_.rank());
    const auto work = [&] { return CopyFiles(PartOf(directory), target, sync).status(); };
    QUIRE_ASSIGN_OR_RETURN(const double seconds, ranks_.Time(work));
    Note(what, "seconds", seconds);
    return RemoveTree(target);
  }

  // Changes change_percent of this rank's keys.
  Status Change() {
    const uint64_t begin = settings_.count * static_cast<uint64_t>(ranks_.rank());
    const auto percent = static_cast<uint64_t>(settings_.change_percent);
    for (uint64_t n = 0; n < settings_.count; ++n) {
      if (n * percent % 100 >= percent) continue;
      QUIRE_RETURN_IF_ERROR(pairs_.Put(*database_, begin + n));
    }
    return database_->Barrier(Level::kMemTable);
  }

  Status Restart() {
    QUIRE_RETURN_IF_ERROR(bench_.Settle(CheckpointDirectory(1)));
    QUIRE_ASSIGN_OR_RETURN(const double seconds, ranks_.Time([&] { return RestartUntimed(); }));
    QUIRE_ASSIGN_OR_RETURN(const double open_seconds, ranks_.Time([&] { return OpenAll(false); }));
    Note("restart", "seconds", seconds + open_seconds);
    Note("restart", "open_seconds", open_seconds);
    return Gets(*database_);
  }

  Status RestartUntimed() {
    return WaitFor(
        ranks_.context().Restart(bench_.CheckpointPath(), kName, {1, /*in_place=*/false}));
  }

  // Reads the checkpoint in place: then every pair moves, whatever the number of ranks.
  Status RestartRedistributed() {
    QUIRE_RETURN_IF_ERROR(bench_.Settle(CheckpointDirectory(1)));
    const auto work = [&]() -> Status {
      QUIRE_RETURN_IF_ERROR(WaitFor(
          ranks_.context().Restart(bench_.CheckpointPath(), kName, {1, /*in_place=*/true})));
      return OpenAll(true);
    };
    QUIRE_ASSIGN_OR_RETURN(const double seconds, ranks_.Time(work));
    Note("restart_redistributed", "seconds", seconds);
    return Gets(*database_);
  }

  // Opens with some of the ranks: the checkpoint in place, or the repository's database.
  Status OpenElastic(const std::string& what) {
    const bool checkpoint = what == "elastic_checkpoint";
    QUIRE_RETURN_IF_ERROR(
        bench_.Settle(checkpoint ? CheckpointDirectory(1) : bench_.DatabaseDirectory(kName)));
    QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Context> context,
                           OpenSmaller(ranks_, settings_.elastic_ranks));
    double open_seconds = 0;
    double get_seconds = 0;
    if (context != nullptr) {
      const Stopwatch watch;
      if (checkpoint) {
        QUIRE_RETURN_IF_ERROR(
            WaitFor(context->Restart(bench_.CheckpointPath(), kName, {1, /*in_place=*/true})));
      }
      QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Database> database,
                             context->Open(kName, Existing(false)));
      open_seconds = watch.Seconds();
      QUIRE_RETURN_IF_ERROR(GetOne(*database));
      get_seconds = watch.Seconds() - open_seconds;
      QUIRE_RETURN_IF_ERROR(Gets(*database));
      QUIRE_RETURN_IF_ERROR(database->Close());
    }
    if (context != nullptr) QUIRE_RETURN_IF_ERROR(context->Destroy(kName));
    QUIRE_ASSIGN_OR_RETURN(const double slowest_open, ranks_.Max(open_seconds));
    QUIRE_ASSIGN_OR_RETURN(const double slowest_get, ranks_.Max(get_seconds));
    Note(what, "open_seconds", slowest_open);
    Note(what, "first_get_seconds", slowest_get);
    return Status();
  }

  // Puts the same keys from fewer ranks.
  Status FillBySome() {
    QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Context> context,
                           OpenSmaller(ranks_, settings_.elastic_ranks));
    if (context == nullptr) return Status();
    const auto writers = static_cast<uint64_t>(settings_.elastic_ranks);
    return FillWith(*context, settings_, kName, (key_count_ + writers - 1) / writers);
  }

  // Opens on all ranks what some of them wrote.
  Status OpenByMore() {
    QUIRE_RETURN_IF_ERROR(bench_.Settle(bench_.DatabaseDirectory(kName)));
    QUIRE_ASSIGN_OR_RETURN(const double open_seconds, ranks_.Time([&] { return OpenAll(false); }));
    QUIRE_ASSIGN_OR_RETURN(const double get_seconds,
                           ranks_.Time([&] { return GetOne(*database_); }));
    Note("elastic_more", "open_seconds", open_seconds);
    Note("elastic_more", "first_get_seconds", get_seconds);
    QUIRE_RETURN_IF_ERROR(Gets(*database_));
    return Remove();
  }

  // Values of the fill or of the change.
  Status GetOne(Database& database) { return pairs_.Get(database, random_.Below(key_count_)); }
  Status Gets(Database& database) {
    for (uint64_t n = 0; n < kGetCount; ++n) QUIRE_RETURN_IF_ERROR(GetOne(database));
    return Status();
  }

  CrBench& bench_;
  Ranks& ranks_;
  const CrSettings& settings_;
  CrSamples& samples_;
  const uint64_t key_count_;
  Pairs pairs_;
  KeyRandom random_;
  std::unique_ptr<Database> database_;
  int checkpoint_ = 0;
};

}  // namespace

CrBench::CrBench(Ranks& ranks, const CrSettings& settings) : ranks_(ranks), settings_(settings) {}

Status CrBench::Fill(const std::string& name, uint64_t count) {
  return FillWith(ranks_.context(), settings_, name, count);
}

Status CrBench::Settle(const std::string& directory) {
  QUIRE_RETURN_IF_ERROR(ranks_.context().Barrier());
  if (ranks_.IsFirst()) {
    QUIRE_RETURN_IF_ERROR(SyncFileSystem(directory));
    QUIRE_RETURN_IF_ERROR(SetPageCache(directory, settings_.cache == "warm"));
  }
  QUIRE_RETURN_IF_ERROR(ranks_.context().Barrier());
  // This rank next reads and writes at most this much.
  QUIRE_ASSIGN_OR_RETURN(const FileBytes bytes, CountFileBytes(directory));
  QUIRE_RETURN_IF_ERROR(
      TouchPageCache(ranks_.folder() + "/touched-" + std::to_string(ranks_.rank()),
                     bytes.all / static_cast<uint64_t>(ranks_.size()) * 5 / 2));
  return ranks_.context().Barrier();
}

std::string CrBench::DatabaseDirectory(const std::string& name) const {
  return ranks_.context().repository() + "/" + name;
}

Status RunCrPass(CrBench& bench, int repetition, CrSamples* samples) {
  QUIRE_RETURN_IF_ERROR(Pass(bench, repetition, samples).Run(repetition % 2 == 1));
  // The next pass begins with checkpoint 1 again.
  QUIRE_RETURN_IF_ERROR(bench.ranks().context().Barrier());
  if (bench.ranks().IsFirst()) QUIRE_RETURN_IF_ERROR(RemoveTree(bench.CheckpointPath()));
  return bench.ranks().context().Barrier();
}

}  // namespace quire::bench
