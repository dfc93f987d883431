/// A lock for data that one thread changes and any number of threads read, also of other processes:
/// readers never stop the writer, and read again what it changed meanwhile.
///
/// The data are atomic words. The writer stores them with release, readers load them with acquire:
/// a reader that sees one of a change under way then also sees the odd number that was stored
/// before it, when it asks EndRead. So no fence is needed, and each load and store is a plain one
/// on x86.
///
/// Layer      base
/// Source     Boehm, "Can seqlocks get along with programming language memory models?", MSPC 2012
/// Threads    BeginWrite, EndWrite: one at a time; the others: any
#pragma once

#include <atomic>
#include <optional>

namespace quire::base {

/// Has the size and the bytes of a Word, and so may lie in shared memory; zero at first.
template <typename Word>
class SequenceLock {
 public:
  /// There is one writer: no need for instructions that lock.
  void BeginWrite() { number_.store(number_.load(kRelaxed) + 1, kRelaxed); }
  void EndWrite() { number_.store(number_.load(kRelaxed) + 1, std::memory_order_release); }
  /// From now on readers find a change under way, for good.
  void Close() { number_.fetch_or(1, std::memory_order_acq_rel); }

  /// The number to give EndRead; nullopt: a change is under way.
  std::optional<Word> BeginRead() const {
    const Word number = number_.load(std::memory_order_acquire);
    if (number % 2 != 0) return std::nullopt;
    return number;
  }
  /// Whether all that was loaded since BeginRead is of one state.
  bool EndRead(Word number) const { return number_.load(kRelaxed) == number; }
  /// Returns whether nothing has changed since BeginRead gave `number`. Later loads see this state
  /// or a newer one.
  bool Unchanged(Word number) const { return number_.load(std::memory_order_acquire) == number; }

 private:
  static constexpr std::memory_order kRelaxed = std::memory_order_relaxed;
  std::atomic<Word> number_;
};

}  // namespace quire::base
