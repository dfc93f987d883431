#include <utility>

#include "table/entry_iterator.h"

namespace quire::table {
namespace {

class EmptyIterator final : public EntryIterator {
 public:
  explicit EmptyIterator(Status status) : status_(std::move(status)) {}
  void SeekToFirst() override {}
  void SeekToLast() override {}
  void Seek(Slice /*key*/) override {}
  void SeekBefore(Slice /*key*/) override {}
  void Next() override {}
  void Prev() override {}
  Status status() const override { return status_; }

 private:
  const Status status_;
};

}  // namespace

std::unique_ptr<EntryIterator> NewEmptyIterator(Status status) {
  return std::make_unique<EmptyIterator>(std::move(status));
}

}  // namespace quire::table
