/// Where one-way messages lie until somebody asks for them: signals, and the parts of collectives.
///
/// Layer      comm
/// Source     PapyrusKV, SC17, section 3.1 (signals)
/// Threads    any
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace quire::comm {

/// Counts signals by (signal, source).
class SignalBox {
 public:
  /// One more. false: `source` has sent so many different signals that it cannot be right.
  bool Add(int signal, int source);
  /// Takes one `signal` of each of `ranks` (as many as a rank is named) if all are there; else
  /// takes nothing and names the first that is missing.
  bool TakeAll(int signal, const std::vector<int>& ranks, int* missing);

 private:
  std::mutex mutex_;
  std::map<std::pair<int, int>, uint64_t> counts_;
  std::map<int, uint32_t> kinds_;  ///< different signals that lie here, by source
};

/// Holds the parts of collectives by (source, number of the part).
class CollectiveBox {
 public:
  /// Keeps a part, or drops it where it belongs to a collective that this rank has left. false:
  /// `source` is further ahead than it can be.
  bool Add(int source, uint64_t number, std::string payload);
  /// Takes the part out if it is there.
  bool Take(int source, uint64_t number, std::string* payload);
  /// Parts with lower numbers are of no use any more.
  void Forget(uint64_t below);
  uint64_t buffered_bytes();

 private:
  std::mutex mutex_;
  uint64_t below_ = 0;
  uint64_t bytes_ = 0;
  std::map<std::pair<int, uint64_t>, std::string> parts_;
  std::map<int, uint32_t> counts_;
};

}  // namespace quire::comm
