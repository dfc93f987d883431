#include "kv/persistence/restart.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/core/log_sink.h"
#include "base/text/coding.h"
#include "base/threads/sync_point.h"
#include "io/files/machine.h"
#include "kv/generations/locked_database.h"
#include "kv/generations/part_files.h"
#include "kv/persistence/checkpoint.h"
#include "kv/persistence/file_copier.h"
#include "kv/persistence/restart_candidates.h"
#include "kv/protocol/part_engine.h"
#include "runtime/agreement.h"

namespace quire::kv {
namespace {

constexpr char kNext[] = "next";  // rank 0's news: this one is damaged
constexpr char kDone[] = "done";

// The number of what is copied: of a new database, which has begun, or beside what is to be
// replaced.
uint32_t CopyNumber(const DatabaseDescriptor& before) {
  return IsThere(before) ? before.taken : before.generations[0].number;
}

// Checks that all files of a part exist, with their sizes: a cheap check for parts that are used in
// place.
Status LookAtPart(io::FileSystem& fs, const std::string& directory, const FileList& list) {
  const Result<std::vector<io::FileInfo>> listed = fs.List(directory);
  if (listed.status().code() == Code::kNotFound) return MissingFile(directory);
  if (!listed.ok()) return listed.status();
  std::map<std::string, uint64_t> sizes;
  for (const io::FileInfo& file : *listed) sizes[file.name] = file.size;
  for (const auto& [name, file] : list.files) {
    const auto found = sizes.find(name);
    if (found == sizes.end()) return MissingFile(directory + "/" + name);
    if (found->second == file.bytes) continue;
    return Status(Code::kCorruption, directory + "/" + name + " has " +
                                         std::to_string(found->second) + " bytes, not " +
                                         std::to_string(file.bytes) + "; use another checkpoint");
  }
  return Status();
}

void LogLeft(const std::string& directory, const Status& why) {
  if (why.ok() || !base::LogEnabled()) return;
  base::Log(LogLevel::kWarning, "what a restart no longer needs in " + directory +
                                    " cannot be removed: " + why.ToString() +
                                    "; the next open tries again");
}

class RestartWork final : public runtime::JobWork {
 public:
  RestartWork(std::shared_ptr<runtime::ContextState> context, LockedDatabase locked,
              std::vector<Candidate> candidates, const RestartOptions& options)
      : context_(std::move(context)),
        fs_(*context_->fs),
        locked_(std::move(locked)),
        candidates_(std::move(candidates)),
        options_(options),
        replaces_(IsThere(locked_.descriptor)),
        publish_(static_cast<int>(candidates_.size())) {}

  // One step for each candidate, as long as those before it are damaged; one that publishes the
  // copies; and one that removes the database that they replace.
  int step_count() const override { return publish_ + (replaces_ ? 2 : 1); }
  Result<State> Advance(int step) override;
  std::string Report(int step) override;
  Result<std::string> TakeReports(int step, const std::vector<std::string>& reports) override;
  void TakeDecision(int step, const std::string& news) override;
  bool CanUndo(int /*step*/) override { return !may_count_; }
  void Undo() override {
    const Status removed = RemoveCopies();
    LogLeft(locked_.directory,
            removed.ok() ? RemoveEmptyGenerations(fs_, locked_.directory) : removed);
  }
  Status AfterFailure(const Status& why) const override;
  void Finish(const Status& status) override;

 private:
  // A part that this rank made. Its lock keeps it from what an earlier job has left running, and
  // from a later one.
  struct Copy {
    std::string directory;
    std::unique_ptr<io::FileLock> lock;
  };
  Generation GenerationOf(const Candidate& candidate) const;
  Result<State> AdvanceCandidate(int step);
  Result<State> AdvanceCopy(const Candidate& candidate);
  Status BeginPart(const Candidate& candidate);
  Status RemoveCopies();
  Status Publish();
  void LookForOld();
  State RemoveOld();
  Result<bool> RemoveSomeOld();

