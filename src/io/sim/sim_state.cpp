#include "io/sim/sim_state.h"

#include <algorithm>
#include <cerrno>

#include "io/files/posix_error.h"

namespace quire::io {

Status SimState::CheckAlive() {
  if (!crashed) return Status();
  told.insert(std::this_thread::get_id());
  return Status(Code::kIo, "simulated crash");
}

Status SimState::CheckHandle(uint64_t handle_incarnation) {
  if (handle_incarnation != incarnation) {
    return Status(Code::kIo, "simulated crash: the handle is from before the restart");
  }
  return CheckAlive();
}

void SimState::Crash() {
  crashed = true;
  root->Freeze();
}

void SimState::Step() {
  ++steps;
  if (steps_left != kNever && --steps_left == 0) Crash();
}

void SimState::SetStepsLeft(uint64_t steps_allowed) {
  steps_left = steps_allowed;
  if (steps_left == 0 && !crashed) Crash();
}

void SimState::Fence() {
  fenced_since_crash = crashed;
  if (crashed) return;
  for (const StoredRange& range : unfenced) {
    range.node->content.SyncRange(range.offset, range.size);
  }
  unfenced.clear();
}

void SimState::NoteInFlight(const SimNodePtr& node, uint64_t offset, Slice bytes,
                            uint64_t handle_incarnation) {
  const bool first = crashed && !in_flight.node && !fenced_since_crash &&
                     !told.contains(std::this_thread::get_id());
  if (!first || handle_incarnation != incarnation) return;
  in_flight.node = node;
  in_flight.offset = offset;
  in_flight.bytes = bytes;
}

void SimState::ApplyInFlight(base::Random* random) {
  if (in_flight.node) {
    const uint64_t kept = random->Below(in_flight.bytes.size() + 1);
    SimContent& content = in_flight.node->content;
    const uint64_t end = in_flight.offset + kept;
    const uint64_t growth = end > content.size() ? end - content.size() : 0;
    if (kept != 0 && growth <= FreeBytes()) {
      content.Write(in_flight.offset, Slice(in_flight.bytes).substr(0, kept));
    }
  }
  in_flight.node = nullptr;
  in_flight.bytes.clear();
}

void SimState::Restart(CrashKind kind, uint64_t seed) {
  base::Random random(seed);
  if (!crashed) Crash();
  ApplyInFlight(&random);
  if (kind == CrashKind::kPower) {
    // Chance for each page seldom keeps all or drops all, which are the likeliest outcomes in
    // reality.
    const uint64_t choice = random.Below(8);
    root->LosePower(choice == 0   ? PowerLoss::kKeepAll
                    : choice == 1 ? PowerLoss::kDropAll
                                  : PowerLoss::kMixed,
                    &random);
  }
  if (kind != CrashKind::kProcess) ++boot_id;
  ++incarnation;
  locked.clear();
  locked_shared.clear();
  unfenced.clear();
  fenced_since_crash = false;
  told.clear();
  steps = 0;
  steps_left = kNever;
  crashed = false;
  used = root->RecountBelow();
  if (capacity != kNever) capacity = std::max(capacity, used);
}

Result<SimPlace> SimState::Find(const std::string& path) const {
  const std::vector<std::string> parts = SplitPath(path);
  SimPlace place{root, "", root};
  for (const std::string& part : parts) {
    if (!place.node) return ErrnoStatus(ENOENT, "open", path);
    if (!place.node->is_directory) return ErrnoStatus(ENOTDIR, "open", path);
    place.directory = place.node;
    place.name = part;
    const auto found = place.directory->entries.find(part);
    place.node = found == place.directory->entries.end() ? nullptr : found->second;
  }
  return place;
}

Result<SimNodePtr> SimState::FindFile(const std::string& path) const {
  QUIRE_ASSIGN_OR_RETURN(SimPlace place, Find(path));
  if (!place.node) return ErrnoStatus(ENOENT, "open", path);
  if (place.node->is_directory) return ErrnoStatus(EISDIR, "open", path);
  return std::move(place.node);
}

Result<SimNodePtr> SimState::FindDirectory(const std::string& path) const {
  QUIRE_ASSIGN_OR_RETURN(SimPlace place, Find(path));
  if (!place.node) return ErrnoStatus(ENOENT, "open the directory", path);
  if (!place.node->is_directory) return ErrnoStatus(ENOTDIR, "open the directory", path);
  return std::move(place.node);
}

void SimState::DropName(SimNode* node) {
  if (--node->names == 0) used -= node->content.size();
}

Status SimState::Resize(SimNode* node, uint64_t size, const std::string& path) {
  const uint64_t present = node->content.size();
  if (size > present && size - present > FreeBytes()) {
    return ErrnoStatus(ENOSPC, "grow to " + std::to_string(size) + " bytes", path);
  }
  if (!node->content.CanHold(size)) {
    return Status(Code::kUnsupported, "the simulated file " + path + " is mapped; it cannot grow");
  }
  used += size - present;
  node->content.Resize(size);
  return Status();
}

}  // namespace quire::io
