#include "engine/memory_engine_testing.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "base/text/coding.h"
#include "log/record.h"

namespace quire::engine {
namespace {

constexpr uint64_t kNow = std::numeric_limits<uint64_t>::max();

Status CheckKey(Slice key) {
  if (!key.empty() && key.size() <= log::kKeyBytesMax) return Status();
  return Status(Code::kInvalidArgument, "a key of " + std::to_string(key.size()) + " bytes");
}

// An update is no write of its own: its function makes one of it.
Status CheckWrite(const WriteOp& operation) {
  QUIRE_RETURN_IF_ERROR(CheckKey(operation.key));
  if (operation.type == log::RecordType::kUpdate) {
    return Status(Code::kInvalidArgument, "an update in a batch that is written as a whole");
  }
  const bool range = operation.type == log::RecordType::kRangeDelete;
  if (range && operation.value.size() > log::kKeyBytesMax) {
    return Status(Code::kInvalidArgument, "the end of a range is longer than a key");
  }
  return Status();
}

// All versions of all keys. A version without a value is a tombstone.
class Versions {
 public:
  using History = std::map<uint64_t, std::optional<std::string>>;  // by LSN

  void Set(Slice key, std::optional<std::string> value, uint64_t lsn) {
    keys_[std::string(key)][lsn] = std::move(value);
  }
  void Remove(Slice begin, Slice end, uint64_t lsn) {
    if (end <= begin) return;
    const auto stop = keys_.lower_bound(std::string(end));
    for (auto at = keys_.lower_bound(std::string(begin)); at != stop; ++at) {
      at->second[lsn] = std::nullopt;
    }
  }
  // Null: absent at `lsn`.
  const std::string* Find(Slice key, uint64_t lsn) const {
    const auto found = keys_.find(std::string(key));
    return found == keys_.end() ? nullptr : At(found->second, lsn);
  }
  // The first key at `key` or behind it, and the last one at it or before it, that live at `lsn`.
  std::optional<std::string> AtOrBehind(const std::string& key, uint64_t lsn) const {
    for (auto at = keys_.lower_bound(key); at != keys_.end(); ++at) {
      if (At(at->second, lsn) != nullptr) return at->first;
    }
    return std::nullopt;
  }
  std::optional<std::string> AtOrBefore(const std::string& key, uint64_t lsn) const {
    return LivingBefore(keys_.upper_bound(key), lsn);
  }
  std::optional<std::string> Before(const std::string& key, uint64_t lsn) const {
    return LivingBefore(keys_.lower_bound(key), lsn);
  }
  std::optional<std::string> Last(uint64_t lsn) const { return LivingBefore(keys_.end(), lsn); }
  // Removes versions that no reader at `oldest` or later sees.
  void Forget(uint64_t oldest) {
    for (auto at = keys_.begin(); at != keys_.end();) {
      History& history = at->second;
      auto newest = history.upper_bound(oldest);
      if (newest != history.begin()) history.erase(history.begin(), std::prev(newest));
      const bool gone = history.size() == 1 && history.begin()->first <= oldest &&
                        !history.begin()->second.has_value();
      at = gone ? keys_.erase(at) : std::next(at);
    }
  }
  size_t size() const { return keys_.size(); }

 private:
  static const std::string* At(const History& history, uint64_t lsn) {
    const auto above = history.upper_bound(lsn);
    if (above == history.begin()) return nullptr;
    const std::optional<std::string>& value = std::prev(above)->second;
    return value.has_value() ? &*value : nullptr;
  }

  using Keys = std::map<std::string, History>;

  std::optional<std::string> LivingBefore(Keys::const_iterator at, uint64_t lsn) const {
    while (at != keys_.begin()) {
      --at;
      if (At(at->second, lsn) != nullptr) return at->first;
    }
    return std::nullopt;
  }

  Keys keys_;
};

// Outlives the engine where an iterator or a snapshot does.
struct Store {
  std::mutex mutex;
  // guarded by mutex
  Versions versions;
  uint64_t lsn = 0;              // of the newest write
  std::multiset<uint64_t> held;  // by snapshots and iterators
};

class HeldMoment final : public Snapshot {
 public:
  explicit HeldMoment(std::shared_ptr<Store> store) : store_(std::move(store)) {
    const std::lock_guard<std::mutex> lock(store_->mutex);
    lsn_ = store_->lsn;
    store_->held.insert(lsn_);
  }
  ~HeldMoment() override {
    const std::lock_guard<std::mutex> lock(store_->mutex);
    store_->held.erase(store_->held.find(lsn_));
  }
  uint64_t lsn() const override { return lsn_; }

