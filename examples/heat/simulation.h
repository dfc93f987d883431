// One rank's part of the simulation: it computes in the memory of its stream's objects, so that a
// snapshot is one call, and goes on from the newest snapshot that all ranks have.
#pragma once

#include <mpi.h>

#include <memory>
#include <string>

#include "halo.h"
#include "plate.h"
#include "quire/stream.h"
#include "state.h"

namespace quire::heat {

struct Settings {
  std::string place = "heat.quire";
  Plate plate = {256, 256};
  uint64_t steps = 500;
  uint64_t every = 10;
  uint32_t keep = 8;
  StreamDeltas deltas = StreamDeltas::kAuto;
  bool resume = false;
  uint64_t pause_ms = 0;
};

class Simulation {
 public:
  /// Opens this rank's stream. Collective; all ranks return the same, and so do those below.
  static Result<std::unique_ptr<Simulation>> Open(MPI_Comm communicator, const Settings& settings);

  /// All steps. A snapshot is made of step 0 and of each `every` ones after it: its number tells
  /// the step, (number - 1) * every.
  Status Run();
  /// The step that the stream had when it was opened.
  uint64_t first_step() const { return first_step_; }
  /// Of the whole plate now; on rank 0.
  Summary SummarizeAll() const;
  /// Those who read hear that nothing more will come. The field is gone then.
  Status Finish() { return writer_->Finish(); }
  /// [seconds] In snapshots.
  double snapshot_seconds() const { return snapshot_seconds_; }
  const Grid& grid() const { return grid_; }
  const StreamWriter& writer() const { return *writer_; }

 private:
  Simulation(MPI_Comm communicator, const Settings& settings, const Grid& grid);

  Status OpenStream();
  StreamOptions OptionsOfStream() const;
  Status CreateState();
  // What the stream's newest state says must fit this run.
  Status CheckNewest();
  Status CreateField();
  // To the newest snapshot that all ranks have.
  Status GoBack();
  Status Snapshot(uint64_t step);
  // All ranks return the failure of the first that has one.
  Status Agree(const Status& mine) const;

  MPI_Comm communicator_;
  Settings settings_;
  Grid grid_;
  Block block_;
  int rank_ = 0;
  Halo halo_;
  Stepper stepper_;
  std::unique_ptr<StreamWriter> writer_;
  State* state_ = nullptr;  // both are objects of the stream
  double* field_ = nullptr;
  uint64_t stored_ = 0;  // the newest snapshot when the stream was opened
  uint64_t first_step_ = 0;
  double snapshot_seconds_ = 0;
};

}  // namespace quire::heat
