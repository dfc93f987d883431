#include "halo.h"

namespace quire::heat {

// Cells that go to one neighbour, and the halo that comes from the neighbour at the other side.
struct Halo::Way {
  MPI_Datatype cells;
  uint64_t from_cell;
  int to_rank;
  uint64_t to_cell;
  int from_rank;
};

Halo::Halo(MPI_Comm communicator, const Grid& grid, const Block& block)
    : communicator_(communicator), block_(block) {
  int rank = 0;
  MPI_Comm_rank(communicator, &rank);
  const int columns = static_cast<int>(grid.columns);
  const int row = rank / columns;
  const int column = rank % columns;
  if (row > 0) above_ = rank - columns;
  if (row + 1 < static_cast<int>(grid.rows)) below_ = rank + columns;
  if (column > 0) left_ = rank - 1;
  if (column + 1 < columns) right_ = rank + 1;
  MPI_Type_contiguous(static_cast<int>(block.columns), MPI_DOUBLE, &row_);
  MPI_Type_commit(&row_);
  MPI_Type_vector(static_cast<int>(block.rows), 1, static_cast<int>(block.stride()), MPI_DOUBLE,
                  &column_);
  MPI_Type_commit(&column_);
}

Halo::~Halo() {
  MPI_Type_free(&row_);
  MPI_Type_free(&column_);
}

void Halo::Exchange(double* field) const {
  const Block& block = block_;
  const uint64_t last_row = block.rows;
  const uint64_t last_column = block.columns;
  Send(field, {row_, block.At(1, 1), above_, block.At(last_row + 1, 1), below_});
  Send(field, {row_, block.At(last_row, 1), below_, block.At(0, 1), above_});
  Send(field, {column_, block.At(1, 1), left_, block.At(1, last_column + 1), right_});
  Send(field, {column_, block.At(1, last_column), right_, block.At(1, 0), left_});
}

void Halo::Send(double* field, const Way& way) const {
  MPI_Sendrecv(field + way.from_cell, 1, way.cells, way.to_rank, 0, field + way.to_cell, 1,
               way.cells, way.from_rank, 0, communicator_, MPI_STATUS_IGNORE);
}

}  // namespace quire::heat
