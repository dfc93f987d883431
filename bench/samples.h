/// Times and their statistics: stopwatch, medians, percentiles.
///
/// Layer      bench
/// Threads    values; distinct objects are independent
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

namespace quire::bench {

/// The time since construction or restart.
class Stopwatch {
 public:
  /// Seconds since construction or Restart().
  double Seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  /// Starts again from zero.
  void Restart() { start_ = Clock::now(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

/// Returns the value below which `fraction` of the samples lie (nearest rank); 0 if there are none.
inline double Percentile(std::vector<double> samples, double fraction) {
  if (samples.empty()) return 0;
  const auto last = static_cast<double>(samples.size() - 1);
  const auto index = static_cast<std::ptrdiff_t>(last * fraction + 0.5);
  std::nth_element(samples.begin(), samples.begin() + index, samples.end());
  return samples[static_cast<size_t>(index)];
}

/// Returns the middle sample, or the mean of the two in the middle.
inline double Median(std::vector<double> samples) {
  if (samples.empty()) return 0;
  std::sort(samples.begin(), samples.end());
  const size_t middle = samples.size() / 2;
  if (samples.size() % 2 == 1) return samples[middle];
  return (samples[middle - 1] + samples[middle]) / 2;
}

/// Returns the median of a[i] / b[i]: samples with the same index are from the same repetition.
inline double MedianQuotient(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> quotients;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) quotients.push_back(a[i] / b[i]);
  return Median(quotients);
}

}  // namespace quire::bench
