// Makes streams for the tests of the command quire: make_stream PLACE [stay]
//
//   heat   rank 0, three snapshots: field (float64, 2 x 3: v, v + 0.5, ... for snapshot v), ids
//          (4 of int32, one negative), note (bytes), 00 ff (2 of complex64)
//          rank 2, one put of field
//
// stay: prints "ready" once a writer of rank 5 has one snapshot of field. For each line of input it
// makes one more and prints "ready"; it finishes when the input ends.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <memory>
#include <string>

#include "io/files/file_system.h"
#include "stream/store/writer.h"

namespace quire {
namespace {

Result<std::unique_ptr<StreamWriter>> Open(const std::string& place, uint32_t rank) {
  StreamOptions options;
  options.log_bytes = 1 << 20;
  options.keep_versions = 8;
  return stream::OpenWriter(io::PosixFileSystem(), place, "heat", rank, options);
}

template <typename Element>
Result<Element*> Create(StreamWriter& writer, Slice key, uint64_t count, const StreamShape& shape) {
  QUIRE_ASSIGN_OR_RETURN(char* const memory, writer.Create(key, count * sizeof(Element), shape));
  return reinterpret_cast<Element*>(memory);
}

Status MakeRank0(const std::string& place) {
  QUIRE_ASSIGN_OR_RETURN(const auto writer, Open(place, 0));
  QUIRE_ASSIGN_OR_RETURN(double* const field,
                         Create<double>(*writer, "field", 6, {ElementType::kFloat64, {2, 3}}));
  QUIRE_ASSIGN_OR_RETURN(int32_t* const ids,
                         Create<int32_t>(*writer, "ids", 4, {ElementType::kInt32, {}}));
  QUIRE_ASSIGN_OR_RETURN(char* const note, Create<char>(*writer, "note", 6, {}));
  QUIRE_ASSIGN_OR_RETURN(float* const waves, Create<float>(*writer, Slice("\0\xff", 2), 4,
                                                           {ElementType::kComplex64, {2}}));
  std::memcpy(note, "hello\n", 6);
  waves[1] = 1.5;
  waves[2] = -2;
  for (int snapshot = 1; snapshot <= 3; ++snapshot) {
    for (int i = 0; i < 6; ++i) field[i] = snapshot + 0.5 * i;
    for (int i = 0; i < 4; ++i) ids[i] = i - 1;
    QUIRE_RETURN_IF_ERROR(writer->Snapshot().status());
  }
  return writer->Finish();
}

Status MakeRank2(const std::string& place) {
  QUIRE_ASSIGN_OR_RETURN(const auto writer, Open(place, 2));
  QUIRE_RETURN_IF_ERROR(Create<double>(*writer, "field", 6, {}).status());
  QUIRE_RETURN_IF_ERROR(writer->Put("field").status());
  return writer->Finish();
}

Status StayAsRank5(const std::string& place) {
  QUIRE_ASSIGN_OR_RETURN(const auto writer, Open(place, 5));
  QUIRE_ASSIGN_OR_RETURN(double* const field,
                         Create<double>(*writer, "field", 6, {ElementType::kFloat64, {2, 3}}));
  std::string line;
  for (int snapshot = 1; snapshot == 1 || std::getline(std::cin, line); ++snapshot) {
    for (int i = 0; i < 6; ++i) field[i] = snapshot + 0.5 * i;
    QUIRE_RETURN_IF_ERROR(writer->Snapshot().status());
    std::cout << "ready" << std::endl;
  }
  return writer->Finish();
}

Status Make(const std::string& place) {
  QUIRE_RETURN_IF_ERROR(MakeRank0(place));
  return MakeRank2(place);
}

}  // namespace
}  // namespace quire

int main(int argc, char** argv) {
  const bool stays = argc == 3 && std::string(argv[2]) == "stay";
  if (argc != 2 && !stays) return 2;
  const quire::Status made = stays ? quire::StayAsRank5(argv[1]) : quire::Make(argv[1]);
  if (!made.ok()) std::fprintf(stderr, "%s\n", made.ToString().c_str());
  return made.ok() ? 0 : 1;
}
