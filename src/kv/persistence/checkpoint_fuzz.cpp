// DecodeCommitRecord, DecodeFileList and DecodeOutcome of arbitrary bytes: an error that names the
// file, or what is the same after encoding.
//
// Input: a byte that says what, and its text. 'C' CHECKPOINT and 'F' FILES as they are; 'c' and 'f'
// with a first line before and a checksum behind that hold, so that the lines between are reached;
// 'N' an outcome, as news of jobs and gathered statuses have it.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/core/check.h"
#include "kv/persistence/checkpoint_files.h"
#include "runtime/agreement.h"
#include "runtime/checksummed_text.h"

namespace quire::kv {
namespace {

constexpr char kPath[] = "/pfs/db/1";

std::string Sealed(const char* magic, Slice lines) {
  std::string text = runtime::BeginText({magic, 1, ""}) + std::string(lines) + "\n";
  runtime::AppendChecksum(&text);
  return text;
}

void RunCommit(Slice text) {
  const Result<CommitRecord> record = DecodeCommitRecord(text, kPath);
  if (!record.ok()) {
    QUIRE_CHECK(record.status().message().find(kPath) != std::string::npos);
    return;
  }
  QUIRE_CHECK(!record->parts.empty() && io::CheckName(record->database).ok());
  const std::string encoded = EncodeCommitRecord(*record);
  const Result<CommitRecord> again = DecodeCommitRecord(encoded, kPath);
  QUIRE_CHECK(again.ok() && EncodeCommitRecord(*again) == encoded);
}

void RunFiles(Slice text) {
  const Result<FileList> list = DecodeFileList(text, kPath);
  if (!list.ok()) {
    QUIRE_CHECK(list.status().message().find(kPath) != std::string::npos);
    return;
  }
  for (const auto& [name, file] : list->files) QUIRE_CHECK(io::CheckName(name).ok());
  const std::string encoded = EncodeFileList(*list);
  const Result<FileList> again = DecodeFileList(encoded, kPath);
  QUIRE_CHECK(again.ok() && EncodeFileList(*again) == encoded);
  QUIRE_CHECK(PartOf(*list, encoded).files == list->files.size());
}

void RunOutcome(Slice text) {
  Status status;
  Slice bytes;
  if (!runtime::DecodeOutcome(text, &status, &bytes).ok()) return;
  Status again;
  Slice rest;
  const std::string encoded = runtime::EncodeOutcome(status, bytes);
  QUIRE_CHECK(runtime::DecodeOutcome(encoded, &again, &rest).ok());
  QUIRE_CHECK(again.code() == status.code() && again.message() == status.message());
  QUIRE_CHECK(rest == bytes);
}

void Run(Slice input) {
  if (input.empty()) return;
  const Slice text = input.substr(1);
  switch (input[0]) {
    case 'C':
      return RunCommit(text);
    case 'c':
      return RunCommit(Sealed("quire checkpoint ", text));
    case 'F':
      return RunFiles(text);
    case 'f':
      return RunFiles(Sealed("quire files ", text));
    case 'N':
      return RunOutcome(text);
    default:
      return;
  }
}

}  // namespace
}  // namespace quire::kv

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  quire::kv::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
