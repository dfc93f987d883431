// Compiled with -mavx2 on x86-64 (CMakeLists.txt); empty elsewhere.
#if defined(__x86_64__)
#define QUIRE_LONG_HASH kLongHashAvx2
#include "base/hash/hash_long.inc"
#endif
