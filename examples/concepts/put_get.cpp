// Put and get: all ranks put pairs into one key space, and each rank gets the pairs of all. Use a
// database for many small things that have names, such as cells or results. The program prints:
//   cell 7 has the value 49
//   cell 100: not found
#include "main.h"

using quire::examples::Expect;

int main(int argc, char** argv) {
  return quire::examples::RunRanks(argc, argv, [](quire::Context& context) -> quire::Status {
    QUIRE_ASSIGN_OR_RETURN(auto cells, context.Open("cells", {}));
    // The pair goes to the owner of its key, a rank that depends on the key alone.
    for (int cell = context.rank(); cell < 100; cell += context.size()) {
      QUIRE_RETURN_IF_ERROR(
          cells->Put("cell " + std::to_string(cell), std::to_string(cell * cell)));
    }
    QUIRE_RETURN_IF_ERROR(cells->Barrier(quire::Level::kMemTable));  // all ranks see all puts now

    std::string value;
    for (int cell = 0; cell < 100; ++cell) {
      const std::string key = "cell " + std::to_string(cell);
      QUIRE_RETURN_IF_ERROR(cells->Get(key, &value));
      QUIRE_RETURN_IF_ERROR(Expect(value == std::to_string(cell * cell), key + " is " + value));
      if (cell == 7 && context.rank() == 0) std::cout << key << " has the value " << value << "\n";
    }
    // "Not found" is a result, not a failure.
    const quire::Status absent = cells->Get("cell 100", &value);
    QUIRE_RETURN_IF_ERROR(Expect(absent.code() == quire::Code::kNotFound, absent.ToString()));
    if (context.rank() == 0) std::cout << "cell 100: " << absent.ToString() << "\n";
    return cells->Close();  // the pairs stay; the next run finds them
  });
}
