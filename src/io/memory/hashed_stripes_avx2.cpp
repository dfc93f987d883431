// Compiled with -mavx2 on x86-64 (CMakeLists.txt); empty elsewhere.
#if defined(__x86_64__)
#define QUIRE_STRIPES kStripesAvx2
#include "io/memory/hashed_stripes.inc"
#endif
