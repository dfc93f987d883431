#include "kv/persistence/checkpoint_part.h"

#include <algorithm>
#include <utility>

#include "base/core/log_sink.h"
#include "base/hash/hash.h"
#include "base/text/coding.h"
#include "base/threads/sync_point.h"
#include "kv/protocol/part_engine.h"

namespace quire::kv {
namespace {

// One of so many checkpoints in a row reads a file that it links, although nothing says that the
// file was changed: media forget.
constexpr uint64_t kLinksUnreadMax = 32;

uint64_t SumOf(Slice bytes) {
  uint64_t sum = 0;
  for (uint64_t at = 0; at < bytes.size(); at += kSumPieceBytes) {
    sum = AddToSum(sum, at, bytes.substr(at, kSumPieceBytes));
  }
  return sum;
}

}  // namespace

CheckpointPart::CheckpointPart(io::FileSystem& fs, Places places,
                               std::shared_ptr<const engine::Capture> capture,
                               std::atomic<uint64_t>* bytes_done)
    : fs_(fs),
      places_(std::move(places)),
      capture_(std::move(capture)),
      bytes_done_(bytes_done),
      verifier_(PartsOnDisk().NewVerifier(fs_, places_.target)) {}

uint64_t CheckpointPart::bytes() const {
  uint64_t sum = 0;
  for (const engine::Capture::File& file : capture_->files()) sum += file.file_bytes;
  return sum;
}

Result<bool> CheckpointPart::Advance() {
  if (transfer_ == nullptr) QUIRE_RETURN_IF_ERROR(Begin());
  if (!copied_) {
    QUIRE_ASSIGN_OR_RETURN(copied_, transfer_->Advance());
    if (!copied_) return false;
    base::SyncPoint("kv.checkpoint.copied");
    for (const FileCopier::Item& item : transfer_->items()) names_.push_back(item.name);
  }
  QUIRE_ASSIGN_OR_RETURN(const bool checked, CheckSome());
  if (!checked) return false;
  QUIRE_RETURN_IF_ERROR(WriteList());
  base::SyncPoint("kv.checkpoint.listed");
  capture_.reset();  // the database may remove these files now
  return true;
}

Status CheckpointPart::Begin() {
  begun_ = true;
  QUIRE_RETURN_IF_ERROR(fs_.MakeDirectory(places_.target));
  earlier_ = EarlierFiles();
  looks_ = LookAtEarlier();
  std::vector<FileCopier::Item> items;
  for (const engine::Capture::File& file : capture_->files()) items.push_back(ItemOf(file));
  // Readers and writers of the database may never read a damaged block: a checkpoint must.
  const auto check = [this](const FileCopier::Item& item) { return CheckCopy(item); };
  transfer_ = std::make_unique<FileCopier>(fs_, places_.source, places_.target, std::move(items),
                                           bytes_done_, check);
  return Status();
}

// Returns the files of this part in the newest complete checkpoint. Unreadable ones are copied
// again.
FileList CheckpointPart::EarlierFiles() const {
  if (places_.earlier.empty()) return {};
  const Result<std::string> text =
      io::ReadFile(fs_, places_.earlier_part + "/" + kFilesName, UINT32_MAX);
  if (!text.ok()) return {};
  Result<FileList> list = DecodeFileList(*text, places_.earlier_part);
  if (!list.ok()) return {};
  return std::move(*list);
}

// The commit record is the last file that a checkpoint writes: younger files were changed. Files
// that cannot be examined count as changed.
std::map<std::string, CheckpointPart::Look> CheckpointPart::LookAtEarlier() const {
  std::map<std::string, Look> looks;
  if (earlier_.files.empty()) return looks;
  const auto beside = fs_.List(places_.earlier);
  const auto files = fs_.List(places_.earlier_part);
  if (!beside.ok() || !files.ok()) return looks;
  const auto commit = std::find_if(beside->begin(), beside->end(),
                                   [](const auto& info) { return info.name == kCommitName; });
  if (commit == beside->end()) return looks;
  for (const io::FileInfo& file : *files) {
    looks[file.name] = {file.size, file.modified_ns <= commit->modified_ns};
  }
  return looks;
}

FileCopier::Item CheckpointPart::ItemOf(const engine::Capture::File& file) const {
  FileCopier::Item item;
  item.name = file.name;
  item.file.bytes = file.file_bytes;
  item.file.identity = file.identity;
  const auto same = earlier_.files.find(file.name);
  if (same == earlier_.files.end() || same->second.bytes != file.file_bytes ||
      same->second.identity != file.identity) {
    return item;
  }
  item.link_from = places_.earlier_part + "/" + file.name;
  item.file.sum = same->second.sum;
  item.sum_known = true;
  const auto look = looks_.find(file.name);
  const bool as_it_was =
      look != looks_.end() && look->second.untouched && look->second.bytes == file.file_bytes;
  const bool its_turn = (base::HashKey(file.name) + places_.number) % kLinksUnreadMax == 0;
  item.check_link = !as_it_was || its_turn;
  return item;
}

Status CheckpointPart::CheckCopy(const FileCopier::Item& item) {
  const Status found = verifier_->Check(item.name, item.file.identity);
  // The damage came from the database, or with the copy. To its readers a segment without its last
  // records is sound.
  const bool doubtful = found.code() == Code::kCorruption || verifier_->HasHoles(item.name);
  QUIRE_RETURN_IF_ERROR(CompareCopy(item, doubtful));
  return NameSource(found);
}

// Checks what only all files together show: true once everything is checked.
Result<bool> CheckpointPart::CheckSome() {
  if (damage_.ok()) {
    const Result<bool> found = verifier_->FinishSome(names_);
    if (found.status().code() != Code::kCorruption) return found;
    damage_ = found.status();
  }
  const std::vector<FileCopier::Item>& items = transfer_->items();
  if (compared_ == items.size()) return NameSource(damage_);
  const FileCopier::Item& item = items[compared_++];
  if (item.link_from.empty()) QUIRE_RETURN_IF_ERROR(CompareCopy(item, true));
  return false;
}

// The copy with what was read of the database; without `contents` only its size.
Status CheckpointPart::CompareCopy(const FileCopier::Item& item, bool contents) const {
  const std::string copy = places_.target + "/" + item.name;
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<io::File> file,
                         fs_.Open(copy, io::FileOpenMode::kRead));
  QUIRE_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
  bool same = size == item.file.bytes;
  if (same && contents) {
    QUIRE_ASSIGN_OR_RETURN(const uint64_t sum, SumOfFile(*file, size, [](uint64_t) {}));
    same = sum == item.file.sum;
  }
  if (same) return Status();
  return Status(Code::kCorruption,
                copy + " is not what was written to it, which was read from " + places_.source +
                    "; check the file system of the checkpoint, and take another");
}

