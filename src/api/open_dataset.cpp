#include <memory>
#include <utility>

#include "dataset/calls/dataset_writer.h"
#include "kv/database/context.h"
#include "quire/dataset.h"

namespace quire {

Result<std::unique_ptr<DatasetWriter>> DatasetWriter::Open(Context& context,
                                                           const std::string& name,
                                                           const DatasetOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const std::shared_ptr<runtime::ContextState> state,
                         kv::ContextStateOf(context));
  return dataset::NewDatasetWriter(state, name, options);
}

}  // namespace quire
