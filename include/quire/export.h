/// Marks the symbols that programs may use; all others have hidden visibility.
///
/// Layer      public, below everything
#pragma once

/// Stands in `namespace quire QUIRE_EXPORT {` of a public header, for all its declarations, or
/// before the declaration of a C function.
#define QUIRE_EXPORT __attribute__((visibility("default")))
