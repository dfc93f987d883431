// Histories recorded on real ranks, checked on rank 0 against what each mode promises.
#include <time.h>

#include <cstring>
#include <random>
#include <sstream>
#include <vector>

#include "../support/test_scale.h"
#include "kv/database/history_testing.h"
#include "parallel_fixture.h"

namespace quire::test {
namespace {

using kv::HistoryEvent;
using kv::RelaxedEvent;
using kv::RelaxedHistory;

// One clock for all processes of the machine.
uint64_t Now() {
  struct timespec now;
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// Every rank's text, on rank 0.
std::vector<std::string> GatherTexts(const std::string& mine, int rank, int size) {
  const int length = static_cast<int>(mine.size());
  std::vector<int> lengths(static_cast<size_t>(size)), places(static_cast<size_t>(size));
  MPI_Gather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
  int total = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    places[i] = total;
    total += lengths[i];
  }
  std::string all(static_cast<size_t>(total), '\0');
  MPI_Gatherv(mine.data(), length, MPI_CHAR, all.data(), lengths.data(), places.data(), MPI_CHAR, 0,
              MPI_COMM_WORLD);
  std::vector<std::string> texts;
  for (size_t i = 0; rank == 0 && i < lengths.size(); ++i) {
    texts.push_back(all.substr(static_cast<size_t>(places[i]), static_cast<size_t>(lengths[i])));
  }
  return texts;
}

// Sends rank 0's finding to all ranks, so that all stop together.
void ExpectNoProblem(std::string problem) {
  int length = static_cast<int>(problem.size());
  MPI_Bcast(&length, 1, MPI_INT, 0, MPI_COMM_WORLD);
  problem.resize(static_cast<size_t>(length));
  MPI_Bcast(problem.data(), length, MPI_CHAR, 0, MPI_COMM_WORLD);
  ASSERT_EQ(problem, "");
}

// "-" stands for an empty text.
std::string Word(const std::string& text) {
  return text.empty() ? "-" : text;
}
std::string Unword(const std::string& text) {
  return text == "-" ? "" : text;
}

class Histories : public Parallel {
 protected:
  // The number of histories per test: 200 over the ranks and transports of `make test`.
  int64_t count() const { return ScaledCount(20); }
};

TEST_F(Histories, SequentialModeIsLinearizablePerKey) {
  const auto context = NewContext();
  DatabaseOptions options = Small();
  options.consistency = Consistency::kSequential;
  const auto db = NewDatabase(*context, "db", options);
  std::mt19937_64 random(static_cast<uint64_t>(rank_) + 1);
  for (int64_t round = 0; round < count(); ++round) {
    std::ostringstream mine;
    for (int i = 0; i < 14; ++i) {
      const std::string key = "k" + std::to_string(round) + "." + std::to_string(random() % 3);
      const uint64_t choice = random() % 10;
      std::string value;
      const uint64_t called = Now();
      if (choice < 5) {
        if (choice < 4) value = std::to_string(rank_) + ":" + std::to_string(i);
        ASSERT_OK(choice < 4 ? db->Put(key, value) : db->Delete(key));
      } else {
        const Status got = db->Get(key, &value);
        ASSERT_TRUE(got.ok() || got.code() == Code::kNotFound) << got.ToString();
      }
      mine << (choice < 5) << ' ' << key << ' ' << Word(value) << ' ' << called << ' ' << Now()
           << '\n';
    }
    std::vector<HistoryEvent> events;
    const std::vector<std::string> texts = GatherTexts(mine.str(), rank_, size_);
    for (size_t rank = 0; rank < texts.size(); ++rank) {
      std::istringstream lines(texts[rank]);
      HistoryEvent event;
      bool is_write = false;
      while (lines >> is_write >> event.key >> event.value >> event.called >> event.returned) {
        event.kind = is_write ? HistoryEvent::Kind::kWrite : HistoryEvent::Kind::kRead;
        event.rank = static_cast<int>(rank);
        event.value = Unword(event.value);
        events.push_back(event);
      }
    }
    ASSERT_NO_FATAL_FAILURE(ExpectNoProblem(kv::CheckLinearizable(events)));
  }
  ASSERT_OK(db->Close());
}

TEST_F(Histories, RelaxedModeKeepsItsRules) {
  const auto context = NewContext();
  const auto db = NewDatabase(*context, "db", Small());
  std::mt19937_64 random(static_cast<uint64_t>(rank_) + 1);
  for (int64_t round = 0; round < count(); ++round) {
    RelaxedHistory history;
    for (int i = 0; i < 4; ++i) {
      history.keys.push_back("r" + std::to_string(round) + "." + std::to_string(i));
    }
    constexpr int kEpochs = 3;
    std::ostringstream mine, states;
    uint64_t number = 0;
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
      for (int i = 0; i < 20; ++i) {
        const std::string& key = history.keys[random() % 4];
        const bool is_write = random() % 2 == 0;
        std::string value;
        const uint64_t called = Now();
        if (is_write) {
          value = std::to_string(rank_) + ":" + std::to_string(++number);
          ASSERT_OK(db->Put(key, value));
        } else {
          const Status got = db->Get(key, &value);
          ASSERT_TRUE(got.ok() || got.code() == Code::kNotFound) << got.ToString();
        }
        mine << is_write << ' ' << key << ' ' << db->Owner(key) << ' ' << Word(value) << ' '
             << epoch << ' ' << called << ' ' << Now() << '\n';
        if (random() % 12 != 0) continue;
        ASSERT_OK(db->Fence());
      }
      ASSERT_OK(db->Barrier(Level::kMemTable));
      for (const std::string& key : history.keys) states << Word(GetOr(*db, key, "")) << ' ';
      ASSERT_OK(db->Barrier(Level::kMemTable));
    }
    const std::vector<std::string> texts = GatherTexts(mine.str(), rank_, size_);
    const std::vector<std::string> state_texts = GatherTexts(states.str(), rank_, size_);
    history.ranks.resize(texts.size());
    history.states.assign(texts.empty() ? 0 : kEpochs, {});
    for (size_t rank = 0; rank < texts.size(); ++rank) {
      std::istringstream lines(texts[rank]);
      RelaxedEvent event;
      while (lines >> event.is_write >> event.key >> event.owner >> event.value >> event.epoch >>
             event.called >> event.returned) {
        event.value = Unword(event.value);
        history.ranks[rank].push_back(event);
      }
      std::istringstream words(state_texts[rank]);
      for (auto& state : history.states) {
        state.emplace_back();
        for (size_t i = 0; i < history.keys.size(); ++i) {
          std::string word;
          words >> word;
          state.back().push_back(Unword(word));
        }
      }
    }
    ASSERT_NO_FATAL_FAILURE(ExpectNoProblem(rank_ == 0 ? kv::CheckRelaxed(history) : ""));
  }
  ASSERT_OK(db->Close());
}

}  // namespace
}  // namespace quire::test
