#include "kv/owner/local_iterator.h"

#include <new>
#include <string>
#include <utility>

#include "base/core/out_of_memory.h"
#include "base/threads/forked_child.h"

namespace quire::kv {
namespace {

// Ends a walk at a step that found no memory, or at a value that cannot be read. The walk stands
// nowhere until the next seek: it passes over no pair, and shows no unread value as an empty one.
class WalkEnd {
 public:
  template <typename Step>
  void TrySeek(const Step& step) {
    if (reached()) status_ = Status();
    TryStep(step);
  }
  template <typename Step>
  void TryStep(const Step& step) {
    try {
      step();
    } catch (const std::bad_alloc&) {
      status_ = base::OutOfMemory();
    }
  }
  template <typename Walk>
  Slice TryValue(Walk& walk) {
    Slice value;
    if (reached()) return value;
    TryStep([&] { value = walk.value(); });
    if (value.empty() && !reached()) status_ = walk.status();
    return value;
  }
  bool reached() const { return !status_.ok(); }
  const Status& status() const { return status_; }

 private:
  Status status_;
};

// In a forked child, inside a function that Quire calls, and after the database was closed, the
// iterator is invalid and its status says why.
class PairIterator final : public LocalIterator {
 public:
  explicit PairIterator(std::shared_ptr<HeldPairs> held) : held_(std::move(held)) {}
  ~PairIterator() override {
    if (process_.forked()) base::LeaveInChild(held_);
  }
  bool Valid() const override { return Open() && !end_.reached() && Walk().Valid(); }
  void SeekToFirst() override {
    if (Open()) end_.TrySeek([this] { Walk().SeekToFirst(); });
  }
  void SeekToLast() override {
    if (Open()) end_.TrySeek([this] { Walk().SeekToLast(); });
  }
  void Seek(Slice key) override {
    if (Open()) end_.TrySeek([this, key] { Walk().Seek(key); });
  }
  void Next() override {
    if (Valid()) end_.TryStep([this] { Walk().Next(); });
  }
  void Prev() override {
    if (Valid()) end_.TryStep([this] { Walk().Prev(); });
  }
  Slice key() const override { return Open() && !end_.reached() ? Walk().key() : Slice(); }
  Slice value() override {
    return Open() ? end_.TryValue(Walk()) : Slice();
  }
  Status status() const override {
    QUIRE_RETURN_IF_ERROR(process_.Check("the iterator"));
    if (!Open()) return held_->closed;
    QUIRE_RETURN_IF_ERROR(end_.status());
    return Walk().status();
  }

 private:
  bool Open() const { return process_.MayCall() && held_->iterator != nullptr; }
  engine::Iterator& Walk() const { return *held_->iterator; }

  const base::OwnProcess process_;
  std::shared_ptr<HeldPairs> held_;
  WalkEnd end_;
};

// To change the direction, it seeks in the entries again.
class EntryPairIterator final : public LocalIterator {
 public:
  explicit EntryPairIterator(std::unique_ptr<table::EntryIterator> entries)
      : entries_(std::move(entries)) {}
  ~EntryPairIterator() override {
    if (process_.forked()) base::LeaveInChild(entries_);
  }
  bool Valid() const override {
    return process_.MayCall() && !end_.reached() && entries_->Valid();
  }
  void SeekToFirst() override {
    SeekTo(true, [this] { entries_->SeekToFirst(); });
  }
  void SeekToLast() override {
    SeekTo(false, [this] { entries_->SeekToLast(); });
  }
  void Seek(Slice key) override {
    SeekTo(true, [this, key] { entries_->Seek(key); });
  }
  void Next() override {
    if (Valid()) end_.TryStep([this] { StepForward(); });
  }
  void Prev() override {
    if (Valid()) end_.TryStep([this] { StepBack(); });
  }
  Slice key() const override { return end_.reached() ? Slice() : entries_->key(); }
  Slice value() override {
    return process_.MayCall() ? end_.TryValue(*entries_) : Slice();
  }
  Status status() const override {
    QUIRE_RETURN_IF_ERROR(process_.Check("the iterator"));
    QUIRE_RETURN_IF_ERROR(end_.status());
    return entries_->status();
  }

 private:
  template <typename Step>
  void SeekTo(bool forward, const Step& step) {
    if (!process_.MayCall()) return;
    forward_ = forward;
    end_.TrySeek(step);
  }
  void StepForward() {
    if (forward_) return entries_->Next();
    const std::string successor = std::string(key()) + '\0';
    forward_ = true;
    entries_->Seek(successor);
  }
  void StepBack() {
    if (!forward_) return entries_->Prev();
    const std::string present(key());
    forward_ = false;
    entries_->SeekBefore(present);
  }

  const base::OwnProcess process_;
  std::unique_ptr<table::EntryIterator> entries_;
  bool forward_ = true;
  WalkEnd end_;
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
                                                  std::shared_ptr<engine::StorageEngine> engine) {
  auto held = std::make_shared<HeldPairs>();
  held->executor = std::move(executor);
  held->engine = std::move(engine);
  held->iterator = held->engine->NewIterator({});
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
    held->engine.reset();
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
