#include "api/open_context.h"

#include <utility>

#include "api/log_level.h"
#include "base/core/check.h"
#include "base/core/out_of_memory.h"
#include "base/core/program_call.h"
#include "comm/mpi/transport_factory.h"
#include "comm/transport/transport.h"
#include "kv/database/context.h"
#include "quire/option_table.h"

namespace quire {
namespace api {

Result<std::unique_ptr<Context>> OpenAlone(Slice repository, const ContextOptions& options) {
  QUIRE_RETURN_IF_ERROR(base::CheckNoProgramCall("Context::OpenSerial"));
  runtime::Environment environment;
  environment.prepared = base::OrOutOfMemory([] { return InstallLogSink(); });
  return kv::NewContext(environment, comm::NewSelfTransport(), repository, options);
}

Result<std::unique_ptr<Context>> OpenTogether(int communicator, Slice repository,
                                              const ContextOptions& options) {
  QUIRE_RETURN_IF_ERROR(base::CheckNoProgramCall("OpenContext"));
  // NewContext reports a variable that cannot be read, on all ranks alike; this needs a transport.
  ContextOptions with_environment = options;
  const Status readable =
      base::OrOutOfMemory([&] { return OptionTable::ApplyEnvironment(&with_environment); });
  comm::TransportOptions transport_options;
  if (readable.ok() && OptionTable::Check(with_environment).ok()) {
    transport_options.timeout_ms = with_environment.timeout_ms;
    if (with_environment.transport == TransportChoice::kMpi) {
      transport_options.kind = comm::TransportKind::kMpi;
    }
  }
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<comm::Transport> transport,
                         comm::NewTransport(communicator, transport_options));
  base::SetCheckRank(transport->rank());
  runtime::Environment environment;
  environment.prepared = base::OrOutOfMemory([] { return InstallLogSink(); });
  environment.thread_level = comm::MpiThreadLevelName();
  return kv::NewContext(environment, std::move(transport), repository, options);
}

}  // namespace api

Result<std::unique_ptr<Context>> Context::OpenSerial(const std::string& repository,
                                                     const ContextOptions& options) {
  return api::OpenAlone(repository, options);
}

Result<std::unique_ptr<Context>> OpenContextFortran(int communicator, const std::string& repository,
                                                    const ContextOptions& options) {
  return api::OpenTogether(communicator, repository, options);
}

}  // namespace quire
