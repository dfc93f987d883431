/// The state between nvs_init and nvs_finalize: a writer that is opened with the first object,
/// readers of the requested stores, and the views that the program holds.
///
/// Layer      api
/// Source     NVStream, HPDC18, section 5
/// Threads    one at a time: the caller locks; a Reader may outlive the session. Look and
///            Release: any, also beside a call that waits, perhaps for what they release
/// Invariants views are destroyed before their readers
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "quire/slice.h"
#include "quire/status.h"
#include "quire/stream.h"

namespace quire::compat {

/// "name/rank".
struct StoreId {
  std::string name;
  uint32_t rank = 0;
  bool operator<(const StoreId& other) const;
};
/// Parses "name/rank". kInvalidArgument: the text has another form.
Result<StoreId> ParseStoreId(const std::string& text);

/// Returns the place of stores as an absolute path: QUIRE_STREAM_PLACE, else a directory of this
/// user in shared memory, which it creates.
Result<std::string> NvsPlace();

class NvsSession {
 public:
  NvsSession(std::string place, StoreId store)
      : place_(std::move(place)), store_(std::move(store)) {}

  /// Creates an object and returns its memory.
  Result<char*> Create(Slice key, uint64_t bytes);
  /// Returns the writer of this session; kNotFound: no object has been created.
  Result<StreamWriter*> Writer();
  Status Finish();

  static constexpr uint64_t kLookNs = 10'000'000;

  const StoreId& store() const { return store_; }
  /// Returns a reader of the store that is at the place now: checks this once every kLookNs, and
  /// opens a new reader if the place contains another store.
  ///
  /// Errors   kNotFound No program has written the store.
  Result<std::shared_ptr<StreamReader>> Reader(const StoreId& store);
  /// Returns the verified bytes of a version, valid until Release.
  Result<const void*> Get(const StoreId& store, Slice key, uint64_t version);
  /// Returns the size and the version of what Get returned; zeros if it is no such pointer.
  struct Got {
    size_t bytes = 0;
    uint64_t version = 0;
  };
  Got Look(const void* got);
  Status Release(const void* got);

 private:
  struct OpenReader {
    std::shared_ptr<StreamReader> reader;
    uint64_t log_id = 0;     // of the log here; 0: there was none, the store is on another node
    uint64_t looked_ns = 0;  // the time of the last check: a check takes three system calls, a get
                             // none
  };
  // The view is destroyed before its reader.
  struct HeldView {
    std::shared_ptr<StreamReader> reader;
    std::unique_ptr<StreamView> view;
  };
  const std::string place_;
  const StoreId store_;
  std::unique_ptr<StreamWriter> writer_;
  std::map<StoreId, OpenReader> readers_;
  std::mutex views_mutex_;
  /// By address of their bytes; a version may be held more than once, at the same address.
  std::unordered_map<const void*, std::vector<HeldView>> views_;
};

}  // namespace quire::compat
