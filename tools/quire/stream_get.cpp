// quire stream get: writes out one version of one object.
#include <fstream>
#include <iostream>
#include <memory>

#include "io/files/file_system.h"
#include "io/files/machine.h"
#include "stream/store/local_reader.h"
#include "tools/quire/catalog.h"
#include "tools/quire/contents.h"
#include "tools/quire/output.h"
#include "tools/quire/stream_form.h"

namespace quire::tool {
namespace {

void WriteForm(const StreamGetOptions& options, const StreamView& view, std::ostream* out) {
  const StreamShape& shape = view.version().shape;
  const Slice bytes = view.bytes();
  if (options.format == StreamFormat::kText) return WriteNumbers(shape, bytes, out);
  if (options.format == StreamFormat::kNpy) *out << NpyHeader(shape, bytes.size());
  out->write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

Status WriteOut(const StreamGetOptions& options, const StreamView& view) {
  if (options.output.empty()) {
    WriteForm(options, view, &std::cout);
    return Status();
  }
  std::ofstream file(options.output, std::ios::binary | std::ios::trunc);
  if (file) WriteForm(options, view, &file);
  file.close();
  return file ? Status() : Status(Code::kIo, options.output + " cannot be written");
}

void Tell(Slice key, const StreamGetOptions& options, const StreamView& view) {
  const StreamVersion& version = view.version();
  Json json;
  SetBytes(&json, "key", key);
  json["version"] = version.version;
  json["snapshot"] = version.snapshot;
  json["unix_time_ns"] = version.unix_time_ns;
  json["bytes"] = version.bytes;
  SetShape(&json, version.shape);
  json["output"] = options.output;
  PrintJson(json);
}

Result<std::unique_ptr<StreamView>> Seen(StreamReader& reader, Slice key,
                                         const StreamGetOptions& options) {
  if (options.snapshot != 0) return reader.ViewAt(key, options.snapshot);
  return reader.View(key, options.version);
}

Result<int> GetOne(const StreamGetOptions& options) {
  if (options.json && options.output.empty()) {
    return Status(Code::kInvalidArgument,
                  "--json describes the object; give -o FILE for its bytes");
  }
  const Result<std::string> key =
      options.hex_keys ? ParseHex(options.key) : Result<std::string>(options.key);
  QUIRE_RETURN_IF_ERROR(key.status());
  QUIRE_ASSIGN_OR_RETURN(const std::string place, io::AbsolutePath(options.path));
  io::FileSystem& fs = io::PosixFileSystem();
  const auto opened = stream::OpenLocalReader(fs, place, options.name, options.rank,
                                              stream::Access::kLook);
  if (opened.status().code() == Code::kNotFound) {
    return Absent(fs, opened.status().message(), place);
  }
  QUIRE_RETURN_IF_ERROR(opened.status());
  StreamReader* const reader = opened->get();
  const Result<std::unique_ptr<StreamView>> view = Seen(*reader, *key, options);
  if (view.status().code() == Code::kNotFound) {
    SayAbsent(*key, view.status());
    return kFoundWrong;
  }
  QUIRE_RETURN_IF_ERROR(view.status());
  QUIRE_RETURN_IF_ERROR((*view)->Verify());
  QUIRE_RETURN_IF_ERROR(WriteOut(options, **view));
  if (options.json) Tell(*key, options, **view);
  return kFine;
}

}  // namespace

int StreamGet(const StreamGetOptions& options) {
  const Result<int> exit_code = GetOne(options);
  return exit_code.ok() ? *exit_code : Fail(exit_code.status());
}

}  // namespace quire::tool
