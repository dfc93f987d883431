/// QUIRE_THREAD_SANITIZER: 1 where the code is compiled for ThreadSanitizer, which sees neither
/// fences nor what the kernel orders or copies.
///
/// Layer      base
/// Threads    a constant
#pragma once

#if defined(__SANITIZE_THREAD__)
#define QUIRE_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define QUIRE_THREAD_SANITIZER 1
#endif
#endif

#ifndef QUIRE_THREAD_SANITIZER
#define QUIRE_THREAD_SANITIZER 0
#endif
