/// A base in memory, for tests.
///
/// Layer      lsm (tests only)
/// Threads    as BackingStore
#pragma once

#include <cstring>
#include <memory>
#include <utility>

#include "engine/backing_store.h"
#include "lsm/db/db_testing.h"

namespace quire::lsm {

class ModelBase final : public engine::BackingStore {
 public:
  explicit ModelBase(Model pairs) : pairs_(std::move(pairs)) {}

  Status Get(Slice key, const BufferAllocator& allocate) const override {
    const auto found = pairs_.find(std::string(key));
    if (found == pairs_.end()) return Status(Code::kNotFound);
    char* const to = allocate(found->second.size());
    std::memcpy(to, found->second.data(), found->second.size());
    return Status();
  }
  std::unique_ptr<table::EntryIterator> NewIterator() const override {
    return std::make_unique<Walk>(pairs_);
  }

 private:
  class Walk final : public table::EntryIterator {
   public:
    explicit Walk(const Model& pairs) : pairs_(pairs), at_(pairs.end()) {}
    void SeekToFirst() override { MoveTo(pairs_.begin()); }
    void SeekToLast() override { MoveTo(Before(pairs_.end())); }
    void Seek(Slice key) override { MoveTo(pairs_.lower_bound(std::string(key))); }
    void SeekBefore(Slice key) override { MoveTo(Before(pairs_.lower_bound(std::string(key)))); }
    void Next() override { MoveTo(std::next(at_)); }
    void Prev() override { MoveTo(Before(at_)); }
    Status status() const override { return Status(); }

   private:
    Model::const_iterator Before(Model::const_iterator at) const {
      return at == pairs_.begin() ? pairs_.end() : std::prev(at);
    }
    void MoveTo(Model::const_iterator at) {
      at_ = at;
      if (at == pairs_.end()) return StandOn(nullptr);
      entry_ = {at->first, at->second, 0, log::RecordType::kPut};
      StandOn(&entry_);
    }

    const Model& pairs_;
    Model::const_iterator at_;
    table::Entry entry_;
  };

  const Model pairs_;
};

}  // namespace quire::lsm
