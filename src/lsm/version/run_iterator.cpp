#include "lsm/version/run_iterator.h"

namespace quire::lsm {
namespace {

class RunIterator : public table::EntryIterator {
 public:
  RunIterator(const Run& run, bool fill_cache) : run_(run), fill_cache_(fill_cache) {}

  void SeekToFirst() override {
    Enter(0);
    current_->SeekToFirst();
    SkipForward();
  }
  void SeekToLast() override {
    Enter(run_.tables().size() - 1);
    current_->SeekToLast();
    SkipBackward();
  }
  void Seek(Slice key) override {
    Enter(run_.FindIndex(key));
    current_->Seek(key);
    SkipForward();
  }
  void SeekBefore(Slice key) override {
    Enter(run_.FindIndex(key));
    current_->SeekBefore(key);
    SkipBackward();
  }
  void Next() override {
    current_->Next();
    SkipForward();
  }
  void Prev() override {
    current_->Prev();
    SkipBackward();
  }
  Status status() const override { return current_ == nullptr ? Status() : current_->status(); }

 private:
  // Moves to a table; retries one that has failed. Without memory it changes nothing.
  void Enter(size_t index) {
    if (current_ != nullptr && index == index_ && current_->status().ok()) return;
    current_ = run_.tables()[index]->table().NewIterator(fill_cache_);
    index_ = index;
  }
  // An iterator that is invalid because of an error stays, so that status() returns the error.
  bool AtEnd() const { return !current_->Valid() && current_->status().ok(); }
  void SkipForward() {
    while (AtEnd() && index_ + 1 < run_.tables().size()) {
      Enter(index_ + 1);
      current_->SeekToFirst();
    }
    StandOn(current_->entry());
  }
  void SkipBackward() {
    while (AtEnd() && index_ > 0) {
      Enter(index_ - 1);
      current_->SeekToLast();
    }
    StandOn(current_->entry());
  }

  const Run& run_;
  const bool fill_cache_;
  size_t index_ = 0;
  std::unique_ptr<table::EntryIterator> current_;
};

}  // namespace

std::unique_ptr<table::EntryIterator> NewRunIterator(const Run& run, bool fill_cache) {
  if (run.tables().size() == 1) {
    auto of_table = run.tables()[0]->table().NewIterator(fill_cache);
    if (of_table->status().ok()) return of_table;
  }
  return std::make_unique<RunIterator>(run, fill_cache);
}

}  // namespace quire::lsm
