/// Histories of operations on the keys of a database, and whether a promise of consistency holds
/// for them.
///
/// Layer      kv (tests only)
/// Source     Wing and Gong, Testing and Verifying Concurrent Objects, 1993; docs/durability.md
/// Threads    pure functions over recorded data
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace quire::kv {

/// One operation on one key, as the rank that called it saw it. Values of writes are unique.
struct HistoryEvent {
  enum class Kind { kWrite, kRead };
  Kind kind = Kind::kRead;
  int rank = 0;
  std::string key;
  std::string value;    ///< "" stands for absent: a delete, or a read that found nothing
  uint64_t called = 0;  ///< ticks of one clock over all ranks
  uint64_t returned =
      0;  ///< UINT64_MAX: it failed, and may have taken effect at any time after the call
};

/// "" where the events of each key can be put in an order that respects real time, and in which
/// each read gives the last write; else the key and its events.
std::string CheckLinearizable(const std::vector<HistoryEvent>& events);

/// One rank's event in relaxed mode. Only puts and gets; the value of a put is "<rank>:<number>",
/// numbers of a rank rise.
struct RelaxedEvent {
  bool is_write = false;
  std::string key;
  int owner = 0;
  std::string value;  ///< "" : absent
  int epoch = 0;      ///< barriers before it
  uint64_t called = 0;
  uint64_t returned = 0;
};

/// The observations of all ranks, each in program order, and the values that every rank read at the
/// end of each epoch.
struct RelaxedHistory {
  std::vector<std::vector<RelaxedEvent>> ranks;
  /// [epoch][rank]: values of `keys` between the barrier that ends the epoch and the next write.
  std::vector<std::vector<std::vector<std::string>>> states;
  std::vector<std::string> keys;
};

/// "" where: nothing is invented; a rank reads its own writes; nothing older than the last barrier
/// is read; the writes of one rank to one owner are seen in their order; all ranks agree after a
/// barrier. Else what is wrong.
std::string CheckRelaxed(const RelaxedHistory& history);

}  // namespace quire::kv
