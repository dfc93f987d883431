// Updates: a function of the program changes a value at its owner, atomically for the key. Use it
// for counters and sums that many ranks change: a get and a put would lose changes of others.
// The program prints:
//   the sum of 1 to 100 is 5050
#include "main.h"

using quire::Slice;

int main(int argc, char** argv) {
  return quire::examples::RunRanks(argc, argv, [](quire::Context& context) -> quire::Status {
    constexpr uint32_t kAdd = 1;
    QUIRE_ASSIGN_OR_RETURN(auto sums, context.Open("sums", {}));
    QUIRE_RETURN_IF_ERROR(sums->RegisterUpdate(
        kAdd, [](Slice, const Slice* present, Slice argument, std::string* updated) {
          const int before = present == nullptr ? 0 : std::stoi(std::string(*present));
          *updated = std::to_string(before + std::stoi(std::string(argument)));
          return quire::Status();
        }));
    if (context.rank() == 0) QUIRE_RETURN_IF_ERROR(sums->Delete("sum"));  // that of an earlier run
    // Before the first update, all ranks must have the function.
    QUIRE_RETURN_IF_ERROR(sums->Barrier(quire::Level::kMemTable));

    for (int number = context.rank() + 1; number <= 100; number += context.size()) {
      QUIRE_RETURN_IF_ERROR(sums->Update("sum", kAdd, std::to_string(number)));
    }
    QUIRE_RETURN_IF_ERROR(sums->Barrier(quire::Level::kMemTable));
    std::string sum;
    QUIRE_RETURN_IF_ERROR(sums->Get("sum", &sum));
    QUIRE_RETURN_IF_ERROR(quire::examples::Expect(sum == "5050", "the sum is " + sum));
    if (context.rank() == 0) std::cout << "the sum of 1 to 100 is " << sum << "\n";
    return sums->Close();
  });
}
