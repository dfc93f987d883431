// Protection: all ranks say what they do for a while. Quire refuses the rest, and can be faster:
// while a database is read-only, each rank caches pairs of other ranks. Use it for tables that are
// filled first and read afterwards. The program prints:
//   write-only: a get returns invalid argument
//   read-only: a put returns read-only
#include "main.h"

using quire::Protection;
using quire::examples::Expect;

int main(int argc, char** argv) {
  return quire::examples::RunRanks(argc, argv, [](quire::Context& context) -> quire::Status {
    QUIRE_ASSIGN_OR_RETURN(auto table, context.Open("table", {}));
    const std::string mine = std::to_string(context.rank());
    const std::string last = std::to_string(context.size() - 1);
    std::string value;

    QUIRE_RETURN_IF_ERROR(table->Protect(Protection::kWriteOnly));
    QUIRE_RETURN_IF_ERROR(table->Put(mine, "of rank " + mine));
    const quire::Status get = table->Get(last, &value);
    QUIRE_RETURN_IF_ERROR(Expect(get.code() == quire::Code::kInvalidArgument, get.ToString()));

    // Protect() fences on all ranks: the reading phase sees every put of the writing phase.
    QUIRE_RETURN_IF_ERROR(table->Protect(Protection::kReadOnly));
    QUIRE_RETURN_IF_ERROR(table->Get(last, &value));
    QUIRE_RETURN_IF_ERROR(Expect(value == "of rank " + last, value));
    const quire::Status put = table->Put(mine, "changed");
    QUIRE_RETURN_IF_ERROR(Expect(put.code() == quire::Code::kReadOnly, put.ToString()));

    QUIRE_RETURN_IF_ERROR(table->Protect(Protection::kReadWrite));
    if (context.rank() == 0) {
      std::cout << "write-only: a get returns " << quire::CodeName(get.code()) << "\n"
                << "read-only: a put returns " << quire::CodeName(put.code()) << "\n";
    }
    return table->Close();
  });
}
