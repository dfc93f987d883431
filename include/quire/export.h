#ifndef QUIRE_EXPORT_H_
#define QUIRE_EXPORT_H_

/// Marks what the library shows to programs; everything else stays hidden. Written before the name of
/// a class (`class QUIRE_EXPORT Database`) or before a function's declaration.
#define QUIRE_EXPORT __attribute__((visibility("default")))

#endif  // QUIRE_EXPORT_H_
