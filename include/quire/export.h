/// Marks the symbols that programs may use; all others have hidden visibility.
///
/// Layer      public, below everything
#pragma once

/// Exports all declarations of a public header (`namespace quire QUIRE_EXPORT {`), or one C
/// function if it stands before its declaration.
#define QUIRE_EXPORT __attribute__((visibility("default")))
