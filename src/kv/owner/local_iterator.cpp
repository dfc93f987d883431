#include "kv/owner/local_iterator.h"

#include <string>
#include <utility>

#include "base/forked_child.h"

namespace quire::kv {
namespace {

// In a forked child, inside a function that Quire calls, and once the database is closed, it stands
// nowhere and says why.
class PairIterator final : public LocalIterator {
 public:
  explicit PairIterator(std::shared_ptr<HeldPairs> held) : held_(std::move(held)) {}
  ~PairIterator() override {
    if (process_.forked()) base::LeaveInChild(held_);
  }
  bool Valid() const override { return Open() && Walk().Valid(); }
  void SeekToFirst() override {
    if (Open()) Walk().SeekToFirst();
  }
  void SeekToLast() override {
    if (Open()) Walk().SeekToLast();
  }
  void Seek(Slice key) override {
    if (Open()) Walk().Seek(key);
  }
  void Next() override {
    if (Valid()) Walk().Next();
  }
  void Prev() override {
    if (Valid()) Walk().Prev();
  }
  Slice key() const override { return Open() ? Walk().key() : Slice(); }
  Slice value() override { return Open() ? Walk().value() : Slice(); }
  Status status() const override {
    QUIRE_RETURN_IF_ERROR(process_.Check("the iterator"));
    return Open() ? Walk().status() : held_->closed;
  }

 private:
  bool Open() const { return process_.MayCall() && held_->iterator != nullptr; }
  lsm::Iterator& Walk() const { return *held_->iterator; }

  const base::OwnProcess process_;
  std::shared_ptr<HeldPairs> held_;
};

// Entries turn round by seeking anew.
class EntryPairIterator final : public LocalIterator {
 public:
  explicit EntryPairIterator(std::unique_ptr<table::EntryIterator> entries)
      : entries_(std::move(entries)) {}
  ~EntryPairIterator() override {
    if (process_.forked()) base::LeaveInChild(entries_);
  }
  bool Valid() const override { return process_.MayCall() && entries_->Valid(); }
  void SeekToFirst() override {
    if (!process_.MayCall()) return;
    forward_ = true;
    entries_->SeekToFirst();
  }
  void SeekToLast() override {
    if (!process_.MayCall()) return;
    forward_ = false;
    entries_->SeekToLast();
  }
  void Seek(Slice key) override {
    if (!process_.MayCall()) return;
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
  Slice value() override { return process_.MayCall() ? entries_->value() : Slice(); }
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

std::unique_ptr<LocalIterator> OpenIterators::New(std::shared_ptr<base::Executor> executor,
                                                  std::shared_ptr<lsm::Db> db) {
  auto held = std::make_shared<HeldPairs>();
  held->executor = std::move(executor);
  held->db = std::move(db);
  held->iterator = held->db->NewIterator({});
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::erase_if(held_, [](const auto& other) { return other.expired(); });
    held_.push_back(held);
  }
  return std::make_unique<PairIterator>(std::move(held));
}

void OpenIterators::End(const Status& why) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const std::weak_ptr<HeldPairs>& each : held_) {
    const std::shared_ptr<HeldPairs> held = each.lock();
    if (held == nullptr) continue;
    held->closed = why;
    held->iterator.reset();
    held->db.reset();
    held->executor.reset();
  }
  held_.clear();
}

std::unique_ptr<LocalIterator> NewEntryPairIterator(std::unique_ptr<table::EntryIterator> entries) {
  return std::make_unique<EntryPairIterator>(std::move(entries));
}

std::unique_ptr<LocalIterator> NewFailedIterator(Status status) {
  return std::make_unique<FailedIterator>(std::move(status));
}

}  // namespace quire::kv
