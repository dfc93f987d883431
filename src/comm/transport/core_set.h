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

/// The cores in a list as Linux writes it: "0-3,8". Numbers beyond kCoresMax are left out.
CoreSet ParseCoreList(const std::string& list);
/// Returns this process's cores; empty if the system does not say.
CoreSet OwnCores();
/// How many cores' time the control group gives, rounded up; kCoresMax without a limit.
int CoreQuota();
/// The same from the text of cpu.max.
int ParseCoreQuota(const std::string& text);

}  // namespace quire::comm
