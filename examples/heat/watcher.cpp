#include "watcher.h"

#include <algorithm>
#include <thread>

namespace quire::heat {
namespace {

constexpr std::chrono::milliseconds kBetweenTries(50);

}  // namespace

Result<Watched> Watcher::Run(const Use& use) {
  progress_ = std::chrono::steady_clock::now();
  while (true) {
    Status status = Open();
    if (status.ok()) {
      status = ReadAll(use);
      if (status.code() == Code::kNotFound) return watched_;
    }
    if (!IsWorthAnotherTry(status)) return status;
    // A restarted simulation has new indexes, which are opened again.
    ranks_.clear();
    std::this_thread::sleep_for(kBetweenTries);
  }
}

bool Watcher::IsWorthAnotherTry(const Status& status) const {
  return PatienceMs() > 0 &&
         (status.code() == Code::kNotFound || status.code() == Code::kTimedOut ||
          status.code() == Code::kPeerFailed);
}

uint64_t Watcher::PatienceMs() const {
  const auto end = progress_ + patience_;
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
  return static_cast<uint64_t>(std::max<int64_t>(0, left.count()));
}

Status Watcher::Open() {
  const auto open = [&](uint32_t rank) -> Status {
    QUIRE_ASSIGN_OR_RETURN(auto reader, StreamReader::Open(place_, kStore, rank));
    ranks_.push_back(std::move(reader));
    return Status();
  };
  QUIRE_RETURN_IF_ERROR(open(0));
  // The number of ranks is in the first rank's state.
  QUIRE_RETURN_IF_ERROR(ranks_[0]->Wait(0, PatienceMs()).status());
  std::string bytes;
  QUIRE_RETURN_IF_ERROR(ranks_[0]->GetAt(kStateKey, 0, &bytes));
  const auto state = StateFrom(bytes);
  if (!state.has_value()) return Status(Code::kCorruption, place_ + "/heat: not written by heat");
  for (uint32_t rank = 1; rank < state->grid.ranks(); ++rank) QUIRE_RETURN_IF_ERROR(open(rank));
  watched_.ranks = ranks_.size();
  return Status();
}

Status Watcher::ReadAll(const Use& use) {
  while (true) {
    QUIRE_ASSIGN_OR_RETURN(const uint64_t newest, WaitForAll());
    QUIRE_RETURN_IF_ERROR(ReadUpTo(newest, use));
  }
}

Result<uint64_t> Watcher::WaitForAll() {
  uint64_t newest = UINT64_MAX;
  for (const auto& rank : ranks_) {
    QUIRE_ASSIGN_OR_RETURN(const uint64_t its, rank->Wait(seen_, PatienceMs()));
    newest = std::min(newest, its);
  }
  return newest;
}

Status Watcher::ReadUpTo(uint64_t newest, const Use& use) {
  while (seen_ < newest) {
    const uint64_t number = seen_ + 1;
    const Result<Assembled> snapshot = Assemble(ranks_, number);
    if (snapshot.ok()) {
      QUIRE_RETURN_IF_ERROR(use(number, *snapshot));
      ++watched_.versions;
      watched_.last_step = snapshot->state.step;
      progress_ = std::chrono::steady_clock::now();
    } else if (snapshot.status().code() == Code::kNotFound) {
      ++watched_.skipped;
    } else {
      return snapshot.status();
    }
    seen_ = number;
  }
  return Status();
}

}  // namespace quire::heat
