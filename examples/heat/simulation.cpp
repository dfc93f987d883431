#include "simulation.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <thread>
#include <vector>

namespace quire::heat {
namespace {

int RankIn(MPI_Comm communicator) {
  int rank = 0;
  MPI_Comm_rank(communicator, &rank);
  return rank;
}

std::string Named(const Plate& plate, const Grid& grid, uint64_t every) {
  return std::to_string(plate.height) + " x " + std::to_string(plate.width) + " cells on " +
         std::to_string(grid.ranks()) + " ranks, a snapshot every " + std::to_string(every) +
         " steps";
}

}  // namespace

Simulation::Simulation(MPI_Comm communicator, const Settings& settings, const Grid& grid)
    : communicator_(communicator),
      settings_(settings),
      grid_(grid),
      block_(BlockOf(settings.plate, grid, static_cast<uint32_t>(RankIn(communicator)))),
      rank_(RankIn(communicator)),
      halo_(communicator, grid, block_),
      stepper_(settings.plate, block_) {}

Result<std::unique_ptr<Simulation>> Simulation::Open(MPI_Comm communicator,
                                                     const Settings& settings) {
  int ranks = 0;
  MPI_Comm_size(communicator, &ranks);
  const std::optional<Grid> grid = GridOf(settings.plate, static_cast<uint32_t>(ranks));
  if (!grid.has_value()) {
    return Status(Code::kInvalidArgument, std::to_string(settings.plate.height) + " x " +
                                              std::to_string(settings.plate.width) +
                                              " cells are too few for " + std::to_string(ranks) +
                                              " ranks");
  }
  std::unique_ptr<Simulation> simulation(new Simulation(communicator, settings, *grid));
  QUIRE_RETURN_IF_ERROR(simulation->Agree(simulation->OpenStream()));
  QUIRE_RETURN_IF_ERROR(simulation->Agree(simulation->CreateField()));
  QUIRE_RETURN_IF_ERROR(simulation->Agree(simulation->GoBack()));
  return simulation;
}

Status Simulation::OpenStream() {
  QUIRE_ASSIGN_OR_RETURN(
      writer_,
      StreamWriter::Open(settings_.place, kStore, static_cast<uint32_t>(rank_), OptionsOfStream()));
  stored_ = writer_->LastSnapshot();
  QUIRE_RETURN_IF_ERROR(CreateState());
  return stored_ > 0 ? CheckNewest() : Status();
}

StreamOptions Simulation::OptionsOfStream() const {
  StreamOptions options;
  // A neighbour waits for this rank's halo, and so is at most one snapshot ahead. If all ranks are
  // killed, all of them must still have the newest snapshot of the slowest one; one more is kept
  // for readers.
  options.keep_versions = std::max(settings_.keep, grid_.diameter() + 2);
  const uint64_t snapshot_bytes = block_.cells() * sizeof(double) + sizeof(State) + (64 << 10);
  options.log_bytes = (options.keep_versions + 4) * snapshot_bytes + (1 << 20);
  options.deltas = settings_.deltas;
  options.wait_ms = 30'000;  // for readers that hold what must be collected
  return options;
}

Status Simulation::CreateState() {
  QUIRE_ASSIGN_OR_RETURN(char* const memory, writer_->Create(kStateKey, sizeof(State)));
  state_ = new (memory) State;
  return Status();
}

Status Simulation::CheckNewest() {
  const std::string path = settings_.place + "/" + kStore;
  if (!settings_.resume) {
    return Status(Code::kInvalidArgument, path +
                                              " has snapshots of another run: --resume goes on "
                                              "with it; or remove it");
  }
  QUIRE_RETURN_IF_ERROR(writer_->Restore(stored_, kStateKey));
  const auto newest = StateFrom({reinterpret_cast<const char*>(state_), sizeof *state_});
  if (!newest.has_value()) {
    return Status(Code::kCorruption, path + ": the state of snapshot " + std::to_string(stored_) +
                                         " is none of this program");
  }
  if (newest->plate != settings_.plate || newest->grid != grid_ ||
      newest->every != settings_.every) {
    return Status(Code::kInvalidArgument,
                  path + " is of " + Named(newest->plate, newest->grid, newest->every) +
                      ", and not of " + Named(settings_.plate, grid_, settings_.every));
  }
  return Status();
}

Status Simulation::CreateField() {
  StreamShape shape;
  shape.element = ElementType::kFloat64;
  shape.extents = {block_.rows + 2, block_.stride()};
  QUIRE_ASSIGN_OR_RETURN(char* const memory,
                         writer_->Create(kFieldKey, block_.cells() * sizeof(double), shape));
  field_ = reinterpret_cast<double*>(memory);  // zeros: it is cold
  return Status();
}

Status Simulation::GoBack() {
  uint64_t common = stored_;
  MPI_Allreduce(MPI_IN_PLACE, &common, 1, MPI_UINT64_T, MPI_MIN, communicator_);
  if (common == 0) return Status();
  QUIRE_RETURN_IF_ERROR(writer_->Restore(common));
  first_step_ = state_->step;
  if (first_step_ != (common - 1) * settings_.every ||
      state_->summary != Summarize(settings_.plate, block_, field_)) {
    return Status(Code::kCorruption, "snapshot " + std::to_string(common) + " of rank " +
                                         std::to_string(rank_) + " is not what its state says");
  }
  return Status();
}

Status Simulation::Run() {
  if (first_step_ == 0) QUIRE_RETURN_IF_ERROR(Snapshot(0));
  for (uint64_t step = first_step_ + 1; step <= settings_.steps; ++step) {
    stepper_.Step(step, field_);
    halo_.Exchange(field_);
    if (step % settings_.every == 0) QUIRE_RETURN_IF_ERROR(Snapshot(step));
  }
  return Status();
}

Status Simulation::Snapshot(uint64_t step) {
  const uint64_t number = step / settings_.every + 1;
  // A rank that was ahead when all ranks were killed already has this snapshot, with the same
  // bytes.
  if (number <= stored_) return Status();
  const double begin = MPI_Wtime();
  *state_ = State{.step = step,
                  .every = settings_.every,
                  .seconds = static_cast<double>(step) * kStepSeconds,
                  .source = SourceAt(settings_.plate, step),
                  .plate = settings_.plate,
                  .grid = grid_,
                  .block = block_,
                  .summary = Summarize(settings_.plate, block_, field_)};
  QUIRE_ASSIGN_OR_RETURN(const uint64_t made, writer_->Snapshot());
  snapshot_seconds_ += MPI_Wtime() - begin;
  if (made != number) {
    return Status(Code::kCorruption, "the snapshot of step " + std::to_string(step) +
                                         " has the number " + std::to_string(made) + ", not " +
                                         std::to_string(number));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(settings_.pause_ms));
  return Status();
}

Summary Simulation::SummarizeAll() const {
  const Summary mine = Summarize(settings_.plate, block_, field_);
  std::vector<Summary> parts(grid_.ranks());
  const int bytes = static_cast<int>(sizeof mine);
  MPI_Gather(&mine, bytes, MPI_BYTE, parts.data(), bytes, MPI_BYTE, 0, communicator_);
  return Combine(parts);
}

Status Simulation::Agree(const Status& mine) const {
  int failed = mine.ok() ? static_cast<int>(grid_.ranks()) : rank_;
  MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MIN, communicator_);
  if (failed == static_cast<int>(grid_.ranks())) return Status();
  std::string text = mine.message();
  int told[] = {static_cast<int>(mine.code()), static_cast<int>(text.size())};
  MPI_Bcast(told, 2, MPI_INT, failed, communicator_);
  text.resize(static_cast<size_t>(told[1]));
  MPI_Bcast(text.data(), told[1], MPI_CHAR, failed, communicator_);
  return Status(static_cast<Code>(told[0]), "rank " + std::to_string(failed) + ": " + text);
}

}  // namespace quire::heat
