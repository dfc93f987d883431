#include "kv/protocol/pair_sizes.h"

#include <string>

namespace quire::kv {

Status ValueSizeError(Slice value) {
  return Status(Code::kInvalidArgument, "a value of " + std::to_string(value.size()) +
                                            " bytes; values have at most " +
                                            std::to_string(log::kValueBytesMax));
}

Status ArgumentSizeError(Slice argument) {
  return Status(Code::kInvalidArgument, "an argument of " + std::to_string(argument.size()) +
                                            " bytes; those of updates have at most " +
                                            std::to_string(kArgumentBytesMax));
}

}  // namespace quire::kv
