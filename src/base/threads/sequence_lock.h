/// A lock for data that one thread changes and any number of threads read, also of other processes:
/// readers never block the writer, and repeat a read if the data changed meanwhile.
///
/// The data are atomic words. The writer stores them with release, readers load them with acquire:
/// a reader that sees a word of an unfinished change also sees, in EndRead, the odd number that was
/// stored before it. So no fence is needed, and each load and store is a plain one on x86.
///
/// Layer      base
/// Source     Boehm, "Can seqlocks get along with programming language memory models?", MSPC 2012
/// Threads    BeginWrite, EndWrite: one at a time; the others: any
#pragma once

#include <atomic>
#include <optional>

namespace quire::base {

/// The lock. It has the size and the bytes of a Word, so it may be in shared memory; zero at first.
template <typename Word>
class SequenceLock {
 public:
  /// Begins a change. There is only one writer, so it needs no locked instructions.
  void BeginWrite() { number_.store(number_.load(kRelaxed) + 1, kRelaxed); }
  void EndWrite() { number_.store(number_.load(kRelaxed) + 1, std::memory_order_release); }
  /// Makes readers find an unfinished change from now on, forever.
  void Close() { number_.fetch_or(1, std::memory_order_acq_rel); }

  /// Returns the number to pass to EndRead; nullopt if a change is in progress.
  std::optional<Word> BeginRead() const {
    const Word number = number_.load(std::memory_order_acquire);
    if (number % 2 != 0) return std::nullopt;
    return number;
  }
  /// Returns whether everything that was loaded since BeginRead belongs to one state.
  bool EndRead(Word number) const { return number_.load(kRelaxed) == number; }
  /// Returns whether nothing has changed since BeginRead returned `number`. Later loads see this
  /// state or a newer one.
  bool Unchanged(Word number) const { return number_.load(std::memory_order_acquire) == number; }

 private:
  static constexpr std::memory_order kRelaxed = std::memory_order_relaxed;
  std::atomic<Word> number_;
};

}  // namespace quire::base
