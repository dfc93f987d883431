/// This library's own duplicate of a communicator: created, used and freed without touching the
/// program's.
///
/// Layer      comm (the files named mpi_*.cpp alone include this)
/// Threads    mutex() is held during every MPI call on it, whatever the thread level
#pragma once

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "quire/status.h"

namespace quire::comm {

/// A failed MPI call as a status, with MPI's text.
Status MpiStatus(int error, const char* call);

/// Leaks the memory of abandoned operations: MPI may still use it, so it is never freed.
void KeepForEver(std::unique_ptr<char[]> buffer) noexcept;

class MpiSession {
 public:
  /// Collective over the communicator. Errors: kInvalidArgument (MPI is not running, no
  /// communicator, an inter-communicator, the wrong thread), kTimedOut.
  static Result<std::unique_ptr<MpiSession>> Open(int fortran_communicator, uint64_t timeout_ms);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  MPI_Comm comm() const { return comm_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  int thread_level() const { return thread_level_; }
  std::mutex& mutex() { return mutex_; }
  /// Returns true once the session is closed or MPI is being finalized: then MPI must not be called
  /// any more. Requires the mutex.
  bool closed() const { return closed_; }
  /// Sets the function that runs, under the mutex, when the session closes, and cancels operations
  /// in progress.
  void OnClose(std::function<void()> cleanup) { cleanup_ = std::move(cleanup); }
  /// Closes the session before its destruction.
  void CloseNow();
  /// Leaves the communicator unfreed: a peer has failed, or messages are in flight on it.
  void Leak() { leak_ = true; }
  /// Returns kInvalidArgument if this thread may not call MPI.
  Status CheckThread() const;

  /// Returns `mine` of every rank, by rank. Collective. Must be called before threads use the
  /// session. Errors: kTimedOut. A rank that throws std::bad_alloc out of it has not taken part.
  template <typename T>
  Result<std::vector<T>> Gather(const T& mine) {
    std::vector<T> all(static_cast<size_t>(size_));
    QUIRE_RETURN_IF_ERROR(GatherBytes(&mine, all.data(), sizeof(T)));
    return all;
  }
  /// Returns OK if all ranks pass OK, else, on all ranks, the status of the lowest failing rank.
  /// Collective.
  Status Agree(const Status& mine);

 private:
  MpiSession() = default;
  Status Duplicate(MPI_Comm comm);
  Status Await(MPI_Request* request, const char* what);
  Status GatherBytes(const void* mine, void* all, size_t bytes_each);
  Status WatchFinalize();
  void Close();
  static int OnDeleteAttribute(MPI_Comm comm, int key, void* value, void* state);

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 0;
  int thread_level_ = MPI_THREAD_SINGLE;
  std::thread::id opener_;  ///< below MPI_THREAD_SERIALIZED: the main thread
  uint64_t deadline_ns_ = 0;
  uint64_t timeout_ms_ = 0;
  int key_ = MPI_KEYVAL_INVALID;
  std::mutex mutex_;
  bool closed_ = false;
  bool leak_ = false;
  std::function<void()> cleanup_;
};

}  // namespace quire::comm
