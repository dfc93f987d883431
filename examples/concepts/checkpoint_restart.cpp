// Checkpoint and restart: all ranks write a checkpoint in the background; an Event says when it is
// complete. Use it to go on after a failure, or with another number of ranks. Here rank 0 restarts
// alone from the pairs of all ranks. The program prints:
//   1000 pairs restored on one rank; the later put is not among them
#include <filesystem>

#include "main.h"

using quire::examples::Expect;

int main(int argc, char** argv) {
  return quire::examples::RunRanks(argc, argv, [](quire::Context& context) -> quire::Status {
    const std::string path = std::filesystem::absolute("concepts-checkpoints");
    QUIRE_ASSIGN_OR_RETURN(auto state, context.Open("state", {}));
    QUIRE_RETURN_IF_ERROR(state->Delete("later"));  // that of an earlier run
    for (int cell = context.rank(); cell < 1000; cell += context.size()) {
      QUIRE_RETURN_IF_ERROR(state->Put(std::to_string(cell), "value"));
    }
    QUIRE_ASSIGN_OR_RETURN(auto checkpoint, state->Checkpoint(path, {.keep = 1}));
    QUIRE_RETURN_IF_ERROR(state->Put("later", "value"));  // ranks go on while files are copied
    QUIRE_RETURN_IF_ERROR(checkpoint->Wait());
    QUIRE_RETURN_IF_ERROR(state->Close());

    if (context.rank() != 0) return {};
    QUIRE_ASSIGN_OR_RETURN(auto alone, quire::OpenContext(MPI_COMM_SELF, "concepts-alone"));
    QUIRE_ASSIGN_OR_RETURN(auto restart, alone->Restart(path, "state", {.replace = true}));
    QUIRE_RETURN_IF_ERROR(restart->Wait());
    QUIRE_ASSIGN_OR_RETURN(auto restored, alone->Open("state", {}));
    int count = 0;
    const auto pair = restored->NewLocalIterator();
    for (pair->SeekToFirst(); pair->Valid(); pair->Next()) ++count;
    QUIRE_RETURN_IF_ERROR(pair->status());
    QUIRE_RETURN_IF_ERROR(Expect(count == 1000, std::to_string(count) + " pairs restored"));
    std::cout << "1000 pairs restored on one rank; the later put is not among them\n";
    return restored->Close();
  });
}
