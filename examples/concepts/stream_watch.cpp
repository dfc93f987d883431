// Streams: a simulation stores versions of its arrays; a reader sleeps until the next one, and sees
// it whole. Use a stream to watch a running simulation. Rank 0 writes here and the others read, so
// start 2 or more; most readers are programs of their own, without MPI. The program prints:
//   the reader saw steps 1 2 3 4 5, and the end
#include <quire/stream.h>

#include "main.h"

int main(int argc, char** argv) {
  return quire::examples::RunRanks(argc, argv, [](quire::Context& context) -> quire::Status {
    const std::string place = "concepts-streams";
    if (context.rank() == 0) {
      const quire::StreamOptions options{.log_bytes = 1 << 20, .keep_versions = 5};
      QUIRE_ASSIGN_OR_RETURN(auto writer, quire::StreamWriter::Open(place, "heat", 0, options));
      QUIRE_ASSIGN_OR_RETURN(char* const step, writer->Create("step", 1));  // or a large array
      QUIRE_RETURN_IF_ERROR(context.Barrier());  // the stream exists: readers open it
      QUIRE_RETURN_IF_ERROR(context.Barrier());
      for (*step = '1'; *step <= '5'; ++*step) QUIRE_RETURN_IF_ERROR(writer->Snapshot().status());
      return writer->Finish();
    }

    QUIRE_RETURN_IF_ERROR(context.Barrier());
    QUIRE_ASSIGN_OR_RETURN(auto reader, quire::StreamReader::Open(place, "heat", 0));
    QUIRE_ASSIGN_OR_RETURN(uint64_t seen, reader->LastSnapshot());  // of an earlier run, or 0
    QUIRE_RETURN_IF_ERROR(context.Barrier());
    std::string step, steps;
    while (steps != " 1 2 3 4 5") {
      QUIRE_ASSIGN_OR_RETURN(const uint64_t newest, reader->Wait(seen, 60'000));
      while (seen < newest) {
        QUIRE_RETURN_IF_ERROR(reader->GetAt("step", ++seen, &step));
        steps += " " + step;
      }
    }
    // Once the writer has finished, no snapshot will come, and Wait returns "not found".
    const quire::Status end = reader->Wait(seen, 60'000).status();
    QUIRE_RETURN_IF_ERROR(quire::examples::Expect(end.code() == quire::Code::kNotFound, "end"));
    if (context.rank() == 1) std::cout << "the reader saw steps" << steps << ", and the end\n";
    return {};
  });
}
