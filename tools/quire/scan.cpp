// quire scan: prints pairs of all ranks in the order of their keys.
#include <iostream>
#include <utility>

#include "tools/quire/chain.h"
#include "tools/quire/output.h"

namespace quire::tool {
namespace {

bool InJson(const ScanCommandOptions& options) {
  return options.json || options.format == ByteFormat::kJson;
}

Status PrintPair(const ScanCommandOptions& options, const std::string& writer, Slice key,
                 const Chain::Value& read) {
  std::string value;
  if (!options.keys_only) QUIRE_RETURN_IF_ERROR(read(&value));
  if (InJson(options)) {
    Json line;
    SetBytes(&line, "key", key);
    if (!options.keys_only) SetBytes(&line, "value", value);
    if (!writer.empty()) line["open_in"] = writer;
    PrintJsonLine(line);
    return Status();
  }
  std::cout << ShowBytes(key, options.format);
  if (!options.keys_only) std::cout << "\t" << ShowBytes(value, options.format);
  std::cout << "\n";
  return Status();
}

Status ScanAll(const ScanCommandOptions& options) {
  std::string from = options.from;
  std::string to = options.to;
  if (options.hex_keys) {
    QUIRE_ASSIGN_OR_RETURN(from, ParseHex(options.from));
    QUIRE_ASSIGN_OR_RETURN(to, ParseHex(options.to));
  }
  uint64_t count = 0;
  bool noted = false;
  const auto note = [&](const DatabaseOnDisk& place) {
    if (!std::exchange(noted, true)) NoteWriter(place);
  };
  const auto scan = [&](const DatabaseOnDisk& place, Chain& chain, bool* progress) {
    if (!InJson(options)) note(place);
    const Status scanned =
        chain.Scan(from, to, [&](Slice key, const Chain::Value& read) -> Result<bool> {
          QUIRE_RETURN_IF_ERROR(PrintPair(options, place.writer, key, read));
          *progress = true;
          from = std::string(key) + '\0';  // the next key, if the rest must be read again
          return ++count != options.limit;
        });
    // In JSON each pair contains the writer; if there is no pair, a note names it.
    if (scanned.ok() && count == 0) note(place);
    return scanned;
  };
  return ReadBesideWriter(io::PosixFileSystem(), options.path, scan);
}

}  // namespace

int Scan(const ScanCommandOptions& options) {
  const Status status = ScanAll(options);
  return status.ok() ? kFine : Fail(status);
}

}  // namespace quire::tool
