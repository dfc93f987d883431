// Batches: PutMany and GetMany work on many pairs in one call; GetMany asks all owners at once. The
// writes of a Batch take effect together at each owner, also if the job is killed. Use it for pairs
// that belong together; a partitioner sees to it that they have the same owner. It prints:
//   999 orders are open; 1 is paid and has a receipt
#include "main.h"

// The keys of order 7 are "7/state" and "7/receipt": its number decides.
int OwnerOfOrder(quire::Slice key, int ranks) {
  return std::stoi(std::string(key)) % ranks;
}

int main(int argc, char** argv) {
  return quire::examples::RunRanks(argc, argv, [](quire::Context& context) -> quire::Status {
    quire::DatabaseOptions options;
    options.partitioner = OwnerOfOrder;
    QUIRE_ASSIGN_OR_RETURN(auto orders, context.Open("orders", options));
    std::vector<std::string> keys;  // a Slice refers to bytes that the program holds
    for (int order = 0; order < 1000; ++order) keys.push_back(std::to_string(order) + "/state");
    if (context.rank() == 0) {
      std::vector<std::pair<quire::Slice, quire::Slice>> pairs;
      for (const std::string& key : keys) pairs.emplace_back(key, "open");
      QUIRE_RETURN_IF_ERROR(orders->PutMany(pairs));
      quire::Batch batch;
      batch.Put("7/state", "paid");
      batch.Put("7/receipt", "R-7");
      QUIRE_RETURN_IF_ERROR(orders->Write(batch));  // returns when the owner has applied it
    }
    QUIRE_RETURN_IF_ERROR(orders->Barrier(quire::Level::kMemTable));

    keys.push_back("7/receipt");
    std::vector<std::string> values, expected(1000, "open");
    std::vector<bool> found;
    QUIRE_RETURN_IF_ERROR(orders->GetMany({keys.begin(), keys.end()}, &values, &found));
    expected[7] = "paid";
    expected.push_back("R-7");
    QUIRE_RETURN_IF_ERROR(quire::examples::Expect(values == expected, "the values of the orders"));
    if (context.rank() == 0) std::cout << "999 orders are open; 1 is paid and has a receipt\n";
    return orders->Close();
  });
}
