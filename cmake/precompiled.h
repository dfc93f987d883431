// The headers that most sources of the library include, parsed once for all if QUIRE_PRECOMPILE is
// on. A source still includes what it uses: other builds go without this one.
//
// Threads: none.
#ifndef QUIRE_CMAKE_PRECOMPILED_H_
#define QUIRE_CMAKE_PRECOMPILED_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#endif  // QUIRE_CMAKE_PRECOMPILED_H_
