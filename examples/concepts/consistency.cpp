// Consistency: when other ranks see a put. Relaxed puts, the default, are sent in batches: use them
// for speed, and call Fence() before others read. Sequential puts are visible at return: use them
// if ranks read and write the same keys all the time. The program prints:
//   relaxed: every rank read step 1 of its neighbour after the fence
//   sequential: every rank read step 2 of its neighbour after the put
#include "main.h"

using quire::examples::Expect;

int main(int argc, char** argv) {
  return quire::examples::RunRanks(argc, argv, [](quire::Context& context) -> quire::Status {
    QUIRE_ASSIGN_OR_RETURN(auto steps, context.Open("steps", {}));
    const std::string mine = std::to_string(context.rank());
    const std::string neighbour = std::to_string((context.rank() + 1) % context.size());
    std::string value;

    QUIRE_RETURN_IF_ERROR(steps->Put(mine, "1"));  // staged: this rank sees it, others may not
    QUIRE_RETURN_IF_ERROR(steps->Fence());         // the owner has it
    QUIRE_RETURN_IF_ERROR(context.Barrier());      // all ranks are here
    QUIRE_RETURN_IF_ERROR(steps->Get(neighbour, &value));
    QUIRE_RETURN_IF_ERROR(Expect(value == "1", "relaxed: step " + value));

    // All ranks change the consistency together, so all have read before a rank puts again.
    QUIRE_RETURN_IF_ERROR(steps->SetConsistency(quire::Consistency::kSequential));
    QUIRE_RETURN_IF_ERROR(steps->Put(mine, "2"));  // the owner has it: no fence
    QUIRE_RETURN_IF_ERROR(context.Barrier());
    QUIRE_RETURN_IF_ERROR(steps->Get(neighbour, &value));
    QUIRE_RETURN_IF_ERROR(Expect(value == "2", "sequential: step " + value));
    QUIRE_RETURN_IF_ERROR(steps->Close());  // succeeds if all ranks come here
    if (context.rank() != 0) return {};
    std::cout << "relaxed: every rank read step 1 of its neighbour after the fence\n"
              << "sequential: every rank read step 2 of its neighbour after the put\n";
    return {};
  });
}
