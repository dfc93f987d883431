// What tests on several ranks share: a repository that all see, and contexts over MPI_COMM_WORLD.
//
// Threads: one thread of each rank; collective.
#ifndef QUIRE_TESTS_PARALLEL_PARALLEL_FIXTURE_H_
#define QUIRE_TESTS_PARALLEL_PARALLEL_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "quire/database.h"
#include "quire/mpi.h"
#include "tests/support/status_asserts.h"
#include "tests/support/test_nodes.h"

namespace quire::test {

/// A fresh directory per test, at one path on all nodes; whether they share it depends on what lies
/// under $TMPDIR.
class Parallel : public testing::Test {
 protected:
  void SetUp() override {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    char path[256] = {};
    if (rank_ == 0) {
      const char* const base = ::getenv("TMPDIR");
      std::string name = std::string(base == nullptr ? "/tmp" : base) + "/quire-parallel-XXXXXX";
      name.copy(path, sizeof path - 1);
      ASSERT_NE(::mkdtemp(path), nullptr);
    }
    MPI_Bcast(path, sizeof path, MPI_CHAR, 0, MPI_COMM_WORLD);
    directory_ = path;
    ASSERT_FALSE(directory_.empty());
    std::filesystem::create_directory(directory_);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  void TearDown() override {
    MPI_Barrier(MPI_COMM_WORLD);
    std::error_code ignored;  // another node may share it, and be faster
    if (IsFirstOfNode(rank_)) std::filesystem::remove_all(directory_, ignored);
    MPI_Barrier(MPI_COMM_WORLD);
    EXPECT_FALSE(std::filesystem::exists(directory_));
  }

  std::unique_ptr<Context> NewContext(const ContextOptions& options = {}) {
    auto context = OpenContext(MPI_COMM_WORLD, directory_ + "/repository", options);
    EXPECT_TRUE(context.ok()) << context.status().ToString();
    return context.ok() ? std::move(*context) : nullptr;
  }

  static std::unique_ptr<Database> NewDatabase(Context& context, const std::string& name,
                                               const DatabaseOptions& options) {
    auto database = context.Open(name, options);
    EXPECT_TRUE(database.ok()) << database.status().ToString();
    return database.ok() ? std::move(*database) : nullptr;
  }

  /// Small enough to be flushed and compacted in a test.
  static DatabaseOptions Small() {
    DatabaseOptions options;
    options.storage.memtable_bytes = 1 << 20;
    options.storage.value_segment_bytes = 1 << 20;
    options.storage.cache_bytes = 4 << 20;
    options.migrate_batch_bytes = 8 * 1024;
    options.remote_memtable_bytes = 1 << 20;
    return options;
  }

  int next() const { return (rank_ + 1) % size_; }

  int rank_ = 0;
  int size_ = 1;
  std::string directory_;
};

inline std::string Key(int rank, int i) {
  return std::to_string(rank) + "/" + std::to_string(i);
}

inline std::string GetOr(Database& db, Slice key, const std::string& absent) {
  std::string value;
  const Status status = db.Get(key, &value);
  if (status.code() == Code::kNotFound) return absent;
  return status.ok() ? value : status.ToString();
}

/// True where the program runs with MPI_THREAD_MULTIPLE.
inline bool HasThreads() {
  int level = 0;
  MPI_Query_thread(&level);
  return level == MPI_THREAD_MULTIPLE;
}

}  // namespace quire::test

#endif  // QUIRE_TESTS_PARALLEL_PARALLEL_FIXTURE_H_
