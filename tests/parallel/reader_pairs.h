// The pairs that reader_job.cpp writes and reader_program.cpp reads, and what the job tells
// meanwhile of its rounds. Some are deleted in every second round; some lie apart from their keys.
//
// Threads: any.
#ifndef QUIRE_TESTS_PARALLEL_READER_PAIRS_H_
#define QUIRE_TESTS_PARALLEL_READER_PAIRS_H_

#include <fstream>
#include <string>

namespace quire::test {

constexpr int kReaderPairs = 2000;

inline std::string ReaderKey(int i) {
  return "key " + std::to_string(10'000 + i);  // in the order of their numbers
}

inline bool IsAbsent(int i, int round) {
  return i % 7 == 3 && round % 2 == 1;
}

// Some 7 MB in all.
inline std::string ReaderValue(int i, int round) {
  return std::to_string(round) + " of " + ReaderKey(i) +
         std::string(i % 10 == 0 ? 30'000 : 400, 'v');
}

/// What rank 0 has appended to the file so far, one line for each: "begin <round>" before the first
/// write of a round, "flushed <round>" after the barrier that brought it into tables; "end" follows
/// when no job will come.
struct Told {
  int begun = 0;
  int flushed = 0;
  bool end = false;
};

inline Told ReadTold(const std::string& path) {
  Told told;
  std::ifstream file(path);
  int round = 0;
  for (std::string what; file >> what;) {
    if (what == "end") told.end = true;
    if (what == "begin" && file >> round) told.begun = round;
    if (what == "flushed" && file >> round) told.flushed = round;
  }
  return told;
}

}  // namespace quire::test

#endif  // QUIRE_TESTS_PARALLEL_READER_PAIRS_H_
