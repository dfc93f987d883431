// quire get: prints values of keys, from the ranks that own them.
#include <iostream>
#include <utility>

#include "tools/quire/chain.h"
#include "tools/quire/output.h"

namespace quire::tool {

namespace {

bool InJson(const GetOptions& options) {
  return options.json || options.format == ByteFormat::kJson;
}

void PrintValue(const GetOptions& options, const std::string& writer, Slice key, bool found,
                const std::string& value) {
  if (InJson(options)) {
    Json line;
    SetBytes(&line, "key", key);
    line["found"] = found;
    if (found) SetBytes(&line, "value", value);
    if (!writer.empty()) line["open_in"] = writer;
    PrintJsonLine(line);
  } else if (found) {
    std::cout << ShowBytes(value, options.format) << "\n";
  } else {
    SayAbsent(key, Status());
  }
}

Result<int> GetAll(const GetOptions& options) {
  int exit_code = kFine;
  bool noted = InJson(options);
  auto next = options.keys.begin();
  const auto get = [&](const DatabaseOnDisk& place, Chain& chain, bool* progress) -> Status {
    if (!std::exchange(noted, true)) NoteWriter(place);
    for (; next != options.keys.end(); ++next) {
      QUIRE_ASSIGN_OR_RETURN(const std::string key,
                             options.hex_keys ? ParseHex(*next) : Result<std::string>(*next));
      std::string value;
      const Status status = chain.Get(key, &value);
      const bool absent = status.code() == Code::kNotFound && status.message().empty();
      if (!status.ok() && !absent) return status;
      if (absent) exit_code = kFoundWrong;
      PrintValue(options, place.writer, key, !absent, value);
      *progress = true;
    }
    return Status();
  };
  QUIRE_RETURN_IF_ERROR(ReadBesideWriter(io::PosixFileSystem(), options.path, get));
  return exit_code;
}

}  // namespace

int Get(const GetOptions& options) {
  const Result<int> done = GetAll(options);
  return done.ok() ? *done : Fail(done.status());
}

}  // namespace quire::tool
