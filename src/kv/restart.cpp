#include "kv/restart.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/coding.h"
#include "base/log_sink.h"
#include "kv/agreement.h"
#include "kv/checkpoint.h"
#include "kv/checkpoint_files.h"
#include "kv/locked_database.h"
#include "kv/part_files.h"
#include "kv/transfer.h"
#include "lsm/db.h"

namespace quire::kv {
namespace {

// A checkpoint that may be restarted from.
struct Candidate {
  uint64_t number = 0;
  std::string directory;
  CommitRecord record;
};

constexpr char kNext[] = "next";  // rank 0's news: this one is damaged
constexpr char kDone[] = "done";

void LogPassedOver(const Candidate& candidate, const std::string& why) {
  if (!base::LogEnabled()) return;
  base::Log(LogLevel::kError, "checkpoint " + std::to_string(candidate.number) + " in " +
                                  candidate.directory + " is passed over: " + why);
}

bool IsDamage(const Status& status) {
  return status.code() == Code::kCorruption || status.code() == Code::kUnsupported;
}

Status ReadCandidate(io::FileSystem& fs, const std::string& name, Candidate* candidate) {
  Result<CommitRecord> record = ReadCommitRecord(fs, candidate->directory);
  if (record.status().code() == Code::kNotFound) {
    return MissingFile(candidate->directory + "/" + kCommitName);
  }
  QUIRE_ASSIGN_OR_RETURN(candidate->record, std::move(record));
  if (candidate->record.database == name) return Status();
  return Status(Code::kCorruption, candidate->directory + " is a checkpoint of " +
                                       candidate->record.database + ", not of " + name);
}

// The complete checkpoints that come into question, newest first. All ranks see the same storage,
// but only rank 0 looks, so that all conclude the same.
Result<std::vector<Candidate>> FindCandidates(io::FileSystem& fs, const std::string& path,
                                              const std::string& name, uint64_t wanted) {
  const std::string home = CheckpointHome(path, name);
  QUIRE_ASSIGN_OR_RETURN(const std::vector<CheckpointFound> found, FindCheckpoints(fs, home));
  std::vector<Candidate> candidates;
  Status damage;
  for (size_t i = found.size(); i-- > 0;) {
    if (found[i].state != CheckpointState::kComplete) continue;
    if (wanted != 0 && found[i].number != wanted) continue;
    Candidate candidate{found[i].number, found[i].directory, {}};
    const Status read = ReadCandidate(fs, name, &candidate);
    if (read.ok()) {
      candidates.push_back(std::move(candidate));
      continue;
    }
    if (!IsDamage(read)) return read;
    LogPassedOver(candidate, read.ToString());
    if (damage.ok()) damage = read;
  }
  if (!candidates.empty()) return candidates;
  if (!damage.ok()) return Status(Code::kCorruption, std::string(damage.message()));
  return Status(Code::kNotFound, "there is no complete checkpoint " +
                                     (wanted == 0 ? "" : std::to_string(wanted) + " ") + "of " +
                                     name + " in " + path);
}

// Every rank reads the records that rank 0 chose.
Result<std::vector<Candidate>> AgreeOnCandidates(const Core& core, const std::string& path,
                                                 const std::string& name, uint64_t wanted) {
  std::vector<Candidate> candidates;
  std::string numbers;
  Status status;
  if (core.rank() == 0) {
    Result<std::vector<Candidate>> found = FindCandidates(*core.fs, path, name, wanted);
    status = found.status();
    if (found.ok()) candidates = std::move(*found);
    for (const Candidate& candidate : candidates) base::PutFixed(&numbers, candidate.number);
  }
  QUIRE_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                         GatherAgreed(*core.exchange, status, numbers));
  if (core.rank() != 0) {
    base::Reader reader(all[0]);
    uint64_t number = 0;
    while (status.ok() && reader.Fixed(&number)) {
      Candidate candidate{number, CheckpointDirectory(CheckpointHome(path, name), number), {}};
      status = ReadCandidate(*core.fs, name, &candidate);
      candidates.push_back(std::move(candidate));
    }
  }
  QUIRE_RETURN_IF_ERROR(core.exchange->Agree(status));
  return candidates;
}

class RestartWork final : public JobWork {
 public:
  RestartWork(std::shared_ptr<Core> core, LockedDatabase locked, std::vector<Candidate> candidates,
              const RestartOptions& options)
      : core_(std::move(core)),
        fs_(*core_->fs),
        locked_(std::move(locked)),
        candidates_(std::move(candidates)),
        options_(options) {}