 private:
  const std::shared_ptr<Store> store_;
  uint64_t lsn_ = 0;
};

class Walk final : public Iterator {
 public:
  Walk(std::shared_ptr<Store> store, const IteratorOptions& options)
      : store_(std::move(store)), moment_(store_), options_(options) {
    lsn_ = options.snapshot == nullptr ? moment_.lsn() : options.snapshot->lsn();
  }

  bool Valid() const override { return key_.has_value(); }
  void SeekToFirst() override { Seek(options_.lower_bound); }
  void SeekToLast() override {
    const std::lock_guard<std::mutex> lock(store_->mutex);
    Stand(options_.upper_bound.empty() ? store_->versions.Last(lsn_)
                                       : store_->versions.Before(options_.upper_bound, lsn_));
  }
  void Seek(Slice key) override {
    const std::lock_guard<std::mutex> lock(store_->mutex);
    Stand(store_->versions.AtOrBehind(std::max(std::string(key), options_.lower_bound), lsn_));
  }
  void SeekForPrev(Slice key) override {
    const std::lock_guard<std::mutex> lock(store_->mutex);
    const bool beyond = !options_.upper_bound.empty() && key >= Slice(options_.upper_bound);
    Stand(beyond ? store_->versions.Before(options_.upper_bound, lsn_)
                 : store_->versions.AtOrBefore(std::string(key), lsn_));
  }
  void Next() override { Seek(*key_ + '\0'); }
  void Prev() override {
    const std::lock_guard<std::mutex> lock(store_->mutex);
    Stand(store_->versions.Before(*key_, lsn_));
  }
  Slice key() const override { return *key_; }
  Slice value() override { return value_; }
  Status status() const override { return {}; }

 private:
  void Stand(std::optional<std::string> key) {
    const bool outside =
        key.has_value() && (*key < options_.lower_bound ||
                            (!options_.upper_bound.empty() && *key >= options_.upper_bound));
    key_ = outside ? std::nullopt : std::move(key);
    if (key_.has_value()) value_ = *store_->versions.Find(*key_, lsn_);
  }

  const std::shared_ptr<Store> store_;
  const HeldMoment moment_;
  const IteratorOptions options_;
  uint64_t lsn_ = 0;
  std::optional<std::string> key_;
  std::string value_;
};

class MapEngine final : public StorageEngine {
 public:
  Status Put(const base::HashedKey& key, Slice value) override {
    return One({log::RecordType::kPut, key.key, value});
  }
  Status Delete(const base::HashedKey& key) override {
    return One({log::RecordType::kDelete, key.key, {}});
  }
  Status DeleteRange(Slice begin, Slice end) override {
    if (end < begin) return Status(Code::kInvalidArgument, "a range ends before it begins");
    return One({log::RecordType::kRangeDelete, begin, end});
  }
  using StorageEngine::Write;
  Status Write(const WriteBatch& batch, WriteProgress* /*progress*/) override {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<WriteOp> operations, DecodeBatch(batch.bytes()));
    for (const WriteOp& operation : operations) QUIRE_RETURN_IF_ERROR(CheckWrite(operation));
    const std::lock_guard<std::mutex> lock(store_->mutex);
    for (const WriteOp& operation : operations) StoreLocked(operation);
    return Status();
  }
  Status Apply(Slice batch_bytes, const WireUpdateFn& update, WriteProgress* progress) override {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<WriteOp> operations, DecodeBatch(batch_bytes));
    for (const WriteOp& operation : operations) {
      const bool calls = operation.type == log::RecordType::kUpdate;
      const Status applied = calls ? Call(operation, update) : One(operation);
      if (applied.ok()) ++progress->applied;
      if (progress->refused.ok()) progress->refused = applied;
    }
    return progress->refused;
  }
  using StorageEngine::Update;
  Status Update(const base::HashedKey& hashed, const UpdateFn& update,
                WriteProgress* /*progress*/) override {
    const Slice key = hashed.key;
    QUIRE_RETURN_IF_ERROR(CheckWrite({log::RecordType::kPut, key, {}}));
    const std::lock_guard<std::mutex> lock(store_->mutex);
    const std::string* const present = store_->versions.Find(key, kNow);
    const Slice value = present == nullptr ? Slice() : Slice(*present);
    std::string updated;
    if (!update(key, present == nullptr ? nullptr : &value, &updated)) return Status();
    StoreLocked({log::RecordType::kPut, key, updated});
    return Status();
  }
  using StorageEngine::Get;
  Status Get(const base::HashedKey& hashed, const Snapshot* snapshot,
             const BufferAllocator& allocate) const override {
    const Slice key = hashed.key;
    QUIRE_RETURN_IF_ERROR(CheckKey(key));
    const std::lock_guard<std::mutex> lock(store_->mutex);
    const std::string* const value =
        store_->versions.Find(key, snapshot == nullptr ? kNow : snapshot->lsn());
    if (value == nullptr) return Status(Code::kNotFound);
    char* const to = allocate(value->size());
    if (value->empty()) return Status();
    if (to == nullptr) return Status(Code::kOutOfMemory, "no memory was given for a value");
    std::memcpy(to, value->data(), value->size());
    return Status();
  }

