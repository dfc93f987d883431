/// Checks what is found after all ranks of a job died, or the power was lost. By docs/durability.md
/// each owner has a prefix of what each rank wrote there. The prefix includes all that was
/// acknowledged at a level that outlives the crash.
///
/// Layer      kv (tests only)
/// Threads    an object belongs to one thread
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kv/database/random_plan_testing.h"
#include "quire/database.h"

namespace quire::kv::model {

/// How far one rank came in the last round, which a crash ends. Each count is of operations.
struct LastSteps {
  size_t issued = 0;                 ///< begun
  std::vector<size_t> acknowledged;  ///< by owner: so many are applied there, if they write there
  size_t flushed = 0;                ///< those before the last Flush
  bool applied = false;              ///< a barrier of all ranks has succeeded after them
  bool in_tables = false;            ///< one of level kSsTable
};

class Journal {
 public:
  using OwnerOf = std::function<int(const std::string& key)>;
  Journal(int rank_count, const OwnerOf& owner_of, Model base);

  /// All that was written so far is in tables: nothing of it can be lost.
  void AllIsInTables(const Model& model);
  /// A round of which all is applied.
  void EndRound(const Round& round);
  /// The last round, which each rank did a part of.
  void EndLastRound(const Round& round, const std::vector<LastSteps>& ranks);

  /// "" if a crash may leave `found`. `keeps_applied`: what is acknowledged as applied outlives it;
  /// else only what is in tables does. `in_order`: no write is lost before one that is there.
  std::string Check(const Model& found, bool keeps_applied, bool in_order) const;

 private:
  // Takes effect whole.
  struct Entry {
    int round = 0;
    std::vector<std::pair<std::string, Value>> pairs;
  };
  // The writes of one rank at one owner, the first one first.
  struct Stream {
    std::vector<Entry> entries;
    size_t applied = 0;    // so many are acknowledged
    size_t in_tables = 0;  // so many cannot be lost
  };
  struct Write {
    int round;
    size_t writer;
    size_t index;
    Value value;
  };
  using WritesOf = std::map<std::string, std::vector<Write>>;

  Stream& StreamOf(size_t writer, size_t owner) { return streams_[writer * rank_count_ + owner]; }
  const Stream& StreamOf(size_t writer, size_t owner) const {
    return streams_[writer * rank_count_ + owner];
  }
  void Issue(size_t writer, const Operation& operation);
  void NoteFlush(size_t owner, const std::vector<Stream>& before);
  static size_t Least(const Stream& stream, bool keeps_applied);
  WritesOf WritesAt(size_t owner) const;
  bool Matches(size_t owner, const WritesOf& writes, const std::vector<size_t>& kept,
               const Model& found) const;
  bool HasAllThatStays(size_t owner, const WritesOf& writes, const Model& found,
                       bool keeps_applied) const;
  bool Explains(size_t owner, const WritesOf& writes, const Model& found, bool keeps_applied,
                std::vector<size_t>* kept) const;
  std::string Problem(size_t owner, const WritesOf& writes, const Model& found,
                      bool keeps_applied) const;

  const size_t rank_count_;
  std::map<std::string, size_t> owners_;
  Model base_;
  int round_ = 0;
  std::vector<Stream> streams_;
};

}  // namespace quire::kv::model
