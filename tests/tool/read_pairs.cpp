// Prints all pairs of a database, as `quire scan` does: read_pairs DIRECTORY [PART...]
//
// It reads by quire::DatabaseReader, forwards and then key by key. With parts, it reads by
// lsm::Reader, and prints for each part one line "<records in the log> <live pairs>", after it has
// verified every checksum. It refreshes each reader before it reads. Exit status 1, with the error
// text, if a call fails.
#include <cstdio>
#include <memory>
#include <string>

#include "io/files/file_system.h"
#include "lsm/db/db.h"
#include "lsm/offline/reader.h"
#include "quire/reader.h"

namespace quire {
namespace {

Status PrintPairs(const std::string& directory) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<DatabaseReader> reader,
                         DatabaseReader::Open(directory));
  QUIRE_RETURN_IF_ERROR(reader->Refresh());
  const std::unique_ptr<LocalIterator> pairs = reader->NewIterator();
  for (pairs->SeekToFirst(); pairs->Valid(); pairs->Next()) {
    const std::string key(pairs->key());
    std::string value;
    QUIRE_RETURN_IF_ERROR(reader->Get(key, &value));
    if (value != pairs->value()) return Status(Code::kCorruption, "two values of " + key);
    std::printf("%s\t%s\n", key.c_str(), value.c_str());
  }
  return pairs->status();
}

Status PrintPart(const std::string& directory) {
  QUIRE_ASSIGN_OR_RETURN(const std::shared_ptr<lsm::Reader> first,
                         lsm::Reader::Open(io::PosixFileSystem(), directory, {}));
  QUIRE_ASSIGN_OR_RETURN(const std::shared_ptr<engine::StoredPart> newer, first->Newer());
  const auto reader = std::static_pointer_cast<lsm::Reader>(newer);
  QUIRE_RETURN_IF_ERROR(reader->Verify({}));
  const std::unique_ptr<engine::Iterator> pairs = reader->NewIterator({});
  int count = 0;
  for (pairs->SeekToFirst(); pairs->Valid(); pairs->Next()) ++count;
  std::printf("%llu %d\n", static_cast<unsigned long long>(reader->State().log_records), count);
  return pairs->status();
}

int Run(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s DIRECTORY [PART...]\n", argv[0]);
    return 2;
  }
  Status status = argc == 2 ? PrintPairs(argv[1]) : Status();
  for (int i = 2; i < argc && status.ok(); ++i) status = PrintPart(argv[i]);
  if (!status.ok()) std::fprintf(stderr, "read_pairs: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace quire

int main(int argc, char** argv) {
  return quire::Run(argc, argv);
}
