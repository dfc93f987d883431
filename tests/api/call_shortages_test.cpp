// The n-th allocation, descriptor, mapping or thread is refused in each public call, for n = 0, 1,
// ...: the call does its work or says that there was none, and then nothing was changed; the same
// call works once the shortage has passed, and what was acknowledged is there. The rows are those
// that every_call_test.cpp and every_stream_call_test.cpp compare with the headers.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "base/core/out_of_memory.h"
#include "base/threads/thread.h"
#include "tests/api/database_calls.h"
#include "tests/api/every_call.h"
#include "tests/api/shortages.h"
#include "tests/api/stream_calls.h"
#include "tests/support/temp_directory.h"
#include "tests/support/test_scale.h"

namespace quire::test {
namespace {

int64_t refused_start = 0;

void FailThreadStart(int64_t n) {
  refused_start = n;
  base::FailThreadStarts(static_cast<int>(n), 1);
}

bool ThreadStartFailed() {
  const bool failed = base::ThreadStarts() > refused_start;
  base::FailThreadStarts(0, 0);
  return failed;
}

// The process is refused a thread, whichever of its threads wants to start one. The other shortages
// are those of this thread: other tests starve the threads in the background.
constexpr Shortage kNoThread = {"thread", FailThreadStart, ThreadStartFailed};

// A C++ call may throw std::bad_alloc in place of the code (docs/limitations.md), one of C may not.
template <typename Objects>
Status RunStarved(const CallRow<Objects, Status>& row, Objects& objects) {
  return base::OrOutOfMemory([&] { return row.run(objects); });
}
template <typename Objects>
int RunStarved(const CallRow<Objects, int>& row, Objects& objects) {
  return row.run(objects);
}

// After this many tries, the next ones have new objects. Otherwise the remains of calls would grow
// without end (each checkpoint lists the earlier ones), and so would the needs of the calls.
constexpr int64_t kTriesTogether = 100;

// How far a process came. Survives it.
struct Progress {
  int64_t n = 0;  // what is refused
  int64_t points = 0;
};

class SharedProgress {
 public:
  SharedProgress() {
    void* const shared = ::mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) std::abort();
    progress_ = new (shared) Progress;
  }
  ~SharedProgress() { ::munmap(progress_, sizeof(Progress)); }
  SharedProgress(const SharedProgress&) = delete;
  SharedProgress& operator=(const SharedProgress&) = delete;
  Progress* get() const { return progress_; }
  Progress* operator->() const { return progress_; }

 private:
  Progress* progress_ = nullptr;
};

// Runs `body` in a process of its own. Whether it stopped with a message; its failures are this
// one's.
template <typename Body>
bool StopsIn(const Body& body) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    body();
    std::fflush(nullptr);
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) return true;
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "see above, or it crashed";
  return false;
}

template <typename Objects, typename Answer>
class Sweep {
 public:
  using Row = CallRow<Objects, Answer>;

  // Each of a call in turn; of a call with many a sample, another one for each seed.
  static void Run(const Shortage& shortage, const std::vector<Row>& rows) {
    const SharedProgress progress;
    int64_t stops = 0;
    for (const Row& row : rows) {
      progress->n = 0;
      // If a process may stop here (docs/limitations.md), the next one continues behind this step.
      for (; StopsIn([&] { EnterStep(shortage, row, progress.get()); }); ++stops) ++progress->n;
    }
    std::printf("%lld times no %s in %zu calls, %lld stopped the program\n",
                static_cast<long long>(progress->points), shortage.what, rows.size(),
                static_cast<long long>(stops));
    EXPECT_LE(stops, progress->points / 20);
  }

 private:
  Sweep(const Shortage& shortage, const Row& row) : shortage_(shortage), row_(row) {
    Begin();
    Prepare(row_, *objects_);
    const std::string before = objects_->State();
    expected_ = CodeOf(row_.run(*objects_));
    changes_ = objects_->State() != before;
  }
  static void EnterStep(const Shortage& shortage, const Row& row, Progress* progress) {
    std::mt19937_64 random(FirstSeed() + static_cast<uint64_t>(progress->n));
    Sweep sweep(shortage, row);
    for (int64_t tries = 1; sweep.Try(progress->n); ++tries) {
      if (tries % kTriesTogether == 0) sweep.Renew();
      const int64_t step_max = ScaledCount(1) > 1 ? 1 : progress->n / 10 + 1;
      progress->n += 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(step_max));
      ++progress->points;
    }
    sweep.End();
  }
  void Begin() {
    directory_ = std::make_unique<TempDirectory>(PlaceInMemory());
    objects_ = std::make_unique<Objects>(directory_->path());
  }
  void End() {
    objects_.reset();
    Objects::ExpectAllThere(directory_->path());
  }

  void Renew() {
    End();
    Begin();
  }

  // Whether there is an n-th, and all is right.
  bool Try(int64_t n) {
    Prepare(row_, *objects_);
    const std::string before = objects_->State();
    shortage_.refuse(n);
    const Answer answer = RunStarved(row_, *objects_);
    const bool failed = shortage_.was_refused();
    const std::string text = TextOf(answer);
    const bool done = CodeOf(answer) == expected_;
    if (!done && CodeOf(answer) != Code::kOutOfMemory) return Wrong(n, text);
    const bool changed = objects_->State() != before;
    // A database that could not be closed well is closed, too.
    const bool may_change = done || row_.call.ends_with("lose");
    if (changed != (changes_ && may_change)) return Wrong(n, "the data differ after: " + text);
    if (!done) {
      Prepare(row_, *objects_);
      const Answer again = row_.run(*objects_);
      if (CodeOf(again) != expected_) return Wrong(n, "again: " + TextOf(again));
    }
    return failed;
  }

  bool Wrong(int64_t n, const std::string& text) {
    ADD_FAILURE() << row_.call << ", " << shortage_.what << " " << n << ": " << text;
    return false;
  }

  const Shortage& shortage_;
  const Row& row_;
  std::unique_ptr<TempDirectory> directory_;
  std::unique_ptr<Objects> objects_;
  Code expected_ = Code::kOk;
  bool changes_ = false;
};

