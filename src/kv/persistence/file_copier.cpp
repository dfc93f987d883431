#include "kv/persistence/file_copier.h"

#include <algorithm>
#include <utility>

#include "base/core/log_sink.h"

namespace quire::kv {
namespace {

// One call of Advance: about 10 ms of a fast device.
constexpr int kPiecesPerAdvance = 16;
// The size of one write. For larger writes Linux makes page-cache folios that a virtual machine may
// first have to get from its host: measured at 4 times the cost.
constexpr uint64_t kWriteBytes = 256 << 10;
// Written bytes go to the device while the next ones are copied: to copy a whole file, and then
// sync it, takes twice the time.
constexpr uint64_t kWriteBackBytes = 8 << 20;

}  // namespace

FileCopier::FileCopier(io::FileSystem& fs, std::string source, std::string target,
                       std::vector<Item> items, std::atomic<uint64_t>* bytes_done, Check check)
    : fs_(fs),
      source_(std::move(source)),
      target_(std::move(target)),
      items_(std::move(items)),
      bytes_done_(bytes_done),
      check_(std::move(check)) {}

Result<bool> FileCopier::Advance() {
  for (int piece = 0; piece < kPiecesPerAdvance; ++piece) {
    if (at_ == items_.size()) {
      QUIRE_RETURN_IF_ERROR(SyncWritten());
      return true;
    }
    if (from_ == nullptr) {
      QUIRE_RETURN_IF_ERROR(Begin());
    } else if (offset_ < items_[at_].file.bytes) {
      QUIRE_RETURN_IF_ERROR(TakePiece());
    } else {
      QUIRE_RETURN_IF_ERROR(EndFile());
      return false;  // the check of a copy reads all of it
    }
  }
  return false;
}

Status FileCopier::Begin() {
  offset_ = 0;
  sum_ = 0;
  const Item& item = items_[at_];
  if (item.link_from.empty()) return BeginCopy();
  return item.check_link ? BeginLink() : EndLink();
}

Status FileCopier::BeginLink() {
  const Item& item = items_[at_];
  Result<std::unique_ptr<io::File>> from = fs_.Open(item.link_from, io::FileOpenMode::kRead);
  if (from.status().code() == Code::kNotFound) {
    // The earlier checkpoint may have been dropped meanwhile.
    items_[at_].link_from.clear();
    return Status();
  }
  if (!from.ok()) return Reject(from.status().ToString());
  const Result<uint64_t> size = (*from)->Size();
  if (!size.ok()) return Reject(size.status().ToString());
  if (*size != item.file.bytes) return Reject("it has another size");
  from_ = std::move(*from);
  return Status();
}

Status FileCopier::BeginCopy() {
  const Item& item = items_[at_];
  const std::string source = source_ + "/" + item.name;
  Result<std::unique_ptr<io::File>> from = fs_.Open(source, io::FileOpenMode::kRead);
  if (from.status().code() == Code::kNotFound) return MissingFile(source);
  if (!from.ok()) return from.status();
  QUIRE_ASSIGN_OR_RETURN(const uint64_t size, (*from)->Size());
  if (size != item.file.bytes) {
    return Status(Code::kCorruption, source + " has " + std::to_string(size) + " bytes, not " +
                                         std::to_string(item.file.bytes) +
                                         "; restore it from a copy or checkpoint");
  }
  QUIRE_ASSIGN_OR_RETURN(to_, fs_.Open(target_ + "/" + item.name, io::FileOpenMode::kCreate));
  from_ = std::move(*from);
  return Status();
}

Status FileCopier::TakePiece() {
  const uint64_t size = std::min(items_[at_].file.bytes - offset_, kSumPieceBytes);
  piece_.resize(size);
  for (uint64_t at = 0; at < size; at += kWriteBytes) {
    const uint64_t part = std::min(size - at, kWriteBytes);
    const Status read = from_->ReadAt(offset_ + at, part, piece_.data() + at);
    if (!read.ok()) return to_ == nullptr ? Reject(read.ToString()) : read;
    if (to_ == nullptr) continue;
    QUIRE_RETURN_IF_ERROR(to_->WriteAt(offset_ + at, Slice(piece_).substr(at, part)));
  }
  sum_ = AddToSum(sum_, offset_, piece_);
  offset_ += size;
  if (to_ == nullptr) return Status();
  if (offset_ % kWriteBackBytes == 0) {
    to_->StartWriteBack(offset_ - kWriteBackBytes, kWriteBackBytes);
  }
  bytes_done_->fetch_add(size, std::memory_order_relaxed);
  return Status();
}

Status FileCopier::EndFile() {
  if (to_ != nullptr) return EndCopy();
  from_.reset();
  return sum_ == items_[at_].file.sum ? EndLink() : Reject("its sum is not the one that was noted");
}

Status FileCopier::EndLink() {
  Item& item = items_[at_];
  const Status linked = fs_.Link(item.link_from, target_ + "/" + item.name);
  if (!linked.ok()) {
    // Whatever is wrong with the earlier file, this one can be copied.
    item.link_from.clear();
    return Status();
  }
  bytes_done_->fetch_add(item.file.bytes, std::memory_order_relaxed);
  ++at_;
  return Status();
}

// The file that was to be linked is not what it was: it is copied.
Status FileCopier::Reject(const std::string& what) {
  from_.reset();
  Item& item = items_[at_];
  if (base::LogEnabled()) {
    base::Log(LogLevel::kWarning, item.link_from + " of an earlier checkpoint is damaged (" + what +
                                      "); it is copied again from " + source_ +
                                      ", but all checkpoints that link it have lost it");
  }
  item.link_from.clear();
  return Status();
}

Status FileCopier::EndCopy() {
  Item& item = items_[at_];
  if (item.sum_known && item.file.sum != sum_) {
    return Status(Code::kCorruption, from_->path() +
                                         " is not what was stored: its sum differs from the one "
                                         "in " +
                                         kFilesName + "; use another checkpoint");
  }
  const uint64_t begun = offset_ - offset_ % kWriteBackBytes;
  to_->StartWriteBack(begun, offset_ - begun);
  from_.reset();
  item.file.sum = sum_;
  item.sum_known = true;
  if (check_) QUIRE_RETURN_IF_ERROR(check_(item));
  QUIRE_RETURN_IF_ERROR(SyncWritten());
  written_ = std::move(to_);
  ++at_;
  return Status();
}

// Syncs the file before: one file goes to the device while the next is copied.
Status FileCopier::SyncWritten() {
  if (written_ == nullptr) return Status();
  const std::unique_ptr<io::File> file = std::move(written_);
  return file->Sync();
}

}  // namespace quire::kv