// The copy is what was read: its damage is the database's.
Status CheckpointPart::NameSource(const Status& found) const {
  if (found.code() != Code::kCorruption) return found;
  std::string text(found.message());
  const size_t at = text.find(places_.target + "/");
  if (at != std::string::npos) text.replace(at, places_.target.size(), places_.source);
  return Status(Code::kCorruption,
                text +
                    "; found by a checkpoint in its copy: restart from an earlier checkpoint, or "
                    "keep what is sound with quire repair");
}

Status CheckpointPart::WriteList() {
  FileList list;
  for (const FileCopier::Item& item : transfer_->items()) list.files[item.name] = item.file;
  const std::string& manifest = capture_->manifest();
  QUIRE_RETURN_IF_ERROR(
      io::WriteFile(fs_, places_.target + "/" + PartsOnDisk().marker(), manifest));
  list.files[PartsOnDisk().marker()] = {manifest.size(), 0, SumOf(manifest)};
  const std::string encoded = EncodeFileList(list);
  QUIRE_RETURN_IF_ERROR(io::WriteFile(fs_, places_.target + "/" + kFilesName, encoded));
  QUIRE_RETURN_IF_ERROR(fs_.SyncDirectory(places_.target));
  // Rank 0 does it before it publishes; but what another client of a file system made may be none
  // of its business.
  QUIRE_RETURN_IF_ERROR(fs_.SyncDirectory(io::DirectoryOf(places_.target)));
  const CommitRecord::Part part = PartOf(list, encoded);
  base::PutFixed(&report_, part.files);
  base::PutFixed(&report_, part.bytes);
  base::PutFixed(&report_, part.sum);
  return Status();
}

Result<CommitRecord::Part> CheckpointPart::ReadReport(Slice report) {
  CommitRecord::Part part;
  base::ByteReader reader(report);
  if (reader.Fixed(&part.files) && reader.Fixed(&part.bytes) && reader.Fixed(&part.sum)) {
    return part;
  }
  return Status(Code::kCorruption, "a rank does not say what it transferred");
}

void CheckpointPart::End() {
  transfer_.reset();
  capture_.reset();
}

void CheckpointPart::Remove() {
  if (!begun_) return;
  End();
  begun_ = false;
  const Status listed = fs_.Unlink(places_.target + "/" + kFilesName);
  const bool gone = listed.ok() || listed.code() == Code::kNotFound;
  const Status removed =
      gone ? PartsOnDisk().NewRemoval(fs_, places_.target, nullptr)->Run() : listed;
  if (removed.ok() || !base::LogEnabled()) return;
  base::Log(LogLevel::kWarning,
            "what is left of a failed checkpoint cannot be removed: " + removed.ToString());
}

}  // namespace quire::kv
