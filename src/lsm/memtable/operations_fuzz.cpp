// Operations on a database against a std::map, with flushes, merges, reopening and kills in
// between.
//
// Input: one operation after another: a byte for what, a byte for the key, a byte for the size of a
// value.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/core/check.h"
#include "base/threads/executor.h"
#include "io/sim/sim_file_system.h"
#include "lsm/db/db.h"
#include "lsm/db/small_options_testing.h"

namespace quire::lsm {
namespace {

constexpr size_t kOperationsMax = 400;

class Subject {
 public:
  Subject() {
    environment_.fs = fs_.get();
    environment_.executor = executor_.get();
    Open();
  }
  ~Subject() { Close(); }

  void Do(uint8_t what, uint8_t key_byte, uint8_t size_byte) {
    const std::string key = Key(key_byte);
    switch (what % 16) {
      case 0: case 1: case 2: case 3: case 4: return Put(key, size_byte);
      case 5: case 6: return Delete(key);
      case 7: return DeleteRange(key, Key(size_byte));
      case 8: return Update(key, size_byte);
      case 9: return Expect(db_->Flush());
      case 10: return Expect(db_->Compact());
      case 11: static_cast<void>(executor_->RunOne()); return;
      case 12: return Reopen();
      case 13: return Kill();
      case 14: return CompareOne(key);
      default: return CompareAll();
    }
  }

  void CompareAll() {
    const std::unique_ptr<engine::Iterator> iterator = db_->NewIterator({});
    auto expected = model_.begin();
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next(), ++expected) {
      QUIRE_CHECK(expected != model_.end() && iterator->key() == expected->first &&
                  iterator->value() == expected->second);
    }
    QUIRE_CHECK(iterator->status().ok() && expected == model_.end());
    auto backward = model_.rbegin();
    for (iterator->SeekToLast(); iterator->Valid(); iterator->Prev(), ++backward) {
      QUIRE_CHECK(backward != model_.rend() && iterator->key() == backward->first);
    }
    QUIRE_CHECK(iterator->status().ok() && backward == model_.rend());
  }

 private:
  static void Expect(const Status& status) { QUIRE_CHECK(status.ok()); }

  // Few keys, one a prefix of another, with NULs.
  static std::string Key(uint8_t byte) {
    return std::string(1u + byte % 3, static_cast<char>(byte / 32)) + static_cast<char>(byte % 32);
  }

  std::string Value(uint8_t size_byte) {
    std::string value = std::to_string(++writes_);
    value.resize(value.size() + size_t{size_byte} * (size_byte > 200 ? 100 : 2), 'v');
    return value;
  }

  void Put(const std::string& key, uint8_t size_byte) {
    model_[key] = Value(size_byte);
    Expect(db_->Put(key, model_[key]));
  }

  void Delete(const std::string& key) {
    model_.erase(key);
    Expect(db_->Delete(key));
  }

  void DeleteRange(const std::string& one, const std::string& other) {
    const std::string& begin = std::min(one, other);
    const std::string& end = std::max(one, other);
    model_.erase(model_.lower_bound(begin), model_.lower_bound(end));
    Expect(db_->DeleteRange(begin, end));
  }

  void Update(const std::string& key, uint8_t size_byte) {
    const auto present = model_.find(key);
    const std::string value = Value(size_byte);
    Expect(db_->Update(key, [&](Slice, const Slice* now, std::string* updated) {
      QUIRE_CHECK((now != nullptr) == (present != model_.end()));
      QUIRE_CHECK(now == nullptr || *now == present->second);
      *updated = value;
      return true;
    }));
    model_[key] = value;
  }

  void CompareOne(const std::string& key) {
    std::string value;
    const Status status = db_->Get(key, &value);
    const auto expected = model_.find(key);
    QUIRE_CHECK(status.code() == (expected == model_.end() ? Code::kNotFound : Code::kOk));
    QUIRE_CHECK(expected == model_.end() || value == expected->second);
  }

  void Open() {
    Result<std::unique_ptr<Db>> opened =
        Db::Open(environment_, "/db", options_, engine::OpenFlags::kOpenOrCreate);
    Expect(opened.status());
    db_ = std::move(*opened);
  }

  void Close() {
    db_.reset();
    while (executor_->RunOne()) {
    }
  }

  void Reopen() {
    Close();
    Open();
  }

  // The log is on: a killed process has lost nothing.
  void Kill() {
    fs_->CrashAfter(0);
    Close();
    fs_->Restart(io::CrashKind::kProcess, ++writes_);
    fs_->CrashAfter(UINT64_MAX);
    Open();
  }

  StorageOptions options_;
  std::unique_ptr<io::SimFileSystem> fs_ = io::NewSimFileSystem();
  std::unique_ptr<base::Executor> executor_ = base::NewManualExecutor();
  engine::EngineEnvironment environment_;
  std::unique_ptr<Db> db_;
  std::map<std::string, std::string> model_;
  uint64_t writes_ = 0;
};

}  // namespace
}  // namespace quire::lsm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  quire::lsm::Subject subject;
  for (size_t i = 0; i + 3 <= size && i / 3 < quire::lsm::kOperationsMax; i += 3) {
    subject.Do(data[i], data[i + 1], data[i + 2]);
  }
  subject.CompareAll();
  return 0;
}
