// The base of a rank's storage over the older generations.
#include <utility>
#include <vector>

#include "kv/generations/generation_chain.h"
#include "table/entry_iterator.h"
#include "table/merging_iterator.h"

namespace quire::kv {
namespace {

// The live pairs of one part, as entries.
class PartEntries final : public table::EntryIterator {
 public:
  explicit PartEntries(std::unique_ptr<engine::Iterator> pairs) : pairs_(std::move(pairs)) {}

  void SeekToFirst() override {
    pairs_->SeekToFirst();
    Show();
  }
  void SeekToLast() override {
    pairs_->SeekToLast();
    Show();
  }
  void Seek(Slice key) override {
    pairs_->Seek(key);
    Show();
  }
  void SeekBefore(Slice key) override {
    pairs_->SeekForPrev(key);
    if (pairs_->Valid() && pairs_->key() == key) pairs_->Prev();
    Show();
  }
  void Next() override {
    pairs_->Next();
    Show();
  }
  void Prev() override {
    pairs_->Prev();
    Show();
  }
  Status status() const override { return pairs_->status(); }

 private:
  void Show() {
    if (!pairs_->Valid()) return StandOn(nullptr);
    const Slice value = pairs_->value();
    // A value that cannot be read ends the walk: nothing is left out silently.
    if (!pairs_->status().ok()) return StandOn(nullptr);
    entry_ = {pairs_->key(), value, 0, log::RecordType::kPut};
    StandOn(&entry_);
  }

  const std::unique_ptr<engine::Iterator> pairs_;
  table::Entry entry_;
};

// All parts of one generation, merged, without the keys that newer generations contain and those
// that other ranks own. To change its direction it seeks again, as the merges above and below it
// do.
class GenerationEntries final : public table::EntryIterator {
 public:
  GenerationEntries(std::shared_ptr<const GenerationChain> chain, size_t at, int rank,
                    int rank_count, std::vector<std::unique_ptr<table::EntryIterator>> parts)
      : chain_(std::move(chain)),
        at_(at),
        rank_(rank),
        rank_count_(rank_count),
        merge_(std::move(parts), 0) {}

  void SeekToFirst() override {
    merge_.SeekToFirst();
    Settle(true);
  }
  void SeekToLast() override {
    merge_.SeekToLast();
    Settle(false);
  }
  void Seek(Slice key) override {
    merge_.Seek(key);
    Settle(true);
  }
  void SeekBefore(Slice key) override {
    merge_.SeekBefore(key);
    Settle(false);
  }
  void Next() override {
    merge_.Next();
    Settle(true);
  }
  void Prev() override {
    merge_.Prev();
    Settle(false);
  }
  Status status() const override { return status_.ok() ? merge_.status() : status_; }

 private:
  void Settle(bool forward) {
    status_ = Status();
    for (; merge_.Valid(); forward ? merge_.Next() : merge_.Prev()) {
      const Result<bool> shown = Shows(merge_.key());
      status_ = shown.status();
      if (!status_.ok()) break;
      if (!*shown) continue;
      entry_ = {merge_.key(), merge_.value(), 0, log::RecordType::kPut};
      return StandOn(&entry_);
    }
    StandOn(nullptr);
  }
  // A pair that no rank owns ends the walk: nothing is left out silently.
  Result<bool> Shows(Slice key) const {
    if (rank_count_ != kAllRanks) {
      QUIRE_ASSIGN_OR_RETURN(const int owner, chain_->OwnerAmong(key, rank_count_));
      if (owner != rank_) return false;
    }
    QUIRE_ASSIGN_OR_RETURN(const bool known, chain_->KnownBefore(key, at_));
    return !known;
  }

  const std::shared_ptr<const GenerationChain> chain_;
  const size_t at_;
  const int rank_;
  const int rank_count_;
  table::MergingIterator merge_;
  Status status_;
  table::Entry entry_;
};

// The entries of all generations: no key is in two of them, because newer generations hide their
// keys in older ones.
class ChainEntries final : public table::EntryIterator {
 public:
  explicit ChainEntries(std::vector<std::unique_ptr<table::EntryIterator>> generations)
      : merge_(std::move(generations), 0) {}
  void SeekToFirst() override {
    merge_.SeekToFirst();
    Show();
  }
  void SeekToLast() override {
    merge_.SeekToLast();
    Show();
  }
  void Seek(Slice key) override {
    merge_.Seek(key);
    Show();
  }
  void SeekBefore(Slice key) override {
    merge_.SeekBefore(key);
    Show();
  }
  void Next() override {
    merge_.Next();
    Show();
  }
  void Prev() override {
    merge_.Prev();
    Show();
  }
  Status status() const override { return merge_.status(); }

 private:
  void Show() { StandOn(merge_.Valid() ? &merge_.entry() : nullptr); }

  table::MergingIterator merge_;
};

class ChainBackingStore final : public engine::BackingStore {
 public:
  ChainBackingStore(std::shared_ptr<const GenerationChain> chain, int rank, int rank_count)
      : chain_(std::move(chain)), rank_(rank), rank_count_(rank_count) {}

  Status Get(Slice key, const BufferAllocator& allocate) const override {
    return chain_->Get(key, allocate);
  }
  std::unique_ptr<table::EntryIterator> NewIterator() const override {
    std::vector<std::unique_ptr<table::EntryIterator>> generations;
    for (size_t at = 0; at < chain_->generations().size(); ++at) {
      auto generation = NewGeneration(at);
      if (!generation.ok()) return table::NewEmptyIterator(generation.status());
      generations.push_back(std::move(*generation));
    }
    return std::make_unique<ChainEntries>(std::move(generations));
  }

 private:
  Result<std::unique_ptr<table::EntryIterator>> NewGeneration(size_t at) const {
    std::vector<std::unique_ptr<table::EntryIterator>> parts;
    const int parts_count = chain_->generations()[at].rank_count;
    for (int rank = 0; rank < parts_count; ++rank) {
      if (rank_count_ != kAllRanks &&
          !chain_->options().partitioning.MayShareKeys(rank, parts_count, rank_, rank_count_)) {
        continue;
      }
      QUIRE_ASSIGN_OR_RETURN(const std::shared_ptr<engine::StoredPart> part,
                             chain_->Part(at, rank));
      parts.push_back(std::make_unique<PartEntries>(part->NewIterator({})));
    }
    return std::unique_ptr<table::EntryIterator>(
        std::make_unique<GenerationEntries>(chain_, at, rank_, rank_count_, std::move(parts)));
  }

  const std::shared_ptr<const GenerationChain> chain_;
  const int rank_;
  const int rank_count_;
};

class EmptyBackingStore final : public engine::BackingStore {
 public:
  Status Get(Slice /*key*/, const BufferAllocator& /*allocate*/) const override {
    return Status(Code::kNotFound);
  }
  std::unique_ptr<table::EntryIterator> NewIterator() const override {
    return table::NewEmptyIterator();
  }
};

}  // namespace

std::shared_ptr<const engine::BackingStore> NewEmptyBackingStore() {
  return std::make_shared<EmptyBackingStore>();
}

std::shared_ptr<const engine::BackingStore> NewChainBackingStore(
    std::shared_ptr<const GenerationChain> chain, int rank, int rank_count) {
  return std::make_shared<ChainBackingStore>(std::move(chain), rank, rank_count);
}

}  // namespace quire::kv
