// The exchange between neighbours after each step: the cells along their common edge.
#pragma once

#include <mpi.h>

#include "plate.h"

namespace quire::heat {

class Halo {
 public:
  Halo(MPI_Comm communicator, const Grid& grid, const Block& block);
  ~Halo();
  Halo(const Halo&) = delete;
  Halo& operator=(const Halo&) = delete;

  /// Fills the halo of this rank's block, in place, and the halos of its neighbours. Collective.
  void Exchange(double* field) const;

 private:
  struct Way;
  void Send(double* field, const Way& way) const;

  MPI_Comm communicator_;
  Block block_;
  // MPI_PROC_NULL beyond the edge of the plate: nothing is sent, and the halo stays 0.
  int above_ = MPI_PROC_NULL;
  int below_ = MPI_PROC_NULL;
  int left_ = MPI_PROC_NULL;
  int right_ = MPI_PROC_NULL;
  MPI_Datatype row_ = MPI_DATATYPE_NULL;
  MPI_Datatype column_ = MPI_DATATYPE_NULL;
};

}  // namespace quire::heat
