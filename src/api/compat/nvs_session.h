/// The state between nvs_init and nvs_finalize: a writer that is opened with the first object,
/// readers of the requested stores, and the views that the program holds.
///
/// Layer      api
/// Source     NVStream, HPDC18, section 5
/// Threads    one at a time: the caller locks; a Reader may outlive the session. Look and
///            Release: any, also beside a call that waits, perhaps for what they release
/// Invariants views go before the readers that they are of
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
/// kInvalidArgument: it is none.
Result<StoreId> ParseStoreId(const std::string& text);

/// Where stores lie, from the root: QUIRE_STREAM_PLACE, else a directory of this user in shared
/// memory, which is made.
Result<std::string> NvsPlace();

class NvsSession {
 public:
  NvsSession(std::string place, StoreId store)
      : place_(std::move(place)), store_(std::move(store)) {}

  /// The memory of a new object.
  Result<char*> Create(Slice key, uint64_t bytes);
  /// The stream of this session; kNotFound: no object has been created.
  Result<StreamWriter*> Writer();
  Status Finish();

  static constexpr uint64_t kLookNs = 10'000'000;

  const StoreId& store() const { return store_; }
  /// A reader of the store as it is now: if a look, one each kLookNs, finds another store in the
  /// place, a new reader of that.
  ///
  /// Errors   kNotFound No program has written the store.
  Result<std::shared_ptr<StreamReader>> Reader(const StoreId& store);
  /// The bytes of a version, verified, until Release.
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
    uint64_t log_id = 0;     // of the log here; 0: there was none, the store is another node's
    uint64_t looked_ns = 0;  // when that was so last: a look is three system calls, a get none
  };
  // A view goes before its reader.
  struct HeldView {
    std::shared_ptr<StreamReader> reader;
    std::unique_ptr<StreamView> view;
  };
  const std::string place_;
  const StoreId store_;
  std::unique_ptr<StreamWriter> writer_;
  std::map<StoreId, OpenReader> readers_;
  std::mutex views_mutex_;
  /// By their bytes; one version may be held more than once, and lie at one place.
  std::unordered_map<const void*, std::vector<HeldView>> views_;
};

}  // namespace quire::compat
