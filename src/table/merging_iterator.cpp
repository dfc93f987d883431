#include "table/merging_iterator.h"

#include <algorithm>
#include <utility>

#include "base/text/coding.h"

namespace quire::table {

MergingIterator::MergingIterator(std::vector<std::unique_ptr<EntryIterator>> sources,
                                 size_t common_bytes)
    : sources_(std::move(sources)), common_bytes_(common_bytes) {
  heap_.reserve(sources_.size());
}

// Returns whether `a` comes before `b` in the direction of travel. No two entries are equal: LSNs
// of one key differ.
inline bool MergingIterator::ComesFirst(const Node& a, const Node& b) const {
  if (a.prefix != b.prefix) return forward_ == (a.prefix < b.prefix);
  const int order = a.entry->key.compare(b.entry->key);
  if (order != 0) return forward_ == (order < 0);
  return forward_ == (a.entry->lsn > b.entry->lsn);
}

// Takes over where the node's source stands; false where it stands nowhere.
inline bool MergingIterator::Load(Node* node) {
  node->entry = node->source->entry();
  if (node->entry == nullptr) {
    if (!node->source->status().ok()) failed_ = node->source;
    return false;
  }
  const Slice key = node->entry->key;
  // (A damaged table may contain a key outside of its stated range.)
  node->prefix = base::KeyPrefix(key.substr(std::min(common_bytes_, key.size())));
  return true;
}

void MergingIterator::Rebuild() {
  heap_.clear();
  failed_ = nullptr;
  for (const std::unique_ptr<EntryIterator>& source : sources_) {
    Node node{0, nullptr, source.get()};
    if (Load(&node)) heap_.push_back(node);
  }
  for (size_t at = heap_.size() / 2; at-- > 0;) SiftDown(at);
}

void MergingIterator::SiftDown(size_t at) {
  const size_t count = heap_.size();
  const Node moving = heap_[at];
  while (true) {
    size_t child = 2 * at + 1;
    if (child >= count) break;
    if (child + 1 < count && ComesFirst(heap_[child + 1], heap_[child])) ++child;
    if (!ComesFirst(heap_[child], moving)) break;
    heap_[at] = heap_[child];
    at = child;
  }
  heap_[at] = moving;
}

// Called after the root's source moved: moves it to its place in the heap, or removes it.
void MergingIterator::AdvanceTop() {
  if (!Load(&heap_[0])) {
    heap_[0] = heap_.back();
    heap_.pop_back();
    if (heap_.empty()) return;
  }
  if (heap_.size() > 1) SiftDown(0);
}

void MergingIterator::SeekToFirst() {
  forward_ = true;
  for (const auto& source : sources_) source->SeekToFirst();
  Rebuild();
}

void MergingIterator::SeekToLast() {
  forward_ = false;
  for (const auto& source : sources_) source->SeekToLast();
  Rebuild();
}

void MergingIterator::Seek(Slice key) {
  forward_ = true;
  for (const auto& source : sources_) source->Seek(key);
  Rebuild();
}

void MergingIterator::SeekBefore(Slice key) {
  forward_ = false;
  for (const auto& source : sources_) source->SeekBefore(key);
  Rebuild();
}

void MergingIterator::Next() {
  heap_[0].source->Next();
  AdvanceTop();
}

void MergingIterator::Prev() {
  heap_[0].source->Prev();
  AdvanceTop();
}

Status MergingIterator::status() const {
  return failed_ == nullptr ? Status() : failed_->status();
}

}  // namespace quire::table
