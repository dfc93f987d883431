// One rank's part of the simulation: it computes in the memory of its stream's objects, so that a
// snapshot is one call, and it continues from the newest snapshot that all ranks have.
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
  /// Opens this rank's stream. Collective; all ranks return the same outcome, as in the calls
  /// below.
  static Result<std::unique_ptr<Simulation>> Open(MPI_Comm communicator, const Settings& settings);

  /// Computes all steps. Makes a snapshot of step 0 and of every `every`-th step: a snapshot's step
  /// is (number - 1) * every.
  Status Run();
  /// Returns the step that the stream contained when it was opened.
  uint64_t first_step() const { return first_step_; }
  /// Returns the summary of the whole plate now; on rank 0.
  Summary SummarizeAll() const;
  /// Ends the stream, which readers notice. The field must not be used afterwards.
  Status Finish() { return writer_->Finish(); }
  /// Returns the time spent in snapshots [seconds].
  double snapshot_seconds() const { return snapshot_seconds_; }
  const Grid& grid() const { return grid_; }
  const StreamWriter& writer() const { return *writer_; }

 private:
  Simulation(MPI_Comm communicator, const Settings& settings, const Grid& grid);

  Status OpenStream();
  StreamOptions OptionsOfStream() const;
  Status CreateState();
  // Checks that the stream's newest state fits this run.
  Status CheckNewest();
  Status CreateField();
  // Restores the newest snapshot that all ranks have.
  Status GoBack();
  Status Snapshot(uint64_t step);
  // Returns, on all ranks, the failure of the first rank that has one.
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
