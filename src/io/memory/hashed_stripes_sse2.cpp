// Empty on other processors.
#if defined(__x86_64__)
#define QUIRE_STRIPES kStripesSse2
#include "io/memory/hashed_stripes.inc"
#endif
