#include "stream/changes/tracking_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

namespace quire::stream::tracking_policy_test {
namespace {

constexpr uint64_t kPageBytes = 4096;

// A machine's speed, and the cost of its first stores to pages.
struct Machine {
  double store_ns_per_byte = 0.12;
  double hash_ns_per_byte = 0.1;
  uint64_t first_store_ns = 1500;
};

// Runs a policy over steps as ObjectTracker does, and compares the cost of its choices with the
// cost of storing everything whole.
class SteppedPolicy {
 public:
  SteppedPolicy(const Machine& machine, uint64_t bytes)
      : machine_(machine),
        bytes_(bytes),
        policy_({bytes, bytes / kPageBytes, machine.first_store_ns}) {}

  void Steps(int count, const ChangedShares& shares) {
    for (int i = 0; i < count; ++i) Step(shares);
  }
  double cost() const { return cost_ns_ / whole_ns_; }
  Method method() const { return policy_.method(); }
  int probes() const { return probes_; }

 private:
  void Step(const ChangedShares& shares) {
    const auto bytes = static_cast<double>(bytes_);
    const double pages = bytes / kPageBytes;
    const double store_ns = bytes * machine_.store_ns_per_byte;
    const double hash_ns = bytes * machine_.hash_ns_per_byte;
    const double delta_ns = store_ns * std::min(1.0, 1.5 * shares.blocks);
    whole_ns_ += store_ns;
    if (policy_.method() == Method::kWhole) {
      cost_ns_ += store_ns;
      if (probing_) policy_.Saw({shares.blocks, shares.pages, shares.pages});
    } else if (policy_.method() == Method::kHash) {
      cost_ns_ += hash_ns + delta_ns;
      policy_.Saw({shares.blocks, shares.pages, shares.pages});
    } else {
      const double scan_ns = 2000 + 10 * pages;
      policy_.Scanned(static_cast<uint64_t>(scan_ns));
      cost_ns_ += scan_ns + delta_ns +
                  shares.written * (pages * static_cast<double>(machine_.first_store_ns) + hash_ns);
      policy_.Saw(shares);
    }
    policy_.Hashed(bytes_, static_cast<uint64_t>(hash_ns));
    policy_.StoredWhole(static_cast<uint64_t>(store_ns));
    const Method before = policy_.method();
    if (policy_.Choose() == Method::kHash && before == Method::kWhole) cost_ns_ += hash_ns;
    probing_ = policy_.ProbeDue();
    if (probing_) ++probes_;
    if (probing_) cost_ns_ += 2 * hash_ns / 16;
  }

  const Machine machine_;
  const uint64_t bytes_;
  TrackingPolicy policy_;
  bool probing_ = false;
  int probes_ = 0;
  double cost_ns_ = 0;
  double whole_ns_ = 0;
};

TEST(TrackingPolicy, StoresWholeVersionsAndProbesRarelyIfEverythingChanges) {
  SteppedPolicy run({}, 64 << 20);
  run.Steps(100, {1, 1, 1});
  EXPECT_EQ(run.method(), Method::kWhole);
  EXPECT_LE(run.cost(), 1.02);
  EXPECT_GE(run.probes(), 5);
  EXPECT_LE(run.probes(), 8);
}

TEST(TrackingPolicy, IsNeverMuchDearerThanStoringWhole) {
  for (const uint64_t bytes : {uint64_t{4096}, uint64_t{1} << 16, uint64_t{64} << 20}) {
    for (const uint64_t first_store_ns : {0, 500, 1500, 6000}) {
      for (const double share : {0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.45, 0.55, 0.7, 1.0}) {
        for (const double written : {share, 1.0}) {
          SteppedPolicy run({0.12, 0.1, first_store_ns}, bytes);
          run.Steps(100, {share, share, written});
          EXPECT_LE(run.cost(), 1.1) << bytes << " bytes, first store " << first_store_ns
                                     << " ns, share " << share << ", written " << written;
        }
      }
    }
  }
}

TEST(TrackingPolicy, WatchesPagesIfLittleChanges) {
  for (const double share : {0.01, 0.02, 0.05}) {
    SteppedPolicy run({}, 64 << 20);
    run.Steps(100, {share, share, share});
    EXPECT_EQ(run.method(), Method::kPages);
    EXPECT_LE(run.cost(), 0.05 + 6 * share);
  }
}

TEST(TrackingPolicy, HashesPagesThatAreWrittenInVainIfThatIsCheaper) {
  SteppedPolicy run({1.0, 0.1, 1500}, 64 << 20);
  run.Steps(100, {0.01, 0.01, 1});
  EXPECT_EQ(run.method(), Method::kHash);
  EXPECT_LE(run.cost(), 0.3);
}

TEST(TrackingPolicy, WithoutPagesItHashesWhereStoringIsDear) {
  SteppedPolicy dear({1.0, 0.1, 0}, 64 << 20);
  dear.Steps(20, {0.01, 0.01, 0.01});
  EXPECT_EQ(dear.method(), Method::kHash);
  SteppedPolicy cheap({0.1, 0.1, 0}, 64 << 20);
  cheap.Steps(20, {0.01, 0.01, 0.01});
  EXPECT_EQ(cheap.method(), Method::kWhole);
}

TEST(TrackingPolicy, FollowsAProgramThatChangesItsWays) {
  SteppedPolicy run({}, 64 << 20);
  run.Steps(200, {1, 1, 1});
  ASSERT_EQ(run.method(), Method::kWhole);
  run.Steps(70, {0.02, 0.02, 0.02});
  EXPECT_EQ(run.method(), Method::kPages);
  run.Steps(4, {1, 1, 1});
  EXPECT_EQ(run.method(), Method::kWhole);
}

TEST(TrackingPolicy, OneSlowMeasurementDoesNotChangeTheMethod) {
  TrackingPolicy policy({64 << 20, 16384, 1500});
  policy.Saw({0.03, 0.03, 0.03});
  ASSERT_EQ(policy.Choose(), Method::kPages);
  for (int step = 0; step < 40; ++step) {
    policy.Scanned(step % 10 == 5 ? 50'000'000 : 100'000);
    policy.Saw({0.03, 0.03, 0.03});
    ASSERT_EQ(policy.Choose(), Method::kPages) << "step " << step;
  }
}

TEST(TrackingPolicy, PagesThatAreLostAreNotChosenAgain) {
  TrackingPolicy policy({64 << 20, 16384, 1500});
  policy.Saw({0.01, 0.01, 0.01});
  EXPECT_EQ(policy.Choose(), Method::kPages);
  policy.LosePages();
  EXPECT_NE(policy.Choose(), Method::kPages);
}

}  // namespace
}  // namespace quire::stream::tracking_policy_test
