// The program of the README's section on streams.
#include <quire/stream.h>

#include <iostream>

int main() {
  const quire::Status status = []() -> quire::Status {
    QUIRE_ASSIGN_OR_RETURN(auto writer, quire::StreamWriter::Open("hello-streams", "hello", 0));
    QUIRE_ASSIGN_OR_RETURN(char* const text, writer->Create("text", 6));
    // In another process, most often.
    QUIRE_ASSIGN_OR_RETURN(auto reader, quire::StreamReader::Open("hello-streams", "hello", 0));
    for (char step = '1'; step <= '3'; ++step) {
      quire::Slice("step ").copy(text, 5);
      text[5] = step;
      QUIRE_ASSIGN_OR_RETURN(const uint64_t snapshot, writer->Snapshot());
      QUIRE_ASSIGN_OR_RETURN(const auto view, reader->ViewAt("text", snapshot));
      std::cout << "snapshot " << snapshot << ": " << view->bytes() << "\n";
    }
    return writer->Finish();
  }();
  if (!status.ok()) std::cerr << status.ToString() << std::endl;
  return !status.ok();
}
