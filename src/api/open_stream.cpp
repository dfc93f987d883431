// Opens streams on the real file system.
#include <memory>
#include <utility>

#include "api/log_level.h"
#include "api/own_reader.h"
#include "base/core/program_call.h"
#include "io/files/file_system.h"
#include "io/files/machine.h"
#include "quire/option_table.h"
#include "quire/stream.h"
#include "stream/remote/remote_reader.h"
#include "stream/store/listing.h"
#include "stream/store/writer.h"

namespace quire {

Result<std::unique_ptr<StreamWriter>> StreamWriter::Open(const std::string& place,
                                                         const std::string& name, uint32_t rank,
                                                         const StreamOptions& options) {
  QUIRE_RETURN_IF_ERROR(base::CheckNoProgramCall("StreamWriter::Open"));
  QUIRE_RETURN_IF_ERROR(api::InstallLogSink());
  StreamOptions chosen = options;
  QUIRE_RETURN_IF_ERROR(OptionTable::ApplyEnvironment(&chosen));
  QUIRE_RETURN_IF_ERROR(OptionTable::Check(chosen));
  QUIRE_ASSIGN_OR_RETURN(const std::string path, io::AbsolutePath(place));
  return stream::OpenWriter(io::PosixFileSystem(), path, name, rank, chosen);
}

Result<std::unique_ptr<StreamReader>> StreamReader::Open(const std::string& place,
                                                         const std::string& name, uint32_t rank,
                                                         const StreamReaderOptions& options) {
  QUIRE_RETURN_IF_ERROR(base::CheckNoProgramCall("StreamReader::Open"));
  QUIRE_RETURN_IF_ERROR(api::InstallLogSink());
  QUIRE_ASSIGN_OR_RETURN(const std::string path, io::AbsolutePath(place));
  QUIRE_ASSIGN_OR_RETURN(
      auto reader, stream::OpenReader(io::PosixFileSystem(), path, name, rank, options));
  return api::NewOwnReader(std::move(reader));
}

Result<std::vector<uint32_t>> StreamRanks(const std::string& place, const std::string& name) {
  QUIRE_RETURN_IF_ERROR(base::CheckNoProgramCall("StreamRanks"));
  QUIRE_ASSIGN_OR_RETURN(const std::string path, io::AbsolutePath(place));
  return stream::ListRanks(io::PosixFileSystem(), path, name);
}

Result<std::vector<std::string>> StreamStores(const std::string& place) {
  QUIRE_RETURN_IF_ERROR(base::CheckNoProgramCall("StreamStores"));
  QUIRE_ASSIGN_OR_RETURN(const std::string path, io::AbsolutePath(place));
  return stream::ListStores(io::PosixFileSystem(), path);
}

}  // namespace quire
