#include "kv/transfer.h"

#include <algorithm>
#include <utility>

namespace quire::kv {
namespace {

// One call of Advance: about 10 ms of a fast device.
constexpr int kPiecesPerAdvance = 16;
// One write. Of larger ones Linux makes page-cache folios that a virtual machine may first have to
// get from its host: measured at 4 times the cost.
constexpr uint64_t kWriteBytes = 256 << 10;
// What was written so far goes to the device while the next is copied: a whole file, copied and
// then synced, takes twice the time.
constexpr uint64_t kWriteBackBytes = 8 << 20;

}  // namespace

Transfer::Transfer(io::FileSystem& fs, std::string source, std::string target,
                   std::vector<Item> items, std::atomic<uint64_t>* bytes_done)
    : fs_(fs),
      source_(std::move(source)),
      target_(std::move(target)),
      items_(std::move(items)),
      bytes_done_(bytes_done) {}

Result<bool> Transfer::Advance() {
  for (int piece = 0; piece < kPiecesPerAdvance; ++piece) {
    if (at_ == items_.size()) {
      from_.reset();
      QUIRE_RETURN_IF_ERROR(fs_.SyncDirectory(target_));
      return true;
    }
    if (to_ == nullptr) {
      QUIRE_RETURN_IF_ERROR(Begin());
    } else if (offset_ < items_[at_].file.bytes) {
      QUIRE_RETURN_IF_ERROR(CopyPiece());
    } else {
      QUIRE_RETURN_IF_ERROR(EndFile());
    }
  }
  return false;
}

Status Transfer::Begin() {
  const Item& item = items_[at_];
  const std::string target = target_ + "/" + item.name;
  if (!item.link_from.empty()) {
    const Status linked = fs_.Link(item.link_from, target);
    if (linked.ok()) {
      bytes_done_->fetch_add(item.file.bytes, std::memory_order_relaxed);
      ++at_;
      return Status();
    }
    // Whatever is wrong with the earlier file, this one can be copied.
  }
  const std::string source = source_ + "/" + item.name;
  Result<std::unique_ptr<io::File>> from = fs_.Open(source, io::OpenMode::kRead);
  if (from.status().code() == Code::kNotFound) return MissingFile(source);
  QUIRE_ASSIGN_OR_RETURN(from_, std::move(from));
  QUIRE_ASSIGN_OR_RETURN(const uint64_t size, from_->Size());
  if (size != item.file.bytes) {
    return Status(Code::kCorruption, source + " has " + std::to_string(size) + " bytes, not " +
                                         std::to_string(item.file.bytes) +
                                         "; restore it from a copy or checkpoint");
  }
  QUIRE_ASSIGN_OR_RETURN(to_, fs_.Open(target, io::OpenMode::kCreate));
  offset_ = 0;
  sum_ = 0;
  return Status();
}

Status Transfer::CopyPiece() {
  const uint64_t size = std::min(items_[at_].file.bytes - offset_, kSumPieceBytes);
  piece_.resize(size);
  for (uint64_t at = 0; at < size; at += kWriteBytes) {
    const uint64_t part = std::min(size - at, kWriteBytes);
    QUIRE_RETURN_IF_ERROR(from_->ReadAt(offset_ + at, part, piece_.data() + at));
    QUIRE_RETURN_IF_ERROR(to_->WriteAt(offset_ + at, Slice(piece_).substr(at, part)));
  }
  sum_ = AddToSum(sum_, offset_, piece_);
  offset_ += size;
  if (offset_ % kWriteBackBytes == 0) {
    to_->StartWriteBack(offset_ - kWriteBackBytes, kWriteBackBytes);
  }
  bytes_done_->fetch_add(size, std::memory_order_relaxed);
  return Status();
}

Status Transfer::EndFile() {
  Item& item = items_[at_];
  if (item.sum_known && item.file.sum != sum_) {
    return Status(Code::kCorruption, from_->path() +
                                         " is not what was stored: its sum differs from the one "
                                         "in " +
                                         kFilesName + "; use another checkpoint");
  }
  item.file.sum = sum_;
  item.sum_known = true;
  QUIRE_RETURN_IF_ERROR(to_->Sync());
  to_.reset();
  from_.reset();
  ++at_;
  return Status();
}

}  // namespace quire::kv