  const std::shared_ptr<runtime::ContextState> context_;
  io::FileSystem& fs_;
  LockedDatabase locked_;
  const std::vector<Candidate> candidates_;
  const RestartOptions options_;
  const bool replaces_;     // there is a database
  const int publish_;       // the step
  bool may_count_ = false;  // rank 0: the descriptor may say that what was copied is the database
  PartInventory old_;       // what is replaced, as this rank sees it
  std::vector<uint64_t> digests_;
  std::unique_ptr<ShareRemoval> removal_;  // of that, while it goes on
  const Candidate* copied_ = nullptr;      // whose parts all ranks have
  int part_ = -1;                      // that is being copied
  std::vector<Copy> copies_;
  std::unique_ptr<FileCopier> transfer_;
  std::string damage_;  // of the candidate, as this rank found it
};

Generation RestartWork::GenerationOf(const Candidate& candidate) const {
  Generation generation;
  generation.number = CopyNumber(locked_.descriptor);
  generation.rank_count = static_cast<int>(candidate.record.parts.size());
  generation.partitioner = candidate.record.partitioner;
  if (options_.in_place) {
    generation.location = candidate.directory;
    generation.seal = candidate.record.seal;
  }
  return generation;
}

Result<runtime::JobWork::State> RestartWork::Advance(int step) {
  if (step > publish_) return RemoveOld();
  if (step == publish_) {
    if (replaces_) LookForOld();
    if (context_->rank() == 0) QUIRE_RETURN_IF_ERROR(Publish());
    return State::kThrough;
  }
  return copied_ == nullptr ? AdvanceCandidate(step) : State::kThrough;
}

Result<runtime::JobWork::State> RestartWork::AdvanceCandidate(int step) {
  Result<State> state = AdvanceCopy(candidates_[static_cast<size_t>(step)]);
  if (state.ok() && *state != State::kThrough) return state;
  transfer_.reset();
  part_ = -1;
  if (state.ok()) return state;
  // Without this part rank 0 does not publish. The others remove theirs when rank 0 says so.
  QUIRE_RETURN_IF_ERROR(RemoveCopies());
  if (options_.number != 0 || !IsDamage(state.status())) return AsFailure(state.status());
  damage_ = state.status().ToString();
  return State::kThrough;
}

// The parts that fall to this rank, one after another.
Result<runtime::JobWork::State> RestartWork::AdvanceCopy(const Candidate& candidate) {
  if (transfer_ == nullptr) {
    if (part_ < 0) QUIRE_RETURN_IF_ERROR(RemoveCopies());
    part_ = part_ < 0 ? context_->rank() : part_ + context_->size();
    if (part_ >= static_cast<int>(candidate.record.parts.size())) return State::kThrough;
    QUIRE_RETURN_IF_ERROR(BeginPart(candidate));
  }
  if (transfer_ == nullptr) return State::kAgain;  // used where it lies
  QUIRE_ASSIGN_OR_RETURN(const bool done, transfer_->Advance());
  if (!done) return State::kAgain;
  transfer_.reset();
  base::SyncPoint("kv.restart.copied");
  QUIRE_RETURN_IF_ERROR(PartsOnDisk().GiveNewStoreId(fs_, copies_.back().directory));
  QUIRE_RETURN_IF_ERROR(fs_.SyncDirectory(copies_.back().directory));
  return State::kAgain;
}

Status RestartWork::BeginPart(const Candidate& candidate) {
  const CommitRecord::Part& stored = candidate.record.parts[static_cast<size_t>(part_)];
  const std::string source =
      candidate.directory + "/" + kPartDirectoryPrefix + std::to_string(part_);
  QUIRE_ASSIGN_OR_RETURN(const FileList list, ReadFileList(fs_, source, stored));
  if (options_.in_place) return LookAtPart(fs_, source, list);
  const Generation generation = GenerationOf(candidate);
  const std::string target = PartDirectory(locked_.directory, generation, part_);
  QUIRE_RETURN_IF_ERROR(
      io::MakeDurableDirectory(fs_, GenerationDirectory(locked_.directory, generation)));
  QUIRE_RETURN_IF_ERROR(io::MakeDurableDirectory(fs_, target));
  QUIRE_ASSIGN_OR_RETURN(auto lock,
                         fs_.Lock(PartsOnDisk().LockPath(target), io::ProcessDescription()));
  copies_.push_back({target, std::move(lock)});
  std::vector<FileCopier::Item> items;
  for (const auto& [name, file] : list.files) items.push_back({name, "", file, true});
  bytes_total += list.bytes();
  transfer_ = std::make_unique<FileCopier>(fs_, source, target, std::move(items), &bytes_done);
  return Status();
}

// Removes what this rank copied of a candidate.
Status RestartWork::RemoveCopies() {
  for (Copy& part : std::exchange(copies_, {})) {
    QUIRE_RETURN_IF_ERROR(
        PartsOnDisk().NewRemoval(fs_, part.directory, std::move(part.lock))->Run());
  }
  return Status();
}

std::string RestartWork::Report(int step) {
  if (step < publish_) return std::exchange(damage_, {});
  std::string digest;
  base::PutFixed(&digest, old_.digest);
  return digest;
}

Result<std::string> RestartWork::TakeReports(int step, const std::vector<std::string>& reports) {
  if (step >= publish_) {
    std::string digests;
    for (const std::string& report : reports) digests += report;
    return digests;
  }
  if (copied_ != nullptr) return std::string(kDone);
  const auto damaged = std::find_if(reports.begin(), reports.end(),
                                    [](const std::string& report) { return !report.empty(); });
  if (damaged == reports.end()) return std::string(kDone);
  LogPassedOver(candidates_[static_cast<size_t>(step)], *damaged);
  if (step + 1 < publish_) return std::string(kNext);
  return Status(Code::kCorruption, "every checkpoint is damaged; of the oldest: " + *damaged);
}

void RestartWork::TakeDecision(int step, const std::string& news) {
  if (step > publish_) {
    base::ByteReader reader(news);
    uint64_t digest = 0;
    while (reader.Fixed(&digest)) digests_.push_back(digest);
  } else if (news == kDone && copied_ == nullptr) {
    copied_ = &candidates_[static_cast<size_t>(step) - 1];
  }
}

// Rank 0. From here on what was copied is the database.
Status RestartWork::Publish() {
  const DatabaseDescriptor before = locked_.descriptor;
  DatabaseDescriptor ready;
  ready.id = before.id;
  ready.generations = {GenerationOf(*copied_)};
  ready.options = copied_->record.options;
  base::SyncPoint("kv.restart.before_publish");
  // A writer that was killed may have given the checkpoint its name, and not synced that.
  const std::string home = io::DirectoryOf(copied_->directory);
  if (options_.in_place) QUIRE_RETURN_IF_ERROR(fs_.SyncDirectory(home));
  QUIRE_RETURN_IF_ERROR(CheckSameDatabase(fs_, locked_.directory, before));
  may_count_ = true;
  const Status written = WriteDescriptor(fs_, locked_.directory, ready);
  if (written.ok()) {
    base::SyncPoint("kv.restart.published");
    return Status();
  }
  // All ranks receive this failure. If this cannot be taken back, the database is complete. If
  // space or memory was short, nothing was renamed (ReplaceFile), and the old descriptor is in
  // force.
  const bool stands = written.code() == Code::kNoSpace || written.code() == Code::kOutOfMemory;
  may_count_ = !stands && !WriteDescriptor(fs_, locked_.directory, before).ok();
  return written;
}

// Rank 0 alone knows. Other ranks have work after it has published. If that fails, all return it.
Status RestartWork::AfterFailure(const Status& why) const {
  if (context_->rank() == 0 && !may_count_) return why;
  return Status(why.code(), why.message() + "; whether " + locked_.directory +
                                " is the restored database is not known: restart again, and" +
                                " have it replaced");
}

void RestartWork::LookForOld() {
  const uint32_t number = CopyNumber(locked_.descriptor);
  Result<PartInventory> inventory = ListParts(fs_, locked_.directory, {number});
  if (inventory.ok()) old_ = std::move(*inventory);
  LogLeft(locked_.directory, inventory.status());
}

// The descriptor names it no more: where it stays, the next open removes it.
runtime::JobWork::State RestartWork::RemoveOld() {
  if (digests_.size() != static_cast<size_t>(context_->size())) return State::kThrough;
  const Result<bool> gone = RemoveSomeOld();
  if (gone.ok() && !*gone) return State::kAgain;
  removal_.reset();
  LogLeft(locked_.directory, gone.status());
  return State::kThrough;
}

Result<bool> RestartWork::RemoveSomeOld() {
  if (removal_ == nullptr) {
    removal_ = std::make_unique<ShareRemoval>(fs_, old_, digests_, context_->rank());
  }
  QUIRE_ASSIGN_OR_RETURN(const bool gone, removal_->Advance());
  if (gone) QUIRE_RETURN_IF_ERROR(RemoveEmptyGenerations(fs_, locked_.directory));
  return gone;
}

void RestartWork::Finish(const Status& /*status*/) {
  transfer_.reset();
  removal_.reset();
  copies_.clear();
  locked_.lock.reset();
}

Status WriteOnFirst(const runtime::ContextState& context, const LockedDatabase& locked) {
  const bool writes = context.rank() == 0;
  return context.exchange->Agree(
      writes ? WriteDescriptor(*context.fs, locked.directory, locked.descriptor) : Status());
}

// For a database that stays until the restart has succeeded: removes what an interrupted attempt
// left. Some may be on nodes that are not here, so no part that is copied from now on has the same
// name.
Status MakeRoomBeside(const runtime::ContextState& context, LockedDatabase* locked) {
  std::set<uint32_t> kept;
  for (const Generation& generation : locked->descriptor.generations) {
    kept.insert(generation.number);
  }
  QUIRE_RETURN_IF_ERROR(RemoveParts(context, locked->directory, kept));
  locked->descriptor.taken = NextNumber(locked->descriptor);
  return WriteOnFirst(context, *locked);
}

// Does the same if there is no database: the descriptor then says that this begins.
Status BeginNew(const runtime::ContextState& context, LockedDatabase* locked,
                const Candidate& candidate) {
  const bool interrupted = !locked->descriptor.generations.empty();
  if (interrupted) QUIRE_RETURN_IF_ERROR(RemoveParts(context, locked->directory, {}));
  DatabaseDescriptor creating;
  creating.state = DescriptorState::kCreating;
  creating.id = locked->descriptor.id;
  creating.generations = {{NextNumber(locked->descriptor),
                           static_cast<int>(candidate.record.parts.size()),
                           candidate.record.partitioner, ""}};
  locked->descriptor = creating;
  return WriteOnFirst(context, *locked);
}

Status BeginRestart(const runtime::ContextState& context, LockedDatabase* locked,
                    const Candidate& candidate, bool replace) {
  if (!IsThere(locked->descriptor)) return BeginNew(context, locked, candidate);
  if (replace) return MakeRoomBeside(context, locked);
  return Status(Code::kInvalidArgument,
                "there is a database at " + locked->directory +
                    " already; destroy it before a restart, or have it replaced");
}

}  // namespace

Result<std::unique_ptr<Event>> StartRestart(const std::shared_ptr<runtime::ContextState>& context,
                                            uint32_t number, const std::string& path,
                                            const std::string& name,
                                            const RestartOptions& options) {
  Status checked = io::CheckName(name);
  if (checked.ok()) checked = CheckCheckpointPath(path);
  const std::string arguments = path + ", " + name + ", " + std::to_string(options.number) +
                                (options.in_place ? ", in place" : "") +
                                (options.replace ? ", replacing" : "");
  QUIRE_RETURN_IF_ERROR(
      runtime::AgreeOn(*context->exchange, checked, arguments, "the restart asked for"));
  QUIRE_ASSIGN_OR_RETURN(std::vector<Candidate> candidates,
                         AgreeOnCandidates(*context, path, name, options.number));
  QUIRE_ASSIGN_OR_RETURN(LockedDatabase locked, LockDatabase(*context, name, /*make=*/true));
  QUIRE_RETURN_IF_ERROR(BeginRestart(*context, &locked, candidates[0], options.replace));
  locked.made.Keep();
  return runtime::Job::StartTogether(
      context, number, "the restart of " + name + " from " + path,
      std::make_unique<RestartWork>(context, std::move(locked), std::move(candidates), options));
}

}  // namespace quire::kv
