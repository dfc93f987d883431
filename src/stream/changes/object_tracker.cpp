#include "stream/changes/object_tracker.h"

#include <algorithm>
#include <string>

#include "base/core/log_sink.h"
#include "base/core/out_of_memory.h"
#include "io/files/machine.h"
#include "io/files/page_memory.h"

namespace quire::stream {
namespace {

uint64_t NowNs() {
  return io::RealClock().NowNs();
}

uint64_t CountPages(const std::vector<io::PageRun>& runs) {
  uint64_t count = 0;
  for (const io::PageRun& run : runs) count += run.count;
  return count;
}

double Share(uint64_t part, uint64_t all) {
  return all == 0 ? 0 : static_cast<double>(part) / static_cast<double>(all);
}

}  // namespace

ObjectTracker::ObjectTracker(char* memory, uint64_t bytes, const TrackingPlan& plan)
    : memory_(memory),
      bytes_(bytes),
      page_blocks_(io::PageBytes() / kBlockBytes),
      pages_(bytes / io::PageBytes()),
      kind_(plan.kind),
      audited_(plan.audited),
      method_(plan.choose ? Method::kWhole : plan.method),
      probe_(memory, bytes, io::PageBytes()),
      hashes_(memory, bytes),
      pending_(hashes_.blocks()),
      marked_(hashes_.blocks()) {
  if (plan.choose) policy_.emplace(TrackedSize{bytes, pages_, plan.first_store_ns});
}

BlockRun ObjectTracker::BlocksBehindPages() const {
  const uint64_t first = pages_ * page_blocks_;
  return {first, hashes_.blocks() - first};
}

Result<Changes> ObjectTracker::DetectChanges() {
  Result<Changes> changes = base::OrOutOfMemory([&]() -> Result<Changes> {
    switch (method_) {
      case Method::kWhole:
        SeeNothing();
        break;
      case Method::kHash:
        SeeByHashes();
        break;
      case Method::kPages:
        SeeByPages();
        break;
    }
    marked_.Clear();
    marked_all_ = false;
    if (policy_) ChooseNext();
    return Told();
  });
  if (!changes.ok()) ForgetAll();
  return changes;
}

// After a failure the changes that were found so far are lost, so everything counts as changed.
void ObjectTracker::ForgetAll() {
  pending_all_ = true;
  hashes_.Clear();
  watch_.reset();
  watch_rests_ = false;
}

// Counts everything as changed. Earlier hashes are useless: nothing tracks the changes since then.
void ObjectTracker::SeeNothing() {
  pending_all_ = true;
  hashes_.Clear();
  if (!probe_.begun()) return;
  const uint64_t begin = NowNs();
  const ChangedShares shares = probe_.End();
  policy_->Hashed(probe_.sample_bytes(), NowNs() - begin);
  policy_->Saw(shares);
}

void ObjectTracker::SeeByHashes() {
  const uint64_t begin = NowNs();
  hashes_.Update(AllBlocks(), &pending_);
  if (!policy_) return;
  policy_->Hashed(bytes_, NowNs() - begin);
  uint64_t changed_pages = 0;
  for (uint64_t page = 0; page < pages_; ++page) {
    if (pending_.CountIn(BlocksOf(page)) != 0) ++changed_pages;
  }
  const double pages = Share(changed_pages, pages_);
  policy_->Saw({Share(pending_.count(), hashes_.blocks()), pages, pages});
}

void ObjectTracker::SeeByPages() {
  if (watch_ == nullptr) {
    pending_all_ = true;
    StartPages();
    return;
  }
  std::vector<io::PageRun> written;
  const uint64_t begin = NowNs();
  const Status collected = CollectPages(&written);
  if (!collected.ok()) {
    pending_all_ = true;
    LosePages(collected);
    return;
  }
  if (policy_) policy_->Scanned(NowNs() - begin);
  const bool refine = !policy_ || audited_ || refinement_.Begin();
  const ChangedShares shares = SeePages(written, refine);
  hashes_.Update(BlocksBehindPages(), &pending_);
  if (marked_all_) pending_all_ = true;
  for (const BlockRun& run : marked_.Runs()) hashes_.Update(run, &pending_);
  if (policy_) policy_->Saw(shares);
}

// Collects the written pages, and watches them again. If a policy chooses and most pages were
// written to, they stay unwatched: the policy seldom wants to watch them again.
Status ObjectTracker::CollectPages(std::vector<io::PageRun>* written) {
  if (policy_) {
    QUIRE_RETURN_IF_ERROR(watch_->Look(written));
    watch_rests_ = CountPages(*written) > pages_ / 2;
    if (watch_rests_ || written->empty()) return Status();
    written->clear();
  }
  return watch_->Collect(written);
}

ChangedShares ObjectTracker::SeePages(const std::vector<io::PageRun>& written, bool refine) {
  const uint64_t written_pages = CountPages(written);
  // If a policy chooses, an object of which most has changed is stored whole. Hashing pages that
  // have no hashes yet would be useless now.
  const bool most = policy_ && !audited_ && written_pages > pages_ / 2;
  uint64_t changed_pages = 0;
  uint64_t changed_blocks = 0;
  uint64_t known_blocks = 0;
  uint64_t changed_of_known = 0;
  for (const io::PageRun& run : written) {
    const BlockRun blocks = {run.first * page_blocks_, run.count * page_blocks_};
    if (!refine || (most && hashes_.KeptIn(blocks) == 0)) {
      pending_.Add(blocks);
      hashes_.Forget(blocks);
      changed_pages += run.count;
      changed_blocks += blocks.count;
      continue;
    }
    for (uint64_t page = run.first; page < run.first + run.count; ++page) {
      const uint64_t known = hashes_.KeptIn(BlocksOf(page));
      const uint64_t of_known = hashes_.Update(BlocksOf(page), &pending_);
      const uint64_t changed = of_known + page_blocks_ - known;
      known_blocks += known;
      changed_of_known += of_known;
      changed_blocks += changed;
      if (changed != 0) ++changed_pages;
    }
  }
  refinement_.Saw(changed_of_known, known_blocks);
  return {Share(changed_blocks, hashes_.blocks()), Share(changed_pages, pages_),
          Share(written_pages, pages_)};
}

Status ObjectTracker::WatchPages() {
  watch_rests_ = false;
  std::vector<io::PageRun> told;
  if (watch_ != nullptr && watch_->Collect(&told).ok()) return Status();
  watch_.reset();
  QUIRE_ASSIGN_OR_RETURN(watch_, io::PageWatch::New(kind_, memory_, pages_));
  return Status();
}

// All changes up to here are in `pending_`, or `pending_all_` is set.
void ObjectTracker::StartPages() {
  const Status watched = WatchPages();
  if (!watched.ok()) {
    LosePages(watched);
    return;
  }
  hashes_.KeepMissing(policy_ && !audited_ ? BlocksBehindPages() : AllBlocks());
}

void ObjectTracker::LosePages(const Status& why) {
  watch_.reset();
  if (base::LogEnabled()) {
    base::Log(LogLevel::kWarning, "an object of " + std::to_string(bytes_) +
                                      " bytes is no longer tracked by pages: " + why.ToString());
  }
  if (policy_) policy_->LosePages();
  method_ = Method::kHash;
  hashes_.Clear();
  hashes_.KeepMissing(AllBlocks());
}

void ObjectTracker::ChooseNext() {
  const Method before = method_;
  method_ = policy_->Choose();
  if (method_ != Method::kPages && !watch_rests_) watch_.reset();
  if (method_ == Method::kPages && (watch_ == nullptr || watch_rests_)) StartPages();
  if (method_ == Method::kHash && before != Method::kHash) hashes_.KeepMissing(AllBlocks());
  if (policy_->ProbeDue()) probe_.Begin();
}

Changes ObjectTracker::Told() {
  const uint64_t blocks = hashes_.blocks();
  // If a policy chooses, an object of which more than half has changed is stored whole.
  told_all_ = pending_all_ || pending_.count() > (policy_ ? blocks / 2 : blocks - 1);
  Changes changes;
  changes.all = told_all_;
  if (!told_all_) {
    changes.runs = pending_.Runs();
    changes.blocks = pending_.count();
  }
  return changes;
}

void ObjectTracker::CommitChanges(bool delta, uint64_t store_ns) {
  if (policy_ && !delta) policy_->StoredWhole(store_ns);
  pending_.Clear();
  pending_all_ = false;
}

void ObjectTracker::MarkDirty(uint64_t offset, uint64_t bytes) {
  if (method_ != Method::kPages || offset >= bytes_ || bytes == 0) return;
  const uint64_t first = offset / kBlockBytes;
  const uint64_t last = (offset + std::min(bytes, bytes_ - offset) - 1) / kBlockBytes;
  const Status marked = base::OrOutOfMemory([&] {
    marked_.Add({first, last - first + 1});
    return Status();
  });
  if (!marked.ok()) marked_all_ = true;
}

Status ObjectTracker::Audit() {
  if (!told_all_) {
    const uint64_t block = hashes_.FirstDifference();
    if (block < hashes_.blocks()) {
      return Status(Code::kCorruption,
                    "bytes from offset " + std::to_string(block * kBlockBytes) +
                        " on changed, and the tracker (" + mechanism() +
                        ") missed it: call MarkDirty for writes of devices or other mappings");
    }
  }
  audited_ = true;
  if (method_ == Method::kWhole) return Status();
  return base::OrOutOfMemory([&] {
    hashes_.KeepMissing(AllBlocks());
    return Status();
  });
}

const char* ObjectTracker::mechanism() const {
  switch (method_) {
    case Method::kWhole:
      return "whole";
    case Method::kHash:
      return "hash";
    case Method::kPages:
      break;
  }
  return kind_ == io::WatchKind::kProtect ? "protect" : "watch";
}

}  // namespace quire::stream
