// Destroying a database: the descriptor says so first, and goes last.
#include <algorithm>
#include <utility>

#include "base/text/coding.h"
#include "io/files/machine.h"
#include "kv/database/database_open.h"
#include "kv/generations/locked_database.h"
#include "kv/generations/part_files.h"
#include "runtime/agreement.h"

namespace quire::kv {
namespace {

// Waits for processes that look for the database while it is removed.
constexpr uint64_t kPatienceNs = 5'000'000'000;
constexpr uint64_t kPauseNs = 1'000'000;

Status MarkDestroying(const runtime::ContextState& context, LockedDatabase* locked) {
  if (context.rank() != 0) return Status();
  locked->descriptor.state = DescriptorState::kDestroying;
  return WriteDescriptor(*context.fs, locked->directory, locked->descriptor);
}

Status RemoveDescriptor(const runtime::ContextState& context, const LockedDatabase& locked) {
  QUIRE_RETURN_IF_ERROR(RemoveEmptyGenerations(*context.fs, locked.directory));
  if (context.rank() != 0) return Status();
  QUIRE_RETURN_IF_ERROR(context.fs->Unlink(DescriptorPath(locked.directory)));
  return context.fs->Unlink(LockedDatabase::LockPath(locked.directory));
}

// Steps: looking and removing in turn until no rank sees a part; then the descriptor, then the
// directory.
class DestroyWork final : public runtime::JobWork {
 public:
  DestroyWork(std::shared_ptr<runtime::ContextState> context, LockedDatabase locked)
      : context_(std::move(context)), locked_(std::move(locked)) {}

  int step_count() const override { return step_count_; }
  Result<State> Advance(int step) override {
    if (last_look_ >= 0 && step == last_look_ + 2) return RemoveDirectory();
    if (step % 2 != 0 && !IsLast(step)) return RemoveSome();
    QUIRE_RETURN_IF_ERROR(IsLast(step) ? RemoveDescriptor(*context_, locked_) : Look());
    return State::kThrough;
  }
  std::string Report(int /*step*/) override {
    std::string digest;
    base::PutFixed(&digest, inventory_.digest);
    return digest;
  }
  // Rank 0. After a look: the digests of all ranks, or nothing if no rank sees any part.
  Result<std::string> TakeReports(int step, const std::vector<std::string>& reports) override {
    if (last_look_ >= 0 || step % 2 != 0) return std::string();
    std::string digests;
    bool any = false;
    for (const std::string& report : reports) {
      any = any || report.find_first_not_of('\0') != std::string::npos;
      digests += report;
    }
    if (any) return digests;
    last_look_ = step;
    step_count_ = step + 3;
    return std::string();
  }
  void TakeDecision(int step, const std::string& news) override {
    if (last_look_ < 0 && step % 2 != 0 && news.empty()) last_look_ = step - 1;
    digests_.clear();
    base::ByteReader reader(news);
    uint64_t digest = 0;
    while (reader.Fixed(&digest)) digests_.push_back(digest);
  }
  void Finish(const Status& /*status*/) override {
    removal_.reset();
    locked_.lock.reset();
  }

 private:
  // Whether no part is left, and the descriptor goes in this step.
  bool IsLast(int step) const { return last_look_ >= 0 && step == last_look_ + 1; }

  Status Look() {
    io::FileSystem& fs = *context_->fs;
    QUIRE_RETURN_IF_ERROR(RemoveLost(fs, locked_.directory));
    QUIRE_ASSIGN_OR_RETURN(inventory_, ListParts(fs, locked_.directory, {}));
    return Status();
  }

  Result<State> RemoveSome() {
    if (removal_ == nullptr) {
      if (digests_.size() != static_cast<size_t>(context_->size())) {
        return Status(Code::kCorruption, "rank 0 does not say what all ranks see");
      }
      removal_ =
          std::make_unique<ShareRemoval>(*context_->fs, inventory_, digests_, context_->rank());
    }
    QUIRE_ASSIGN_OR_RETURN(const bool gone, removal_->Advance());
    if (!gone) return State::kAgain;
    removal_.reset();
    return State::kThrough;
  }

  // A process that looks for the database now may have recreated the lock file, and releases it
  // when it finds nothing: this waits for it. Any other content is a new database of another
  // process.
  Result<State> RemoveDirectory() {
    io::FileSystem& fs = *context_->fs;
    QUIRE_RETURN_IF_ERROR(RemoveIfEmpty(fs, locked_.directory));
    if (context_->rank() != 0 || !HasOnlyLock()) return State::kThrough;
    const uint64_t now = io::RealClock().NowNs();
    if (waits_since_ == 0) waits_since_ = now;
    if (now - waits_since_ > kPatienceNs) return State::kThrough;
    const std::string path = LockedDatabase::LockPath(locked_.directory);
    const Result<std::unique_ptr<io::FileLock>> lock = fs.Lock(path, io::ProcessDescription());
    if (lock.ok()) {
      if (HasOnlyLock()) QUIRE_RETURN_IF_ERROR(fs.Unlink(path));
    } else if (lock.status().code() == Code::kBusy) {
      io::RealClock().SleepNs(kPauseNs);
    } else if (lock.status().code() != Code::kNotFound) {
      return lock.status();
    }
    return State::kAgain;
  }
  bool HasOnlyLock() const {
    const Result<std::vector<io::FileInfo>> files = context_->fs->List(locked_.directory);
    return files.ok() && files->size() == 1 &&
           locked_.directory + "/" + files->front().name ==
               LockedDatabase::LockPath(locked_.directory);
  }

  const std::shared_ptr<runtime::ContextState> context_;
  LockedDatabase locked_;
  uint64_t waits_since_ = 0;
  int step_count_ = 1 << 16;  // rank 0's counts
  int last_look_ = -1;        // the step in which no rank saw a part
  PartInventory inventory_;
  std::unique_ptr<ShareRemoval> removal_;  // of what was seen, while it goes on
  std::vector<uint64_t> digests_;
};

}  // namespace

Result<std::unique_ptr<Event>> StartDestruction(
    const std::shared_ptr<runtime::ContextState>& context, uint32_t number,
    const std::string& name) {
  QUIRE_RETURN_IF_ERROR(
      runtime::AgreeOn(*context->exchange, io::CheckName(name), name, "the name to destroy"));
  QUIRE_ASSIGN_OR_RETURN(LockedDatabase locked, LockDatabase(*context, name, /*make=*/false));
  if (locked.descriptor.generations.empty()) {
    return Status(Code::kNotFound, "there is no database at " + locked.directory);
  }
  QUIRE_RETURN_IF_ERROR(context->exchange->Agree(MarkDestroying(*context, &locked)));
  locked.made.Keep();
  return runtime::Job::StartTogether(context, number, "the destruction of " + name,
                                     std::make_unique<DestroyWork>(context, std::move(locked)));
}

}  // namespace quire::kv