  std::unique_ptr<Snapshot> NewSnapshot() override { return std::make_unique<HeldMoment>(store_); }
  std::unique_ptr<Iterator> NewIterator(const IteratorOptions& options) override {
    return std::make_unique<Walk>(store_, options);
  }

  Status Flush() override { return Status(); }
  Status SyncLog() override { return Status(); }
  Status Compact() override {
    const std::lock_guard<std::mutex> lock(store_->mutex);
    store_->versions.Forget(store_->held.empty() ? store_->lsn : *store_->held.begin());
    return Status();
  }
  Status WaitIdle() override { return Status(); }
  Status Verify() override { return Status(); }
  Status background_status() const override { return Status(); }
  void AddStatistics(quire::Statistics* to) const override {
    const std::lock_guard<std::mutex> lock(store_->mutex);
    (*to)["keys"] = store_->versions.size();
  }

 private:
  Status One(const WriteOp& operation) {
    QUIRE_RETURN_IF_ERROR(CheckWrite(operation));
    const std::lock_guard<std::mutex> lock(store_->mutex);
    StoreLocked(operation);
    return Status();
  }
  Status Call(const WriteOp& operation, const WireUpdateFn& update) {
    if (!update) return Status(Code::kInvalidArgument, "there are no update functions");
    const auto function = base::LoadLe<uint32_t>(operation.value.data());
    const Slice argument = operation.value.substr(sizeof(function));
    Status failed;
    const Status status =
        Update(operation.key, [&](Slice key, const Slice* present, std::string* updated) {
          bool write = false;
          failed = update(function, argument, key, present, updated, &write);
          return failed.ok() && write;
        });
    return failed.ok() ? status : failed;
  }
  void StoreLocked(const WriteOp& operation) {
    Versions& versions = store_->versions;
    const uint64_t lsn = ++store_->lsn;
    switch (operation.type) {
      case log::RecordType::kDelete:
        return versions.Set(operation.key, std::nullopt, lsn);
      case log::RecordType::kRangeDelete:
        return versions.Remove(operation.key, operation.value, lsn);
      default:
        return versions.Set(operation.key, std::string(operation.value), lsn);
    }
  }

  const std::shared_ptr<Store> store_ = std::make_shared<Store>();
};

class MemoryKind final : public EngineKind {
 public:
  const char* name() const override { return "memory"; }
  Capabilities capabilities() const override {
    Capabilities can;
    can.ordered = can.snapshots = can.atomic_batches = true;
    return can;
  }
  Result<std::unique_ptr<StorageEngine>> Open(const EngineEnvironment& environment,
                                              const std::string& directory,
                                              const StorageOptions& /*options*/,
                                              OpenFlags flags) const override {
    if (environment.base != nullptr) {
      return Status(Code::kUnsupported, "an engine in memory has no base");
    }
    if (flags == OpenFlags::kMustExist) {
      return Status(Code::kNotFound, "nothing outlives an engine in memory: " + directory);
    }
    return std::unique_ptr<StorageEngine>(std::make_unique<MapEngine>());
  }
};

}  // namespace

const EngineKind& MemoryEngine() {
  static const MemoryKind* const kind = new MemoryKind;
  return *kind;
}

}  // namespace quire::engine
