#include "kv/database/cut_jobs_testing.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kv/database/mounted_files_testing.h"

namespace quire::kv {
namespace {

constexpr uint64_t kSeedStride = 7919;
// About the number of steps and calls of a job with few pairs, on a machine for each rank.
constexpr uint64_t kUsualSteps = 75;
constexpr uint64_t kUsualFileCalls = 150;
constexpr uint64_t kUsualTransportCalls = 250;
constexpr uint64_t kLogCountMax = 10;

// Any of so many, more often an early one; sometimes later than usual.
uint64_t SomeCount(base::Random* random, uint64_t usual) {
  if (random->OneIn(4)) return 1 + random->Below(1ull << random->Below(kLogCountMax));
  return 1 + random->Below(usual);
}

}  // namespace

CutJobs::CutJobs(uint64_t seed, int own_disks)
    : seed_(seed), random_(seed * kSeedStride), own_disks_(own_disks != 0) {
  for (int i = 0; i < std::max(own_disks, 1); ++i) disks_.push_back(io::NewSimFileSystem());
  if (!own_disks_) return;
  shared_ = io::NewSimFileSystem();
  EXPECT_TRUE(io::MakeDurableDirectory(*shared_, kShared).ok());
  for (const auto& disk : disks_) machines_.push_back(NewMountedFiles(*disk, kShared, *shared_));
}

SimCluster::Options CutJobs::OptionsOf(int size, const std::string& repository) {
  SimCluster::Options options;
  options.rank_count = size;
  options.seed = seed_ + ++jobs_ * kSeedStride;
  options.repository = repository;
  options.context.timeout_ms = 2000;
  options.own_disks = own_disks_;
  options.file_system = [this](int rank) { return &Files(rank); };
  return options;
}

void CutJobs::Run(int size, const std::string& repository, const SimCluster::Program& program) {
  SimCluster(OptionsOf(size, repository)).Run(program);
}

void CutJobs::Arm(int size) {
  steps_ = 0;
  deaths_.assign(static_cast<size_t>(size), Death());
  with_machine_ = false;
  if (random_.OneIn(3)) return ArmMachine(size);
  with_machine_ = random_.OneIn(4);
  const uint64_t dying = 1 + random_.Below((1u << size) - 1);
  for (size_t rank = 0; rank < deaths_.size(); ++rank) {
    if ((dying >> rank & 1) == 0) continue;
    // A rank alone has hardly anything to say.
    const bool talking = size > 1 && random_.OneIn(2);
    deaths_[rank].at = talking ? At::kTransportCall : At::kFileCall;
    deaths_[rank].calls = SomeCount(&random_, talking ? kUsualTransportCalls : kUsualFileCalls);
  }
}

void CutJobs::ArmMachine(int size) {
  crashing_ = static_cast<int>(random_.Below(static_cast<uint64_t>(size)));
  if (own_disks_ && random_.OneIn(3)) crashing_ = kSharedDisk;
  const bool of_one = own_disks_ && crashing_ != kSharedDisk;
  steps_ = SomeCount(&random_, kUsualSteps * static_cast<uint64_t>(of_one ? 1 : size));
  (crashing_ == kSharedDisk ? shared_disk() : disk(crashing_)).CrashAfter(steps_);
}

void CutJobs::OnKill(int rank) {
  cut_ = true;
  files_[static_cast<size_t>(rank)]->Kill();
  // On a disk of its own the machine may go down with it; a shared one does so when all have ended.
  if (with_machine_ && own_disks_) disk(rank).CrashAfter(0);
}

void CutJobs::RunCut(int size, const std::string& repository, const SimCluster::Program& program) {
  Arm(size);
  Describe(size);
  files_.clear();
  for (int rank = 0; rank < size; ++rank) {
    files_.push_back(io::NewFaultFileSystem(Files(rank)));
  }
  SimCluster::Options options = OptionsOf(size, repository);
  options.file_system = [this](int rank) { return files_[static_cast<size_t>(rank)].get(); };
  options.on_kill = [this](int rank) { OnKill(rank); };
  SimCluster cluster(options);
  for (size_t rank = 0; rank < deaths_.size(); ++rank) {
    const Death death = deaths_[rank];
    const int number = static_cast<int>(rank);
    if (death.at == At::kTransportCall) cluster.KillAfter(number, death.calls);
    if (death.at != At::kFileCall) continue;
    const auto hook = [&cluster, number, left = death.calls](const std::string&) mutable {
      if (left-- == 0) cluster.network().Kill(number);
    };
    files_[rank]->BeforeCalls(io::kFaultAll, hook);
  }
  cluster.RunRaw([&](int rank, Result<std::unique_ptr<Context>> context) {
    if (context.ok()) program(rank, **context);
  });
  Recover();
}

void CutJobs::Recover() {
  const bool shared_goes_down = with_machine_ && (!own_disks_ || random_.OneIn(2));
  if (cut_ && shared_goes_down) shared_disk().CrashAfter(0);
  for (const std::unique_ptr<io::SimFileSystem>& disk : disks_) Recover(*disk);
  if (own_disks_) Recover(*shared_);
}

void CutJobs::Recover(io::SimFileSystem& disk) {
  if (disk.crashed()) {
    cut_ = true;
    const bool power = with_machine_ || random_.OneIn(2);
    disk.Restart(power ? io::CrashKind::kPower : io::CrashKind::kProcess, seed_ + jobs_);
  }
  disk.CrashAfter(UINT64_MAX);
}

void CutJobs::ReplaceDisks(int size) {
  files_.clear();
  const uint64_t replaced = 1 + random_.Below((1u << size) - 1);
  for (size_t rank = 0; rank < static_cast<size_t>(size); ++rank) {
    if ((replaced >> rank & 1) == 0) continue;
    machines_[rank].reset();
    disks_[rank] = io::NewSimFileSystem();
    machines_[rank] = NewMountedFiles(*disks_[rank], kShared, *shared_);
    description_ += "; rank " + std::to_string(rank) + " has a new disk";
  }
}

void CutJobs::Describe(int size) {
  std::string text = std::to_string(size);
  text += own_disks_ ? " ranks on disks of their own" : " ranks on one disk";
  if (steps_ != 0) {
    text += (crashing_ == kSharedDisk ? std::string(", the shared one")
                                      : ", that of rank " + std::to_string(crashing_)) +
            " crashes after " + std::to_string(steps_) + " steps";
  }
  for (size_t rank = 0; rank < deaths_.size(); ++rank) {
    const Death& death = deaths_[rank];
    if (death.at == At::kNever) continue;
    text += ", rank " + std::to_string(rank) + " dies after " + std::to_string(death.calls) +
            (death.at == At::kFileCall ? " calls on files" : " calls on the network");
  }
  description_ += "; " + text + (with_machine_ ? ", and the power fails" : "");
}

}  // namespace quire::kv
