/// The Tracker of one object: by hashes, by pages and hashes of their blocks, or by a policy that
/// changes between these and no tracking.
///
/// Layer      stream (internal)
/// Threads    as stream/changes/tracker.h
///
/// Invariants
///   The result of DetectChanges is in pending_ and pending_all_ until CommitChanges. A kept hash
///   is that of the bytes that DetectChanges reported, or that have not changed before. In kPages
///   with a watch, a changed block that was not reported is in a page that the watch has noted,
///   behind the last whole page, or in marked_. A watch that rests has noted most pages, which cost
///   nothing to store to: it is kept, for ending it costs as much as storing its pages.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "io/watch/page_watch.h"
#include "stream/changes/change_probe.h"
#include "stream/changes/tracker.h"
#include "stream/changes/tracking_policy.h"

namespace quire::stream {

/// The decision whether hashing the blocks of written pages saves anything: it does not if nearly
/// all blocks of these pages change. Reconsidered from time to time.
class Refinement {
 public:
  /// For the step that ends. What is hashed first is known only to the step after.
  bool Begin() {
    if (skip_ > 0) --skip_;
    return skip_ <= 1;
  }
  /// Records that `changed` of the `known` blocks of written pages had changed.
  void Saw(uint64_t changed, uint64_t known) {
    constexpr uint64_t kEnough = 64;
    constexpr uint32_t kSkippedSteps = 32;
    if (known >= kEnough && changed * 4 > known * 3) skip_ = kSkippedSteps;
  }

 private:
  uint32_t skip_ = 0;
};

/// The way in which an object is tracked, out of those that work here.
struct TrackingPlan {
  bool choose = false;            ///< by a policy; else by `method`
  Method method = Method::kHash;  ///< not kWhole
  io::WatchKind kind = io::WatchKind::kKernel;
  uint64_t first_store_ns = 0;  ///< 0: no pages
  bool audited = false;
};

class ObjectTracker : public Tracker {
 public:
  ObjectTracker(char* memory, uint64_t bytes, const TrackingPlan& plan);

  Result<Changes> DetectChanges() override;
  void CommitChanges(bool delta, uint64_t store_ns) override;
  void MarkDirty(uint64_t offset, uint64_t bytes) override;
  Status Audit() override;
  const char* mechanism() const override;

 private:
  BlockRun AllBlocks() const { return {0, hashes_.blocks()}; }
  BlockRun BlocksBehindPages() const;
  BlockRun BlocksOf(uint64_t page) const { return {page * page_blocks_, page_blocks_}; }

  void ForgetAll();
  void SeeNothing();
  void SeeByHashes();
  void SeeByPages();
  Status CollectPages(std::vector<io::PageRun>* written);
  ChangedShares SeePages(const std::vector<io::PageRun>& written, bool refine);
  void StartPages();
  Status WatchPages();
  void LosePages(const Status& why);
  void ChooseNext();
  Changes Told();

  char* const memory_;
  const uint64_t bytes_;
  const uint64_t page_blocks_;
  const uint64_t pages_;  // whole ones
  const io::WatchKind kind_;
  bool audited_;
  Method method_;
  std::optional<TrackingPolicy> policy_;
  ChangeProbe probe_;
  Refinement refinement_;
  BlockHashes hashes_;
  std::unique_ptr<io::PageWatch> watch_;
  bool watch_rests_ = false;

  BlockSet pending_;
  bool pending_all_ = true;
  bool told_all_ = true;
  BlockSet marked_;
  bool marked_all_ = false;
};

}  // namespace quire::stream
