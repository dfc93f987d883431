/// The cores that ranks may run on: whether there is one for each decides whether a waiting thread
/// spins.
///
/// Layer      comm
/// Threads    pure functions
#pragma once

#include <bitset>
#include <string>

namespace quire::comm {

constexpr int kCoresMax = 1024;
using CoreSet = std::bitset<kCoresMax>;

/// Returns the cores in a list in the form of Linux: "0-3,8". Ignores numbers beyond kCoresMax.
CoreSet ParseCoreList(const std::string& list);
/// Returns this process's cores; empty if the system does not say.
CoreSet OwnCores();
/// Returns the control group's limit in cores, rounded up; kCoresMax if there is no limit.
int CoreQuota();
/// Returns the limit in the text of cpu.max, as CoreQuota.
int ParseCoreQuota(const std::string& text);

}  // namespace quire::comm
