#define QUIRE_LONG_HASH kLongHashAny
#include "base/hash_long.inc"
