#include "io/paths/sole_writer.h"

namespace quire::io {

Status CheckSoleWriter(FileSystem& fs, const std::string& path) {
  const Status writer = fs.SoleWriter(path).status();
  return writer.code() == Code::kNotFound ? Status() : writer;
}

}  // namespace quire::io
