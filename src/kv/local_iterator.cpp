#include "kv/local_iterator.h"

#include <string>
#include <utility>

#include "base/forked_child.h"

namespace quire::kv {
namespace {

// In a forked child an iterator stands nowhere, and says why.
class PairIterator final : public LocalIterator {
 public:
  PairIterator(std::shared_ptr<base::Executor> executor, std::shared_ptr<lsm::Db> db)
      : executor_(std::move(executor)), db_(std::move(db)), iterator_(db_->NewIterator({})) {}
  ~PairIterator() override {
    if (process_.forked()) base::LeaveInChild(executor_, db_, iterator_);
  }
  bool Valid() const override { return !process_.forked() && iterator_->Valid(); }
  void SeekToFirst() override {
    if (!process_.forked()) iterator_->SeekToFirst();
  }
  void SeekToLast() override {
    if (!process_.forked()) iterator_->SeekToLast();
  }
  void Seek(Slice key) override {
    if (!process_.forked()) iterator_->Seek(key);
  }
  void Next() override {
    if (Valid()) iterator_->Next();
  }
  void Prev() override {
    if (Valid()) iterator_->Prev();
  }
  Slice key() const override { return iterator_->key(); }
  Slice value() override { return process_.forked() ? Slice() : iterator_->value(); }
  Status status() const override {
    QUIRE_RETURN_IF_ERROR(process_.Check("the iterator"));
    return iterator_->status();
  }

 private:
  const base::OwnProcess process_;
  std::shared_ptr<base::Executor> executor_;
  std::shared_ptr<lsm::Db> db_;
  std::unique_ptr<lsm::Iterator> iterator_;
};

// Entries turn round by seeking anew.
class EntryPairIterator final : public LocalIterator {
 public:
  explicit EntryPairIterator(std::unique_ptr<table::EntryIterator> entries)
      : entries_(std::move(entries)) {}
  ~EntryPairIterator() override {
    if (process_.forked()) base::LeaveInChild(entries_);
  }
  bool Valid() const override { return !process_.forked() && entries_->Valid(); }
  void SeekToFirst() override {
    if (process_.forked()) return;
    forward_ = true;
    entries_->SeekToFirst();
  }
  void SeekToLast() override {
    if (process_.forked()) return;
    forward_ = false;
    entries_->SeekToLast();
  }
  void Seek(Slice key) override {
    if (process_.forked()) return;
    forward_ = true;
    entries_->Seek(key);
  }
  void Next() override {
    if (!Valid()) return;
    if (forward_) return entries_->Next();
    const std::string successor = std::string(key()) + '\0';
    Seek(successor);
  }
  void Prev() override {
    if (!Valid()) return;
    if (!forward_) return entries_->Prev();
    const std::string present(key());
    forward_ = false;
    entries_->SeekBefore(present);
  }
  Slice key() const override { return entries_->key(); }
  Slice value() override { return process_.forked() ? Slice() : entries_->value(); }
  Status status() const override {
    QUIRE_RETURN_IF_ERROR(process_.Check("the iterator"));
    return entries_->status();
  }

 private:
  const base::OwnProcess process_;
  std::unique_ptr<table::EntryIterator> entries_;
  bool forward_ = true;
};

class FailedIterator final : public LocalIterator {
 public:
  explicit FailedIterator(Status status) : status_(std::move(status)) {}
  bool Valid() const override { return false; }
  void SeekToFirst() override {}
  void SeekToLast() override {}
  void Seek(Slice /*key*/) override {}
  void Next() override {}
  void Prev() override {}
  Slice key() const override { return {}; }
  Slice value() override { return {}; }
  Status status() const override { return status_; }

 private:
  const Status status_;
};

}  // namespace

std::unique_ptr<LocalIterator> NewPairIterator(std::shared_ptr<base::Executor> executor,
                                               std::shared_ptr<lsm::Db> db) {
  return std::make_unique<PairIterator>(std::move(executor), std::move(db));
}

std::unique_ptr<LocalIterator> NewEntryPairIterator(std::unique_ptr<table::EntryIterator> entries) {
  return std::make_unique<EntryPairIterator>(std::move(entries));
}

std::unique_ptr<LocalIterator> NewFailedIterator(Status status) {
  return std::make_unique<FailedIterator>(std::move(status));
}

}  // namespace quire::kv
