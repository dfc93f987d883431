// quire get: values of keys, from the ranks that own them.
#include <iostream>

#include "base/printable.h"
#include "tools/quire/chain.h"
#include "tools/quire/output.h"

namespace quire::tool {

int Get(const GetOptions& options) {
  const Result<DatabasePlace> place = FindDatabase(io::PosixFileSystem(), options.path);
  if (!place.ok()) return Fail(place.status());
  Chain chain(io::PosixFileSystem(), *place);
  const bool json = options.json || options.format == ByteFormat::kJson;
  int exit_code = kFine;
  if (!json) NoteWriter(*place);
  for (const std::string& given : options.keys) {
    const Result<std::string> key = options.hex_keys ? ParseHex(given) : Result<std::string>(given);
    if (!key.ok()) return Fail(key.status());
    std::string value;
    const Status status = chain.Get(*key, &value);
    const bool absent = status.code() == Code::kNotFound && status.message().empty();
    if (!status.ok() && !absent) return Fail(status);
    if (absent) exit_code = kFoundWrong;
    if (json) {
      Json line;
      SetBytes(&line, "key", *key);
      line["found"] = !absent;
      if (!absent) SetBytes(&line, "value", value);
      if (!place->writer.empty()) line["open_in"] = place->writer;
      PrintJsonLine(line);
    } else if (absent) {
      std::cerr << "quire: " << base::Printable(*key) << " is not there\n";
    } else {
      std::cout << ShowBytes(value, options.format) << "\n";
    }
  }
  return exit_code;
}

}  // namespace quire::tool
