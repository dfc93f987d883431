/// QUIRE_THREAD_SANITIZER: 1 where the code is compiled for ThreadSanitizer, which sees neither
/// fences nor what the kernel orders or copies. QUIRE_ADDRESS_SANITIZER: 1 for AddressSanitizer,
/// which keeps freed memory resident.
///
/// Layer      base
/// Threads    a constant
#pragma once

#if defined(__SANITIZE_THREAD__)
#define QUIRE_THREAD_SANITIZER 1
#elif defined(__SANITIZE_ADDRESS__)
#define QUIRE_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define QUIRE_THREAD_SANITIZER 1
#endif
#if __has_feature(address_sanitizer)
#define QUIRE_ADDRESS_SANITIZER 1
#endif
#endif

#ifndef QUIRE_THREAD_SANITIZER
#define QUIRE_THREAD_SANITIZER 0
#endif

#ifndef QUIRE_ADDRESS_SANITIZER
#define QUIRE_ADDRESS_SANITIZER 0
#endif
