// Dataset: ranks write pairs epoch by epoch, and each pair stays on the rank that made it. Readers
// then find the pairs by key. Use it for output that is written once, such as the particles of each
// step. The program prints:
//   particle 42 was at 42.0, then at 42.5
#include <quire/dataset.h>

#include "main.h"

int main(int argc, char** argv) {
  return quire::examples::RunRanks(argc, argv, [](quire::Context& context) -> quire::Status {
    QUIRE_ASSIGN_OR_RETURN(auto writer, quire::DatasetWriter::Open(context, "particles"));
    const uint64_t first = writer->LastEpoch().value_or(0) + 1;  // after those of earlier runs
    for (int step = 0; step < 2; ++step) {
      QUIRE_RETURN_IF_ERROR(writer->BeginEpoch(first + step));
      // Particles move between ranks: in each step another rank has them.
      for (int id = (context.rank() + step) % context.size(); id < 1000; id += context.size()) {
        const std::string place = std::to_string(id) + (step == 0 ? ".0" : ".5");
        QUIRE_RETURN_IF_ERROR(writer->Put("particle " + std::to_string(id), place));
      }
      QUIRE_RETURN_IF_ERROR(writer->EndEpoch());  // the epoch is complete and durable
    }
    QUIRE_RETURN_IF_ERROR(writer->Finish());
    if (context.rank() != 0) return {};

    // In another program, most often, and without MPI; also while the writer writes.
    QUIRE_ASSIGN_OR_RETURN(auto reader,
                           quire::DatasetReader::Open(context.repository() + "/particles"));
    std::vector<quire::DatasetValue> before, after;  // one value from each rank that put the key
    QUIRE_RETURN_IF_ERROR(reader->Get(first, "particle 42", &before));
    QUIRE_RETURN_IF_ERROR(reader->Get(first + 1, "particle 42", &after));
    QUIRE_RETURN_IF_ERROR(quire::examples::Expect(
        before.size() == 1 && before[0].value == "42.0" && after[0].value == "42.5", "a place"));
    std::cout << "particle 42 was at " << before[0].value << ", then at " << after[0].value << "\n";
    return {};
  });
}
