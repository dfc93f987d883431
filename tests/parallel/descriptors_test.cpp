// One rank has only n descriptors left, for n = 0, 1, ... until they suffice. Any step of opening,
// writing and reading may lack one, for files, shared memory or MPI: all ranks receive the same
// code from each collective call, and no acknowledged pair is lost. The same is tested with
// checkpoints, restarts, the destruction of databases, and datasets.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/core/sanitizer.h"
#include "quire/dataset.h"
#include "tests/parallel/parallel_fixture.h"
#include "tests/support/resource_limit.h"

namespace quire::test {
namespace {

// All descriptors below a limit of the process are in use, but n.
class FewDescriptors {
 public:
  explicit FewDescriptors(int n) {
    for (int fd = Open(); fd >= 0; fd = Open()) taken_.push_back(fd);
    for (int i = 0; i < n && !taken_.empty(); ++i) {
      ::close(taken_.back());
      taken_.pop_back();
    }
  }
  ~FewDescriptors() {
    for (const int fd : taken_) ::close(fd);
  }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  static int Open() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }

  const ResourceLimit limit_{RLIMIT_NOFILE, 256};
  std::vector<int> taken_;
};

class Descriptors : public Parallel {
 protected:
  void SetUp() override {
    Parallel::SetUp();
    if (QUIRE_ADDRESS_SANITIZER) GTEST_SKIP() << "a sanitizer takes a pipe to look at an object";
  }
  // Returns whether the call succeeded. Expects that all ranks received the same code.
  bool Agreed(const char* call, const Status& status) {
    const int mine = static_cast<int>(status.code());
    std::vector<int> codes(static_cast<size_t>(size_));
    MPI_Allgather(&mine, 1, MPI_INT, codes.data(), 1, MPI_INT, MPI_COMM_WORLD);
    const bool same = std::all_of(codes.begin(), codes.end(), [&](int c) { return c == mine; });
    EXPECT_TRUE(same) << call << " on rank " << rank_ << ": " << status.ToString();
    EXPECT_TRUE(status.ok() || status.code() == Code::kOutOfMemory)
        << call << " on rank " << rank_ << ": " << status.ToString();
    return status.ok() && same;
  }
  bool AgreedOnEnd(const char* call, Result<std::unique_ptr<Event>> event) {
    return Agreed(call, event.ok() ? (*event)->Wait() : event.status());
  }
  // Whether it is true of all ranks.
  static bool OnAll(bool mine) {
    int all = mine ? 1 : 0;
    MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all == 1;
  }
  // Runs `calls` where the last rank has 0, 1, ... descriptors, each time after `prepare`, until
  // nothing lacks one; and `expect` with all descriptors again.
  void WithEverMore(const std::function<void(Context&)>& prepare,
                    const std::function<bool(Context&)>& calls,
                    const std::function<void(Context&)>& expect) {
    constexpr int kEnough = 200;
    int n = 0;
    for (bool all = false; !all; ++n) {
      ASSERT_LT(n, kEnough);
      SCOPED_TRACE(n);
      const auto context = OpenContext(MPI_COMM_WORLD, directory_ + "/" + std::to_string(n), {});
      ASSERT_OK(context.status());
      prepare(**context);
      {
        const FewDescriptors few(rank_ == size_ - 1 ? n : kEnough);
        all = OnAll(calls(**context));
      }
      expect(**context);
      ASSERT_TRUE(OnAll(!HasFailure())) << "with " << n << " descriptors";
    }
    EXPECT_GT(n, 1);
  }
  // A database that is closed, with a checkpoint.
  void WriteDatabase(Context& context) {
    auto db = context.Open("db", Small());
    ASSERT_OK(db.status());
    for (int i = 0; i < kPairs; ++i) ASSERT_OK((*db)->Put(Key(rank_, i), Value(i)));
    auto event = (*db)->Checkpoint(context.repository() + "-before", {});
    ASSERT_OK(event.status());
    ASSERT_OK((*event)->Wait());
    ASSERT_OK((*db)->Close());
  }
  void ExpectDatabase(Context& context) {
    auto db = context.Open("db", Small());
    ASSERT_OK(db.status());
    for (int i = 0; i < kPairs; ++i) {
      EXPECT_EQ(GetOr(**db, Key(next(), i), "(absent)"), Value(i)) << i;
    }
    ASSERT_OK((*db)->Close());
  }
  void Restart(Context& context, const std::string& path) {
    auto event = context.Restart(path, "db", {.replace = true});
    ASSERT_OK(event.status());
    ASSERT_OK((*event)->Wait());
  }
  // Whether no call lacked anything.
  bool OpenWriteAndRead(const std::string& repository) {
    auto context = OpenContext(MPI_COMM_WORLD, repository, {});
    if (!Agreed("OpenContext", context.status())) return false;
    auto db = (*context)->Open("db", Small());
    if (!Agreed("Open", db.status())) return false;
    const bool all = WriteAndRead(**db);
    const bool closed = Agreed("Close", (*db)->Close());
    db->reset();
    return all && closed;
  }
  bool WriteAndRead(Database& db) {
    bool all = true;
    for (int i = 0; i < kPairs; ++i) {
      put_[static_cast<size_t>(i)] = db.Put(Key(rank_, i), Value(i)).ok();
      all = all && put_[static_cast<size_t>(i)];
    }
    fenced_ = Agreed("Barrier(kMemTable)", db.Barrier(Level::kMemTable));
    all = fenced_ && all;
    all = Agreed("Barrier(kSsTable)", db.Barrier(Level::kSsTable)) && all;
    for (int i = 0; i < kPairs; ++i) {
      std::string value;
      const Status got = db.Get(Key(next(), i), &value);
      EXPECT_TRUE(!got.ok() || value == Value(i));
      all = all && got.ok();
    }
    return all;
  }
  static std::string Value(int i) { return std::string(i % 2 == 0 ? 3000 : 10, 'v'); }
  // With descriptors again: the same calls work, and what was acknowledged is there.
  void ExpectAllThere(const std::string& repository) {
    auto context = OpenContext(MPI_COMM_WORLD, repository, {});
    ASSERT_OK(context.status());
    auto db = (*context)->Open("db", Small());
    ASSERT_OK(db.status());
    for (int i = 0; i < kPairs; ++i) {
      if (!fenced_ || !put_[static_cast<size_t>(i)]) continue;
      EXPECT_EQ(GetOr(**db, Key(rank_, i), "(absent)"), Value(i)) << i;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    ASSERT_OK((*db)->Close());
  }

  static constexpr int kPairs = 20;
  std::array<bool, kPairs> put_ = {};
  bool fenced_ = false;
};

TEST_F(Descriptors, ACheckpointWithTooFewIsOneCodeOnAll) {
  bool there = false;
  std::unique_ptr<Database> db;
  WithEverMore(
      [&](Context& context) {
        WriteDatabase(context);
        auto opened = context.Open("db", Small());
        ASSERT_OK(opened.status());
        db = *std::move(opened);
      },
      [&](Context& context) {
        there = AgreedOnEnd("Checkpoint", db->Checkpoint(context.repository() + "-after", {}));
        return there;
      },
      [&](Context& context) {
        ASSERT_OK(db->Close());
        db.reset();
        Restart(context, context.repository() + (there ? "-after" : "-before"));
        ExpectDatabase(context);
      });
}

TEST_F(Descriptors, ARestartWithTooFewIsOneCodeOnAll) {
  WithEverMore(
      [&](Context& context) { WriteDatabase(context); },
      [&](Context& context) {
        return AgreedOnEnd("Restart", context.Restart(context.repository() + "-before", "db",
                                                      {.replace = true}));
      },
      [&](Context& context) {
        Restart(context, context.repository() + "-before");
        ExpectDatabase(context);
      });
}

TEST_F(Descriptors, ADestroyWithTooFewIsOneCodeOnAll) {
  WithEverMore([&](Context& context) { WriteDatabase(context); },
               [&](Context& context) { return Agreed("Destroy", context.Destroy("db")); },
               [&](Context& context) {
                 const Status again = context.Destroy("db");
                 EXPECT_TRUE(again.ok() || again.code() == Code::kNotFound) << again.ToString();
                 WriteDatabase(context);
                 ExpectDatabase(context);
               });
}

TEST_F(Descriptors, ADatasetWithTooFewIsOneCodeOnAll) {
  const auto write = [&](DatasetWriter& writer, uint64_t epoch) {
    QUIRE_RETURN_IF_ERROR(writer.BeginEpoch(epoch));
    for (int i = 0; i < kPairs; ++i) {
      const Status put = writer.Put(Key(rank_, i), Value(i));
      EXPECT_TRUE(put.ok() || put.code() == Code::kOutOfMemory) << put.ToString();
    }
    return writer.EndEpoch();
  };
  bool there = false;
  WithEverMore([](Context&) {},
               [&](Context& context) {
                 there = false;
                 auto writer = DatasetWriter::Open(context, "set", {});
                 if (!Agreed("DatasetWriter::Open", writer.status())) return false;
                 there = Agreed("EndEpoch", write(**writer, 1));
                 return Agreed("Finish", (*writer)->Finish()) && there;
               },
               [&](Context& context) {
                 auto writer = DatasetWriter::Open(context, "set", {});
                 ASSERT_OK(writer.status());
                 EXPECT_EQ((*writer)->LastEpoch().has_value(), there);
                 EXPECT_OK(write(**writer, 2));
                 ASSERT_OK((*writer)->Finish());
               });
}

TEST_F(Descriptors, TooFewOnOneRankAreOneCodeOnAll) {
  constexpr int kEnough = 200;
  int n = 0;
  for (bool all = false; !all; ++n) {
    ASSERT_LT(n, kEnough);
    SCOPED_TRACE(n);
    const std::string repository = directory_ + "/" + std::to_string(n);
    put_.fill(false);
    fenced_ = false;
    {
      const FewDescriptors few(rank_ == size_ - 1 ? n : kEnough);
      const int mine = OpenWriteAndRead(repository) ? 1 : 0;
      int lowest = 0;
      MPI_Allreduce(&mine, &lowest, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
      all = lowest == 1;
    }
    ASSERT_NO_FATAL_FAILURE(ExpectAllThere(repository));
    int failed = HasFailure() ? 1 : 0;
    MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    ASSERT_EQ(failed, 0) << "with " << n << " descriptors";
  }
  EXPECT_GT(n, 3);
  if (rank_ == 0) std::printf("%d descriptors suffice\n", n - 1);
}

}  // namespace
}  // namespace quire::test
