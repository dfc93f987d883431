#include "io/sim/sim_node.h"

#include <utility>

namespace quire::io {

void SimChange::ApplyTo(SimEntries* entries) const {
  if (!removed.empty()) entries->erase(removed);
  if (!added.empty()) (*entries)[added] = node;
}

void SimNode::Change(SimChange change) {
  change.ApplyTo(&entries);
  pending.push_back(std::move(change));
}

void SimNode::SyncEntries() {
  if (pending.empty()) return;
  durable_entries = entries;
  pending.clear();
}

void SimNode::Freeze() {
  content.Freeze();
  for (const auto& [name, node] : entries) node->Freeze();
  // A removed file may still be mapped, and come back if the power fails.
  for (const auto& [name, node] : durable_entries) {
    if (!entries.contains(name)) node->Freeze();
  }
  for (const SimChange& change : pending) {
    if (change.node) change.node->Freeze();
  }
}

void SimNode::LosePower(PowerLoss loss, base::Random* random) {
  content.LosePower(loss, random);
  if (!pending.empty()) {
    uint64_t kept = pending.size();
    if (loss == PowerLoss::kDropAll) kept = 0;
    if (loss == PowerLoss::kMixed) kept = random->Below(pending.size() + 1);
    for (uint64_t i = 0; i < kept; ++i) pending[i].ApplyTo(&durable_entries);
    entries = durable_entries;
    pending.clear();
  }
  for (const auto& [name, node] : entries) node->LosePower(loss, random);
}

uint64_t SimNode::RecountBelow() {
  std::map<SimNode*, uint64_t> counts;
  CountNames(&counts);
  uint64_t bytes = 0;
  for (const auto& [node, count] : counts) {
    node->names = count;
    bytes += node->content.size();
  }
  return bytes;
}

void SimNode::CountNames(std::map<SimNode*, uint64_t>* counts) const {
  for (const auto& [name, node] : entries) {
    ++(*counts)[node.get()];
    node->CountNames(counts);
  }
}

std::vector<std::string> SplitPath(const std::string& path) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (begin < path.size()) {
    size_t end = path.find('/', begin);
    if (end == std::string::npos) end = path.size();
    const std::string part = path.substr(begin, end - begin);
    if (!part.empty() && part != ".") parts.push_back(part);
    begin = end + 1;
  }
  return parts;
}

}  // namespace quire::io
