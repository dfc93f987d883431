#include "quire/version.h"

namespace quire {

const char* Version() { return QUIRE_VERSION; }

}  // namespace quire