// Without the threads: CallsBehindADoor.StartNoThread.
class CallShortages : public testing::TestWithParam<Shortage> {};
class DoorShortages : public testing::TestWithParam<Shortage> {};

// Expects that each call does its work on the threads that the doors started.
template <typename Objects, typename Answer>
void ExpectNoThreadStarted(const std::vector<CallRow<Objects, Answer>>& rows) {
  for (const CallRow<Objects, Answer>& row : rows) {
    const TempDirectory directory(PlaceInMemory());
    Objects objects(directory.path());
    Prepare(row, objects);
    base::FailThreadStarts(0, 0);  // from now on they are counted
    const Answer answer = row.run(objects);
    EXPECT_EQ(base::ThreadStarts(), 0) << row.call;
    EXPECT_NE(CodeOf(answer), Code::kNotFound) << row.call << " has nothing to do";
  }
}

TEST(CallsBehindADoor, StartNoThread) {
  ExpectNoThreadStarted(AllRows());
  ExpectNoThreadStarted(LibraryRows());
  ExpectNoThreadStarted(CDatabaseRows());
  ExpectNoThreadStarted(CHeldRows());
  ExpectNoThreadStarted(StreamWriterRows());
  ExpectNoThreadStarted(StreamReaderRows());
  ExpectNoThreadStarted(CStreamWriterRows());
  ExpectNoThreadStarted(CStreamReaderRows());
  ExpectNoThreadStarted(CDatasetWriterRows());
  ExpectNoThreadStarted(CDatasetReaderRows());
  ExpectNoThreadStarted(CScanRows());
  ExpectNoThreadStarted(CDatasetOtherRows());
}

TEST_P(CallShortages, EachCallOfDatabasesAndDatasetsSurvivesAShortage) {
  Sweep<DatabaseObjects, Status>::Run(GetParam(), AllRows());
  Sweep<DatabaseObjects, Status>::Run(GetParam(), LibraryRows());
}

TEST_P(DoorShortages, EachDoorSurvivesAShortage) {
  Sweep<DatabaseObjects, Status>::Run(GetParam(), DoorRows());
  Sweep<CDatabaseObjects, int>::Run(GetParam(), CDoorRows());
  Sweep<StreamObjects, int>::Run(GetParam(), CStreamDoorRows());
}

TEST_P(CallShortages, EachCallOfDatabasesInCSurvivesAShortage) {
  Sweep<CDatabaseObjects, int>::Run(GetParam(), CDatabaseRows());
  Sweep<CDatabaseObjects, int>::Run(GetParam(), CHeldRows());
}

TEST_P(CallShortages, EachCallOfStreamsSurvivesAShortage) {
  Sweep<StreamObjects, Status>::Run(GetParam(), StreamWriterRows());
  Sweep<StreamObjects, Status>::Run(GetParam(), StreamReaderRows());
}

TEST_P(CallShortages, EachCallOfStreamsAndDatasetsInCSurvivesAShortage) {
  Sweep<StreamObjects, int>::Run(GetParam(), CStreamWriterRows());
  Sweep<StreamObjects, int>::Run(GetParam(), CStreamReaderRows());
  Sweep<StreamObjects, int>::Run(GetParam(), CDatasetWriterRows());
  Sweep<StreamObjects, int>::Run(GetParam(), CDatasetReaderRows());
  Sweep<StreamObjects, int>::Run(GetParam(), CScanRows());
  Sweep<StreamObjects, int>::Run(GetParam(), CDatasetOtherRows());
}

std::string NameOf(const testing::TestParamInfo<Shortage>& shortage) {
  return shortage.param.what;
}
INSTANTIATE_TEST_SUITE_P(Of, CallShortages, testing::ValuesIn(kShortages), NameOf);
INSTANTIATE_TEST_SUITE_P(Of, DoorShortages, testing::ValuesIn(kShortages), NameOf);
INSTANTIATE_TEST_SUITE_P(OfNoThread, DoorShortages, testing::Values(kNoThread), NameOf);

}  // namespace
}  // namespace quire::test
