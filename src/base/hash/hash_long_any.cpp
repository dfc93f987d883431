#define QUIRE_LONG_HASH kLongHashAny
#include "base/hash/hash_long.inc"
