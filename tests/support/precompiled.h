// The headers that nearly every test includes, parsed once for all if QUIRE_FULL_BUILD is on.
// A test still includes what it uses: other builds go without this one.
//
// Threads: none.
#ifndef QUIRE_TESTS_SUPPORT_PRECOMPILED_H_
#define QUIRE_TESTS_SUPPORT_PRECOMPILED_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#endif  // QUIRE_TESTS_SUPPORT_PRECOMPILED_H_
