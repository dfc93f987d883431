// Local iterator: each rank walks over the pairs that it owns, in the order of the keys' bytes. Use
// it to work on all pairs where they are: no pair travels. Numbers in keys need leading zeros: "10"
// is before "9". The program prints:
//   the ranks own 1000 pairs, and 100 from key 0500 to 0599
#include "main.h"

using quire::examples::Expect;

int main(int argc, char** argv) {
  return quire::examples::RunRanks(argc, argv, [](quire::Context& context) -> quire::Status {
    QUIRE_ASSIGN_OR_RETURN(auto numbers, context.Open("numbers", {}));
    for (int number = context.rank(); number < 1000; number += context.size()) {
      const std::string digits = std::to_string(number);
      QUIRE_RETURN_IF_ERROR(numbers->Put(std::string(4 - digits.size(), '0') + digits, "value"));
    }
    QUIRE_RETURN_IF_ERROR(numbers->Barrier(quire::Level::kMemTable));

    int counts[2] = {0, 0};  // all pairs of this rank, and those from 0500 to 0599
    std::string before;
    const auto pair = numbers->NewLocalIterator();
    for (pair->SeekToFirst(); pair->Valid(); pair->Next()) {
      QUIRE_RETURN_IF_ERROR(Expect(pair->key() > before, "order at " + before));
      before = pair->key();
      ++counts[0];
    }
    QUIRE_RETURN_IF_ERROR(pair->status());  // the walk ended, and did not fail
    for (pair->Seek("0500"); pair->Valid() && pair->key() < "0600"; pair->Next()) ++counts[1];
    QUIRE_RETURN_IF_ERROR(pair->status());

    MPI_Allreduce(MPI_IN_PLACE, counts, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    QUIRE_RETURN_IF_ERROR(Expect(counts[0] == 1000 && counts[1] == 100, "counts"));
    if (context.rank() == 0) {
      std::cout << "the ranks own 1000 pairs, and 100 from key 0500 to 0599\n";
    }
    return numbers->Close();
  });
}
