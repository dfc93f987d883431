#include "walk.h"

#include <deque>
#include <functional>
#include <utility>

namespace quire::assemble {
namespace {

// Walks under way at once, per rank: enough to fill messages, little memory.
constexpr size_t kWalksMax = 8192;
// One k-mer in this many is a milestone.
constexpr uint64_t kMilestoneSpacing = 64;

uint64_t OrderOf(const KmerShape& shape, Kmer kmer) {
  return MixKmer(shape.Canonical(kmer));
}

// The low bits choose slots of KmerCounter; milestones come from the high ones.
bool IsMilestone(const KmerShape& shape, Kmer kmer) {
  return (OrderOf(shape, kmer) >> 32) % kMilestoneSpacing == 0;
}

// One walk: its beginning, its present place, and the bases in between.
struct Walk {
  char begin = kPathEnd;
  Kmer first = 0;
  Node at;
  std::string bases;
};

// Handles a walk that cannot go on (`linked` is false) or that reached at.kmer by a link; returns
// true to go on.
using Arrive = std::function<Result<bool>(Walk& walk, bool linked)>;

// Moves all of `walks` by one k-mer; removes finished ones.
Status Step(Graph& graph, const Arrive& arrive, std::vector<Walk>* walks) {
  std::vector<Walk> going;
  std::vector<Kmer> next;
  for (Walk& walk : *walks) {
    if (walk.at.EndsBehind()) {
      QUIRE_RETURN_IF_ERROR(arrive(walk, false).status());
      continue;
    }
    next.push_back(graph.Following(walk.at.kmer, walk.at.BaseBehind()));
    going.push_back(std::move(walk));
  }
  walks->clear();
  std::vector<Node> nodes;
  QUIRE_RETURN_IF_ERROR(graph.Get(next, &nodes));
  for (size_t i = 0; i < going.size(); ++i) {
    Walk& walk = going[i];
    const bool linked = graph.IsLink(walk.at, nodes[i]);
    if (linked) {
      walk.bases += BaseLetter(walk.at.BaseBehind());
      walk.at = nodes[i];
    }
    QUIRE_ASSIGN_OR_RETURN(const bool goes_on, arrive(walk, linked));
    if (goes_on) walks->push_back(std::move(walk));
  }
  return Status();
}

// Takes all walks to their ends, kWalksMax at a time.
Status WalkAll(Graph& graph, std::deque<Walk> waiting, const Arrive& arrive) {
  std::vector<Walk> walks;
  while (!waiting.empty() || !walks.empty()) {
    while (!waiting.empty() && walks.size() < kWalksMax) {
      walks.push_back(std::move(waiting.front()));
      waiting.pop_front();
    }
    QUIRE_RETURN_IF_ERROR(Step(graph, arrive, &walks));
  }
  return Status();
}

// Collects the beginnings of walks.
class Beginnings {
 public:
  explicit Beginnings(Graph& graph) : graph_(graph) {}

  Status AddOwned(const Node& node) {
    if (IsMilestone(graph_.shape(), node.kmer)) {
      Begin(kMilestone, node);
      Begin(kMilestone, graph_.Reverse(node));
    }
    LookBehind(node);
    if (!graph_.IsPalindrome(node.kmer)) LookBehind(graph_.Reverse(node));
    return neighbours_.size() < kWalksMax ? Status() : AskNeighbours();
  }

  // Follows the edges that were put off.
  Status AskNeighbours() {
    std::vector<Kmer> kmers;
    for (const Edge& edge : neighbours_)
      kmers.push_back(graph_.Following(edge.from.kmer, edge.base));
    std::vector<Node> nodes;
    QUIRE_RETURN_IF_ERROR(graph_.Get(kmers, &nodes));
    for (size_t i = 0; i < nodes.size(); ++i) AddBehindBranch(neighbours_[i].from, nodes[i]);
    neighbours_.clear();
    return Status();
  }

  std::deque<Walk> Take() { return std::move(walks_); }

 private:
  struct Edge {
    Node from;
    unsigned base;
  };

  void Begin(char begin, const Node& node) { walks_.push_back({begin, node.kmer, node, {}}); }

  // Handles a node without a link behind it: a path ends there, and its other strand begins. If
  // that is because of `node` itself, its neighbours end there, too, and may not see the reason.
  void LookBehind(const Node& node) {
    const bool one_sided = graph_.IsPalindrome(node.kmer);
    const bool hairpin = !node.EndsBehind() && graph_.Following(node.kmer, node.BaseBehind()) ==
                                                   graph_.shape().ReverseComplement(node.kmer);
    if (!node.EndsBehind() && !one_sided && !hairpin) return;
    Begin(kPathEnd, graph_.Reverse(node));
    for (unsigned base = 0; base < 4; ++base) {
      if (((node.behind >> base) & 1u) != 0 && !hairpin) neighbours_.push_back({node, base});
    }
  }

  // Begins a path with `node`, unless its owner notices the beginning by itself.
  void AddBehindBranch(const Node& from, const Node& node) {
    if (node.EndsBefore() || graph_.IsPalindrome(node.kmer)) return;
    if (node.kmer == graph_.shape().ReverseComplement(from.kmer)) return;
    Begin(kPathEnd, node);
  }

  Graph& graph_;
  std::deque<Walk> walks_;
  std::vector<Edge> neighbours_;
};

}  // namespace

std::string SegmentKey(char begin, const KmerShape& shape, Kmer first) {
  return begin + std::string(shape.Key(first).slice());
}

Status WalkSegments(Graph& graph, Database& segments) {
  Beginnings beginnings(graph);
  QUIRE_RETURN_IF_ERROR(
      graph.ForEachOwned([&](const Node& node, unsigned) { return beginnings.AddOwned(node); }));
  QUIRE_RETURN_IF_ERROR(beginnings.AskNeighbours());
  const KmerShape& shape = graph.shape();
  const auto arrive = [&](Walk& walk, bool linked) -> Result<bool> {
    if (linked && !IsMilestone(shape, walk.at.kmer)) return true;
    const char end = linked ? kMilestone : kPathEnd;
    QUIRE_RETURN_IF_ERROR(
        segments.Put(SegmentKey(walk.begin, shape, walk.first), end + walk.bases));
    return false;
  };
  return WalkAll(graph, beginnings.Take(), arrive);
}

Status WalkRings(Graph& graph, std::vector<std::string>* rings) {
  const KmerShape& shape = graph.shape();
  std::deque<Walk> walks;
  QUIRE_RETURN_IF_ERROR(graph.ForEachOwned([&](const Node& node, unsigned mark_count) {
    if (mark_count == 0) walks.push_back({kPathEnd, node.kmer, node, {}});
    return Status();
  }));
  const auto arrive = [&](Walk& walk, bool linked) -> Result<bool> {
    if (!linked) {
      return Status(Code::kCorruption,
                    "k-mer " + shape.Text(walk.at.kmer) + " ends a path that nobody walked");
    }
    if (walk.at.kmer == walk.first) {
      walk.bases.pop_back();  // the step back to the beginning
      rings->push_back(shape.Text(walk.first) + walk.bases);
      return false;
    }
    const auto place = [&](Kmer kmer) {
      return std::pair(OrderOf(shape, kmer), shape.Canonical(kmer));
    };
    return place(walk.at.kmer) > place(walk.first);
  };
  return WalkAll(graph, std::move(walks), arrive);
}

}  // namespace quire::assemble
