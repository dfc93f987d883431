#include "snapshot.h"

#include <algorithm>
#include <string>

namespace quire::heat {
namespace {

// One rank's part of a snapshot.
struct Part {
  State state;
  std::unique_ptr<StreamView> view;
  const double* field = nullptr;
};

Status Torn(uint64_t number, size_t rank, const std::string& what) {
  return Status(Code::kCorruption, "snapshot " + std::to_string(number) + " of rank " +
                                       std::to_string(rank) + ": " + what);
}

Result<Part> ReadPart(const Readers& ranks, uint64_t number, size_t rank) {
  StreamReader& reader = *ranks[rank];
  Part part;
  std::string bytes;
  QUIRE_RETURN_IF_ERROR(reader.GetAt(kStateKey, number, &bytes));
  const auto state = StateFrom(bytes);
  if (!state.has_value()) return Torn(number, rank, "its state is none of heat");
  part.state = *state;
  if (part.state.grid.ranks() != ranks.size()) return Torn(number, rank, "another run's");
  if (part.state.block != BlockOf(part.state.plate, part.state.grid, static_cast<uint32_t>(rank))) {
    return Torn(number, rank, "its block is another rank's");
  }
  if (part.state.step != (number - 1) * part.state.every) return Torn(number, rank, "another step");
  QUIRE_ASSIGN_OR_RETURN(part.view, reader.ViewAt(kFieldKey, number));
  if (part.view->version().snapshot != number) return Torn(number, rank, "another's field");
  if (part.view->bytes().size() != part.state.block.cells() * sizeof(double)) {
    return Torn(number, rank, "its field has another size than its block");
  }
  // Points to the field: at the beginning of a line of the log, or in the view's own memory.
  part.field = reinterpret_cast<const double*>(part.view->bytes().data());
  if (Summarize(part.state.plate, part.state.block, part.field) != part.state.summary) {
    return Torn(number, rank, "its field is not what its state says");
  }
  return part;
}

void CopyInto(const Part& part, std::vector<double>* field) {
  const Block& block = part.state.block;
  for (uint64_t row = 0; row < block.rows; ++row) {
    std::copy_n(
        part.field + block.At(row + 1, 1), block.columns,
        field->data() + (block.first_row + row) * part.state.plate.width + block.first_column);
  }
}

// Checks the halos. The ranks exchanged them before they stored: each must have its neighbours'
// values.
bool HaloAgrees(const Part& part, const std::vector<double>& field) {
  const Block& block = part.state.block;
  const Plate& plate = part.state.plate;
  const auto agrees = [&](uint64_t row, uint64_t column) {
    // Outside the plate the subtraction wraps around, and the result is at least the height or
    // width.
    const uint64_t global_row = block.first_row + row - 1;
    const uint64_t global_column = block.first_column + column - 1;
    const bool outside = global_row >= plate.height || global_column >= plate.width;
    return part.field[block.At(row, column)] ==
           (outside ? 0 : field[global_row * plate.width + global_column]);
  };
  for (uint64_t column = 1; column <= block.columns; ++column) {
    if (!agrees(0, column) || !agrees(block.rows + 1, column)) return false;
  }
  for (uint64_t row = 1; row <= block.rows; ++row) {
    if (!agrees(row, 0) || !agrees(row, block.columns + 1)) return false;
  }
  return true;
}

}  // namespace

Result<Assembled> Assemble(const Readers& ranks, uint64_t number) {
  std::vector<Part> parts;
  std::vector<Summary> summaries;
  Assembled all;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    QUIRE_ASSIGN_OR_RETURN(Part part, ReadPart(ranks, number, rank));
    if (rank == 0) {
      all.state = part.state;
      all.field.resize(part.state.plate.height * part.state.plate.width);
    }
    if (part.state.step != all.state.step || part.state.plate != all.state.plate) {
      return Torn(number, rank, "it is not of the same run and step as rank 0");
    }
    CopyInto(part, &all.field);
    summaries.push_back(part.state.summary);
    parts.push_back(std::move(part));
  }
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    if (!HaloAgrees(parts[rank], all.field)) {
      return Torn(number, rank, "its halo is not what its neighbours have");
    }
  }
  all.state.summary = Combine(summaries);
  return all;
}

}  // namespace quire::heat
