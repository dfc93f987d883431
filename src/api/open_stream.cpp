// What opens streams on the real file system.
#include <memory>

#include "api/log_level.h"
#include "io/file_system.h"
#include "quire/option_table.h"
#include "quire/stream.h"
#include "stream/listing.h"
#include "stream/remote_reader.h"
#include "stream/streams.h"

namespace quire {

Result<std::unique_ptr<StreamWriter>> StreamWriter::Open(const std::string& place,
                                                         const std::string& name, uint32_t rank,
                                                         const StreamOptions& options) {
  QUIRE_RETURN_IF_ERROR(api::InstallLogSink());
  StreamOptions chosen = options;
  QUIRE_RETURN_IF_ERROR(OptionTable::ApplyEnvironment(&chosen));
  QUIRE_RETURN_IF_ERROR(OptionTable::Check(chosen));
  return stream::OpenWriter(io::PosixFileSystem(), place, name, rank, chosen);
}

Result<std::unique_ptr<StreamReader>> StreamReader::Open(const std::string& place,
                                                         const std::string& name, uint32_t rank,
                                                         const StreamReaderOptions& options) {
  QUIRE_RETURN_IF_ERROR(api::InstallLogSink());
  return stream::OpenReader(io::PosixFileSystem(), place, name, rank, options);
}

Result<std::vector<uint32_t>> StreamRanks(const std::string& place, const std::string& name) {
  return stream::ListRanks(io::PosixFileSystem(), place, name);
}

Result<std::vector<std::string>> StreamStores(const std::string& place) {
  return stream::ListStores(io::PosixFileSystem(), place);
}

}  // namespace quire