  // One for each candidate, as long as those before it are damaged; then what was copied counts.
  int step_count() const override { return static_cast<int>(candidates_.size()) + 1; }
  Result<State> Advance(int step) override;
  std::string Report(int /*step*/) override { return std::exchange(damage_, {}); }
  Result<std::string> TakeReports(int step, const std::vector<std::string>& reports) override;
  void TakeNews(int step, const std::string& news) override {
    if (news != kDone || copied_ != nullptr) return;
    copied_ = &candidates_[static_cast<size_t>(step) - 1];
  }
  void Finish(const Status& status) override;

 private:
  Generation GenerationOf(const Candidate& candidate) const;
  Result<State> AdvanceCopy(const Candidate& candidate);
  Status BeginPart(const Candidate& candidate);
  Status RemoveCopies();
  Status Publish();

  const std::shared_ptr<Core> core_;
  io::FileSystem& fs_;
  LockedDatabase locked_;
  const std::vector<Candidate> candidates_;
  const RestartOptions options_;
  const Candidate* copied_ = nullptr;  // whose parts all ranks have
  int part_ = -1;                      // that is being copied
  std::vector<std::string> copies_;    // parts that this rank made
  std::unique_ptr<Transfer> transfer_;
  std::string damage_;  // of the candidate, as this rank found it
};

Generation RestartWork::GenerationOf(const Candidate& candidate) const {
  Generation generation;
  generation.rank_count = static_cast<int>(candidate.record.parts.size());
  generation.partitioner = candidate.record.partitioner;
  if (options_.in_place) generation.location = candidate.directory;
  return generation;
}

Result<JobWork::State> RestartWork::Advance(int step) {
  const bool last = step + 1 == step_count();
  if (last && core_->rank() == 0) QUIRE_RETURN_IF_ERROR(Publish());
  if (last || copied_ != nullptr || options_.in_place) return State::kThrough;
  Result<State> state = AdvanceCopy(candidates_[static_cast<size_t>(step)]);
  if (state.ok() && *state != State::kThrough) return state;
  transfer_.reset();
  part_ = -1;
  if (!state.ok()) {
    // Only what fails here is removed at once: without this rank nobody publishes. What others
    // copied may count already when one hears that it failed, and goes with the next attempt.
    const Status removed = RemoveCopies();
    if (!removed.ok()) return removed;
  }
  if (state.ok()) return state;
  if (options_.number != 0 || !IsDamage(state.status())) return AsFailure(state.status());
  damage_ = state.status().ToString();
  return State::kThrough;
}

// The parts that fall to this rank, one after another.
Result<JobWork::State> RestartWork::AdvanceCopy(const Candidate& candidate) {
  if (transfer_ == nullptr) {
    if (part_ < 0) QUIRE_RETURN_IF_ERROR(RemoveCopies());
    part_ = part_ < 0 ? core_->rank() : part_ + core_->size();
    if (part_ >= static_cast<int>(candidate.record.parts.size())) return State::kThrough;
    QUIRE_RETURN_IF_ERROR(BeginPart(candidate));
  }
  QUIRE_ASSIGN_OR_RETURN(const bool done, transfer_->Advance());
  if (done) transfer_.reset();
  return State::kAgain;
}

Status RestartWork::BeginPart(const Candidate& candidate) {
  const CommitRecord::Part& stored = candidate.record.parts[static_cast<size_t>(part_)];
  const std::string source =
      candidate.directory + "/" + kPartDirectoryPrefix + std::to_string(part_);
  QUIRE_ASSIGN_OR_RETURN(const FileList list, ReadFileList(fs_, source, stored));
  const Generation generation = GenerationOf(candidate);
  const std::string target = PartDirectory(locked_.directory, generation, part_);
  QUIRE_RETURN_IF_ERROR(
      io::MakeDurableDirectory(fs_, GenerationDirectory(locked_.directory, generation)));
  copies_.push_back(target);
  QUIRE_RETURN_IF_ERROR(io::MakeDurableDirectory(fs_, target));
  std::vector<Transfer::Item> items;
  for (const auto& [name, file] : list.files) items.push_back({name, "", file, true});
  bytes_total += list.bytes();
  transfer_ = std::make_unique<Transfer>(fs_, source, target, std::move(items), &bytes_done);
  return Status();
}

// What this rank copied of a candidate.
Status RestartWork::RemoveCopies() {
  for (const std::string& part : std::exchange(copies_, {})) {
    QUIRE_RETURN_IF_ERROR(lsm::DestroyDb(fs_, part));
  }
  return Status();
}

Result<std::string> RestartWork::TakeReports(int step, const std::vector<std::string>& reports) {
  if (copied_ != nullptr || step + 1 == step_count()) return std::string(kDone);
  const auto damaged = std::find_if(reports.begin(), reports.end(),
                                    [](const std::string& report) { return !report.empty(); });
  if (damaged == reports.end()) return std::string(kDone);
  LogPassedOver(candidates_[static_cast<size_t>(step)], *damaged);
  if (step + 2 < step_count()) return std::string(kNext);
  return Status(Code::kCorruption, "every checkpoint is damaged; of the oldest: " + *damaged);
}

// Rank 0. From here on there is a database.
Status RestartWork::Publish() {
  Descriptor ready;
  ready.generations = {GenerationOf(*copied_)};
  ready.options = copied_->record.options;
  const Status written = WriteDescriptor(fs_, locked_.directory, ready);
  if (written.ok()) return Status();
  // All ranks hear that it failed. Where this cannot be taken back, the database is whole.
  ready.state = DescriptorState::kCreating;
  static_cast<void>(WriteDescriptor(fs_, locked_.directory, ready));
  return written;
}

void RestartWork::Finish(const Status& /*status*/) {
  transfer_.reset();
  locked_.lock.reset();
}

// What an interrupted creation or restart left goes when the descriptor says that this begins.
Status BeginRestart(const Core& core, LockedDatabase* locked, const Candidate& candidate) {
  const bool interrupted = !locked->descriptor.generations.empty();
  if (interrupted && locked->descriptor.state == DescriptorState::kReady) {
    return Status(Code::kInvalidArgument, "there is a database at " + locked->directory +
                                              " already; destroy it before a restart");
  }
  if (interrupted) QUIRE_RETURN_IF_ERROR(RemoveParts(core, locked->directory, {}));
  Status written;
  if (core.rank() == 0) {
    Descriptor creating;
    creating.state = DescriptorState::kCreating;
    creating.generations = {
        {1, static_cast<int>(candidate.record.parts.size()), candidate.record.partitioner, ""}};
    written = WriteDescriptor(*core.fs, locked->directory, creating);
  }
  return core.exchange->Agree(written);
}

}  // namespace

Result<std::shared_ptr<Job>> StartRestart(const std::shared_ptr<Core>& core,
                                          const std::string& path, const std::string& name,
                                          const RestartOptions& options) {
  Status checked = io::CheckName(name);
  if (checked.ok()) checked = CheckCheckpointPath(path);
  const std::string arguments = path + ", " + name + ", " + std::to_string(options.number) +
                                (options.in_place ? ", in place" : "");
  QUIRE_RETURN_IF_ERROR(AgreeOn(*core->exchange, checked, arguments, "the restart asked for"));
  QUIRE_ASSIGN_OR_RETURN(std::vector<Candidate> candidates,
                         AgreeOnCandidates(*core, path, name, options.number));
  QUIRE_ASSIGN_OR_RETURN(LockedDatabase locked, LockDatabase(*core, name, /*make=*/true));
  QUIRE_RETURN_IF_ERROR(BeginRestart(*core, &locked, candidates[0]));
  return Job::Start(
      core, "the restart of " + name + " from " + path,
      std::make_unique<RestartWork>(core, std::move(locked), std::move(candidates), options));
}

}  // namespace quire::kv
