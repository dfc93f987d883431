/// What the library shows to programs: everything else is compiled with hidden visibility.
///
/// Layer      public, below everything
#pragma once

/// Written into a public header's `namespace quire QUIRE_EXPORT {`, so that all it declares is
/// shown, or before a C function's declaration.
#define QUIRE_EXPORT __attribute__((visibility("default")))
